"""What pages are made of: the frame around all of them, and the parts inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup
from pydantic_core import to_json

from ground.escaping import script
from leaderboards.markup import markup
from leaderboards.pages.charts import Spec
from leaderboards.pages.links import Link
from leaderboards.site.addresses import from_page, relative
from leaderboards.site.grids import grid

FIT = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
Item = tuple[str, str, str]  # name, address, and what is told of it


class Chart(NamedTuple):
    """A chart as it stands in a page: Vega-Lite as JSON, and words for whoever does not see it."""

    title: str
    words: str
    spec: Markup


class Page(NamedTuple):
    """A page of the site: where it lies, and its parts as HTML."""

    place: str
    title: str
    parts: tuple[Markup, ...]

    def written(self, digest: str) -> bytes:
        """The whole page of the board with this hash."""
        return markup(
            "site",
            title=self.title,
            parts=self.parts,
            root=root(self.place),
            charts=any("vega" in part for part in self.parts),
            grids=any("grid" in part for part in self.parts),
            digest=digest,
        ).encode()


def root(place: str) -> str:
    """The way from a page to the root of the site, as the beginning of an address."""
    return "../" * place.count("/")


def part(place: str, template: str, /, **data: Any) -> Markup:
    """A filled template as it stands in the page at ``place``."""
    return Markup(markup(template, from_page(place), **data))


def text(place: str, *texts: str, **said: str) -> Markup:
    """Sentences under a title, or a heading and a lead."""
    empty = dict.fromkeys(("title", "heading", "lead", "colour"), "")
    return part(place, "text", texts=[one for one in texts if one], **(empty | said))


def table(
    place: str,
    heading: str,
    lines: Sequence[Mapping[str, Any]],
    first: Sequence[str] = (),
    **more: Any,
) -> Markup:
    """A table that sorts, in a section of its own.

    Args:
        more: anchor, lead, words, titles and hrefs of columns, chart, texts, files and whether it
            is folded.
    """
    given = {
        "anchor": "",
        "lead": "",
        "chart": None,
        "texts": (),
        "files": (),
        "folded": False,
    } | more
    words = given.pop("words", heading)
    own = grid(lines, words, first, given.pop("titles", None), given.pop("hrefs", None))
    return part(place, "table", heading=heading, grid=own, **given)


def chart(title: str, words: str, spec: Spec) -> Chart:
    """A chart as wide as its page."""
    return Chart(title, words, Markup(script(spec | FIT)))


def links(place: str, found: Iterable[tuple[str, Link]], lead: str = "") -> Markup:
    """Links beside each other."""
    shown = list(found)
    return part(place, "links", links=shown, lead=lead) if shown else Markup("")


def badge(place: str, name: str, label: str) -> Markup:
    """The badge of a page, with the address of what shields.io asks for."""
    return part(place, "badge", name=f"{root(place)}{name}", label=label)


def items(place: str, anchor: str, heading: str, found: Iterable[Item], *texts: str) -> Markup:
    """A list of links under a heading; their addresses are from the root of the site."""
    own = [(name, relative(place, target), told) for name, target, told in found]
    return part(place, "lists", anchor=anchor, heading=heading, items=own, texts=texts)


def code(place: str, heading: str, content: object, folded: bool = False) -> Markup:
    """Text as it is, or a tree as JSON."""
    shown = content if isinstance(content, str) else to_json(content, indent=1).decode()
    return part(place, "code", heading=heading, text=shown, folded=folded)
