"""The page without a browser: every view, odd boards, and what it may import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from html import escape

import pytest
from streamlit.testing.v1 import AppTest

from bench.records.schema import Curve
from leaderboards.app import VIEWS, figure_order
from leaderboards.board import build_board
from leaderboards.build import FOLDER
from leaderboards.cards import about
from leaderboards.views.charts import chart, is_share, series_name
from leaderboards.contents import Board, write_board
from leaderboards.render import number, rank
from leaderboards.views.sentences import summary
from leaderboards.verdicts import Claim, VerdictFile
from pictures.models import look
from published.numbers import read_published
from settings.config import group_file

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
    unasked = Claim(
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
        VerdictFile(
            schema_version=1,
            figure=figure,
            preset=preset,
            title="RegBench",
            records=runs,
            claims=[claim, unasked] if preset == "smoke" else [claim],
        )
        for figure, preset, runs in (
            ("figure9", "smoke", [sample_records[0].run_id, "elsewhere"]),
            ("figure9", "laptop", [sample_records[0].run_id]),
            ("figure5", "smoke", ["three_moons-memory_unit-smoke-0-s0"]),
        )
    ]
    return build_board(sample_records, read_published(FOLDER.parent / "published"), verdicts)


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
    assert "✓ 1 reproduced · ✗ 0 contradicted · ? 0 not enough evidence · ○ 1 not asked" in html
    assert '<div class="card unasked"><p class="verdict">○ not asked here' in html
    assert "preset laptop asks it, with 32 runs of 200 to 1,000 steps" in html
    assert "difference +0.402" in html
    assert "judged from 2 records, 1 of them on this board" in html


def test_records_open_on_the_best_trained_model_in_six_digits(open_page, board):
    page, html = open_page(view="Records")
    record = next(r for r in board.records if r.run_id == page.selectbox(key="record").value)
    assert (record.label, record.role) == ("Memory Mosaic", "final")
    value = json.loads(record.content)["headline"]["value"]
    assert f">{value:.6g}<" in html


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
    assert "nothing to rank" in summary(rows({"a": (0.9, 0.91)}))
    only = rows({"a": (0.9,), "b": (0.60, 0.61, 0.62)})
    assert summary(only).startswith("Only b is measured with two seeds or more")
    assert "a rank needs two seeds" in summary(rows({"a": (0.9,), "b": (0.6,)}))


def test_one_hurried_run_of_one_seed_changes_neither_the_leader_nor_the_headline(make_record):
    records = [make_record("a", "A", seed, 0.9 + seed / 100) for seed in range(3)]
    records += [make_record("b", "B", seed, 0.6 + seed / 100) for seed in range(3)]
    before = [row for row in build_board(records).rows if row.headline]
    hurried = make_record("b", "B", 0, 0.95, width=8)
    after = [row for row in build_board([*records, hurried]).rows if row.headline]
    assert summary(after) == summary(before)
    assert [rank(row) for row in after] == ["–", *map(rank, before)]


@pytest.mark.parametrize(
    ("reference", "value", "named"),
    [("4_gram", 0.95, True), ("4_gram", 0.85, False), ("oracle", 0.99, False)],
)
def test_a_better_predictor_without_training_is_in_the_headline(
    make_record, reference, value, named
):
    records = [make_record("a", "A", seed, 0.9 + seed / 100) for seed in range(3)]
    records += [make_record("b", "B", seed, 0.6 + seed / 100) for seed in range(3)]
    records.append(make_record(reference, reference, 0, value, role="baseline"))
    said = summary([row for row in build_board(records).rows if row.headline])
    assert ("is best of the trained models: accuracy 0.9100" in said) == named
    assert ("Without training the 4 gram reaches 0.9500." in said) == named


def test_bands_of_shares_stay_between_0_and_1_and_references_are_grey_and_dashed(make_record):
    def curve(*y):
        return {"accuracy": Curve(x=[1.0, 2.0], y=list(y))}

    records = [make_record(seed=seed, curves=curve(0.9 + seed / 10, seed)) for seed in range(2)]
    for model in ("1_gram", "2_gram"):
        records.append(make_record(model, model, role="baseline", curves=curve(0.4, 0.5)))
    lines = [line for line in build_board(records).lines if not line.by_size]
    names = [series_name(line) for line in lines]
    models = {
        name: line.model for name, line in sorted(zip(names, lines, strict=True), reverse=True)
    }
    content = chart(list(zip(names, lines, strict=True)), models, "").to_dict()
    values = content["data"]["values"]
    ends = [(point["low"], point["high"]) for point in values if point["low"] is not None]
    assert len(ends) == 2
    assert all(0 <= low < 0.5 < 0.95 < high <= 1 for low, high in ends)
    drawn = content["layer"][1]["encoding"]
    assert drawn["color"]["scale"]["domain"] == drawn["strokeDash"]["scale"]["domain"]
    styles = {
        name: (colour, dash)
        for name, colour, dash in zip(
            drawn["color"]["scale"]["domain"],
            drawn["color"]["scale"]["range"],
            map(tuple, drawn["strokeDash"]["scale"]["range"]),
            strict=True,
        )
    }
    assert styles["Memory Mosaic"] == (look("memory_mosaic").colour, (1, 0))
    greys = [styles[name] for name in ("1 gram", "2 gram")]
    assert len(set(greys)) == len(greys)
    assert all(len({c[1:3], c[3:5], c[5:7]}) == 1 and dash != (1, 0) for c, dash in greys)


@pytest.mark.parametrize("sizes", [(100,), (100, 1000)])
def test_published_curves_are_hollow_and_dashed_and_ours_filled_and_solid(make_record, sizes):
    ours = [make_record(seed=seed, size=size) for seed in range(2) for size in sizes]
    board = build_board(ours, read_published(FOLDER.parent / "published"))
    lines = [line for line in board.lines if line.by_size and line.metric == "accuracy"]
    names = [series_name(line) for line in lines]
    models = {name: line.model for name, line in zip(names, lines, strict=True)}
    _, curve, markers = chart(list(zip(names, lines, strict=True)), models, "").to_dict()["layer"]
    dashes = curve["encoding"]["strokeDash"]["scale"]
    filled = markers["encoding"]["fillOpacity"]["scale"]
    assert {
        (name.startswith("ours, "), dash == [1, 0], fill)
        for name, dash, fill in zip(dashes["domain"], dashes["range"], filled["range"], strict=True)
    } == {(True, True, 1), (False, False, 0)}
    assert filled["domain"] == dashes["domain"]


@pytest.mark.parametrize(
    ("metric", "share"),
    [
        ("accuracy_last", True),
        ("token_accuracy", True),
        ("tvd", True),
        ("validation_loss", False),
        ("error/1,2,3", False),
    ],
)
def test_accuracies_and_distances_are_shares(metric, share):
    assert is_share(metric) == share


def test_figures_are_in_the_order_of_their_numbers(board):
    claim = board.claims[0]
    figures = ["table3", "figure10", "figure4", "figure9", "figure5"]
    ordered = sorted((replace(claim, figure=figure) for figure in figures), key=figure_order)
    assert [c.figure for c in ordered] == ["figure4", "figure5", "figure9", "figure10", "table3"]


def test_the_cards_of_the_task_and_of_its_models_are_there(open_page) -> None:
    _, html = open_page(task="regbench", preset="smoke")
    source = group_file("tasks", "regbench")["card"]["source"]
    assert escape(source) in html


def test_cards_of_memories_are_found_and_strangers_have_none() -> None:
    text = about("test_time_memory", ["delta_rule", "delta_rule", "somebody_elses"])
    assert text.count("(delta_rule)") == 1
    assert "somebody_elses" not in text
    assert "Titans" in text
