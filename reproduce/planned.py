"""The runs that a reproduction's plan names, with those that are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.config.command_line import shown
from bench.config.settings import Configuration
from bench.runs.catalog import RecordCatalog
from bench.search.plan import plan_sweep
from bench.search.remaining.planned import PlannedRun as PlannedRun
from bench.search.remaining.planned import predictors_run, searched_runs, single_run
from bench.search.remaining.planned import without_record as without_record
from reproduce.claims.controls import NoControl, Untrained
from reproduce.experiment import Plan, composed


def planned(
    plan: Plan, catalog: RecordCatalog, control: Untrained | NoControl, *, with_trials: bool = False
) -> list[PlannedRun]:
    """Every run of a plan with all settings: single runs, trials and final runs of its sweeps,
    their untrained runs for the control, and one for the predictors without training of each task.

    Args:
        with_trials: as for :func:`bench.search.remaining.planned.searched_runs`.
    """
    configurations = composed(plan.runs)
    sweeps = [plan_sweep(settings) for settings in plan.sweeps]
    runs = [single_run(configuration, catalog) for configuration in configurations]
    for untrained in control.untrained_runs_of(configurations, sweeps):
        runs.append(single_run(untrained, catalog, "control"))
    without = [Configuration.of(settings) for settings in plan.baselines]
    for sweep in sweeps:
        without.append(sweep.entries[0].configuration)
        for entry in sweep.entries:
            runs += searched_runs(entry, catalog, with_trials=with_trials)
    runs += [predictors_run(configuration, catalog) for configuration in without]
    return list({run.key: run for run in runs}.values())


def sweep_names(sweeps: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each is called: its task, and what not all have, for several may share a task."""
    written = [[shown(key, value) for key, value in settings.items()] for settings in sweeps]
    shared = set.intersection(*map(set, written)) if written else set()
    return [" ".join(w for w in s if w.startswith("tasks") or w not in shared) for s in written]
