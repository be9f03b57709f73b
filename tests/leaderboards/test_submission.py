"""Records made by others: refused in one sentence, or harmless on the page."""

import hashlib
import json
import os
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.records.schema import Curve, write_record
from core.errors import UserError
from core.escaping import terminal
from leaderboards import add, build, render
from leaderboards.checks.adding import plan
from leaderboards.contents import ClaimLine, OpenBoard, Row
from leaderboards.markup import markup
from leaderboards.site import parts
from leaderboards.site.addresses import from_page
from leaderboards.tables.builder import build_board
from leaderboards.tables.replications import summarised
from leaderboards.views.abilities import scale as abilities
from leaderboards.views.claims import Published, as_number, detail
from leaderboards.views.claims import lines as claim_lines
from leaderboards.views.links import in_app, to_claim, to_model, to_record, to_table
from leaderboards.views.overview import (
    AbilityCell,
    AbilityMatrix,
    AbilityTable,
    ModelAbilities,
    Overview,
    segments,
)
from leaderboards.views.parts import Links, SortableTable, Text
from leaderboards.views.sentences import notes
from leaderboards.views.tables import RankedTable, lines
from leaderboards.views.trust import Bar
from tests.leaderboards.boards import gather, write_board


def rewrite(path, change, seal=True):
    """Change a record's file as a forger would, with a matching hash if ``seal``."""
    content = json.loads(path.read_text())
    content.pop("content_sha256")
    change(content)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["content_sha256"] = (
        hashlib.sha256(canonical.encode()).hexdigest() if seal else content["identity"]
    )
    path.write_text(json.dumps(content))


def setter(*keys, value):
    def change(content):
        node = content
        for key in keys[:-1]:
            node = node[key]
        node[keys[-1]] = value

    return change


HOSTILE = {
    "edited without its hash": (setter("headline", "value", value=1.0), False),
    "label with a control character": (setter("label", value="GPT2\u202e"), True),
    "label of a page's length": (setter("label", value="x" * 5000), True),
    "empty label": (setter("label", value=""), True),
    "task outside the folder": (setter("task", value="../../etc"), True),
    "preset outside the folder": (setter("preset", value="/tmp/x"), True),
    "model with a tag": (setter("model", value="<script>"), True),
    "half a surrogate pair": (setter("cause", value="\ud800"), True),
    "a negative cost": (setter("cost", "parameters", value=-1), True),
    "a number beyond 64 bits": (setter("cost", "training_tokens", value=10**30), True),
    "a curve with missing values": (setter("curves", "training_loss", "y", value=[1.0]), True),
    "no task configuration": (setter("config", value={}), True),
    "an unknown field": (setter("extra", value=1), True),
    "another schema": (setter("schema_version", value=2), True),
}


def test_a_record_with_the_hash_of_its_content_is_welcome(honest, tmp_path):
    path = write_record(honest[0], tmp_path / "records")
    rewrite(path, lambda content: None)
    gather([tmp_path / "records"])


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_hostile_records_are_refused_by_build_and_add(honest, tmp_path, change):
    path = write_record(honest[0], tmp_path / "records")
    rewrite(path, *change)
    for attempt in (
        lambda: gather([tmp_path / "records"]),
        lambda: add.main([str(path), f"to={tmp_path / 'to'}"]),
    ):
        with pytest.raises(UserError) as refusal:
            attempt()
        assert "\n" not in str(refusal.value)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_truncated_records_are_refused(make_record, tmp_path, size):
    path = write_record(make_record(), tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UserError, match="truncated or not JSON"):
        gather([tmp_path])


def test_oversized_records_are_refused_unread(make_record, tmp_path):
    path = write_record(make_record(), tmp_path)
    os.truncate(path, 17 * 2**20)
    with pytest.raises(UserError, match="larger than a record may be"):
        gather([tmp_path])


def test_deeply_nested_json_is_refused(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 200_000)
    with pytest.raises(UserError, match="truncated or not JSON"):
        gather([tmp_path])


@pytest.mark.parametrize("name", ["../x", "..", ".hidden", "-flag", "a b", "a\nb", "", "a" * 300])
def test_run_ids_cannot_leave_the_records_folder(make_record, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    record = make_record(run_id=name)
    with pytest.raises(UserError):
        plan(name, build.STORE, tmp_path)
    path = tmp_path / "renamed.json"
    content = record.model_dump(mode="json") | {"content_sha256": record.content_hash()}
    path.write_text(json.dumps(content))
    with pytest.raises(UserError):
        plan(str(path), build.STORE, tmp_path)


@pytest.fixture(scope="module")
def empty_board(tmp_path_factory):
    path = tmp_path_factory.mktemp("empty") / "board.parquet"
    write_board(build_board([]), path)
    return OpenBoard(path)


class Tags(HTMLParser):
    """The elements of a page with the names of their attributes, its text, and where it leads."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.addresses += [address or "" for name, address in attrs if name == "href"]

    def handle_data(self, data):
        self.text += data


texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            '"><svg onload=alert(1)>',
            "' onmouseover='alert(1)",
            "](javascript:alert(1))",
            "javascript:alert(1)",
            "&lt;b&gt;",
        ]
    ),
)
TASK_PAGE, CLAIM_PAGE = "tasks/a.html", "claims/a.html"


def harmless(page, plain):
    """Whether a page has the elements of the same one with plain texts, and leads to pages."""
    found = Tags(page)
    assert found.elements == Tags(plain).elements
    assert not any(urlsplit(address).scheme for address in found.addresses)
    return found


def row_of(strings, cause):
    fields = dict.fromkeys(Row.__annotations__)
    fields |= {name: "x" for name, kind in Row.__annotations__.items() if kind == "str"}
    fields |= {"marks": (f"not tuned: {cause}",), "run_ids": (cause,), "mean": 0.5, "seeds": 1}
    return Row(**{**fields, **strings, "direction": "maximise"})


def pages_of_row(row, text):
    """A row in all that the app and a site show of one: table, links, facts, cards, first page."""
    address = from_page(TASK_PAGE)
    shown = lines([row], {}, address)
    leads = [(row.label, to_table(row)), (text, to_record(row.run_ids[0]))]
    leads.append((row.model, to_model(row.model)))
    page = str(
        parts.table(TASK_PAGE, SortableTable(row.task, shown, lead=row.variant), texts=notes([row]))
    )
    sentences = Text((row.note,), title=row.label, heading=row.task, lead=row.source)
    page += "".join(parts.html_of_parts(TASK_PAGE, [sentences, Links(tuple(leads), text)]))
    page += markup("links", links=leads, lead=text)
    page += markup("text", title=row.label, heading=text, lead=text, texts=[row.note], colour=text)
    page += markup("facts", facts=[(row.label, row.cause), (text, row.device)])
    page += markup("cards", cards=[(row.model, {"label": row.label, "note": text, "source": text})])
    return page + markup("overview", page=first_page(row, text), **about_first_page(text))


def first_page(row, text):
    table = RankedTable(row.task, row.preset, row.variant, row.metric, (row,))
    test = abilities.Test(text, row.task, row.metric, None, None, {})
    source = AbilityTable(test, table, abilities.Scale(0.0, 1.0), (row,))
    cell = AbilityCell("sure", text, text, 0.5, text, to_table(row), source)
    groups = ((text, (ModelAbilities(row.model, row.label, (cell, None)),)),)
    return Overview(
        sentence=text,
        matrix=AbilityMatrix((text, row.task), groups, ((text, source),)),
        verdicts=segments([claim_of(text, text)]),
        contradicted=((text, to_table(row)),),
        trust=Bar(((text, 1),), 1, summarised(()), 1, ((text, 1, to_table(row)),)),
    )


def about_first_page(text):
    about = {text: {"question": text, "short": text}}
    return {"about": about, "groups": {text: text}, "to_model": to_model, "digest": text}


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(sorted(Row.__annotations__)), texts.filter(bool)), texts)
def test_no_text_of_a_row_becomes_markup(text_fields, text):
    strings = {
        name: text
        for name, text in text_fields.items()
        if str(Row.__annotations__[name]).startswith("str")
    }
    row = row_of(strings, text or "x")
    plain = row_of(dict.fromkeys(strings, "x"), "x")
    page = harmless(pages_of_row(row, text or "x"), pages_of_row(plain, "x"))
    assert terminal(row.label.replace("_", " ")) in page.text


def claim_of(sentence, evidence):
    return ClaimLine(
        figure=sentence,
        title=sentence,
        preset="smoke",
        name=evidence,
        source=evidence,
        sentence=sentence,
        tolerance=evidence,
        verdict="contradicted",
        evidence=evidence,
        seeds=1,
        seeds_needed=None,
        asked_at=sentence,
        cost=evidence,
        run_ids=(),
        effect=sentence,
        set=evidence,
    )


def pages_of_claim(board, claim, text):
    """A claim in all that shows one: its own page, and a table of several."""
    numbers = (Published(text, text, text, text, 0.5, None),)
    runs = ((text, True), (text, False))
    told = {"numbers": numbers, "runs": runs, "control": (text, text)}
    own = {"one": replace(detail(board, claim), **told), "name": text, "number": as_number}
    page = markup("facts", facts=[(claim.sentence, claim.evidence)])
    for href in (in_app, from_page(CLAIM_PAGE)):
        page += markup("claim", href, **own, to_record=to_record)
        near = [(claim.name, to_claim(claim))]
        page += markup("links", href, links=near, lead=claim.title)
    shown = claim_lines([claim], from_page(CLAIM_PAGE))
    return page + str(
        parts.table(CLAIM_PAGE, SortableTable(claim.title, shown, lead=claim.sentence))
    )


@settings(max_examples=50)
@given(texts.filter(bool), texts.filter(bool), st.sampled_from(["contradicted", "not asked here"]))
def test_no_text_of_a_claim_becomes_markup(empty_board, sentence, evidence, verdict):
    claim, plain = (
        replace(claim_of(*said), verdict=verdict) for said in ((sentence, evidence), ("x", "x"))
    )
    made = pages_of_claim(empty_board, claim, evidence)
    page = harmless(made, pages_of_claim(empty_board, plain, "x"))
    assert terminal(sentence) in page.text


def test_a_spreadsheet_finds_no_formula(make_record):
    board = build_board([make_record(label="=HYPERLINK(1)", curves={"x": Curve(x=[1], y=[2])})])
    lines = render.as_csv(board.rows).splitlines()
    assert ",'=HYPERLINK(1)," in lines[1]
    assert ",=" not in lines[1]
