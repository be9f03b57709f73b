"""The sequences that a model is examined with: real ones of its task, and the same changed after a
cut, at another place in each row."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from models.specification import SequenceSpecification

UNCHANGED = 1  # the row in which nothing is changed; there are rows before and after it
FEWEST_ROWS = 4


@dataclass(frozen=True)
class CutSequences:
    """Inputs and their changed form.

    Attributes:
        inputs: int64 (rows, time), or real (rows, time, channels).
        changed: the same before the cut of each row, other values from there on.
        cuts: first changed position of each row, from 0 to time (nothing is changed).
    """

    inputs: Tensor
    changed: Tensor
    cuts: tuple[int, ...]

    @property
    def length(self) -> int:
        """Positions."""
        return self.inputs.shape[1]

    def before_the_cut(self) -> Tensor:
        """Which positions come before the cut of their row, bool (rows, time)."""
        places = torch.arange(self.length, device=self.inputs.device)
        return places < torch.tensor(self.cuts, device=self.inputs.device).unsqueeze(1)


class SequenceSource:
    """Draws sequences like those of a batch, of any number and length.

    Args:
        inputs: of a training batch of the task.
        scored: positions that the task scores in it, bool (batch, time); None where it is all.
    """

    def __init__(
        self,
        inputs: Tensor,
        specification: SequenceSpecification,
        generator: torch.Generator,
        scored: Tensor | None = None,
    ) -> None:
        self.scored = None if scored is None else scored.cpu()
        self.real, self.vocabulary = inputs, specification.vocabulary
        self.generator = generator  # of the CPU, so that every device sees the same sequences

    def draw(self, rows: int, length: int) -> CutSequences:
        """Sequences with a cut in each row: before all, after all, before the last position, and
        then behind positions that the task asks for, or wherever :func:`cut_between` says."""
        rows = max(rows, FEWEST_ROWS)
        inputs = self._lengthened(self._more_rows(rows), length)
        random_cuts = rows - 3
        edges = [1 + k * (length - 1) // random_cuts for k in range(random_cuts + 1)]
        cuts = [0, length, length - 1]
        for number, (start, stop) in enumerate(pairwise(edges)):
            other = None if number % 2 else cuts[-1]
            cuts.append(cut_between(start, stop, self.generator, other))
        for row in range(3, rows, 2):
            cuts[row] = self._behind_a_scored_position(row, length) or cuts[row]
        changed = inputs.clone()
        others = self._others(inputs)
        for row, cut in enumerate(cuts):
            changed[row, cut:] = others[row, cut:]
        return CutSequences(inputs, changed, tuple(cuts))

    def _behind_a_scored_position(self, row: int, length: int) -> int | None:
        """A cut right behind a position whose output is scored, where only some are."""
        if self.scored is None or row >= len(self.scored) or bool(self.scored.all()):
            return None
        places = self.scored[row, : length - 1].nonzero().flatten() + 1
        if not len(places):
            return None
        return int(places[int(torch.randint(len(places), (1,), generator=self.generator))])

    def _integers(self, high: int, *shape: int) -> Tensor:
        drawn = torch.randint(max(1, high), shape, generator=self.generator)
        return drawn.to(self.real.device)

    def _more_rows(self, rows: int) -> Tensor:
        missing = rows - len(self.real)
        if missing <= 0:
            return self.real[:rows].clone()
        flat = self.real.flatten(0, 1)
        drawn = flat[self._integers(len(flat), missing, self.real.shape[1])]
        return torch.cat([self.real, drawn])

    def _lengthened(self, inputs: Tensor, length: int) -> Tensor:
        missing = length - inputs.shape[1]
        if missing <= 0:
            return inputs[:, :length].clone()
        flat = self.real.flatten(0, 1)
        drawn = flat[self._integers(len(flat), len(inputs), missing)]
        return torch.cat([inputs, drawn], 1)

    def _others(self, inputs: Tensor) -> Tensor:
        """Another value at every position: any other token, or vectors of other positions with
        noise of their size."""
        if self.vocabulary is not None:
            steps = 1 + self._integers(self.vocabulary - 1, *inputs.shape)
            return (inputs + steps) % self.vocabulary
        flat = inputs.flatten(0, 1)
        other = flat[self._integers(len(flat), *inputs.shape[:2])]
        size = float(flat.std()) if flat.numel() > 1 else 0.0
        noise = torch.randn(inputs.shape, generator=self.generator).to(inputs)
        return other + (size or 1.0) * noise


def cut_between(start: int, stop: int, generator: torch.Generator, other: int | None = None) -> int:
    """A random cut in [start, stop).

    A model that looks ahead inside blocks is blind to a cut where a block begins. So cuts are
    primes where there are any: no blocks that are counted from the first position begin there, but
    those of one position and of that many.

    Args:
        other: another cut, from which this one is a prime away if that can be: wherever blocks are
            counted from, they begin at one of the two at most, but those of that many positions.
    """
    first = max(1, start)
    places = range(first, max(first + 1, stop))
    primes = [n for n in places if _is_prime(n if other is None else abs(n - other))]
    best = primes or list(places)
    return best[int(torch.randint(len(best), (1,), generator=generator))]


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))
