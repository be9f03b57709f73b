"""Whether the loss of a task of somebody else can train any model, asked of a small model of ours.

A loss that is no scalar, has no gradient or stops at a target is a fault of the task, though it is
a model's run that ends with it. And a loss that draws, or reads the clock, trains other weights
each time under one identity.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bench.examination.contract.faults import fault_of_targets
from bench.examination.contract.small_model import MANY_RESULTS, SOURCES, SmallModel, stopped_within
from bench.training.seeding import kept_random_state, seed_generators
from core.errors import is_out_of_memory
from models.specification import SequenceSpecification
from tasks.interface import Batch, Task

SEED = 1
TIMES = 4  # that a loss is asked for: a byte of the system is the same one time in 256
MOST_OUTPUTS = 2**24  # numbers that the small model answers at once


def fault_of_loss(
    task: Task, batches: Sequence[Batch], specification: SequenceSpecification, device: torch.device
) -> str | None:
    """What keeps every model from being trained by a loss, in a sentence; None if nothing does, or
    if it asks the model for what only some have.

    Args:
        task: whose data have been looked at.
        batches: of its training, which are left as they are.

    Raises:
        Exception: whatever the loss stops with.
    """
    with kept_random_state(device):
        seed_generators(SEED, device)
        model = SmallModel(specification).to(device)
        # The first batch that asks for something is asked for more than once.
        times, numbers = TIMES, False
        for batch in batches:
            largest = batch.inputs.shape[1] * specification.output_size
            part = batch.rows(0, max(1, MOST_OUTPUTS // largest))
            if not part.asked:
                continue
            value, fault = _fault_on(task, part, model, times, specification, device)
            if fault:
                return fault
            times, numbers = 1, numbers or not math.isnan(value)
    if times == 1 and not numbers:
        return (
            f"its loss is nan in each of the first {len(batches)} batches, for outputs of about 1 "
            "in size: compute it so that usual outputs, also negative ones, give a number"
        )
    return None


def _fault_on(
    task: Task,
    batch: Batch,
    model: SmallModel,
    times: int,
    specification: SequenceSpecification,
    device: torch.device,
) -> tuple[float, str | None]:
    """The loss of one batch, which is asked for so many times, 0 where it asks the model for what
    only some have; and what is wrong with it, in a sentence."""
    values = []
    for _ in range(times):
        seed_generators(SEED, device)
        try:
            loss = task.training_loss(model, copy.deepcopy(batch).to(device))
        except Exception as error:
            if is_out_of_memory(error) or stopped_within(error, model):
                return 0.0, None
            if fault := fault_of_targets(batch.targets, specification):
                return math.nan, fault
            raise
        if fault := _fault_of_value(loss, model):
            return math.nan, fault
        values.append(float(loss.detach()))
    if not math.isfinite(values[0]) and batch.targets.is_floating_point():
        wrong = batch.targets[~batch.targets.isfinite()]
        if len(wrong):
            return math.nan, (
                f"a training batch has {float(wrong[0])} among its targets, and its loss is "
                f"{values[0]}: give finite targets, or leave them out of the loss"
            )
    # In another order, n numbers have a mean that is other by n roundings at most.
    room = batch.targets.numel() * torch.finfo(torch.float32).eps * max(map(abs, values))
    others = [value for value in values if abs(value - values[0]) > room]
    if others:
        return math.nan, (
            f"its loss was {values[0]:.6g} and then {others[0]:.6g} for the same outputs and the "
            f"same batch, {MANY_RESULTS}: compute it from these two alone, and {SOURCES}"
        )
    return values[0], None


def _fault_of_value(loss: object, model: nn.Module) -> str | None:
    wanted = "return a mean over what is asked for, a tensor of one number"
    if not isinstance(loss, Tensor):
        kind = "None" if loss is None else f"a {type(loss).__name__}"
        return f"its loss is {kind}: {wanted}"
    if loss.numel() != 1 or not loss.is_floating_point():
        return f"its loss is a tensor of shape {tuple(loss.shape)} and type {loss.dtype}: {wanted}"
    gradients: Sequence[Tensor | None] = []
    if loss.requires_grad:
        gradients = torch.autograd.grad(loss, [*model.parameters()], allow_unused=True)
    if all(gradient is None for gradient in gradients):
        return (
            "its loss has no gradient at the outputs of a model, so that nothing could be learned: "
            "compute it from them by PyTorch's functions, without detach(), item(), numpy() and "
            "no_grad()"
        )
    worst = [float(gradient.sum()) for gradient in gradients if gradient is not None]
    if loss.isfinite() and any(map(math.isnan, worst)):
        return (
            f"its loss is {float(loss.detach()):.6g}, and its gradient at the outputs of a model "
            "is nan, as where nan is left out of a sum after it was computed with: select what is "
            "asked for first, outputs[asked] and targets[asked]"
        )
    return None
