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
from bench.training.seeding import seed_generators
from core.errors import is_out_of_memory
from models.specification import SequenceSpecification
from tasks.interface import Batch, Task

WIDTH = 4
SEED = 1
TIMES = 4  # that a loss is asked for: a byte of the system is the same one time in 256
MOST_OUTPUTS = 2**24  # numbers that the small model answers at once


class SmallModel(nn.Module):
    """Answers each position by its own input alone, (batch, time, output size); it has what a loss
    over a large vocabulary asks for, ``hidden`` and ``output_matrix``."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__()
        self.embedding: nn.Module
        if specification.vocabulary is not None:
            self.embedding = nn.Embedding(specification.vocabulary, WIDTH)
        else:
            assert specification.input_channels is not None
            self.embedding = nn.Linear(specification.input_channels, WIDTH)
        self.output_matrix = nn.Parameter(torch.randn(specification.output_size, WIDTH))

    def hidden(self, inputs: Tensor) -> Tensor:
        """(batch, time, width)."""
        vectors: Tensor = self.embedding(inputs)
        return vectors

    def forward(self, inputs: Tensor) -> Tensor:
        return self.hidden(inputs) @ self.output_matrix.T


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
    seed_generators(SEED, device)
    model = SmallModel(specification).to(device)
    asked = True  # the first batch that asks for something is asked for more than once
    for batch in batches:
        largest = batch.inputs.shape[1] * specification.output_size
        part = batch.rows(0, max(1, MOST_OUTPUTS // largest))
        times = TIMES if asked and part.asked else 1
        asked = asked and times == 1
        values = []
        for _ in range(times):
            seed_generators(SEED, device)
            try:
                loss = task.training_loss(model, copy.deepcopy(part).to(device))
            except Exception as error:
                if is_out_of_memory(error) or stopped_within(error, model):
                    return None
                if fault := fault_of_targets(batch.targets, specification):
                    return fault
                raise
            if fault := _fault_of_value(loss, model):
                return fault
            values.append(float(loss))
        if not math.isfinite(values[0]) and part.targets.is_floating_point():
            wrong = part.targets[~part.targets.isfinite()]
            if len(wrong):
                return (
                    f"a training batch has {float(wrong[0])} among its targets, and its loss is "
                    f"{values[0]}: give finite targets, or leave them out of the loss"
                )
        # In another order, n numbers have a mean that is other by n roundings at most.
        room = part.targets.numel() * torch.finfo(torch.float32).eps * max(map(abs, values))
        others = [value for value in values if abs(value - values[0]) > room]
        if others:
            return (
                f"its loss was {values[0]:.6g} and then {others[0]:.6g} for the same outputs and "
                "the same batch, so that one run would have many results: compute it from these "
                "two alone, and from no clock, no numbers of the system (os.urandom) and no "
                "generator or count that is kept between calls"
            )
    return None


def _fault_of_value(loss: object, model: nn.Module) -> str | None:
    wanted = "return a mean over what is asked for, a tensor of one number"
    if not isinstance(loss, Tensor):
        given = "None" if loss is None else f"a {type(loss).__name__}"
        return f"its loss is {given}: {wanted}"
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
    return None


def stopped_within(error: BaseException, model: nn.Module) -> bool:
    """Whether an error came out of a call of a model, or of a part of it, or by asking it for what
    it does not have."""
    parts = {id(part) for part in model.modules()}
    step = error.__traceback__
    while step is not None:
        if id(step.tb_frame.f_locals.get("self")) in parts:
            return True
        step = step.tb_next
    return False
