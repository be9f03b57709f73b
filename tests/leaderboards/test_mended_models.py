"""A model that failed, was mended and run again: what one's own board shows of its past."""

from typing import Any

import pytest

from bench.records.schema import RunRecord, make_run_id, read_record
from leaderboards.tables.builder import build_board
from tests.committed import committed_paths

DAYS = {day: f"2026-11-{day:02}T00:00:00+00:00" for day in (1, 2, 3)}


@pytest.fixture(scope="module")
def run() -> RunRecord:
    """A run of a model of this project, in whose place tests put one of a file."""
    paths = committed_paths("regbench/smoke/regbench-lstm-*-s0")
    return next(record for record in map(read_record, paths) if record.role == "final")


def made(run: RunRecord, code: str, day: int, seed: int = 0, **changes: Any) -> RunRecord:
    """A run of ``net.py:GRU``, by some code and on some day; it failed unless it has an outcome."""
    identity = (code * 64)[:64]
    provenance = run.provenance.model_copy(update={"model_code": identity, "started_at": DAYS[day]})
    fields = {
        "identity": identity,
        "seed": seed,
        "run_id": make_run_id("regbench", "GRU", "smoke", identity, seed),
        "model": "GRU",
        "label": "GRU",
        "role": "single",
        "config": {**run.config, "models": {"_target_": "net.py:GRU", "width": 8}},
        "provenance": provenance,
        "study": None,
        "outcome": "failed",
        "cause": "RuntimeError: it does not fit",
        **changes,
    }
    if fields["outcome"] == "failed":
        fields |= {
            "metrics": {},
            "per_sequence": {},
            "headline": run.headline.model_copy(update={"value": None}),
        }
    return run.model_copy(update=fields)


def outcomes(*own: RunRecord) -> list[str]:
    rows = [row for row in build_board([], own=own).rows if row.headline]
    return sorted(row.outcome for row in rows)


def test_a_failure_of_older_code_is_past(run: RunRecord) -> None:
    mended = made(run, "b", 2, outcome="ok", cause=None)
    assert outcomes(made(run, "a", 1), mended) == ["ok"]
    assert outcomes(made(run, "a", 1), made(run, "a", 1, seed=1), mended) == ["ok"]
    # Mended in vain: the failure of today's code stands.
    assert outcomes(made(run, "a", 1), made(run, "b", 2)) == ["failed"]
    assert outcomes(made(run, "a", 1)) == ["failed"]


def test_all_other_failures_stand(run: RunRecord) -> None:
    good: dict[str, Any] = {"outcome": "ok", "cause": None}
    mended = made(run, "b", 2, **good)
    # What is broken now is not hidden by what was right before.
    assert outcomes(made(run, "c", 3), mended) == ["failed", "ok"]
    # One seed of several failed: hidden, the others would look like all.
    assert outcomes(made(run, "a", 1), made(run, "a", 1, seed=1, **good), mended) == [
        "failed",
        "ok",
    ]
    diverged = made(run, "a", 1, outcome="diverged", cause="the training loss was nan")
    assert outcomes(diverged, mended) == ["diverged", "ok"]
    # Another class of the same name, in another file.
    config = {**run.config, "models": {"_target_": "other.py:GRU"}}
    assert outcomes(made(run, "a", 1, config=config), mended) == ["failed", "ok"]
    # Another setting of the same code.
    config = {**run.config, "models": {"_target_": "net.py:GRU", "width": 9}}
    same_code = mended.provenance.model_copy(update={"started_at": DAYS[1]})
    wide = made(run, "d", 1, config=config, provenance=same_code)
    assert outcomes(wide, mended) == ["failed", "ok"]


def test_committed_failures_stand_whatever_came_later(run: RunRecord) -> None:
    mended = made(run, "b", 2, outcome="ok", cause=None)
    rows = build_board([made(run, "a", 1)], own=[mended]).rows
    assert sorted(row.outcome for row in rows if row.headline) == ["failed", "ok"]
