"""From a configuration to a run record: found in the store, or made and written.

PyTorch is imported where something has to be made.
"""

from __future__ import annotations

from bench.config.budgets import Asked, use_finder
from bench.config.settings import Configuration
from bench.records.schema import Role, RunRecord, Study
from bench.runs.serving import serve, serve_baselines
from core.progress import Report, silent


def obtain(
    configuration: Configuration,
    *,
    role: Role = "single",
    study: Study | None = None,
    report: Report | None = None,
) -> RunRecord:
    """The record of a run, as :func:`serve_or_make` has it."""
    return serve_or_make(configuration, role=role, study=study, report=report)[0]


def serve_or_make(
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
    from bench.runs.fresh import make

    return make(configuration, role, study, report or silent)


def obtain_baselines(configuration: Configuration, report: Report | None = None) -> list[RunRecord]:
    """Records of the task's predictors that need no training: served, or made."""
    served = serve_baselines(configuration)
    if served is not None:
        return served
    from bench.runs.fresh import make_baselines

    return make_baselines(configuration, report or silent)


def make_data(configuration: Configuration, report: Report) -> None:
    """Make what the task keeps on disk; what is there is kept.

    Raises:
        UserError: it cannot be had.
    """
    from bench.training.building import prepare_data

    prepare_data(configuration, report)


def find_widths() -> None:
    """Let ``models.parameters=N`` and ``models.state_bytes=N`` be met in this process."""
    use_finder(_width_for)


def _width_for(configuration: Configuration, budget: Asked) -> int:
    from bench.training.budget import width_for

    return width_for(configuration, budget)
