"""The page without a browser: every view, odd boards, and what it may import."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from streamlit.testing.v1 import AppTest

from leaderboards.app import VIEWS
from leaderboards.board import build_board
from leaderboards.build import FOLDER
from leaderboards.contents import Board, write_board
from leaderboards.published import read_published
from leaderboards.render import number, rank, summary
from leaderboards.verdicts import Claim, VerdictFile

APP = str(FOLDER / "app.py")


@pytest.fixture
def board(sample_records) -> Board:
    claim = Claim(
        name="n",
        source="Figure 9",
        sentence="The Mosaic is more accurate.",
        tolerance="difference above 0",
        verdict="reproduced",
        evidence="difference +0.402",
        seeds=3,
    )
    verdicts = [
        VerdictFile(
            schema_version=1,
            figure=figure,
            preset=preset,
            title="RegBench",
            records=[sample_records[0].run_id, "elsewhere"],
            claims=[claim],
        )
        for figure, preset in (("figure9", "smoke"), ("figure5", "laptop"))
    ]
    return build_board(sample_records, read_published(FOLDER / "published"), verdicts)


@pytest.fixture
def open_page(board, tmp_path, monkeypatch):
    monkeypatch.setenv("BOARD", str(tmp_path / "board.parquet"))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    write_board(board, tmp_path / "board.parquet")

    def open_it(**query: str) -> tuple[AppTest, str]:
        page = AppTest.from_file(APP, default_timeout=60)
        for key, value in query.items():
            page.query_params[key] = value
        page.run()
        assert not page.exception, page.exception
        return page, "\n".join(part.proto.body for part in page.get("html"))

    return open_it


def test_table_shows_the_numbers_of_the_records(open_page, board):
    page, html = open_page()
    assert (page.selectbox(key="task").value, page.selectbox(key="preset").value) == (
        "regbench",
        "smoke",
    )
    shown = [
        row
        for row in board.rows
        if row.preset == "smoke"
        and row.variant == "training_automata=100"
        and row.metric == "accuracy"
    ]
    for row in shown:
        assert row.label in html
        if row.outcome == "ok" and row.mean is not None:
            assert number(row.mean) in html
    assert "diverged in 1 of 3 seeds: loss is not finite at step 12" in html
    assert "regbench · preset smoke" in html
    assert summary(shown) in html


def test_another_metric_and_size_can_be_chosen(open_page):
    page, _ = open_page()
    page.selectbox[2].select("training_automata=2500").run()
    page.selectbox[3].select("tvd").run()
    assert not page.exception
    assert "tvd ↓" in "\n".join(part.proto.body for part in page.get("html"))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("preset", ["smoke", "paper"])
def test_every_view_opens(open_page, view, preset):
    page, html = open_page(view=view, preset=preset)
    assert f"preset {preset}" in html
    charts = {"By position": preset == "smoke", "By training size": True}
    assert len(page.get("vega_lite_chart") + page.get("arrow_vega_lite_chart")) == charts.get(
        view, False
    )


def test_verdicts_of_this_preset_with_their_evidence(open_page):
    _, html = open_page(view="Verdicts")
    assert html.count("✓ reproduced") == 1
    assert "difference +0.402" in html
    assert "judged from 2 records, 1 of them on this board" in html


def test_a_record_is_shown_with_its_provenance(open_page, board):
    record = next(record for record in board.records if record.label == "GPT2")
    page, html = open_page(view="Records", record=record.run_id)
    assert page.selectbox(key="record").value == record.run_id
    assert "0123456789abcdef0123456789abcdef01234567" in html
    assert json.loads(page.json[1].value) == json.loads(record.content)
    assert json.loads(page.json[0].value) == json.loads(record.content)["config"]


def test_a_missing_board_is_said_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("BOARD", str(tmp_path / "none.parquet"))
    monkeypatch.setattr(sys, "argv", ["app.py"])
    page = AppTest.from_file(APP, default_timeout=60).run()
    assert not page.exception
    assert "python -m leaderboards.build" in page.text[0].value


def test_no_torch_lightning_or_mlflow(board, tmp_path):
    write_board(board, tmp_path / "board.parquet")
    code = (
        "import sys; from streamlit.testing.v1 import AppTest; "
        f"page = AppTest.from_file({APP!r}, default_timeout=60).run(); "
        "assert not page.exception and page.get('html'); "
        "heavy = {'torch', 'lightning', 'mlflow', 'scipy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=FOLDER.parent,
        env={**os.environ, "BOARD": str(tmp_path / "board.parquet")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr


def test_summary_says_what_seeds_settle(make_record):
    def rows(levels):
        records = [
            make_record(name, name, seed, value)
            for name, values in levels.items()
            for seed, value in enumerate(values)
        ]
        return [row for row in build_board(records).rows if row.headline]

    clear = rows({"a": (0.90, 0.91, 0.92), "b": (0.60, 0.61, 0.62)})
    assert summary(clear) == (
        "a is best: accuracy 0.9100, and its 95 % interval overlaps no other."
    )
    overlap = rows({"a": (0.60, 0.61, 0.63), "b": (0.60, 0.61, 0.62), "c": (0.1, 0.11, 0.12)})
    assert summary(overlap) == (
        "Not settled: a or b may be best, since their 95 % intervals overlap."
    )
    assert [rank(row) for row in overlap] == ["1–2", "1–2", "3"]
    single = rows({"a": (0.9,), "b": (0.60, 0.61, 0.62)})
    assert "a has one seed only" in summary(single)
    assert "nothing to rank" in summary(rows({"a": (0.9, 0.91)}))
