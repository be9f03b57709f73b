"""What a task of somebody else gives, and what keeps it from being trained on or recorded.

Each function looks at one thing that the contract of ``tasks/interface.py`` asks for, and says in a
sentence what is wrong with it; None if nothing is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from bench.records.schema import Curve
from models.specification import SequenceSpecification
from tasks.interface import IGNORED, Batch, Evaluation

# Part of an evaluation -> what a record holds of it, and how a sentence calls that.
PARTS: dict[str, tuple[TypeAdapter[object], str]] = {
    "metrics": (TypeAdapter(dict[str, float]), "plain numbers by name"),
    "per_sequence": (TypeAdapter(dict[str, list[float]]), "a list of plain numbers for each name"),
    "curves": (
        TypeAdapter(dict[str, Curve]),
        'two lists of plain numbers for each name, {"x": […], "y": […]}',
    ),
    "arrays": (TypeAdapter(dict[str, object]), "plain numbers and nested lists by name"),
}


def fault_of_batch(batch: object, specification: SequenceSpecification) -> str | None:
    """What keeps every model from being trained on a batch, in a sentence; None if nothing does."""
    if not isinstance(batch, Batch):
        kind = type(batch).__name__
        return f"training_batch gave a {kind}: return a Batch of tasks.interface"
    inputs, targets = batch.inputs, batch.targets
    if not isinstance(inputs, Tensor) or not isinstance(targets, Tensor):
        kinds = f"{type(inputs).__name__} and {type(targets).__name__}"
        return f"a training batch has inputs and targets of types {kinds}: give tensors"
    if not isinstance(batch.tokens, int):
        kind = type(batch.tokens).__name__
        return f"a training batch has tokens of type {kind}: give a whole number, int(…)"
    if fault := fault_of_inputs("a training batch", inputs, specification):
        return fault
    if targets.shape[:2] != inputs.shape[:2]:
        return (
            f"a training batch has targets of shape {tuple(targets.shape)} beside inputs of shape "
            f"{tuple(inputs.shape)}: give one for each position, (batch, time), with {IGNORED} "
            "where nothing is asked, or real ones, (batch, time, channels)"
        )
    return None


def fault_of_inputs(of: str, inputs: Tensor, specification: SequenceSpecification) -> str | None:
    """What keeps every model from being asked for a batch, in a sentence; None if nothing does.

    Args:
        of: what has them, as a sentence names it: "a training batch".
        inputs: (batch, time) or (batch, time, channels).
    """
    shape = f"inputs of shape {tuple(inputs.shape)} and type {inputs.dtype}"
    longest = specification.maximum_length
    if specification.vocabulary is not None:
        if inputs.dtype != torch.int64 or inputs.dim() != 2:
            return f"{of} has {shape}: a task of tokens gives int64 (batch, time)"
        least, largest = int(inputs.min()), int(inputs.max())
        if least < 0 or largest >= specification.vocabulary:
            wrong = least if least < 0 else largest
            return (
                f"{of} has the token {wrong}: the specification says vocabulary="
                f"{specification.vocabulary}, so tokens are 0 to {specification.vocabulary - 1}"
            )
    elif (
        inputs.dim() != 3
        or inputs.shape[2] != specification.input_channels
        or inputs.dtype != torch.float32
    ):
        return (
            f"{of} has {shape}: the specification says input_channels="
            f"{specification.input_channels}, so give float32 (batch, time, "
            f"{specification.input_channels})"
        )
    elif not inputs.isfinite().all():
        value = float(inputs[~inputs.isfinite()][0])
        return f"{of} has {value} among its inputs: give finite numbers, such as 0 where none is"
    if inputs.shape[1] > longest:
        return (
            f"{of} has {shape}: the specification says maximum_length={longest}, so "
            "sequences have no more positions than that"
        )
    return None


def fault_of_result(giver: str, measured: object, split: str) -> str | None:
    """What keeps the result of a protocol on a split from being read at all; None if nothing does.

    Args:
        giver: who measured, as a sentence names it: "evaluate", "the predictor oracle".
    """
    if not isinstance(measured, Evaluation):
        kind = "None" if measured is None else f"a {type(measured).__name__}"
        return f"{giver} gave {kind} for the {split} split: return an Evaluation of tasks.interface"
    for part in ("metrics", "per_sequence", "curves", "arrays"):
        content = getattr(measured, part)
        if not isinstance(content, Mapping):
            return (
                f"{giver} gave an Evaluation with {part}={content!r:.40} for the {split} split: "
                "give a dictionary by name"
            )
    return None


def fault_of_evaluation(measured: object, split: str, headline: str) -> str | None:
    """What keeps an evaluation from being a record, in a sentence; None if nothing does.

    Args:
        measured: what ``Task.evaluate`` gave.
        headline: the metric that the task is ranked by.
    """
    if (fault := fault_of_result("evaluate", measured, split)) is not None:
        return fault
    assert isinstance(measured, Evaluation)
    for name, value in measured.metrics.items():
        if not isinstance(value, int | float):
            kind = type(value).__name__
            return f"evaluate gave the metric {name} as a {kind}: give a plain number, float(…)"
    for name in dict.fromkeys(["loss", headline]):
        if name not in measured.metrics:
            names = ", ".join(sorted(measured.metrics)) or "none"
            return (
                f"evaluate gave no metric {name} (metrics: {names}), and every evaluation has loss "
                f"and the headline of its task, {headline}: give both, and targets that count"
            )
    return fault_of_numbers("evaluate", measured, split)


def fault_of_numbers(giver: str, measured: Evaluation, split: str) -> str | None:
    """What no record can hold of an evaluation, in a sentence; None if it can hold all.

    A metric that is no number is left out of a record, and a headline that is none fails its run,
    so that neither is a fault here.

    Args:
        giver: as :func:`fault_of_result` has it.
    """
    for part, (holds, words) in PARTS.items():
        content = getattr(measured, part)
        try:
            if part != "metrics":
                json.dumps(content, allow_nan=False)
            holds.validate_python(content)
        except (TypeError, ValueError) as error:  # ValidationError is one
            if (place := _not_finite(content, part)) is not None:
                return (
                    f"{giver} gave {place} for the {split} split, which no record can hold: give a "
                    "finite number whatever the answers are, such as 0, or leave it out"
                )
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            return (
                f"{giver} gave {part}={content!r:.40} for the {split} split, which no record can "
                f"hold ({reason}): give {words}, as float(…) and Tensor.tolist() have them"
            )
    return None


def _not_finite(content: object, place: str) -> str | None:
    """The first number in lists and dictionaries that is none: "nan in per_sequence.ratio"."""
    if isinstance(content, float):
        return None if math.isfinite(content) else f"{content} in {place}"
    parts: list[tuple[object, str]] = []
    if isinstance(content, Mapping):
        parts = [(part, f"{place}.{name}") for name, part in content.items()]
    elif isinstance(content, list | tuple):
        parts = [(part, place) for part in content]
    return next((first for each in parts if (first := _not_finite(*each)) is not None), None)


def fault_of_metrics(of_each: object) -> str | None:
    """What keeps the result of ``GeneratedTask.metrics`` from being a mean over sequences; its
    shapes are looked at by that class itself."""
    if not isinstance(of_each, Mapping):
        kind = type(of_each).__name__
        return f"metrics gave a {kind}: return a dictionary, name -> tensor (batch,)"
    for name, values in of_each.items():
        if not isinstance(name, str) or not isinstance(values, Tensor) or values.is_complex():
            kind = str(values.dtype) if isinstance(values, Tensor) else type(values).__name__
            return (
                f"metrics gave {name} of type {kind}: give a tensor with one real number for each "
                "sequence, (batch,), under a name"
            )
    return None


def fault_of_targets(targets: Tensor, specification: SequenceSpecification) -> str | None:
    """What a loss that stops may have stopped at: targets as no usual loss takes them."""
    if targets.is_floating_point():
        if targets.dtype != torch.float32:
            return f"a training batch has targets of type {targets.dtype}: give float32"
        return None
    if targets.dtype != torch.int64:
        return (
            f"a training batch has targets of type {targets.dtype}: give int64, or float32 where "
            "real numbers are asked for"
        )
    size = specification.output_size
    wrong = targets[(targets != IGNORED) & ((targets < 0) | (targets >= size))]
    if len(wrong):
        return (
            f"a training batch has the target {int(wrong[0])}: by the specification a model gives "
            f"{size} outputs, so targets are 0 to {size - 1}, or {IGNORED} where nothing is asked"
        )
    return None
