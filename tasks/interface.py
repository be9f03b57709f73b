"""The contract between a task and the engine.

A task owns its data, its protocol and its metrics. Its constructor arguments are the keys of the
YAML file ``tasks/<name>.yaml``. Data is a function of (task configuration, seed, index) alone:
never of the model, of global random state, of the process hash seed or of the number of workers.
Example: ``training_batch(seed=0, step=7, size=32)`` gives the same 32 sequences in every process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from models.specification import SequenceSpecification

Split = Literal["validation", "test"]
Report = Callable[[str, int, int], None]  # description, done, total
IGNORED = -100  # target of a position where nothing is asked


@dataclass(frozen=True)
class Metric:
    """The number a table is ranked by."""

    name: str
    direction: Literal["maximise", "minimise"]
    unit: str = ""


@dataclass
class Batch:
    """One training batch. ``extras`` is for what only the task's own loss reads.

    Attributes:
        inputs: int64 (batch, time), or float32 (batch, time, channels).
        targets: int64 (batch, time) with -100 where nothing is asked, or float32
            (batch, time, channels).
        tokens: number of positions that carry input, padding excluded.
    """

    inputs: Tensor
    targets: Tensor
    tokens: int
    extras: dict[str, Tensor] = field(default_factory=dict)

    @property
    def asked(self) -> int:
        """How many targets the loss is a mean over."""
        if self.targets.is_floating_point():
            # Real targets are all asked for, each number for itself.
            return self.targets.numel()
        return int((self.targets != IGNORED).sum())

    def split(self, size: int) -> list[Batch]:
        """Parts of at most ``size`` sequences, in order; ``tokens`` is counted in the first."""
        return [self.rows(k, k + size) for k in range(0, len(self.inputs), size)]

    def rows(self, start: int, stop: int) -> Batch:
        """The sequences from ``start`` up to ``stop``; ``tokens`` is counted with the first."""
        extras = {name: value[start:stop] for name, value in self.extras.items()}
        # Counted once, with the first part: the sum over parts is that of the batch.
        tokens = 0 if start else self.tokens
        return Batch(self.inputs[start:stop], self.targets[start:stop], tokens, extras)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on ``device``."""
        extras = {name: value.to(device) for name, value in self.extras.items()}
        return Batch(self.inputs.to(device), self.targets.to(device), self.tokens, extras)


@dataclass
class Evaluation:
    """What a protocol measured on one split; only plain Python numbers and lists, ready for JSON.

    Attributes:
        metrics: name -> value over the whole split. ``loss`` is always there for trained models:
            the number that the choice of a checkpoint minimises (a sweep chooses by the headline).
        per_sequence: name -> one value per sequence, for intervals over sequences.
        curves: name -> {"x": [...], "y": [...]}, e.g. accuracy by position.
        arrays: name -> nested list, e.g. moduli of a weight matrix.
    """

    metrics: dict[str, float]
    per_sequence: dict[str, list[float]] = field(default_factory=dict)
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)


class Task(ABC):
    """A data generator or loader, what is trained on it, and what is measured."""

    headline: ClassVar[Metric]

    @abstractmethod
    def specification(self) -> SequenceSpecification:
        """Shapes of the sequences that a model of this task must accept."""

    @abstractmethod
    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the content of every split ("train", "validation", "test")."""

    @abstractmethod
    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """The batch of training step ``step`` (from 0): a pure function of its arguments."""

    def steps_per_epoch(self, size: int) -> int | None:
        """Steps in one pass over the training set in batches of ``size``; None if it is endless."""
        return None

    @abstractmethod
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Scalar training loss, a mean over the positions that are asked for."""

    def training_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss of ``model`` on a batch; override it where outputs need not be held at once, as
        those over a large vocabulary."""
        return self.loss(model(batch.inputs), batch)

    def prepare(self, report: Report) -> None:  # noqa: B027 - most tasks keep nothing on disk
        """Make on disk what the task needs and is not there yet, such as a tokenised corpus. Called
        before anything else, so that long work is seen; the other methods do it when it was not."""

    @abstractmethod
    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """The whole protocol on ``split``. The engine has put the model in eval mode on ``device``
        and calls this under ``torch.no_grad()``."""

    def validation_loss(self, model: nn.Module, device: torch.device | str) -> float:
        """The validation loss alone, called often during training; override where it is cheaper."""
        return self.evaluate(model, "validation", device).metrics["loss"]

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """Predictors without training: label -> its evaluation on a split. Deterministic. A task
        has at least a trivial baseline and an oracle where one exists."""
        return {}
