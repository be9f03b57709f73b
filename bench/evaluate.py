"""Evaluate a saved run again: ``python -m bench.evaluate run=ID``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.config.command_line import Settings, read
from core.errors import OK, RUN_FAILED, VERIFICATION_FAILED, UserError, command, nearest
from core.files import write_atomically
from core.places import absolute
from core.words import command_line

if TYPE_CHECKING:
    from bench.config.settings import Configuration
    from bench.records.schema import RunRecord

TOLERANCE = 1e-6  # of a metric, on the kind of device that made the record

IDENTIFYING = {
    "model_code": "code of the model",
    "task_code": "code of the task",
    "data": "data",
    "library_lock": "versions of the libraries",
    "precision": "precision",
    "device_class": "kind of device",
}

HELP = """\
usage: python -m bench.evaluate run=ID [tasks=TASK] [store=FOLDER] [device=cpu|cuda]
       [trust=PACKAGE|FILE.py] [output=FILE]

Run the task's whole protocol again from the saved weights of a run, and compare with its record.
ID is a run id (the name of a file in the folder records of the store), a part of one that no other
has, or the path of a record file.
With tasks=TASK the model is measured by another task that is trained on the same one (such as
wikipedia after babistories), and a record of that task is written. tasks.KEY=VALUE sets what that
task measures, or where the data lie: no place or address is taken from a record or a store.
A model or a task that is not of this project is imported only from the package, or the file, that
trust= names (several: "trust=[package,./FILE.py]").
The device is of the kind that made the record, unless another is given.
With output=FILE what was measured is written there too, as JSON: split -> metric -> value.
The weights are examined first, as by bench.examine: what sees the future is no result.
Exit code 4 when a metric differs from the record by more than 1e-6, or the model fails."""


@command_line(HELP, read)
def main(given: Settings) -> int:
    """Exit code 0 when every metric is that of the record, 4 when one is not."""
    own = {k: given.pop(k, None) for k in ("run", "store", "device", "tasks", "trust", "output")}
    settings = {k.removeprefix("tasks."): given.pop(k) for k in list(given) if k[:6] == "tasks."}
    if given or not own["run"]:
        unknown = next(iter(given), None)
        wrong = f"there is no setting '{unknown}'" if unknown else "no run is named"
        raise UserError(f"{wrong}: usage is bench.evaluate run=ID [store=FOLDER] [device=cpu]")
    if own["store"] == "":
        raise UserError("store= is empty: give the folder of the runs, or leave it out for runs")
    store = absolute(str(own["store"] or "runs"))
    named = own["trust"] if isinstance(own["trust"], list) else [own["trust"]]
    trust = None if own["trust"] is None else ",".join(map(str, named))
    if own["tasks"] is None:
        record, metrics = _measured(str(own["run"]), store, own["device"], settings, trust)
        if own["output"] is not None:
            write_atomically(absolute(str(own["output"])), json.dumps(metrics).encode())
        return _compared(record, metrics)
    task = str(own["tasks"])
    return _evaluate_by(task, str(own["run"]), store, own["device"], settings, trust)


Metrics = dict[str, dict[str, float]]  # split -> name -> value


def _compared(record: RunRecord, metrics: Metrics) -> int:
    from bench.records.report import print_comparison

    return OK if print_comparison(record, metrics) <= TOLERANCE else VERIFICATION_FAILED


def _measured(
    run: str, root: Path, device: Any, locations: Mapping[str, Any], trust: str | None
) -> tuple[RunRecord, Metrics]:
    from bench.config.files import models_of
    from bench.config.groups import choices
    from bench.runs.making import evaluate
    from bench.runs.recording import measured_fields
    from bench.runs.reexamining import examine_weights
    from bench.runs.saved import find_record, load_run
    from bench.training.building import data_hashes
    from bench.training.unfit import UnfitModel
    from core.progress import progress
    from tasks.interface import Evaluation, Split

    found, root_of_run = find_record(run, root)
    known = found.task in choices("tasks")
    if found.role != "baseline" and known and models_of(found.task) != "models":
        return _measure_again(found, root_of_run, device, locations, trust)
    place = None if device is None else str(device)
    with progress() as report:
        saved = load_run(run, root, place, locations, report, trust)
    record, task = saved.record, saved.task
    if data_hashes(saved.configuration) != record.provenance.data:
        raise UserError(
            f"the data of {record.run_id} are not those that it was made with: put them back, or "
            "say where they are by tasks.KEY=PATH"
        )
    splits: list[Split] = [s for s in ("validation", "test") if s in record.metrics]
    try:
        examined = examine_weights(saved)
        with examined.during_evaluation():
            evaluations: dict[str, Evaluation] = {
                s: evaluate(task, saved.model, s, saved.device, record.seed) for s in splits
            }
    except UnfitModel as error:
        raise UserError(f"{record.run_id} is no result: {error}", VERIFICATION_FAILED) from None
    return record, measured_fields(task, evaluations, splits[-1])["metrics"]


def _measure_again(
    record: RunRecord, root: Path, device: Any, locations: Mapping[str, Any], trust: str | None
) -> tuple[RunRecord, Metrics]:
    """A measurement keeps no weights: its whole protocol, training included, is run again."""
    from bench.runs.measuring import MeasuringRun
    from bench.runs.recording import measured_fields
    from bench.runs.saved import recorded_configuration
    from bench.runs.serving import identify
    from bench.training.numerics import set_numerics
    from core.progress import progress
    from tasks.interface import Evaluation, Split

    place = device or ("cpu" if record.provenance.device_class == "cpu" else "cuda")
    identity = identify(recorded_configuration(record, root, str(place), locations, trust))
    splits: list[Split] = [s for s in ("validation", "test") if s in record.metrics]
    if not splits:
        raise UserError(
            f"{record.run_id} ended as '{record.outcome}' and has no numbers to compare with"
        )
    set_numerics(identity.configuration.training.threads)
    with progress() as report:
        run = MeasuringRun(identity, root, report)
        evaluations: dict[str, Evaluation] = {split: run.measure(split) for split in splits}
    return record, measured_fields(run.task, evaluations, splits[-1])["metrics"]


def _evaluate_by(
    task: str, run: str, root: Path, device: Any, settings: Mapping[str, Any], trust: str | None
) -> int:
    """Measure the model of a run by another task, and write a record of that task."""
    from bench.records.report import print_record
    from bench.runs.obtain import obtain
    from bench.runs.saved import find_record
    from core.progress import progress

    record, root = find_record(run, root)
    recorded, configuration = _by_other_task(task, record, root, device, settings, trust)
    with progress() as report:
        _refuse_other_code(record, recorded)
        made = obtain(configuration, report=report)
    print_record(made, root)
    return OK if made.outcome == "ok" else RUN_FAILED


def _by_other_task(
    task: str,
    record: RunRecord,
    root: Path,
    device: Any,
    settings: Mapping[str, Any],
    trust: str | None,
) -> tuple[Configuration, Configuration]:
    """The configuration of a record, and that of measuring its model by another task."""
    from bench.config.config import training_configuration
    from bench.config.settings import Configuration
    from bench.config.tree import TARGET
    from bench.records.registry import known, known_model
    from bench.runs.saved import recorded_configuration

    place = device or ("cpu" if record.provenance.device_class == "cpu" else "cuda")
    own = (known("tasks", record.task) or {}).get("locations", ())
    places = {key: value for key, value in settings.items() if key in own}
    recorded = recorded_configuration(record, root, str(place), places, trust)
    theirs = (known("tasks", task) or {}).get("locations", ())
    left_out = set(own) - set(theirs)  # places that the record's own task alone has
    by_class = known_model(record) is None  # of a package that is trusted
    composed = Configuration.of(
        {
            "tasks": task,
            **({TARGET: recorded.models["_target_"]} if by_class else {"models": record.model}),
            "preset": record.preset,
            "seed": record.seed,
            "store": str(root),
            "device": place,
            **{f"tasks.{key}": settings[key] for key in settings if key not in left_out},
        }
    )
    of_training = training_configuration(recorded)
    tasks = _with_settings_of_training(task, record, composed, of_training, settings)
    changes = {
        "label": record.label,
        "model": record.model,
        "models": recorded.models,
        "tasks": tasks,
        "training": recorded.training,
    }
    return recorded, composed.model_copy(update=changes)


def _with_settings_of_training(
    task: str,
    record: RunRecord,
    composed: Configuration,
    of_training: Configuration,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """The settings of the task that measures, with those that the run was trained with.

    Raises:
        UserError: it measures no such run, would change how it was trained, or lacks its data.
    """
    if composed.trained_on is None:
        raise UserError(
            f"{task} trains its own models and measures no other task's: leave tasks= out to "
            f"evaluate {record.run_id} again"
        )
    if composed.trained_on != of_training.task:
        raise UserError(
            f"{task} measures models that were trained on {composed.trained_on}, but "
            f"{record.run_id} was trained on {of_training.task}: choose a run of "
            f"{composed.trained_on}"
        )
    trained = {k: v for k, v in of_training.tasks.items() if k not in ("_target_", *settings)}
    fixed = sorted(set(settings) & set(of_training.tasks) - set(of_training.locations))
    if fixed:
        free = sorted(f"tasks.{k}" for k in set(composed.tasks) - set(trained) - {"_target_"})
        raise UserError(
            f"tasks.{fixed[0]} decided how the run was trained, and is not for its evaluation to "
            f"change: {nearest(f'tasks.{fixed[0]}', free)}"
        )
    tasks = {**composed.tasks, **trained}
    if tasks.get("corpus") == "local" and tasks.get("articles") in (None, "auto"):
        for key in composed.locations:
            # Else a corpus of the network would be asked for.
            if key not in of_training.locations and tasks[key] is None:
                raise UserError(
                    f"{record.run_id} was trained on local stories, and {task} measures articles: "
                    f"give tasks.{key}=PATH, articles of yours, or tasks.articles=grammar or "
                    "simple_wikipedia (which needs a network)"
                )
    return tasks


def _refuse_other_code(record: RunRecord, recorded: Configuration) -> None:
    """Nothing where a run of today by a record's configuration would be the same.

    Raises:
        UserError: it would be another one.
    """
    from bench.runs.serving import identify

    again = identify(recorded)
    if record.identity in again.all:
        return
    changed = [
        what
        for name, what in IDENTIFYING.items()
        if getattr(again.provenance, name) != getattr(record.provenance, name)
    ]
    raise UserError(
        f"{record.run_id} was made with other {' and other '.join(changed or ['settings'])} than "
        "are here now, so its weights do not stand for a run of today: train it again",
        RUN_FAILED,
    )


if __name__ == "__main__":
    command(main)
