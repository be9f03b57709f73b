"""Which runs a claim reads: whether a run that is missing could change what it says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench.config.command_line import read
from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim, ClaimResult
from reproduce.claims.grammar import Records
from reproduce.claims.verdicts import Finding
from reproduce.experiment import Experiment
from reproduce.planned import PlannedRun

LAST = "9999-12-31T00:00:00+00:00"  # of several runs with one seed the last one counts
NOTHING: dict[str, object] = {
    "metrics": {},
    "per_sequence": {},
    "curves": {},
    "arrays": {},
    "study": None,
}


def reads(
    result: ClaimResult, reproduction: Experiment, judged: Records, missing: Iterable[PlannedRun]
) -> bool:
    """Whether a claim says something else where each of some runs has failed. A run that could not
    even do harm is none of its rows: a figure shows more models than its claims ask about.

    Args:
        judged: the records that the result is by, at least one.
        missing: runs of the tasks of these records.
    """
    like = _of_nothing(judged[0])
    failed = [_failed(run, like) for run in missing]
    return result.claim.finding([*judged, *reproduction.select(failed)]) != result.finding


def reads_more(
    claim: Claim,
    reproduction: Experiment,
    judged: Records,
    runs: Sequence[PlannedRun],
    old: Sequence[PlannedRun],
) -> bool:
    """Whether a claim reads any of some runs but the ``old`` ones among them: whether it says
    something else of all of them than of those alone, where each has failed.

    Args:
        judged: at least one record, from which a failed one takes what is no setting.
    """
    if not runs:
        return False
    like = _of_nothing(judged[0])
    failed = {run.key: _failed(run, like) for run in runs}

    def found(planned: Iterable[PlannedRun]) -> Finding:
        return claim.finding(reproduction.select([failed[run.key] for run in planned]))

    return found(runs) != found(old)


def chosen_by(claim: Claim) -> dict[str, Any]:
    """The settings that choose what a claim is asked of; where that lies changes no plan."""
    return {key: v for key, v in read(claim.asked_with.split()).items() if v != "FOLDER"}


def _of_nothing(record: RunRecord) -> RunRecord:
    """What failed runs have in common with a record, which is no setting and no number."""
    provenance = record.provenance.model_copy(update={"started_at": LAST})
    lost = {"outcome": "failed", "cause": "it is missing", "provenance": provenance}
    return record.model_copy(update={**NOTHING, **lost})


def _failed(run: PlannedRun, like: RunRecord) -> RunRecord:
    configuration = run.configuration
    return like.model_copy(
        update={
            "run_id": run.key,
            "identity": run.key,
            "seed": configuration.seed,
            "task": configuration.task,
            "model": configuration.model,
            "label": configuration.label,
            "preset": configuration.preset,
            "role": "final" if run.role == "trial" else run.role,
            "config": configuration.resolved(),
        }
    )
