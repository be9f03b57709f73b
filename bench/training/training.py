"""What a training is made of apart from its loop, which is in ``bench.training.loop``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.config.settings import TrainingSettings
from bench.records.code import is_own
from bench.training.compiled import Loss
from bench.training.saved_tensors import SavedTensors
from bench.training.seeding import kept_random_state
from bench.training.storage import device_of
from core.errors import UserError
from tasks import measurement
from tasks.interface import Batch, Task


class TrainingDiverged(measurement.Diverged):
    """A loss is no longer a number; ``report`` says how far the training had come."""

    def __init__(self, cause: str, report: TrainingReport) -> None:
        super().__init__(cause)
        self.report = report


class Stopped(BaseException):
    """Somebody asked the process to stop; the checkpoint has been written."""


@dataclass
class TrainingReport:
    """What a training did; all of it survives an interruption."""

    steps: int = 0
    tokens: int = 0
    padded_positions: int = 0
    seconds: float = 0.0
    loss_steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # mean over the steps since the last point
    validation_steps: list[int] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    together: int = 1  # most trainings, this one included, whose steps were one computation

    def final_loss(self) -> float:
        """Mean training loss over the last tenth of the steps."""
        # A tenth of the points, each of which is a mean over some steps already.
        tail = max(1, len(self.losses) // 10)
        return sum(self.losses[-tail:]) / tail


@dataclass(frozen=True)
class Member:
    """One training of a stack: the arguments of :func:`bench.training.loop.fit`."""

    model: nn.Module
    task: Task
    settings: TrainingSettings
    seed: int
    checkpoint: Path


def total_steps(task: Task, settings: TrainingSettings) -> int:
    """Optimiser steps of a whole training.

    Raises:
        UserError: epochs are asked for on a task whose data is endless.
    """
    if settings.steps is not None:
        return settings.steps
    per_epoch = task.steps_per_epoch(settings.batch_size)
    if per_epoch is None or settings.epochs is None:
        raise UserError("this task has no epochs: set training.steps to a number of steps")
    return per_epoch * settings.epochs


def training_loss_of(task: Task, model: nn.Module, seed: int, size: int) -> Loss:
    """The loss of ``model`` on batches of ``task``, a function of both.

    A task may call a model several times for one loss, so that padding is not computed (RegBench on
    a CPU). A model that draws its random projections anew, limits its weights, iterates a norm or
    moves a codebook would do so several times in a step, and PyTorch refuses gradients through
    numbers that a later call has written over.

    Args:
        model: in training mode. It may be called, and is afterwards as it was.
        seed, size: of the batches of its training, the first of which may be made.

    Returns:
        ``task.training_loss``. Where that calls the model, once or several times as lengths differ
        in a batch, and a call changes parameters or buffers of the model, ``task.loss`` of the
        outputs of one call instead.
    """
    method = type(task).training_loss
    # What a task of somebody else does with several calls may be no way to save padding; models of
    # this project change nothing when they are called.
    saves_padding = method is not Task.training_loss and is_own(method.__module__)
    if not saves_padding or is_own(type(model).__module__):
        return task.training_loss
    batch = task.training_batch(seed, 0, size).to(device_of(model))
    if _changed_by_calls(model, task, batch):
        return partial(Task.training_loss, task)
    return task.training_loss


@contextmanager
def validating(model: nn.Module) -> Iterator[None]:
    """In this block of a training the model is in eval mode. What a model of somebody else writes
    there into parameters and buffers is put back: how often a training is validated must not change
    it, nor may validation data. Models of this project write nothing in eval mode."""
    saved = None if is_own(type(model).__module__) else SavedTensors(model)
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if saved is not None:
            saved.restore()
        model.train()


def _changed_by_calls(model: nn.Module, task: Task, batch: Batch) -> bool:
    """Whether the model is another one after a loss for which ``forward`` was called; ``hidden``,
    which saves the scores of a large vocabulary, is called once for a batch."""
    calls = 0

    def count(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        nonlocal calls
        calls += 1

    saved = SavedTensors(model)
    hook = model.register_forward_pre_hook(count)
    try:
        with kept_random_state(batch.inputs.device):
            task.training_loss(model, batch)
        return calls > 0 and bool(saved.changed())
    finally:
        hook.remove()
        saved.restore()
