"""The page without a browser: every view, odd boards, and what it may import."""

import json
import os
import re
import subprocess
import sys
import threading
from html import escape, unescape
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from bench.config.files import group_file
from leaderboards.app import PAGES
from leaderboards.build import COMMITTED, FOLDER
from leaderboards.contents import Board, OpenBoard
from leaderboards.tables.builder import build_board
from leaderboards.tables.verdicts import FigureVerdicts, JudgedClaim
from leaderboards.views.overview import overview
from leaderboards.views.sentences import summary
from reproduce.plotting.models import look
from reproduce.published.numbers import read_published
from tests.leaderboards.app_test import AppTest
from tests.leaderboards.boards import write_board
from tests.leaderboards.conftest import samples

APP = str(FOLDER / "app.py")
PUBLISHED = read_published(FOLDER.parent / "reproduce" / "published")


@pytest.fixture(scope="module")
def board() -> Board:
    records = samples()
    claim = JudgedClaim(
        name="n",
        source="Figure 9",
        sentence="The Mosaic is more accurate.",
        tolerance="difference above 0",
        verdict="reproduced",
        evidence="difference +0.402",
        seeds=3,
    )
    unasked = JudgedClaim(
        name="m",
        source="Figure 9",
        sentence="So it is with much text.",
        tolerance="difference above 0",
        verdict="not asked here",
        evidence="no runs with N = 1,000",
        seeds=0,
        asked_at="laptop",
        cost="32 runs of 200 to 1,000 steps",
    )
    verdicts = [
        FigureVerdicts(
            schema_version=1,
            figure=figure,
            preset=preset,
            title="RegBench",
            records=runs,
            claims=[claim, unasked] if preset == "smoke" else [claim],
        )
        for figure, preset, runs in (
            ("figure9", "smoke", [records[0].run_id, "elsewhere"]),
            ("figure9", "laptop", [records[0].run_id]),
            ("figure5", "smoke", ["three_moons-memory_unit-smoke-0-s0"]),
        )
    ]
    return build_board(records, PUBLISHED, verdicts)


@pytest.fixture(scope="module")
def written(board, tmp_path_factory):
    path = tmp_path_factory.mktemp("board") / "board.parquet"
    write_board(board, path)
    return path


@pytest.fixture
def open_page(written, monkeypatch):
    monkeypatch.setenv("BOARD", str(written))
    monkeypatch.setattr(sys, "argv", ["app.py"])

    def open_it(name: str, **query: str) -> tuple[AppTest, str]:
        script = f"from leaderboards.app import show\nshow({name!r})"
        page = AppTest.from_string(script, default_timeout=60)
        for key, value in query.items():
            page.query_params[key] = value
        page.run()
        assert not page.exception, page.exception
        return page, "\n".join(part.proto.body for part in page.get("html"))

    return open_it


def charts(page: AppTest) -> int:
    return len(page.get("vega_lite_chart") + page.get("arrow_vega_lite_chart"))


def test_the_first_page_has_the_sentence_the_matrix_and_the_bars(written, monkeypatch):
    monkeypatch.setenv("BOARD", str(written))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    page = AppTest.from_file(APP, default_timeout=60).run()
    assert not page.exception, page.exception
    html = "\n".join(part.proto.body for part in page.get("html"))
    assert escape(overview(OpenBoard(written)).sentence) in html
    assert 'class="matrix"' in html
    assert ">✓ 1 reproduced</a>" in html
    assert "measured rows: " in html
    assert str(written.parent) not in html


def test_the_task_opens_on_the_numbers_of_the_records(open_page, board):
    page, html = open_page("task")
    assert [page.selectbox(key=key).value for key in ("task", "preset", "metric")] == [
        "regbench",
        "smoke",
        "accuracy",
    ]
    variant = page.selectbox(key="configuration").value
    shown = [
        row
        for row in board.rows
        if (row.task, row.preset, row.variant) == ("regbench", "smoke", variant) and row.headline
    ]
    table = page.dataframe[0].value
    assert list(table["model"]) == [row.label for row in shown]
    assert list(table["score"].dropna()) == [r.mean for r in shown if r.outcome == "ok"]
    assert escape(summary(shown)) in html
    assert charts(page) == 2
    best = next(row for row in shown if row.kind == "measured")
    assert f"record?record={best.run_ids[0]}" in html


def test_a_failure_and_its_reason_are_in_the_table(open_page):
    page, _ = open_page("task", configuration="training_automata=100")
    table = page.dataframe[0].value.set_index("model")
    assert table.loc["RWKV", "outcome"].startswith("diverged in 1 of 3 seeds: loss is not finite")
    assert table.loc["RWKV", "untuned"] == ""
    assert table.loc["Mamba", "rank"] == ""


def test_order_search_metric_and_selection_are_in_the_address(open_page, board):
    size = {"configuration": "training_automata=100"}
    page, html = open_page("task", **size, order="model", metric="tvd", find="mosaic gpt2")
    assert "No row has &#39;mosaic gpt2&#39;" in html or "No row has" in page.text[0].value
    page, html = open_page("task", **size, order="model", find="tuned", selected="gpt2,lstm")
    names = list(page.dataframe[0].value["model"])
    assert names == sorted(names, key=str.lower)
    assert {"GPT2", "LSTM"} < set(names)
    assert "compare?a=gpt2&amp;b=lstm" in html


def test_an_unknown_value_in_the_address_is_said_and_not_changed_silently(open_page):
    page, _ = open_page("task", task="regbenc", metric="acuracy", columns="rink", log="maybe")
    said = " ".join(text.value for text in page.text)
    assert "Task: there is no 'regbenc' here; did you mean 'regbench'? This shows regbench." in said
    assert "Metric: there is no 'acuracy' here; did you mean 'accuracy'?" in said
    assert "Columns: there is no 'rink' here; did you mean 'rank'?" in said
    assert "'maybe' is neither true nor false. This shows false." in said
    page, _ = open_page("claims", all="maybe")
    said = " ".join(text.value for text in page.text)
    assert "'maybe' is neither true nor false. This shows false." in said
    page, _ = open_page("record", record="nobody")
    assert "There is no record 'nobody' on this board." in page.text[0].value


def test_published_curves_stand_beside_ours(open_page):
    page, _ = open_page("task", curves="by training size")
    assert charts(page) == 2
    assert len(page.multiselect(key="sources").value) == 2
    page, _ = open_page("task", preset="paper")
    assert page.dataframe[0].value["kind"].str.startswith("published (digitised").all()


def test_claims_are_filtered_by_what_the_address_asks_for(open_page, board):
    page, html = open_page("claims", all="true")
    assert len(page.dataframe[0].value) == len(board.claims)
    page, html = open_page("claims", all="true", preset="smoke", verdict="not asked here")
    assert list(page.dataframe[0].value["verdict"]) == ["○ not asked here"] * 2
    claim = board.claims[0]
    _, html = open_page("claims", claim=f"{claim.figure}/{claim.preset}/{claim.name}")
    assert escape(claim.sentence) in html
    assert "difference +0.402" in html
    assert claim.source in html


def test_a_record_is_shown_with_its_provenance(open_page, board):
    record = next(record for record in board.records if record.label == "GPT2")
    page, html = open_page("record", record=record.run_id)
    content = json.loads(record.content)
    assert "0123456789abcdef0123456789abcdef01234567" in html
    assert json.loads(page.json[1].value) == content
    assert json.loads(page.json[0].value) == content["config"]
    assert f"<td>{content['headline']['value']:.6g}</td>" in html
    for run in next(r.run_ids for r in board.rows if record.run_id in r.run_ids):
        assert f"record?record={run}" in html


def test_the_page_of_records_opens_on_the_best_trained_model(open_page, board):
    _, html = open_page("record")
    record = next(record for record in board.records if f"<h1>{record.run_id}</h1>" in html)
    assert (record.label, record.role) == ("Memory Mosaic", "final")


def test_a_model_has_all_its_numbers_and_its_colour(open_page, board):
    page, html = open_page("model", model="lstm")
    rows = [row for row in board.rows if (row.model, row.headline) == ("lstm", True)]
    assert sorted(page.dataframe[0].value["score"]) == sorted(row.mean for row in rows)
    assert look("lstm").colour in html


def test_two_models_are_compared_and_costs_drawn(open_page):
    page, html = open_page("compare", a="gpt2", b="lstm")
    assert "GPT2" in html
    assert len(page.dataframe) == 2
    page, _ = open_page("cost", cost="parameters")
    assert charts(page) == 1
    assert "frontier" in list(page.dataframe[0].value["frontier"])
    page, html = open_page("submit")
    assert page.code[2].value.startswith("python -m leaderboards.submit RUN_ID")


def test_a_board_of_published_numbers_alone_has_every_page(tmp_path, monkeypatch):
    path = tmp_path / "board.parquet"
    write_board(build_board([], PUBLISHED, []), path)
    monkeypatch.setenv("BOARD", str(path))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    for name in PAGES:
        script = f"from leaderboards.app import show\nshow({name!r})"
        page = AppTest.from_string(script, default_timeout=60).run()
        assert not page.exception, page.exception


def test_a_missing_board_is_said_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("BOARD", str(tmp_path / "none.parquet"))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    page = AppTest.from_file(APP, default_timeout=60).run()
    assert not page.exception
    assert "python -m leaderboards.build" in page.text[0].value


def test_no_torch_lightning_or_mlflow(written):
    code = (
        "import sys; from streamlit.testing.v1 import AppTest; "
        f"page = AppTest.from_file({APP!r}, default_timeout=60).run(); "
        "assert not page.exception and page.get('html'); "
        "heavy = {'torch', 'lightning', 'mlflow', 'scipy', 'altair'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=FOLDER.parent,
        env={**os.environ, "BOARD": str(written)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr


def test_a_selection_that_there_is_not_is_told(monkeypatch):
    monkeypatch.setenv("BOARD", str(COMMITTED))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    script = "from leaderboards.screens import task\ntask.show()"
    for asked, told in (("gtp2", True), ("gpt2", False)):
        page = AppTest.from_string(script, default_timeout=120)
        page.query_params["selected"] = asked
        page.run()
        assert not page.exception
        said = [one.value for one in page.text]
        assert ("Selected: there is no 'gtp2' in this table." in said) is told


def test_a_word_of_the_address_that_the_page_has_no_use_for_is_told(open_page):
    stranger = "This page has nothing to set by '{}' in the address: {}"
    for name, query, hint in (
        ("task", {"taks": "regbench"}, "did you mean 'task'?"),
        ("record", {"seed": "1"}, "valid names: find, origin, record"),
        ("overview", {"task": "regbench"}, "it has no controls"),
        (
            "task",
            {"embed": "true", "selected": "lstm", "log": "true"},
            "",
        ),  # embed: Streamlit
    ):
        page, _ = open_page(name, **query)
        told = [stranger.format(next(iter(query)), hint)] if hint else []
        assert [one.value for one in page.text if "nothing to set" in one.value] == told


def test_a_search_of_records_shows_what_it_found_and_nothing_else(open_page, sample_records):
    page, html = open_page("record", find="no_such_words")
    assert [one.value for one in page.text] == ["No record has all of these words."]
    assert "provenance" not in html
    sought = sample_records[0].run_id
    _, html = open_page("record", find=sought)
    assert "1 record:" in html
    assert f"record?record={sought}" in html
    assert sample_records[0].identity not in html  # the facts of a record are a click away
    _, html = open_page("record", find=sought, record=sought)
    assert sample_records[0].identity in html


def test_every_link_of_a_page_sets_what_its_target_knows(open_page):
    links = {
        (urlsplit(href).path.strip("/"), frozenset(parse_qs(urlsplit(href).query))): unescape(href)
        for name in PAGES
        for href in re.findall(r'href="([^"#]+)"', open_page(name)[1])
    }
    own = {key: href for key, href in links.items() if key[0] in PAGES}
    assert len(own) > 5
    for (name, _), href in own.items():
        page, _ = open_page(name, **dict(parse_qsl(urlsplit(href).query)))
        assert not [one.value for one in page.text if "nothing to set" in one.value], href


def test_a_control_that_nobody_touched_goes_with_its_default(monkeypatch):
    """Its value is not in the address, so a new window has the default that holds there."""
    monkeypatch.setenv("BOARD", str(COMMITTED))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    script = "from leaderboards.screens import task\ntask.show()"
    page = AppTest.from_string(script, default_timeout=120).run()

    def box(label):
        return next(one for one in page.selectbox if one.label == label)

    assert (box("Task").value, box("Metric").value, box("Curve").value) == (
        "regbench",
        "accuracy",
        "accuracy",
    )
    box("Metric").select("tvd").run()
    assert box("Curve").value == "tvd"
    chosen = next(one for one in box("Curve").options if one not in ("accuracy", "tvd"))
    box("Curve").select(chosen).run()  # what somebody chose stays
    box("Metric").select("accuracy").run()
    assert box("Curve").value == chosen


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_again_with_little_work(name, monkeypatch):
    """On the committed board, by the calls of functions, which no other load of a machine changes:
    350,000 of them take 0.3 s on the machine that they were counted on."""
    monkeypatch.setenv("BOARD", str(COMMITTED))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    script = f"from leaderboards.screens import {name}\n{name}.show()"
    page = AppTest.from_string(script, default_timeout=120).run()
    assert not page.exception, page.exception
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    threading.setprofile(count)  # of the thread that draws the page
    try:
        page.run()
    finally:
        threading.setprofile(None)
    assert 1_000 < calls < 350_000


def test_the_cards_of_the_task_and_of_its_models_are_there(open_page) -> None:
    _, html = open_page("task", task="regbench", preset="smoke")
    assert group_file("tasks", "regbench")["card"]["source"] in unescape(html)
    assert f"<strong>{group_file('models', 'lstm')['card']['label']}</strong> (lstm)" in html


def test_no_folder_beside_the_app_is_taken_for_its_pages() -> None:
    """Streamlit serves each file of a folder ``pages`` beside the script as a page of its own, and
    a first visit to /task, by a link, then showed that file and nothing of the app."""
    assert not (FOLDER / "pages").exists()
