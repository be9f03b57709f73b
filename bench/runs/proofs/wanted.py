"""Which runs are compared to prove that older code gives the same bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from hydra.utils import get_class

from bench.config.files import group_file, models_of
from bench.config.groups import choices
from bench.records.code import code_hash
from bench.records.equivalence import Code, Config, code_status, current_name
from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED
from core.errors import UserError

BASELINES = "predictors without training"


@dataclass(frozen=True)
class RunToCompare:
    """A run of which both sides are to make a short one.

    Attributes:
        model: may be ``BASELINES``.
        code: that the commit must hold; None: whatever it holds.
        optional: whether the older code may lack it.
    """

    model: str
    preset: str
    config: Config
    code: Code | None = None
    optional: bool = False


def of_records(task: str | None, preset: str | None) -> dict[tuple[str, str], list[RunToCompare]]:
    """(commit, task) -> stale committed records."""
    runs_by_commit: dict[tuple[str, str], list[RunToCompare]] = defaultdict(list)
    for record in read_records([COMMITTED]):
        earlier = code_status(record.config, record.provenance) == "stale"
        if earlier and task in (None, record.task) and preset in (None, record.preset):
            code = Code.of(record.config, record.provenance)
            key = (record.provenance.commit or "an unknown commit", record.task)
            runs_by_commit[key].append(_run_of(record, record.config, code))
    return {key: [*runs, *_other_choices(key[1], runs)] for key, runs in runs_by_commit.items()}


def of_task(task: str, models: Sequence[str] | None, preset: str | None) -> list[RunToCompare]:
    """The settings of a task's committed records, or its presets where there are none."""
    wanted_runs = []
    for record in read_records([COMMITTED / task]):
        today = current_name(record.config, record.provenance)
        wanted = _run_of(record, today.config if today else record.config, None)
        chosen = models is None or wanted.model in (*models, BASELINES)
        if chosen and preset in (None, record.preset):
            wanted_runs.append(wanted)
    models_with_records = {run.model for run in wanted_runs}
    others = models or ([] if models_with_records - {BASELINES} else models_to_compare(task))
    lacking = [model for model in (*others, BASELINES) if model not in models_with_records]
    wanted_runs += [RunToCompare(model, preset or "smoke", {}) for model in lacking]
    return [*wanted_runs, *_other_choices(task, wanted_runs)]


def to_make(task: str, runs: Iterable[RunToCompare], older: Path) -> list[RunToCompare]:
    """The runs but those of predictors, if their code, which is the task's, is the same in the
    older checkout."""
    target = str(group_file("tasks", task)["_target_"])
    try:
        older_target = str(group_file("tasks", task, older)["_target_"])
    except UserError:  # it had another name there
        return [*runs]
    is_same = target == older_target and code_hash(target) == code_hash(target, older)
    return [run for run in runs if run.model != BASELINES or not is_same]


def models_to_compare(task: str) -> list[str]:
    """Those that the task lists, or all that it takes."""
    listed: list[str] = group_file("tasks", task).get("sweep", {}).get("models")
    return listed or choices(models_of(task))


def _other_choices(task: str, runs: Iterable[RunToCompare]) -> Iterator[RunToCompare]:
    """One run of each model again with every choice of its constructor: a constant that only one of
    them reads must not change unseen."""
    if models_of(task) != "models":  # a measurement is made with the settings of its preset
        return
    for model, run in {run.model: run for run in runs if run.model in choices("models")}.items():
        model_settings = run.config.get("models", {})
        for key, values in _choices(group_file("models", model)).items():
            for value in values:
                changed = {**run.config, "models": {**model_settings, key: value}}
                yield RunToCompare(model, run.preset, changed, run.code, optional=True)


def _choices(file: dict[str, Any]) -> dict[str, Sequence[Any]]:
    """Words and truth values that a model's settings may be."""
    settings = signature(get_class(file["_target_"]), eval_str=True).parameters
    choices_by_key: dict[str, Sequence[Any]] = {}
    for key, parameter in settings.items():
        if key in file and parameter.annotation is bool:
            choices_by_key[key] = (False, True)
        elif key in file and get_origin(parameter.annotation) is Literal:
            choices_by_key[key] = get_args(parameter.annotation)
    return choices_by_key


def _run_of(record: RunRecord, config: Config, code: Code | None) -> RunToCompare:
    return RunToCompare(model_of(record), record.preset, config, code)


def model_of(record: RunRecord) -> str:
    return BASELINES if record.role == "baseline" else record.model
