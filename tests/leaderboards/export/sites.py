"""A board whose texts are hostile, and its site as a browser reads it: what pages link to, and what
their tables hold."""

import json
import posixpath
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urlsplit

from leaderboards.build import FOLDER
from leaderboards.contents import Board
from leaderboards.tables.builder import build_board
from leaderboards.tables.verdicts import FigureVerdicts, JudgedClaim
from reproduce.published.numbers import read_published
from tests.leaderboards.conftest import record, samples

VOID = {"meta", "link", "img", "br", "input", "hr"}
LINKS = ("href", "src")
LABEL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
CAUSE = "<b>not</b> finite \u202e\x1b[31m ]]> --> &lt;"


def sample_board() -> Board:
    """Models, failures, published numbers and verdicts, some of whose texts are hostile."""
    hostile = [record("hostile", LABEL, seed, 0.2 + seed / 100) for seed in range(2)]
    failed = record("failing", "Failing", outcome="diverged", accuracy=None, cause=CAUSE)
    records = [*samples(), *hostile, failed]
    claims = [
        JudgedClaim(
            name=f"{verdict} {LABEL}",
            source="Figure 9",
            sentence=f"It is {verdict}: {CAUSE}",
            tolerance="difference above 0",
            verdict=verdict,
            evidence=LABEL,
            seeds=3,
        )
        for verdict in ("reproduced", "contradicted", "not enough evidence")
    ]
    verdicts = [
        FigureVerdicts(
            schema_version=1,
            figure=figure,
            preset=preset,
            title=f"RegBench {LABEL}",
            records=[hostile[0].run_id, records[0].run_id],
            claims=claims,
        )
        for figure, preset in (("figure9", "laptop"), ("figure9", "smoke"), ("table3", "smoke"))
    ]
    published = read_published(FOLDER.parent / "reproduce" / "published")
    return build_board(records, [one for one in published if one.task == "regbench"], verdicts)


class Read(HTMLParser):
    """One page: its elements with their attributes, its anchors, addresses, tables and JSON."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.tables: dict[str, list[list[tuple[str, str | None]]]] = {}
        self.specs: list[Any] = []
        self.text = ""
        self._open: list[str] = []
        self._section = ""
        self._rows: list[list[tuple[str, str | None]]] = []
        self._json = ""
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        own = dict(attributes)
        self.tags.append((tag, own))
        if tag not in VOID:
            self._open.append(tag)
        if own.get("id"):
            self.ids.append(str(own["id"]))
        self.addresses += [str(own[key]) for key in LINKS if own.get(key)]
        if tag == "section":
            self._section = own.get("id") or ""
        if tag == "table":
            self._rows = []
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append(("", own.get("data-order")))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "table":
            self.tables.setdefault(self._section, self._rows)
        if tag == "script" and self._json:
            self.specs.append(json.loads(self._json))
            self._json = ""

    def handle_data(self, data: str) -> None:
        if "script" in self._open:
            self._json += data
            return
        self.text += data
        if {"td", "th"} & set(self._open):
            text, order = self._rows[-1][-1]
            self._rows[-1][-1] = text + data, order


def broken(files: Mapping[str, bytes]) -> Iterator[str]:
    """Every address of a page that leads out of the site or to nothing, in words."""
    pages = {place: Read(file.decode()) for place, file in files.items() if place[-5:] == ".html"}
    for place, page in pages.items():
        doubled = {one for one in page.ids if page.ids.count(one) > 1} if page.ids else set()
        yield from (f"{place} has #{one} twice" for one in doubled)
        for address in dict.fromkeys(page.addresses):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or parts.path.startswith("/"):
                yield f"{place} leads out of the site: {address}"
                continue
            folder = posixpath.dirname(place)
            path = unquote(parts.path)
            target = posixpath.normpath(posixpath.join(folder, path)) if path else place
            if target not in files:
                yield f"{place}: there is no {address}"
            elif parts.fragment and unquote(parts.fragment) not in pages[target].ids:
                yield f"{place}: no place of {address}"


def unreached(files: Mapping[str, bytes]) -> set[str]:
    """Pages to which no links lead from the first one."""
    pages = {place: Read(file.decode()) for place, file in files.items() if place[-5:] == ".html"}
    waiting, found = ["index.html"], set()
    while waiting:
        place = waiting.pop()
        found.add(place)
        paths = (unquote(urlsplit(address).path) for address in pages[place].addresses)
        folder = posixpath.dirname(place)
        near = {posixpath.normpath(posixpath.join(folder, path)) for path in paths if path}
        waiting += (near & pages.keys()) - found - set(waiting)
    return pages.keys() - found
