"""What to do about a class that cannot be built, in words of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from torch import nn

from bench.config.external import how_models_are_built, load_class
from bench.records.code import is_own
from bench.training.numerics import in_eval_mode
from core.arguments import as_plain, described
from core.errors import UserError, first_line, is_out_of_memory, nearest, place_of
from tasks.interface import Batch, Evaluation, Split, Task

SPLITS = ("validation", "test")
TASKS_OF_OURS = "tasks/"  # how places in this project's tasks begin, whose refusals are whole
CALLER = "building.py"  # beside this file: where classes are called


def check_calls(task: Task) -> None:
    """Let the methods that a loop of one's own calls refuse wrong arguments in a sentence, and
    measure without gradients and in eval mode. The task is changed, and its class is not."""
    draw = task.training_batch
    measure, validate = in_eval_mode(task.evaluate), in_eval_mode(task.validation_loss)

    @wraps(draw)
    def training_batch(seed: int, step: int, size: int) -> Batch:
        numbers = []
        for name, value, least in (("seed", seed, 0), ("step", step, 0), ("size", size, 1)):
            number = as_plain(value)
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise UserError(
                    f"{name} is a whole number from {least} on, and not {described(value)}"
                )
            numbers.append(number)
        return draw(*numbers)

    @wraps(measure)
    def evaluate(model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        if split not in SPLITS:
            raise UserError(f"there is no split {split!r}: {nearest(str(split), SPLITS)}")
        _refuse_device(model, device)
        measured: Evaluation = measure(model, split, device)
        return measured

    @wraps(validate)
    def validation_loss(model: nn.Module, device: torch.device | str) -> float:
        _refuse_device(model, device)
        loss: float = validate(model, device)
        return loss

    for method in (training_batch, evaluate, validation_loss):
        object.__setattr__(task, method.__name__, method)


def _refuse_device(model: nn.Module, device: torch.device | str) -> None:
    """Refuse what is no device here, and what is no model on it."""
    if not isinstance(model, nn.Module):
        raise UserError(f"a model is a torch.nn.Module that was built, and not {described(model)}")
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError):
        raise UserError(f"device is 'cpu' or 'cuda', and not {described(device)}") from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device={device}, but PyTorch finds no GPU here: use 'cpu'")
    own = next((parameter.device for parameter in model.parameters()), place)
    if own.type != place.type:
        raise UserError(f"the model is on {own}, and device is {place}: model.to({str(place)!r})")


def way_on(error: TypeError, group: str, node: Mapping[str, Any], has_tokens: bool) -> str:
    """What to do about a task or a model that cannot be built: the call does not fit its class, the
    class is not complete, or it stops inside.

    Args:
        group: "tasks" or "models".
        node: its settings, with its class as ``_target_``.
        has_tokens: whether the task of a model has tokens, and no real vectors.
    """
    if "abstract class" in str(error):
        return f"{error}: add to that class what is missing in it"
    place = place_of(error)
    does_not_fit = Path(place.rpartition(",")[0]).name == CALLER
    construction = ""
    if group == "models":
        construction = f"; {how_models_are_built(load_class(node['_target_']))}"
    if "multiple values" in str(error) and group == "models":
        return f"{error}{construction}"
    known_by = "YAML file" if is_own(node["_target_"]) else "constructor"
    advice = f"give each setting of {group} the name and the kind of value that its {known_by} has"
    if does_not_fit:
        if unknown := re.search(r"unexpected keyword argument '(\w+)'", str(error)):
            taken = {*signature(load_class(node["_target_"])).parameters} - {"specification"}
            advice = f"its constructor does not take it ({nearest(unknown[1], taken)})"
            return f"{error}: {advice}; mend it where it is given, in the YAML file or by a word"
        return f"{error}{construction or f'; {advice}'}"
    if not has_tokens and "NoneType" in str(error) and not is_own(node["_target_"]):
        return (
            f"{error} in {place}: the task has real vectors, so that its specification has "
            "input_channels and output_channels, and vocabulary=None; a class for tokens alone "
            'says sequences = "tokens" and takes part in tasks of tokens'
        )
    misfit = _misfit(group, node)
    return f"{misfit}; {advice}" if misfit else f"{error} in {place}: {advice}, or mend it there"


@contextmanager
def data_in_sentences(target: str) -> Iterator[None]:
    """In this block a task of somebody else makes data: what stops it is named with its place.

    Args:
        target: its class.

    Raises:
        UserError: it stops, and neither for want of memory nor for a file.
    """
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        if is_own(target) or is_out_of_memory(error):
            raise
        place = place_of(error)
        if way := _way_on_with_sizes(str(error)):
            raise UserError(f"tasks ({target}): {error}; {way}") from None
        if isinstance(error, ValueError) and (not place or place.startswith(TASKS_OF_OURS)):
            raise UserError(f"tasks ({target}): {error}") from error
        raise UserError(
            f"tasks ({target}): {place or 'its code'} stops with {type(error).__name__} "
            f"({first_line(error)}): mend it there"
        ) from error


def _way_on_with_sizes(refusal: str) -> str:
    """What to do about sizes that are those of no kind of ``tasks.generated``; "" where that is not
    what was refused."""
    if "a task has a vocabulary, or channels and" not in refusal:
        return ""
    if "has vocabulary and classes:" in refusal:
        return (
            "with tokens in, classes are tokens too, so leave classes out and let vocabulary be "
            "the larger of both numbers"
        )
    return "docs/add_a_task.md has a table of what each is for"


def _misfit(group: str, node: Mapping[str, Any]) -> str | None:
    """Which setting is of another kind than its class says; None where all are of theirs, or where
    it does not say."""
    try:
        parameters = signature(load_class(node["_target_"]), eval_str=True).parameters
    except NameError:  # it names what is there for a type checker alone
        return None
    for key, value in node.items():
        if key not in parameters or parameters[key].annotation is Parameter.empty:
            continue
        with suppress(PydanticSchemaGenerationError):  # a class that pydantic does not know
            try:
                TypeAdapter(parameters[key].annotation).validate_python(value)
            except ValidationError as error:
                first = error.errors()[0]
                wanted = first["msg"].removeprefix("Input ")
                return f"{group}.{key}={value}: {first['input']!r} {wanted}"
    return None
