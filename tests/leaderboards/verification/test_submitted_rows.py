"""What was sent stands beside what is committed, and takes nothing from it."""

import pytest

from bench.records.equivalence import Code, names
from bench.records.identity import identity_of
from bench.records.schema import RunRecord, make_run_id, read_record
from bench.records.store import COMMITTED
from leaderboards.build import FOLDER
from leaderboards.contents import Board, Row
from leaderboards.making import inputs
from leaderboards.tables.builder import build_board
from leaderboards.tables.status import (
    SUBMISSIONS,
    Check,
    VerificationStatuses,
    earlier_verification,
)
from leaderboards.tables.summaries import COMMITTED as OURS
from leaderboards.tables.summaries import SUBMITTED
from tests.committed import committed_paths
from tests.leaderboards.conftest import record as made_up


def of_two_names() -> RunRecord:
    """A committed record whose code was proven equal to other code."""
    return next(
        r
        for r in map(read_record, committed_paths("*/*/*-s1"))
        if r.role in ("final", "single")
        and len(list(names(Code.of(r.config, r.provenance), r.config))) > 1
    )


def by_equal_code(record: RunRecord, value: float) -> RunRecord:
    """The same run by the other code, as somebody says that it was made before, and better."""
    own = Code.of(record.config, record.provenance)
    other = next(n for n in names(own, record.config) if n.code != own)
    codes = {"model_code": other.code.model_code, "task_code": other.code.task_code}
    made_by = record.provenance.model_copy(
        update={**codes, "started_at": "2000-01-01T00:00:00+00:00"}
    )
    identity = identity_of(other, record.preset, record.provenance, None)
    parts = (record.task, record.model, record.preset, identity, record.seed)
    changes = {
        "config": other.config,
        "identity": identity,
        "run_id": make_run_id(*parts),
        "provenance": made_by,
        "headline": record.headline.model_copy(update={"value": value}),
    }
    return record.model_copy(update=changes)


def verified(*records: RunRecord) -> VerificationStatuses:
    """That each of them was run again within the spread."""
    again = Check(level="re-run", passed=True, at="2026-01-01", device="a", libraries={})
    return VerificationStatuses.of(
        earlier_verification(record).with_check(again) for record in records
    )


def headlines(board: Board, model: str) -> list[Row]:
    return [row for row in board.rows if row.headline and row.model == model]


@pytest.mark.parametrize("is_verified", [False, True])
def test_a_forged_date_by_equal_code_displaces_no_committed_record(is_verified: bool) -> None:
    record = of_two_names()
    forged = by_equal_code(record, 0.999)
    statuses = verified(forged) if is_verified else VerificationStatuses()
    alone = build_board([record])
    board = build_board([record], submitted=[forged], statuses=statuses)
    assert headlines(board, record.model) == headlines(alone, record.model)
    # Among committed ones the first that was made counts, as before.
    (first,) = headlines(build_board([record, forged]), record.model)
    assert first.run_ids == (forged.run_id,)


def test_of_two_that_were_sent_the_one_that_was_run_again_counts() -> None:
    record = of_two_names()
    forged = by_equal_code(record, 0.999)
    board = build_board([], submitted=[record, forged], statuses=verified(record))
    assert [row.run_ids for row in headlines(board, record.model)] == [(record.run_id,)]


def test_submissions_are_read_last_however_they_are_named() -> None:
    """Of equal run ids the first folder's record counts."""
    found = inputs([SUBMISSIONS, COMMITTED], FOLDER).folders
    assert [folder.origin for folder in found] == [OURS, SUBMITTED]


def two_models() -> list[RunRecord]:
    return [
        made_up(name, name.upper(), seed, mean + seed / 100, role="final", trials=8)
        for name, mean in (("a", 0.9), ("b", 0.5))
        for seed in range(3)
    ]


def test_seeds_that_nobody_ran_again_are_shown_and_take_nothing_from_a_row() -> None:
    committed = two_models()
    extra = [
        made_up("a", "A", seed, 0.2, role="final", trials=8, validation_loss=0.1 * seed)
        for seed in (7, 8)
    ]
    alone = build_board(committed, statuses=verified(*committed))
    board = build_board(committed, submitted=extra, statuses=verified(*committed))
    kept, sent = headlines(board, "a")
    assert kept == headlines(alone, "a")[0]
    assert (kept.rank_best, kept.checked, kept.verified) == (1, "re-run", True)
    assert sent.run_ids == tuple(record.run_id for record in extra)
    assert (sent.kind, sent.origin, sent.checked) == ("unverified", "submitted", "reported")
    assert (sent.rank_best, sent.verified, sent.mean) == (None, False, pytest.approx(0.2))
    assert (sent.group, sent.variant, sent.setting) == (kept.group, kept.variant, kept.setting)
    assert headlines(board, "b") == headlines(alone, "b")
    assert board.lines == alone.lines  # no curve is another one through them
    assert {record.run_id for record in extra} <= {line.run_id for line in board.records}
    # The last of a table, worse or better.
    order = [row for row in board.rows if row.headline]
    assert order[-1] is sent


def test_a_seed_that_was_run_again_joins_its_row() -> None:
    committed = two_models()
    one, other = (made_up("a", "A", seed, 0.9, role="final", trials=8) for seed in (7, 8))
    known = verified(*committed, one)
    kept, sent = headlines(build_board(committed, submitted=[one, other], statuses=known), "a")
    assert (kept.seeds, kept.rank_best) == (4, 1)
    assert one.run_id in kept.run_ids
    assert sent.run_ids == (other.run_id,)


def test_a_lower_data_seed_that_was_sent_moves_no_committed_row() -> None:
    """A row's table is that of its lowest data seed, and nobody who sends one chooses it."""
    committed = [
        made_up(name, name.upper(), seed, mean + seed / 100, task_settings={"data_seed": seed})
        for name, mean in (("a", 0.9), ("b", 0.5))
        for seed in (1, 2, 3)
    ]
    sent = made_up("a", "A", 0, 0.99, task_settings={"data_seed": 0})
    alone, board = build_board(committed), build_board(committed, submitted=[sent])
    assert headlines(board, "a")[0] == headlines(alone, "a")[0]
    assert headlines(alone, "a")[0].rank_best == 1
    assert headlines(board, "b") == headlines(alone, "b")


def test_ones_own_runs_are_ranked_whatever_was_sent_of_their_setting() -> None:
    committed, own = two_models(), [made_up("c", "C", seed, 0.7 + seed / 100) for seed in range(3)]
    sent = made_up("c", "C", 9, 0.99)
    board = build_board(committed, own=own, submitted=[sent])
    mine, theirs = headlines(board, "c")
    assert (mine.kind, mine.origin, mine.rank_best) == ("measured", "yours", 2)
    assert theirs.kind == "unverified"
