"""Whether a task of somebody else measures a model, and the same each time, asked of a small model.

An evaluation that draws, or reads the clock, gives one run many results. One that puts a model into
training mode, changes its weights or gives it what it cannot read ends the runs of all models with
words about the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bench.examination.contract.faults import (
    fault_of_evaluation,
    fault_of_metrics,
    fault_of_numbers,
    fault_of_result,
)
from bench.examination.contract.small_model import MANY_RESULTS, SOURCES, SmallModel, stopped_within
from bench.training.mistakes import data_in_sentences
from bench.training.seeding import kept_random_state, seed_generators
from bench.training.unfit import UnfitModel
from core.errors import UserError, is_out_of_memory
from tasks.generated import GeneratedTask
from tasks.interface import Evaluation, Split, Task

SEED = 1
ROUNDINGS = 8  # a sum of n numbers in another order: so often the root of n roundings
SPLITS: tuple[Split, ...] = ("validation", "test")


class Measure(Protocol):
    """A protocol of a task, as the engine calls it."""

    def __call__(self, model: nn.Module, split: Split) -> Evaluation: ...


def refuse_unfit_protocol(task: Task, target: str, device: torch.device, measure: Measure) -> None:
    """Measure a small model twice on each split by a task.

    Args:
        target: the class of the task, for the sentence.
        measure: in eval mode, without gradients and with generators that are seeded.

    Raises:
        UserError: what keeps any model from being measured.
    """
    with kept_random_state(device):
        seed_generators(SEED, device)
        model = SmallModel(task.specification()).to(device)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    refuse = _refusing(target)
    with data_in_sentences(target), _metrics_looked_at(task, refuse):
        for split in SPLITS:
            try:
                first = measure(model, split)
                refuse(model.fault or _fault_of_treatment(model, before))
                refuse(fault_of_evaluation(first, split, task.headline.name))
                second = measure(model, split)
                refuse(fault_of_evaluation(second, split, task.headline.name))
                refuse(_difference("evaluate", "outputs", first, second, split, model.answered))
                if split == "validation":
                    _refuse_other_losses(task, model, device, refuse)
            except UserError:
                raise
            except Exception as error:
                if model.fault:
                    raise UserError(f"tasks ({target}): {model.fault}") from error
                within = isinstance(error, UnfitModel) or stopped_within(error, model)
                if within or is_out_of_memory(error):
                    return  # it asks for what only some models have
                raise


def _fault_of_treatment(model: SmallModel, before: Mapping[str, Tensor]) -> str | None:
    """What a task did to a model as it measured it, in a sentence; None if nothing.

    Args:
        before: its weights until then.
    """
    if model.asked_in_training:
        return (
            "its evaluation puts the model into training mode, in which dropout draws and averages "
            "are moved, so that it measures another model: leave it in the mode that it is in, and "
            "take model.train() out"
        )
    if any(not torch.equal(value, before[name]) for name, value in model.state_dict().items()):
        return (
            "its evaluation changes the weights of the model that it measures, so that what comes "
            "after is measured with others: change those of a copy, copy.deepcopy(model), or put "
            "them back"
        )
    return None


def refuse_unfit_predictor(
    target: str, label: str, split: str, first: object, second: object
) -> None:
    """Look at what a predictor without training gave on a split, twice.

    Raises:
        UserError: no record can hold it, or the second was another.
    """
    giver, refuse = f"the predictor {label}", _refusing(target)
    for measured in (first, second):
        refuse(fault_of_result(giver, measured, split))
    assert isinstance(first, Evaluation)
    assert isinstance(second, Evaluation)
    refuse(fault_of_numbers(giver, first, split))
    refuse(_difference(giver, "sequences", first, second, split, 1))


def _refusing(target: str) -> Callable[[str | None], None]:
    def refuse(fault: str | None) -> None:
        if fault:
            raise UserError(f"tasks ({target}): {fault}")

    return refuse


@contextmanager
def _metrics_looked_at(task: Task, refuse: Callable[[str | None], None]) -> Iterator[None]:
    """In this block, what ``metrics`` of a generated task gives is looked at before it is used."""
    if not isinstance(task, GeneratedTask):
        yield
        return
    original = task.metrics

    def metrics(answers: Tensor, targets: Tensor, asked: Tensor) -> dict[str, Tensor]:
        of_each = original(answers, targets, asked)
        refuse(fault_of_metrics(of_each))
        return of_each

    attributes: dict[str, Any] = task.__dict__
    before = dict(attributes)
    attributes["metrics"] = metrics
    try:
        yield
    finally:
        attributes.pop("metrics", None)
        if "metrics" in before:
            attributes["metrics"] = before["metrics"]


def _refuse_other_losses(
    task: Task, model: nn.Module, device: torch.device, refuse: Callable[[str], None]
) -> None:
    """Ask for the loss that chooses a checkpoint twice, where a task has one of its own."""
    if type(task).validation_loss is Task.validation_loss:
        return
    losses = []
    for _ in range(2):
        with kept_random_state(device), torch.no_grad():
            seed_generators(SEED, device)
            losses.append(task.validation_loss(model.eval(), device))
    if not all(isinstance(loss, int | float) for loss in losses):
        refuse(f"validation_loss gave a {type(losses[0]).__name__}: give a plain number, float(…)")
    if not math.isclose(*losses, rel_tol=1e-4) and all(map(math.isfinite, losses)):
        refuse(
            f"validation_loss was {losses[0]:.6g} and then {losses[1]:.6g} for one model, "
            f"{MANY_RESULTS}: measure by its outputs and the targets alone, and {SOURCES}"
        )


def _difference(
    giver: str, of: str, first: Evaluation, second: Evaluation, split: str, numbers: int
) -> str | None:
    """What a second evaluation gave otherwise, in a sentence; None if nothing.

    Args:
        giver: who measured; of: what was the same both times.
        numbers: that went into it, whose order a GPU may change.
    """
    room = ROUNDINGS * math.sqrt(numbers) * torch.finfo(torch.float32).eps
    for part in ("metrics", "per_sequence", "curves", "arrays"):
        difference = _other(getattr(first, part), getattr(second, part), part, room)
        if difference is not None:
            return (
                f"{giver} gave {difference} on the {split} split for the same {of}, "
                f"{MANY_RESULTS}: compute it from these and the targets alone, and {SOURCES}"
            )
    return None


def _other(first: object, second: object, place: str, room: float) -> str | None:
    """The first difference of lists and dictionaries: "metrics.accuracy 0.5 and then 0.6"."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if first.keys() != second.keys():
            return f"other names among its {place} the second time"
        pairs = ((first[key], second[key], f"{place}.{key}") for key in first)
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            return f"{len(first)} and then {len(second)} numbers as {place}"
        pairs = ((a, b, place) for a, b in zip(first, second, strict=True))
    elif isinstance(first, int | float) and isinstance(second, int | float):
        # Shares and losses are of the size of 1, and differences of them may be nearly 0.
        near = math.isclose(first, second, rel_tol=room, abs_tol=room)
        same = near or (math.isnan(first) and math.isnan(second))
        return None if same else f"{place} {first:.6g} and then {second:.6g}"
    else:
        return None if first == second else f"{place} that differ"
    return next((other for pair in pairs if (other := _other(*pair, room)) is not None), None)
