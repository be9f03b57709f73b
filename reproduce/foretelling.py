"""What the runs of a figure cost, and which of them are left to be made. It imports PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.records.store import Store
from bench.runs.catalog import RecordCatalog
from bench.search.estimate import foretell, print_run_count
from bench.search.plan import plan_sweep
from bench.search.remaining.left import in_folder, in_kinds
from reproduce.experiment import Experiment, Plan
from reproduce.obtaining import committed_folders, single_runs
from reproduce.planned import PlannedRun, planned, sweep_names, without_record
from reproduce.request import Request


def foretell_runs(request: Request, experiment: Experiment) -> None:
    """Say what the plan costs from nothing, and what is left of it; nothing is written. A sweep
    that is served whole is not estimated, but for another device, where no record counts."""
    plan = request.plan(experiment)
    configurations = single_runs(experiment, plan)
    catalog = _catalog(request, plan)
    plans = {}
    sweeps = [plan_sweep(settings) for settings in plan.sweeps]
    of_sweeps = zip(sweep_names(plan.sweeps), plan.sweeps, sweeps, strict=True)
    for name, settings, sweep in of_sweeps:
        pending = without_record(planned(Plan(sweeps=(settings,)), catalog, experiment.control))
        if request.device_like or any(run.role != "baseline" for run in pending):
            plans[name] = replace(sweep, device_like=request.device_like)
        else:
            print(f"{name}: all that is trained here has a record")
    foretell(plans)
    if configurations:
        print_run_count(configurations)
    if controls := experiment.control.untrained_runs_of(configurations, sweeps):
        print(f"and {len(controls)} controls: the same before their training")
    if request.device_like is not None and not plans:
        print(f"device_like={request.device_like} is for sweeps, and this figure has none to make")
    print(_left(request, planned(plan, catalog, experiment.control, with_trials=True)))


def _catalog(request: Request, plan: Plan) -> RecordCatalog:
    """Where the plan finds what was run already."""
    folders = committed_folders(request, plan) if request.committed else []
    return RecordCatalog(request.view.preset, Store(request.store), tuple(folders))


def _left(request: Request, runs: Sequence[PlannedRun]) -> str:
    """How much of a plan has no record yet, as a sentence. All runs are counted, as
    the tables count them: those to make by their kinds, and those that are served."""
    where = f"of the project or {in_folder(request.store)}" if request.committed else "of your own"
    if not (new := without_record(runs)):
        sentence = f"every run that this figure needs has a record {where}: nothing would be run"
        return sentence + (" (committed=false runs it here)" if request.committed else "")
    counted = in_kinds(new)
    have = "has" if len(new) == 1 else "have"
    sentence = (
        f"{len(new)} of the {len(runs)} runs of this figure {have} no record {where}: {counted}"
    )
    if served := [run for run in runs if run.served is not None]:
        sentence += f"; {len(served)} have one: {in_kinds(served)}"
    if request.guests:  # which take part in no plan of evidence
        return sentence
    plan = f"python -m reproduce evidence preset={request.view.preset} dry_run=true"
    return f"{sentence}. What these alone take: {plan}"
