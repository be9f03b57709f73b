"""Evaluating a saved run again, by its own task or by another one that measures the same model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.config.files import models_of
from bench.config.groups import choices
from bench.config.settings import Configuration
from bench.config.tree import TARGET
from bench.records.registry import file_of as card_of
from bench.records.registry import known_model
from bench.records.report import print_comparison, print_record
from bench.records.schema import RunRecord, initial_seed
from bench.runs.get_or_run import get_or_run
from bench.runs.making import evaluate
from bench.runs.measuring import MeasuringRun
from bench.runs.recording import measured_fields
from bench.runs.reexamining import examine_weights
from bench.runs.requests import EvaluationRequest
from bench.runs.saved import find_record, load_run, recorded_configuration
from bench.runs.serving import identify
from bench.training.building import data_hashes
from bench.training.numerics import set_numerics
from bench.training.unfit import UnfitModel
from core.errors import OK, RUN_FAILED, VERIFICATION_FAILED, UserError, nearest
from core.files import write_atomically
from core.progress import progress
from tasks.interface import Evaluation, Split

TOLERANCE = 1e-6  # of a metric, on the kind of device that made the record

Metrics = dict[str, dict[str, float]]  # split -> name -> value

IDENTIFYING = {
    "model_code": "code of the model",
    "task_code": "code of the task",
    "data": "data",
    "library_lock": "versions of the libraries",
    "precision": "precision",
    "device_class": "kind of device",
}


def evaluate_run(request: EvaluationRequest) -> int:
    """Evaluate a run as it is asked for, and print what came of it.

    Returns:
        Exit code 0 when every metric is that of the record, 4 when one is not; measured by another
        task, 1 when that failed.

    Raises:
        UserError: as :func:`evaluate_again` and :func:`evaluate_by`.
    """
    if request.task is not None:
        return OK if evaluate_by(request.task, request).outcome == "ok" else RUN_FAILED
    record, metrics = evaluate_again(request)
    if request.output is not None:
        write_atomically(request.output, json.dumps(metrics).encode())
    return OK if print_comparison(record, metrics) <= TOLERANCE else VERIFICATION_FAILED


def _device_for(record: RunRecord, request: EvaluationRequest) -> str:
    """The device that is asked for, or one of the kind that made the record."""
    return request.device or ("cpu" if record.provenance.device_class == "cpu" else "cuda")


def evaluate_again(request: EvaluationRequest) -> tuple[RunRecord, Metrics]:
    """The record of a run, and what its task's whole protocol gives now.

    Raises:
        UserError: there is no such run, its data or weights are not there, or its model fails.
    """
    record, store = find_record(request.run, request.store)
    of_project = record.task in choices("tasks")
    if record.role != "baseline" and of_project and models_of(record.task) != "models":
        return record, _measure_again(record, store, request)
    with progress() as report:
        saved = load_run(
            request.run, request.store, request.device, request.settings, report, request.trust
        )
    record = saved.record
    if data_hashes(saved.configuration) != record.provenance.data:
        raise UserError(
            f"the data of {record.run_id} are not those that it was made with: put them back, or "
            "say where they are by tasks.KEY=PATH"
        )
    splits = _measured_splits(record)
    evaluations: dict[str, Evaluation] = {}
    try:
        with examine_weights(saved).during_evaluation():
            for split in splits:
                model, device = saved.model, saved.device
                seed = initial_seed(record.restarts, record.seed)
                evaluations[split] = evaluate(saved.task, model, split, device, seed)
    except UnfitModel as error:
        raise UserError(f"{record.run_id} is no result: {error}", VERIFICATION_FAILED) from None
    return record, measured_fields(saved.task, evaluations, splits[-1])["metrics"]


def _measured_splits(record: RunRecord) -> list[Split]:
    splits: list[Split] = ["validation", "test"]
    return [split for split in splits if split in record.metrics]


def _measure_again(record: RunRecord, store: Path, request: EvaluationRequest) -> Metrics:
    """A measurement keeps no weights: its whole protocol, training included, is run again."""
    device = _device_for(record, request)
    configuration = recorded_configuration(record, store, device, request.settings, request.trust)
    splits = _measured_splits(record)
    if not splits:
        raise UserError(
            f"{record.run_id} ended as '{record.outcome}' and has no numbers to compare with"
        )
    set_numerics(configuration.training.threads)
    with progress() as report:
        run = MeasuringRun(identify(configuration), store, report)
        evaluations: dict[str, Evaluation] = {split: run.measure(split) for split in splits}
    metrics: Metrics = measured_fields(run.task, evaluations, splits[-1])["metrics"]
    return metrics


def evaluate_by(task: str, request: EvaluationRequest) -> RunRecord:
    """Measure the model of a run by another task: the record of that task, which is written.

    Raises:
        UserError: the task measures no such run, or the run was made with other code.
    """
    record, store = find_record(request.run, request.store)
    recorded, configuration = _by_other_task(task, record, store, request)
    with progress() as report:
        _refuse_other_code(record, recorded)
        measured = get_or_run(configuration, report=report)
    print_record(measured, store)
    return measured


def _by_other_task(
    task: str, record: RunRecord, store: Path, request: EvaluationRequest
) -> tuple[Configuration, Configuration]:
    """The configuration of a record, and that of measuring its model by another task."""
    device, settings = _device_for(record, request), request.settings
    places_of_record = (card_of("tasks", record.task) or {}).get("locations", ())
    places_of_task = (card_of("tasks", task) or {}).get("locations", ())
    places = {key: value for key, value in settings.items() if key in places_of_record}
    recorded = recorded_configuration(record, store, device, places, request.trust)
    # Places that the record's task alone has mean nothing to the other one.
    left_out = set(places_of_record) - set(places_of_task)
    by_class = known_model(record) is None  # of a package that is trusted
    model = {TARGET: recorded.models["_target_"]} if by_class else {"models": record.model}
    composed = Configuration.of(
        {
            "tasks": task,
            **model,
            "preset": record.preset,
            "seed": record.seed,
            "store": str(store),
            "device": device,
            **{f"tasks.{key}": settings[key] for key in settings if key not in left_out},
        }
    )
    of_training = recorded.of_training()
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
    today = identify(recorded)
    if record.identity in today.bitwise:
        return
    if record.identity in today.all:
        raise UserError(
            f"{record.run_id} was made by code that is equal to this checkout's up to rounding, so "
            "its weights do not stand for a run of today: train it again",
            RUN_FAILED,
        )
    changed = []
    for name, description in IDENTIFYING.items():
        if getattr(today.provenance, name) != getattr(record.provenance, name):
            changed.append(description)
    raise UserError(
        f"{record.run_id} was made with other {' and other '.join(changed or ['settings'])} than "
        "are here now, so its weights do not stand for a run of today: train it again",
        RUN_FAILED,
    )
