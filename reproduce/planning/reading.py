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
    failed = [_failed(run, judged[0]) for run in missing]
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

    failed = {run.key: _failed(run, judged[0]) for run in [*runs, *old]}

    def found(planned: Iterable[PlannedRun]) -> Finding:
        return claim.finding(reproduction.select([failed[run.key] for run in planned]))

    return found(runs) != found(old)


def chosen_by(claim: Claim) -> dict[str, Any]:
    """The settings that choose what a claim is asked of; where that lies changes no plan."""
    return {key: v for key, v in read(claim.asked_with.split()).items() if v != "FOLDER"}


def _failed(run: PlannedRun, like: RunRecord) -> RunRecord:
    configuration = run.configuration
    return like.model_copy(
        update={
            **NOTHING,
            "run_id": run.key,
            "identity": run.key,
            "seed": configuration.seed,
            "task": configuration.task,
            "model": configuration.model,
            "label": configuration.label,
            "preset": configuration.preset,
            "role": "final" if run.role == "trial" else run.role,
            "outcome": "failed",
            "cause": "it is missing",
            "config": configuration.resolved(),
            "provenance": like.provenance.model_copy(update={"started_at": LAST}),
        }
    )
