"""What a training by the engine leaves in a record, and nothing else may have."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from bench.records.numbers import kind_of
from bench.records.registry import model_group
from bench.records.schema import RunRecord, Study
from leaderboards.checks.naming import SHA256
from settings.settings import TrainingSettings


def is_trained(record: RunRecord) -> bool:
    """Whether the engine trained the record's model: no measurement, and no predictor."""
    return record.role != "baseline" and model_group(record.task) == "models"


def _untrained(record: RunRecord) -> str | None:
    """A predictor and a measurement have nothing that comes from a training by the engine."""
    if is_trained(record):
        return None
    cost = record.cost
    if record.weights_sha256 is not None or record.restarts or record.study:
        return "it has weights_sha256, restarts or a study, and nothing was trained for it"
    if cost.training_steps or cost.training_tokens or cost.training_flops:
        return "its cost has training_steps, tokens or flops, and nothing was trained for it"
    sizes = record.metrics.get("validation", {})
    for name in ("parameters", "state_bytes") if record.role != "baseline" else ():
        if (getattr(cost, name) or 0) != int(sizes.get(name, 0)):
            return f"its cost.{name} is not its validation metric {name}"
    return None


def _trained(record: RunRecord) -> str | None:
    """What a training by the engine leaves is there, and as long as its settings say."""
    if not is_trained(record):
        return None
    given, cost = record.config["training"], record.cost
    try:
        settings = TrainingSettings.model_validate({**given, "checkpoint_every": 1})
    except ValidationError as error:
        from settings.config import first_problem  # Hydra, which no other check needs

        return f"its config.training cannot be: {first_problem(error)}"
    usual = settings.model_dump(mode="json").items()
    if any(json.dumps(v) != json.dumps(given[k]) for k, v in usual if k in given):
        return "its config.training holds numbers that are not written as settings are"
    if record.provenance.precision != settings.precision:
        return f"its provenance.precision is not {settings.precision}, as its config has it"
    if record.weights_sha256 is not None and not SHA256.fullmatch(record.weights_sha256):
        return "its weights_sha256 is no SHA-256"
    if record.outcome != "ok":
        return None
    if record.weights_sha256 is None:
        return "its weights_sha256 is missing"
    for name in ("parameters", "training_tokens", "training_steps", "training_flops"):
        if (getattr(cost, name) or 0) < 1:
            return f"its cost.{name} is missing"
    if cost.wall_seconds <= 0:
        return "its cost.wall_seconds is missing"
    return _steps(record, settings)


def _steps(record: RunRecord, settings: TrainingSettings) -> str | None:
    """As many starts and steps as the settings say; a start that diverged ended before."""
    starts, steps = settings.restarts, record.cost.training_steps
    losses = [restart.training_loss for restart in record.restarts]
    kept = [restart.training_loss for restart in record.restarts if restart.kept]
    if len(losses) != (starts if starts > 1 else 0) or len(kept) != (starts > 1):
        return f"its restarts are not {starts}, of which one was kept"
    if kept and kept[0] != min((loss for loss in losses if loss is not None), default=None):
        return "its restarts have a lower training_loss than the one that was kept"
    curve = record.curves.get("training_loss")
    if curve is None or not curve.x:
        return "its curve 'training_loss' is missing"
    for name in ("training_loss", "validation_loss"):
        at = record.curves[name].x if name in record.curves else []
        if any(later <= step for step, later in pairwise([-1, *at])):
            return f"its curve {name!a} goes back in time, or begins before step 0"
    if settings.steps is None:
        return None
    if curve.x[-1] != settings.steps:
        return f"its curve 'training_loss' does not end at step {settings.steps}"
    every = settings.validate_every
    validated = record.curves["validation_loss"].x if "validation_loss" in record.curves else []
    if every and validated != [*range(every, settings.steps, every), settings.steps]:
        return f"its curve 'validation_loss' is not of every {every} steps, as its config has it"
    if steps > settings.steps * starts or (None not in losses and steps != settings.steps * starts):
        return f"its cost.training_steps is {steps}, not as its config has it"
    return None


def _study(record: RunRecord) -> str | None:
    """The setting of a final run is the best one of its study, and with the study's seed it has the
    number that it was chosen by."""
    study = record.study
    if (record.role == "final") != (study is not None):
        return f"its role is {record.role}, and it has {'a' if study else 'no'} study"
    if study is None:
        return None
    if why := _search(record, study):
        return f"its study {why}"
    sign = -1 if record.headline.direction == "maximise" else 1
    tried = [(sign * t.value, t.parameters) for t in study.trials if t.value is not None]
    if not tried:
        return None if record.outcome != "ok" else "its study has no trial with a value"
    best = min(value for value, _ in tried)
    chosen = any(v == best and _has(record.config, setting) for v, setting in tried)
    if not chosen or not study.selected_by.startswith(f"{record.headline.name} "):
        return "its config is not the best one of its study's trials"
    if record.seed == 0 and record.run_id not in {trial.run_id for trial in study.trials}:
        return "it has the seed of its study's trials, and is none of them"
    found = record.metrics.get("validation", {}).get(record.headline.name)
    if (
        record.seed == 0
        and found is not None
        and not math.isclose(found, sign * best, rel_tol=1e-3)
    ):
        return f"its metrics.validation.{record.headline.name} is not that of its study"
    return None


def _search(record: RunRecord, study: Study) -> str | None:
    """What is wrong with a study by itself: its name, and each of its trials."""
    if not re.fullmatch(f"{record.task}-{record.model}-{record.preset}-[0-9a-f]{{12}}", study.name):
        return f"is called {study.name!a:.80}, and not by task, model and preset"
    space, kind = study.search_space, kind_of(record.task, record.headline.name)
    numbers = [trial.number for trial in study.trials]
    if len(numbers) != len(set(numbers)):
        return "has two trials of one number"
    for trial in study.trials:
        found = trial.parameters
        if set(found) != set(space) or any(found[key] not in space[key] for key in space):
            return f"has trial {trial.number} outside its search_space"
        if trial.value is None:
            continue
        if trial.outcome != "ok" or not kind.low <= trial.value <= kind.high:
            value = f"the value {trial.value:g}, {trial.outcome}"
            return f"has trial {trial.number} with {value}, and no {kind.name} of a run that is ok"
    return None


def _has(config: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
    """Whether a configuration has these values of "section.key"."""
    sections = {key: key.partition(".") for key in parameters}
    return all(
        config.get(section, {}).get(name) == parameters[key]
        for key, (section, _, name) in sections.items()
    )


RULES = (_untrained, _trained, _study)
