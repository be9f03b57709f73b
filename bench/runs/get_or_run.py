"""From a configuration to a run record: found in the store, or made and written.

PyTorch is imported where something has to be made, by :func:`computing` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bench.config.budgets import SizeBudget, use_finder
from bench.config.settings import Configuration
from bench.records.schema import Role, RunRecord, Study
from bench.runs.serving import serve, serve_baselines
from core.collector import resume_collector
from core.errors import UserError
from core.progress import Report, silent


class _Computing(Protocol):
    """What :mod:`bench.runs.fresh` has."""

    def make(
        self, configuration: Configuration, role: Role, study: Study | None, report: Report
    ) -> tuple[RunRecord, bool]: ...
    def make_baselines(self, configuration: Configuration, report: Report) -> list[RunRecord]: ...
    def make_data(self, configuration: Configuration, report: Report) -> dict[str, str]: ...
    def width_for(self, configuration: Configuration, budget: SizeBudget) -> int: ...
    def train_together(
        self, runs: Sequence[tuple[Configuration, Role]], report: Report
    ) -> None: ...
    def refusal_of(self, configuration: Configuration) -> UserError | None: ...


def computing() -> _Computing:
    """The functions that build and train models. Importing them takes seconds, for PyTorch; a
    record that is served needs none of them."""
    from bench.runs import fresh

    resume_collector()
    return fresh


def get_or_run(
    configuration: Configuration,
    *,
    role: Role = "single",
    study: Study | None = None,
    report: Report | None = None,
) -> RunRecord:
    """The record of a run, as :func:`load_or_run` has it."""
    return load_or_run(configuration, role=role, study=study, report=report)[0]


def load_or_run(
    configuration: Configuration,
    *,
    role: Role = "single",
    study: Study | None = None,
    report: Report | None = None,
) -> tuple[RunRecord, bool]:
    """The record of a run, and whether it was there: served if identity, seed and role are the
    same, else made.

    A run that diverges, runs out of memory or fails in the model's code is a record with its
    cause, not an exception. Role "trial" sees the validation split only.

    Raises:
        UserError: a user's mistake, or a record or weights that cannot be trusted.
        KeyboardInterrupt: the run was stopped; its checkpoint is kept.
    """
    served = serve(configuration, role)
    if served is not None:
        return served, True
    return computing().make(configuration, role, study, report or silent)


def get_or_run_baselines(
    configuration: Configuration, report: Report | None = None
) -> list[RunRecord]:
    """Records of the task's predictors that need no training: served, or made."""
    served = serve_baselines(configuration)
    if served is not None:
        return served
    return computing().make_baselines(configuration, report or silent)


def make_data(configuration: Configuration, report: Report) -> dict[str, str]:
    """Make what the task keeps on disk; what is there is kept.

    Returns:
        The SHA-256 of each split's content.

    Raises:
        UserError: it cannot be had.
    """
    return computing().make_data(configuration, report)


def find_widths() -> None:
    """Let ``models.parameters=N`` and ``models.state_bytes=N`` be met in this process."""
    use_finder(lambda configuration, budget: computing().width_for(configuration, budget))
