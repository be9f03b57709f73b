"""Two rows of a table beside each other, against arithmetic that is done here once more."""

import random
import re
from dataclasses import replace

import altair as alt
import pytest
from scipy import stats

from bench.records.schema import write_record
from leaderboards.build import COMMITTED
from leaderboards.contents import OpenBoard
from leaderboards.tables.builder import build_board
from leaderboards.views import compare
from leaderboards.views.tables import row_of
from tests.leaderboards.views.conftest import language_board


def test_several_data_seeds_are_compared_as_the_claims_compare_them():
    """The interval is that over data seeds, and items are those of all of them."""
    board = OpenBoard(COMMITTED)
    tables = compare.common_tables(board, "memory_mosaic", "gpt2")
    held_out = "training_automata=500, test_size=500, variant=held_out"
    [table] = [
        t for t in tables if (t.task, t.preset, t.variant) == ("regbench", "laptop", held_out)
    ]
    mosaic, gpt2 = (row_in(table, model) for model in ("memory_mosaic", "gpt2"))
    found = compare.compare(board, mosaic, gpt2)
    (claim,) = board.claims(figure="figure9", preset="laptop", name="accuracy at N = 500")
    span = re.search(r"Memory Mosaic [\d.]+, GPT2 [^;]*? ([\d.]+) to ([\d.]+)\)", claim.evidence)
    assert span is not None
    assert found.together == pytest.approx([float(end) for end in span.groups()], abs=1e-3)
    assert "is better" in found.verdict
    assert len(found.by_item.values) == 1500
    assert found.missing == ""


def row_in(table, model):
    """The row of a model that a table has."""
    return row_of(row for row in table.measured if row.model == model)


@pytest.fixture
def kept_here(opened, tmp_path, monkeypatch):
    """The board of records whose files are on this machine, and its rows of GPT2 and LSTM."""
    monkeypatch.setattr(compare, "LOCAL_STORE", tmp_path)

    def keep(records):
        for run in records:
            write_record(run, compare.Store(tmp_path).record_folder(run.role))
        board = opened(build_board(records))
        table = compare.common_tables(board, "gpt2", "lstm")[0]
        return board, *(row_in(table, model) for model in ("gpt2", "lstm"))

    return keep


def test_a_comparison_is_of_the_rows_that_are_compared(kept_here, make_record):
    """Data seeds are paired with their own, and a row with a failed seed has no score."""
    records = [
        make_record(model, model.upper(), 0, level + 0.1 * data, task_settings={"data_seed": data})
        for model, level in (("gpt2", 0.6), ("lstm", 0.3))
        for data in range(3)
    ]
    board, a, b = kept_here(records)
    found = compare.compare(board, a, b)
    assert found.by_seed.values == pytest.approx([0.3] * 3)
    assert found.by_seed.names[2] == "0, data seed 2"
    failed = replace(a, outcome="diverged", cause="diverged in 1 of 3 seeds")
    refused = compare.compare(board, failed, b)
    assert (refused.difference, refused.by_seed) == (None, None)
    assert refused.missing == "GPT2 has no score here: diverged in 1 of 3 seeds."


def test_differences_are_paired_by_seed_and_by_item(kept_here, make_record):
    drawn = random.Random(5)
    records = []
    for model, level in (("gpt2", 0.7), ("lstm", 0.5)):
        for seed in range(3):
            items = [level + drawn.gauss(0, 0.05) for _ in range(40)]
            mean = sum(items) / len(items)
            own = {"per_sequence": {"accuracy": items}, "role": "final", "preset": "laptop"}
            records.append(make_record(model, model.upper(), seed, mean, **own))
    board, a, b = kept_here(records)
    found = compare.compare(board, a, b)
    means = [run.headline.value for run in records]
    by_seed = [x - y for x, y in zip(means[:3], means[3:], strict=True)]
    assert found.by_seed.values == pytest.approx(by_seed)
    wanted = stats.t.interval(0.95, 2, sum(by_seed) / 3, stats.sem(by_seed))
    assert found.by_seed.interval == pytest.approx(wanted)
    scores = [run.per_sequence["accuracy"] for run in records]
    by_item = [(sum(c[:3]) - sum(c[3:])) / 3 for c in zip(*scores, strict=True)]
    assert found.by_item.values == pytest.approx(by_item)
    wanted = stats.t.interval(0.95, 39, sum(by_item) / 40, stats.sem(by_item))
    assert found.by_item.interval == pytest.approx(wanted)
    assert found.together.low < found.difference < found.together.high
    assert found.verdict.endswith("GPT2 is better.")
    assert compare.differing_settings(board, a, b)[0]["setting"] == "models._target_"
    for drawn_chart in (compare.seeds_chart(found), compare.items_chart(found)):
        alt.LayerChart.from_dict(drawn_chart)  # Altair checks it against its schema


def test_without_the_files_of_records_the_difference_is_said_and_nothing_more(opened, make_record):
    board = opened(language_board(make_record, {"gpt2": (0.6, 0.61), "lstm": (0.4, 0.41)}))
    table = compare.common_tables(board, "gpt2", "lstm")[0]
    found = compare.compare(board, *(row_in(table, m) for m in ("gpt2", "lstm")))
    assert found.difference == pytest.approx(0.2)
    assert (found.by_seed, found.by_item, found.together) == (None, None, None)
    assert "not on this machine" in found.missing
