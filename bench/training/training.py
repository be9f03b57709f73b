"""What a training is made of apart from its loop, which is in ``bench.training.loop``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

from bench.config.settings import TrainingSettings
from core.errors import UserError
from tasks import measurement
from tasks.interface import Task


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
