"""One's own runs beside the committed ones: which row they stand beside, and what seeds explain.

The committed runs are those of the quickstart. What another machine gave for them is made of these:
the same identity and seed, another processor, other weights and numbers.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bench.records.schema import RunRecord, make_run_id, read_record, write_record
from leaderboards import build
from leaderboards.contents import Board, OpenBoard, Row
from leaderboards.render import task_label
from leaderboards.site.addresses import place_of
from leaderboards.site.site import Site
from leaderboards.tables.builder import build_board
from leaderboards.tables.replications import summarised
from leaderboards.views import records, tables
from leaderboards.views.links import to_record, to_table
from leaderboards.views.trust import bar
from tests.committed import committed_paths
from tests.leaderboards.boards import write_board

THERE = "Another Processor 9000"


@pytest.fixture(scope="module")
def committed() -> list[RunRecord]:
    """The finals of two models and a predictor of the quickstart, three seeds of each."""
    found = committed_paths("regbench/smoke/*")
    records = [read_record(path) for path in found if path.stem[:-1].endswith("-s")]
    finals = [r for r in records if r.role in ("final", "baseline")]
    names = ("lstm", "gpt2", "uniform")
    chosen = {name: min(r.identity for r in finals if r.model == name) for name in names}
    return [r for r in finals if chosen.get(r.model) == r.identity]


def elsewhere(record: RunRecord, shift: float, seed: int | None = None) -> RunRecord:
    """The run as another processor made it: its accuracy is another one by ``shift``."""
    made_by = record.provenance.model_copy(update={"device": THERE})
    if not shift and seed is None:
        return record.model_copy(update={"provenance": made_by})
    seed = record.seed if seed is None else seed
    value = (record.headline.value or 0) + shift
    test = record.metrics["test"] | {record.headline.name: value}
    changes = {
        "seed": seed,
        "run_id": make_run_id(record.task, record.model, record.preset, record.identity, seed),
        "provenance": made_by,
        "weights_sha256": record.weights_sha256 and "0" * 64,
        "metrics": {**record.metrics, "test": test},
        "headline": record.headline.model_copy(update={"value": value}),
    }
    return record.model_copy(update=changes)


def of(records: list[RunRecord], model: str) -> list[RunRecord]:
    return [record for record in records if record.model == model]


def headline(board: Board, model: str) -> dict[str, Row]:
    return {row.kind: row for row in board.rows if row.headline and row.model == model}


def test_own_runs_stand_beside_and_change_no_committed_number(committed: list[RunRecord]) -> None:
    alone = build_board(committed)
    lstm = of(committed, "lstm")
    own = [elsewhere(record, 0.01) for record in lstm] + [elsewhere(lstm[0], 0.02, seed=7)]
    board = build_board(committed, own=own)
    assert [row for row in board.rows if row.kind != "replication"] == list(alone.rows)
    assert [line for line in board.lines if line.kind != "replication"] == list(alone.lines)
    rows = headline(board, "lstm")
    mine, theirs = rows["replication"], rows["measured"]
    assert mine.mean == pytest.approx(np.mean([record.headline.value or 0 for record in own]))
    assert (mine.origin, theirs.origin) == ("yours", "committed")
    assert (mine.seeds, theirs.seeds) == (4, len(lstm))
    assert (mine.variant, mine.group, mine.setting) == (
        theirs.variant,
        theirs.group,
        theirs.setting,
    )
    assert mine.rank_best is None
    assert mine.device == THERE
    assert set(headline(board, "gpt2")) == {"measured"}
    # Both records of one name are on the board, each with its own content.
    both = [line for line in board.records if line.run_id == lstm[0].run_id]
    assert [line.origin for line in both] == ["committed", "yours"]
    assert len({line.content for line in both}) == 2


def test_ones_own_row_says_how_missing_seeds_are_made(committed: list[RunRecord]) -> None:
    others = [record for record in committed if record.model != "gpt2"]
    seventh = elsewhere(of(committed, "gpt2")[0], 0.0, seed=7)
    note = headline(build_board(others, own=[seventh]), "gpt2")["measured"].note
    assert note == (
        "seeds 0–7 of which 0–6 are missing, which the command of the others makes, with these "
        "numbers"
    )
    theirs = headline(build_board([*others, seventh]), "gpt2")["measured"].note
    assert theirs == "seeds 0–7 of which 0–6 are missing"


def test_a_predictor_that_gives_the_same_again_stands_once(committed: list[RunRecord]) -> None:
    (uniform,) = of(committed, "uniform")
    board = build_board(committed, own=[elsewhere(uniform, 0.0)])
    assert set(headline(board, "uniform")) == {"reference"}
    (line,) = board.replications
    assert (line.other_run_id, line.same_numbers) == (uniform.run_id, True)
    both = [record.origin for record in board.records if record.run_id == uniform.run_id]
    assert both == ["committed", "yours"]
    # One that gives something else is told beside it.
    other = build_board(committed, own=[elsewhere(uniform, 0.1)])
    assert set(headline(other, "uniform")) == {"reference", "replication"}


def test_a_build_says_where_ones_own_rows_stand(
    committed: list[RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    for record in committed:
        write_record(record, tmp_path / "committed")
    words = [f"records={tmp_path / 'committed'}", "local=true"]
    own = tmp_path / "runs" / "records"
    own.mkdir(parents=True)
    assert build.main(words) == 0
    assert "your rows" not in capsys.readouterr().out
    (uniform,) = of(committed, "uniform")
    for record in [elsewhere(of(committed, "lstm")[0], 0.01), elsewhere(uniform, 0.0)]:
        write_record(record, own)
    assert build.main(words) == 0
    _, title, place, address, repeated, smoke, serve = capsys.readouterr().out.splitlines()
    assert title == "your rows stand in"
    assert place.startswith("  RegBench, smoke")
    assert place.endswith(": LSTM (no rank: repeats a committed row)")
    assert address.startswith("    http://localhost:8501/task?task=regbench&preset=smoke")
    assert repeated.startswith("  1 predictor without training gave the numbers of")
    assert smoke.startswith("preset smoke is too short for a rank")
    assert serve == "open it with `python -m leaderboards.serve`"


def test_a_run_that_nobody_has_committed_is_a_row_of_ones_own(committed: list[RunRecord]) -> None:
    gpt2, others = of(committed, "gpt2"), [r for r in committed if r.model != "gpt2"]
    board = build_board(others, own=gpt2)
    rows = headline(board, "gpt2")
    assert set(rows) == {"measured"}
    assert rows["measured"].origin == "yours"
    assert not board.replications
    # It is ranked as it would be if it were committed.
    before = headline(build_board(committed), "gpt2")["measured"]
    assert (rows["measured"].rank_best, rows["measured"].mean) == (before.rank_best, before.mean)


def test_what_seeds_do_not_explain_is_flagged(committed: list[RunRecord]) -> None:
    lstm = of(committed, "lstm")
    values = [record.headline.value or 0 for record in lstm]
    # One more seed lies in Student's prediction interval.
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1)
    half *= np.sqrt(1 + 1 / len(values))
    ends = np.mean(values) - half, np.mean(values) + half
    inside, outside = (ends[1] - values[0] + step for step in (-1e-6, 1e-6))
    own = [elsewhere(lstm[0], inside), elsewhere(lstm[1], 0.0)]
    board = build_board(committed, own=own)
    first, second = sorted(board.replications, key=lambda line: line.seed)
    assert (first.low, first.high) == (pytest.approx(ends[0]), pytest.approx(ends[1]))
    assert (first.outside, first.same_numbers, first.same_weights) == (False, False, False)
    assert first.difference == pytest.approx(inside)
    assert (first.other_machine, first.origin) == (f"{THERE}, {made_on(lstm[0])}", "yours")
    assert (second.outside, second.same_numbers, second.same_weights) == (False, True, True)
    (flagged,) = build_board(committed, own=[elsewhere(lstm[0], outside)]).replications
    assert flagged.outside is True
    # A single committed seed tells nothing of the spread; a run that failed elsewhere is told.
    (alone,) = build_board(lstm[:1], own=[elsewhere(lstm[0], 0.3)]).replications
    assert (alone.low, alone.outside) == (None, None)
    diverged = elsewhere(lstm[0], 0.01).model_copy(update={"outcome": "diverged"})
    (lost,) = build_board(committed, own=[diverged]).replications
    assert (lost.outside, lost.other_outcome) == (True, "diverged")


def made_on(record: RunRecord) -> str:
    return record.provenance.platform


def test_replications_by_machine_are_summed_up(committed: list[RunRecord]) -> None:
    lstm, gpt2 = of(committed, "lstm"), of(committed, "gpt2")
    own = [elsewhere(lstm[0], 0.2), elsewhere(lstm[1], -0.1), elsewhere(gpt2[0], 0.0)]
    found = summarised(build_board(committed, own=own).replications)
    assert (found.runs, found.confirmed, found.outside) == (3, 1, 2)
    assert found.machines == len({r.provenance.device for r in [*lstm, *gpt2]}) + 1
    (machine,) = found.each
    assert (machine.runs, machine.same) == (3, 1)
    assert machine.mean_difference == pytest.approx(0.1 / 3)
    assert machine.largest_difference == pytest.approx(0.2)


def test_a_build_with_ones_own_runs_keeps_both_and_grows(
    committed: list[RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, own = tmp_path / "committed", tmp_path / "runs" / "records"
    for record in committed:
        write_record(record, folder)
    lstm = of(committed, "lstm")
    for record in [elsewhere(r, 0.0) for r in lstm]:
        write_record(record, own)
    # A record that was served, not made, is the committed one.
    served = of(committed, "gpt2")[0]
    shutil.copy(folder / f"{served.run_id}.json", own)
    words = ["local=true", f"records={folder}"]
    assert build.main(words) == 0
    board = OpenBoard(build.LOCAL)
    found = board.replications("regbench", origin="yours")  # those that verify made stand beside
    assert [line.run_id for line in found] == [record.run_id for record in lstm]
    assert all(line.same_numbers and line.other_machine.startswith(THERE) for line in found)
    assert board.rows("regbench", kind="replication", headline=True)[0].mean == pytest.approx(
        np.mean([record.headline.value or 0 for record in lstm])
    )
    # A run of a setting that is committed, with a seed that is not.
    extra = elsewhere(lstm[0], 0.0, seed=9)
    write_record(extra, own)
    assert build.main(words) == 0
    (row,) = board.rows("regbench", kind="replication", headline=True)
    assert extra.run_id in row.run_ids
    grown = {p.name: p.read_bytes() for p in build.LOCAL.rglob("*.parquet")}
    build.LOCAL.with_name(f".{build.LOCAL.name}.index").unlink()
    assert build.main(words) == 0
    assert {p.name: p.read_bytes() for p in build.LOCAL.rglob("*.parquet")} == grown
    assert build.main([*words, "--check"]) == 0


def test_ones_own_run_is_opened_by_its_origin(committed: list[RunRecord], tmp_path: Path) -> None:
    """It has the name of the committed run that it repeats, in addresses of app and site."""
    lstm = of(committed, "lstm")
    write_board(build_board(committed, own=[elsewhere(one, 0.01) for one in lstm]), tmp_path / "b")
    board, name = OpenBoard(tmp_path / "b"), lstm[0].run_id
    theirs, mine = records.record(board, name), records.record(board, name, "yours")
    assert theirs is not None
    assert mine is not None
    assert ("origin", "yours") in records.run_facts(mine)
    assert ("origin", "committed") in records.run_facts(theirs)
    for found, origin in ((theirs, "committed"), (mine, "yours")):
        assert found.row is not None
        assert found.row.origin == origin
        assert [(one.seed, one.origin) for one in found.beside] == [(n, origin) for n in range(3)]
    assert mine.content["headline"]["value"] != theirs.content["headline"]["value"]
    shown = tables.lines([mine.row, theirs.row], {})  # type: ignore[list-item]
    assert [line["model"] for line in shown] == ["LSTM (yours)", "LSTM"]
    assert shown[0]["record"].endswith("&origin=yours")
    trusted = bar(board)
    assert trusted.yours == 1
    assert trusted.to_yours == ((task_label(mine.row.task), 1, to_table(mine.row)),)
    assert (theirs.others, mine.others) == (("yours",), ("committed",))
    places = [place_of(to_record(name, origin)) for origin in ("committed", "yours")]
    assert places[0] != places[1]
    made = {place for place, _ in Site(tmp_path / "b").files()}
    assert set(places) <= made
