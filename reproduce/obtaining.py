"""Records of a figure that are there, in a folder or the project's own, and which runs it plans."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.config.automatic import text_to_fetch
from bench.config.network import is_offline, task_settings
from bench.config.settings import Configuration
from bench.records.identity import one_of_each
from bench.records.numbers import data_seed
from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED
from bench.search.plan import plan_sweep, warn_of_warmup
from core.errors import UserError
from reproduce.claims.controls import is_untrained, without_untrained
from reproduce.claims.presets import refuse_mixtures
from reproduce.experiment import Experiment, Plan, composed
from reproduce.request import Request


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
    """The records of a folder that a figure is made of at a preset, untrained ones included."""
    of_preset = [r for r in records if r.preset == preset and r.role != "trial"]
    selected = experiment.select(one_of_each(without_untrained(of_preset)))
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
    return [
        *selected,
        *experiment.control.untrained_runs(selected, one_of_each(filter(is_untrained, of_preset))),
    ]


def committed_folders(request: Request, plan: Plan) -> list[Path]:
    """Where committed records of the tasks of a plan lie."""
    tasks = {settings["tasks"] for settings in (*plan.sweeps, *plan.runs, *plan.baselines)}
    folders = (COMMITTED / task / request.view.preset for task in sorted(tasks))
    return [folder for folder in folders if folder.is_dir()]


def single_runs(experiment: Experiment, plan: Plan) -> list[Configuration]:
    """The runs of a plan that no sweep makes, checked; the user is warned of a long warm-up."""
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
