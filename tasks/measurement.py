"""The contract of tasks that train nothing by the engine: they build what they measure.

The engine trains one model for a ``tasks.interface.Task``, which then evaluates it. A measurement
builds its model itself, as often and as large as it needs, and writes or trains it by its own
protocol. The key ``takes`` of its YAML file names the folder below ``models/`` that its models come
from: ``memories`` (``models.memories.interface.Memory``) or ``associative``. Example: ``capacity``
builds hundreds of memories of several sizes, to find how many pairs each of them recalls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import torch
from torch import nn

from tasks.interface import Evaluation, Metric, Report, Split


class Build(Protocol):
    """Makes the configured model: its hyperparameters are those of the configuration."""

    def __call__(self, *sizes: Any, seed: int = 0) -> nn.Module:
        """A new model on the configured device, as ``Model(*sizes, **hyperparameters)``; random
        numbers that its constructor draws are those of ``seed``.

        Raises:
            Refused: the model refuses its sizes or settings.
        """
        ...


class Refused(ValueError):
    """A model cannot be built with the sizes that a measurement asks for."""


class Diverged(ArithmeticError):
    """The measurement has no number because something grew without bound: a row with its cause."""


class Measurement(ABC):
    """A protocol for models that learn within it.

    Its constructor arguments are the keys of the YAML file ``tasks/<name>.yaml``. What is drawn is
    a function of (settings, split, seed) alone, through generators of its own.
    """

    headline: ClassVar[Metric]

    @abstractmethod
    def data_hashes(self) -> dict[str, str]:
        """Split -> SHA-256 of what seed 0 draws there, or of the files that are read."""

    def prepare(self, report: Report) -> None:  # noqa: B027 - most measurements keep nothing
        """Make on disk what is needed and not there yet; as that of a task."""

    @abstractmethod
    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """The whole protocol with the random numbers of ``split`` and ``seed``.

        Metrics called "parameters" and "state_bytes" are shown as the cost of the model.

        Raises:
            Diverged: there is no number at all. A part that diverged is left out of the metrics and
                told in ``arrays["diverged"]``; without the headline the run counts as diverged.
        """

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """Deterministic references: label -> its evaluation on a split, such as a theory."""
        return {}
