"""Where the records of a figure come from: a folder, the project's own, or runs that are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.config.automatic import text_to_fetch
from bench.config.command_line import shown
from bench.config.network import is_offline, task_settings
from bench.config.settings import Configuration
from bench.records.identity import one_of_each
from bench.records.numbers import data_seed
from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED, Store, record_path
from bench.runs.obtain import obtain_baselines
from bench.runs.shelf import Shelf
from bench.search.plan import plan_sweep, warn_of_warmup
from core.amounts import amount
from core.errors import UserError
from core.files import ROOT
from core.places import shown as shown_place
from reproduce.claims.controls import is_twin, without_twins
from reproduce.claims.presets import refuse_mixtures
from reproduce.experiment import Experiment, Plan, composed
from reproduce.planned import PlannedRun, missing, planned
from reproduce.request import Request

# What a run is called where runs are counted, by its role.
KINDS = {
    "single": "run",
    "trial": "trial",
    "final": "final run",
    "control": "control without training",
    "baseline": "predictors without training",
}


def has_no_text(request: Request, experiment: Experiment) -> bool:
    """Whether a figure of committed records reads text that no word says the place of: then the
    runs cannot be looked up by the hash of their text, and there is nothing to be made."""
    plan = request.plan(experiment)
    first = plan.first
    task = task_settings(first)
    if task is None or not text_to_fetch(task):
        return False
    if not request.asks_for_committed or not committed_folders(request, plan):
        return False
    if "tasks.corpus" not in first:
        return True
    is_sweep = bool(plan.sweeps)
    return is_offline(
        plan_sweep(first).entries[0].configuration if is_sweep else Configuration.of(first)
    )


def existing(request: Request, experiment: Experiment, folder: Path) -> list[RunRecord]:
    """The records of this preset below a folder."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: give one with run records")
    folders = [folder]
    if folder == COMMITTED:  # of which a figure's own are a small part
        folders = committed_folders(request, request.plan(experiment))
    return belonging(read_records(folders), request.view.preset, experiment, folder)


def belonging(
    records: Iterable[RunRecord], preset: str, experiment: Experiment, folder: Path
) -> list[RunRecord]:
    """Those of a folder's records that a figure is made of at a preset, twins included."""
    of_preset = [r for r in records if r.preset == preset and r.role != "trial"]
    selected = experiment.select(one_of_each(without_twins(of_preset)))
    plan = experiment.plan(preset, None)
    trained = any(record.role != "baseline" for record in selected)
    if not selected or ((plan.runs or plan.sweeps) and not trained):
        raise UserError(
            f"no run below {folder} belongs to this figure at preset {preset}: leave records=… "
            "out to make the runs"
        )
    refuse_two_settings(selected, experiment.variant_of)
    for record in selected:
        experiment.check(record.config)
    return [*selected, *experiment.control.twins(selected, one_of_each(filter(is_twin, of_preset)))]


def obtain(request: Request, experiment: Experiment) -> list[RunRecord]:
    """Every run that the plan names, and the twins of its controls: served, or made. The controls
    of a sweep follow it at once, so that its claims can be judged while the next one trains."""
    from bench.search.batch import make_all
    from bench.search.driver import records_of
    from core.progress import progress

    plan = request.plan(experiment)
    configurations = _single_runs(experiment, plan)
    records: dict[str, RunRecord] = {}
    twins: dict[str, RunRecord] = {}
    with progress() as show:

        def take(runs: Sequence[Configuration], controls: Sequence[Configuration]) -> None:
            new_records = make_all(runs, show, controls) if runs or controls else []
            records.update((r.run_id, r) for r in without_twins(new_records))
            twins.update((r.run_id, r) for r in new_records if is_twin(r))

        for sweep in map(plan_sweep, plan.sweeps):
            records |= {r.run_id: r for r in records_of(sweep, show)}
            take((), experiment.control.twins_of((), (sweep,)))
        take(configurations, experiment.control.twins_of(configurations, ()))
        for settings in plan.baselines:
            predictors = obtain_baselines(Configuration.of(settings), show)
            records |= {record.run_id: record for record in predictors}
    runs = _with_committed(request, experiment, one_of_each(records.values()))
    own_twins = experiment.control.twins(runs, one_of_each(twins.values()))
    return list({record.run_id: record for record in [*runs, *own_twins]}.values())


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
        served = without_twins(chosen)
    of_project = "is" if len(served) == 1 else "are"
    print(
        f"{len(served)} of {amount(len(without_twins(chosen)), 'record')} {of_project} the "
        "project's own, below "
        f"{COMMITTED.relative_to(ROOT)}: nothing was run for them (committed=false makes them "
        "here)\n"
    )
    return chosen


def foretell_runs(request: Request, experiment: Experiment) -> None:
    """Say what the plan costs from nothing, and what is left of it; nothing is written. A sweep
    that is served whole is not estimated, but for another device, where no record counts."""
    from bench.search.estimate import foretell, print_run_count

    plan = request.plan(experiment)
    configurations = _single_runs(experiment, plan)
    shelf = _shelf(request, plan)
    plans = {}
    sweeps = [plan_sweep(settings) for settings in plan.sweeps]
    of_sweeps = zip(sweep_names(plan.sweeps), plan.sweeps, sweeps, strict=True)
    for name, settings, sweep in of_sweeps:
        pending = missing(planned(Plan(sweeps=(settings,)), shelf, experiment.control))
        if request.device_like or any(run.role != "baseline" for run in pending):
            plans[name] = replace(sweep, device_like=request.device_like)
        else:
            print(f"{name}: all that is trained here has a record")
    foretell(plans)
    if configurations:
        print_run_count(configurations)
    if controls := experiment.control.twins_of(configurations, sweeps):
        print(f"and {amount(len(controls), 'control')}: the same before their training")
    if request.device_like is not None and not plans:
        print(f"device_like={request.device_like} is for sweeps, and this figure has none to make")
    print(_left(request, planned(plan, shelf, experiment.control)))


def sweep_names(sweeps: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each is called: its task, and what not all have, for several may share a task."""
    written = [[shown(key, value) for key, value in settings.items()] for settings in sweeps]
    shared = set.intersection(*map(set, written)) if written else set()
    return [" ".join(w for w in s if w.startswith("tasks") or w not in shared) for s in written]


def _shelf(request: Request, plan: Plan) -> Shelf:
    """Where the plan finds what was run already."""
    folders = committed_folders(request, plan) if request.committed else []
    return Shelf(request.view.preset, Store(request.store), tuple(folders))


def committed_folders(request: Request, plan: Plan) -> list[Path]:
    """Where committed records of the tasks of a plan lie."""
    tasks = {settings["tasks"] for settings in (*plan.sweeps, *plan.runs, *plan.baselines)}
    folders = (COMMITTED / task / request.view.preset for task in sorted(tasks))
    return [folder for folder in folders if folder.is_dir()]


def _left(request: Request, runs: Sequence[PlannedRun]) -> str:
    """How much of a plan has no record yet, as a sentence. A model that was searched already needs
    its final runs alone; one that was not, its trials as well."""
    place = shown_place(request.store)
    where = f"of the project or below {place}" if request.committed else "of your own"
    if not (new := missing(runs)):
        sentence = f"every run that this figure needs has a record {where}: nothing would be run"
        return sentence + (" (committed=false runs it here)" if request.committed else "")
    kinds = Counter(KINDS[run.role] for run in new)
    counted = ", ".join(f"{number} × {kind}" for kind, number in kinds.items())
    sentence = (
        f"{len(new)} of the {amount(len(runs), 'run that is', 'runs that are')} needed "
        f"{'has' if len(new) == 1 else 'have'} no record {where}: {counted}"
    )
    if request.guests:  # which take part in no plan of evidence
        return sentence
    plan = f"python -m reproduce evidence preset={request.view.preset} dry_run=true"
    return f"{sentence}. What these alone take: {plan}"


def _single_runs(experiment: Experiment, plan: Plan) -> list[Configuration]:
    configurations = composed(plan.runs)
    for configuration in configurations:
        experiment.check(configuration.resolved())
    swept = [entry.configuration for s in plan.sweeps for entry in plan_sweep(s).entries]
    warn_of_warmup([*configurations, *swept])
    return configurations


def refuse_two_settings(
    records: Sequence[RunRecord], variant: Callable[[RunRecord], Hashable]
) -> None:
    """A folder may hold runs of other settings or other code: which of them the figure would show
    is not for chance to decide. Data of another seed are not another setting."""

    def identity(record: RunRecord) -> dict[Hashable, object]:
        without = record.role == "baseline"
        name = record.label if without else record.model
        return {(without, name, variant(record), data_seed(record)): record.identity}

    def sentence(key: Any, *_: object) -> str:
        reason = "were made with different settings or code, and this figure shows one setting of"
        return f"{reason} {key[1]}: keep the records of one of them"

    refuse_mixtures(records, identity, sentence)
