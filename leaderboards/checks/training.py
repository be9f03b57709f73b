"""What a training by the engine leaves in a record, and nothing else may have."""

from __future__ import annotations

import json
import math
from itertools import pairwise

from pydantic import ValidationError

from bench.config.problems import first_problem
from bench.config.questions import ALWAYS
from bench.config.settings import TrainingSettings
from bench.records.registry import known_model, model_group
from bench.records.schema import RunRecord
from leaderboards.checks.derived_metrics import EXACT
from leaderboards.checks.naming import SHA256

# How far two losses of one model on the same data lie apart, in other batches or on an accelerator,
# by the precision of the training: some roundings of it, each magnified by a hundred.
SAME_LOSS = {"float32": 1e-4, "bfloat16": 1e-2}


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
    stated, cost = record.config["training"], record.cost
    try:
        settings = TrainingSettings.model_validate({**stated, "checkpoint_every": 1})
    except ValidationError as error:
        return f"its config.training cannot be: {first_problem(error)}"
    usual = {k: v for k, v in settings.model_dump(mode="json").items() if k in stated}
    if json.dumps(usual) != json.dumps({key: stated[key] for key in usual}):
        return "its config.training holds numbers that are not written as settings are"
    if record.provenance.precision != settings.precision:
        return f"its provenance.precision is not {settings.precision}, as its config has it"
    if record.weights_sha256 is not None and not SHA256.fullmatch(record.weights_sha256):
        return "its weights_sha256 is no SHA-256"
    if record.outcome != "ok":
        return None
    if record.weights_sha256 is None:
        return "its weights_sha256 is missing"
    for name in ("parameters", "training_tokens", "training_steps"):
        if (getattr(cost, name) or 0) < 1:
            return f"its cost.{name} is missing"
    # Every model of this project multiplies matrices; one of somebody else may look all up.
    if cost.training_flops is None or (cost.training_flops < 1 and known_model(record)):
        return "its cost.training_flops is missing"
    if not record.metrics.get("validation"):
        return "its metrics.validation are missing"
    return _steps(record, settings)


def _steps(record: RunRecord, settings: TrainingSettings) -> str | None:
    """As many starts and steps as the settings say; a start that diverged ended before."""
    starts, steps = settings.restarts, record.cost.training_steps
    losses = [restart.training_loss for restart in record.restarts]
    kept_losses = [restart.training_loss for restart in record.restarts if restart.kept]
    if len(losses) != (starts if starts > 1 else 0) or len(kept_losses) != (starts > 1):
        return f"its restarts are not {starts}, of which one was kept"
    if kept_losses and kept_losses[0] != min(
        (loss for loss in losses if loss is not None), default=None
    ):
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
    interval = settings.validate_every
    validated = record.curves["validation_loss"].x if "validation_loss" in record.curves else []
    if interval and validated != [*range(interval, settings.steps, interval), settings.steps]:
        return f"its curve 'validation_loss' is not of every {interval} steps, as its config has it"
    if validated:
        seen, loss = (
            record.curves["validation_loss"].y,
            record.metrics.get("validation", {}).get("loss"),
        )
        kept_at = (seen[-1], min(seen))  # the weights of the last step, or of the best one
        if loss is not None and not any(
            math.isclose(loss, y, rel_tol=SAME_LOSS[settings.precision], abs_tol=EXACT)
            for y in kept_at
        ):
            return f"its metrics.validation.loss is {loss:g}, and its curve has {seen[-1]:g}"
    if steps > settings.steps * starts or (None not in losses and steps != settings.steps * starts):
        return f"its cost.training_steps is {steps}, not as its config has it"
    return None


def _examined(record: RunRecord) -> str | None:
    """What an examination by the engine leaves: a run whose model fails one has no result. Records
    from before it have none, and say nothing of it."""
    examination = record.examination
    if examination is None:
        return None
    if not is_trained(record):
        return "it has an examination, and no model was trained for it"
    for when in ("before", "trained"):
        passed = getattr(examination, when)
        if len({*passed}) < len(passed):
            return f"its examination.{when} names one twice"
        missing = [name for name in ALWAYS if name not in passed]
        if missing and (passed or when == "trained"):
            return f"its examination.{when} lacks '{missing[0]}', which every model passes or fails"
    return None


RULES = (_untrained, _trained, _examined)
