"""What the records of factual recall say, by part of the task."""

from __future__ import annotations

from collections.abc import Sequence

from bench.records.schema import RunRecord
from reproduce.judging.regression import Proportion, fit_proportion

TASK = "factual_recall"
DIAGRAM, SEARCH, PHASES = "phase_diagram", "facts_by_parameters", "phases"


def of_part(records: Sequence[RunRecord], part: str) -> list[RunRecord]:
    """The runs of one part."""
    return [r for r in records if r.role != "baseline" and r.config["tasks"].get("part") == part]


def searches(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The finished searches as published, S = R and D = 8; the variants are other tasks."""
    return [
        r
        for r in of_part(records, SEARCH)
        if r.outcome == "ok"
        and r.config["tasks"].get("subject_power") == 1
        and r.config["tasks"].get("search_choices") == 8
    ]


def cell(record: RunRecord, heads: int, mlp_width: int) -> float | None:
    """The best accuracy of one transformer of the diagram."""
    of_heads, of_widths = (record.arrays.get(name, []) for name in ("heads", "mlp_widths"))
    if heads not in of_heads or mlp_width not in of_widths:
        return None
    share: float = record.arrays["accuracy"][of_heads.index(heads)][of_widths.index(mlp_width)]
    return share


def fit_of(runs: Sequence[RunRecord]) -> Proportion | None:
    """Facts for each parameter over the sizes of all runs; None where nothing was measured."""
    parameters, facts = (
        [value for run in runs for value in run.arrays.get(name, [])]
        for name in ("parameters", "facts")
    )
    return fit_proportion(parameters, facts) if parameters else None


def described(fit: Proportion, runs: Sequence[RunRecord]) -> str:
    """Such as "0.103, 95% interval 0.092 to 0.115 (6 searches, 1 seed)"."""
    searches = sum(len(run.arrays.get("parameters", [])) for run in runs)
    seeds = len({run.seed for run in runs})
    return f"{fit} ({searches} searches, {seeds} seed{'s' if seeds > 1 else ''})"
