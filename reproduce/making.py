"""The runs of a figure: those that are there are served, the others are made."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.config.settings import Configuration
from bench.records.identity import one_of_each
from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED, record_path
from bench.runs.get_or_run import get_or_run_baselines
from bench.search.batch import make_all
from bench.search.driver import records_of
from bench.search.plan import plan_sweep
from core.amounts import amount
from core.files import ROOT
from core.progress import progress
from reproduce.claims.controls import is_untrained, without_untrained
from reproduce.experiment import Experiment
from reproduce.obtaining import belonging, committed_folders, single_runs
from reproduce.planned import sweep_names
from reproduce.request import Request


def get_or_run_all(request: Request, experiment: Experiment) -> list[RunRecord]:
    """Every run that the plan names, and the untrained runs of its controls: served, or made. The
    controls of a sweep follow it at once: its claims can be judged while the next one trains."""
    plan = request.plan(experiment)
    configurations = single_runs(experiment, plan)
    records: dict[str, RunRecord] = {}
    untrained_runs: dict[str, RunRecord] = {}
    with progress() as show:

        def take(runs: Sequence[Configuration], controls: Sequence[Configuration]) -> None:
            new_records = make_all(runs, show, controls, tell) if runs or controls else []
            records.update((r.run_id, r) for r in without_untrained(new_records))
            untrained_runs.update((r.run_id, r) for r in new_records if is_untrained(r))

        names = sweep_names(plan.sweeps)
        for number, (name, settings) in enumerate(zip(names, plan.sweeps, strict=True), 1):
            sweep = plan_sweep(settings)
            title = f"sweep {number} of {len(names)}"
            # Who takes part is a long list, and each run names its model.
            settings_in_words = " ".join(w for w in name.split(" ") if not w.startswith("models="))
            records |= {
                r.run_id: r for r in records_of(sweep, show, tell, title, settings_in_words)
            }
            take((), experiment.control.untrained_runs_of((), (sweep,)))
        take(configurations, experiment.control.untrained_runs_of(configurations, ()))
        for settings in plan.baselines:
            predictors = get_or_run_baselines(Configuration.of(settings), show)
            records |= {record.run_id: record for record in predictors}
    runs = _with_committed(request, experiment, one_of_each(records.values()))
    own_untrained = experiment.control.untrained_runs(runs, one_of_each(untrained_runs.values()))
    return list({record.run_id: record for record in [*runs, *own_untrained]}.values())


def tell(sentence: str) -> None:
    """Say what begins now, where progress is said too."""
    print(sentence, file=sys.stderr)


def _with_committed(
    request: Request, experiment: Experiment, records: Sequence[RunRecord]
) -> list[RunRecord]:
    """The records that belong to the figure; where nothing had to be run for them, with all
    that the project has committed for it, which may be more than the plan asks for."""
    chosen = experiment.select(records)
    served = [r for r in chosen if record_path(r, request.store).is_relative_to(COMMITTED)]
    if not served:
        return chosen
    if len(served) == len(chosen) and request.seeds is None and not request.view.overrides:
        preset = request.view.preset
        committed = read_records(committed_folders(request, request.plan(experiment)))
        chosen = belonging(committed, preset, experiment, COMMITTED)
        served = without_untrained(chosen)
    of_project = "is" if len(served) == 1 else "are"
    print(
        f"{len(served)} of {amount(len(without_untrained(chosen)), 'record')} {of_project} the "
        "project's own, below "
        f"{COMMITTED.relative_to(ROOT)}: nothing was run for them (committed=false makes them "
        "here)\n"
    )
    return chosen
