"""Records made by others: refused in one sentence, or harmless on the page."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.records.schema import Curve, write_record
from ground.errors import UserError
from ground.escaping import terminal
from leaderboards import add, render
from leaderboards.build import gather
from leaderboards.contents import ClaimLine, Row


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


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_hostile_records_are_refused_by_build_and_add(honest, tmp_path, change):
    path = write_record(honest[0], tmp_path / "records")
    gather([tmp_path / "records"])  # as it was, it is welcome
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
        add.plan(name, tmp_path)
    path = tmp_path / "renamed.json"
    content = record.model_dump(mode="json") | {"content_sha256": record.content_hash()}
    path.write_text(json.dumps(content))
    with pytest.raises(UserError):
        add.plan(str(path), tmp_path)


class Tags(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.handlers: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.handlers |= {name for name, _ in attrs if name.startswith("on")}

    def handle_data(self, data):
        self.text += data


HARMLESS = {"div", "table", "thead", "tbody", "tr", "th", "td", "span", "br", "a", "i", "p"}
texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            '"><svg onload=alert(1)>',
            "' onmouseover='alert(1)",
            "](javascript:alert(1))",
            "&lt;b&gt;",
        ]
    ),
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(sorted(Row.__annotations__)), texts), texts)
def test_no_text_of_a_row_becomes_markup(text_fields, cause):
    fields = dict.fromkeys(Row.__annotations__)
    fields |= {name: "x" for name, kind in Row.__annotations__.items() if kind == "str"}
    strings = {
        name: text
        for name, text in text_fields.items()
        if str(Row.__annotations__[name]).startswith("str")
    }
    row = Row(**{**fields, "run_ids": (cause,), "mean": 0.5, "seeds": 1, **strings})
    page = Tags(render.table([row]) + render.notes([row]) + render.badge(row.task, row.preset))
    assert page.tags <= HARMLESS
    assert not page.handlers
    if row.outcome == "ok" and not row.kind.startswith("published"):
        assert terminal(row.label) in page.text


@given(texts, texts)
def test_no_text_of_a_claim_becomes_markup(sentence, evidence):
    claim = ClaimLine(
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
    )
    unasked = replace(claim, verdict="not asked here")
    cards = render.verdict_card(claim) + render.verdict_card(unasked)
    page = Tags(cards + render.facts([(sentence, evidence)]))
    assert page.tags <= HARMLESS
    assert not page.handlers


def test_a_spreadsheet_finds_no_formula(make_record):
    from leaderboards.board import build_board

    board = build_board([make_record(label="=HYPERLINK(1)", curves={"x": Curve(x=[1], y=[2])})])
    lines = render.as_csv(board.rows).splitlines()
    assert ",'=HYPERLINK(1)," in lines[1]
    assert ",=" not in lines[1]
