"""What one trial draws: how often each token is seen, and the vectors of tokens and classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from tasks.interface import Split

Lengths = Literal["gaussian", "unit"]
_OF_SPLIT = {"validation": 0, "test": 1}
_COUNTS, _CLASSES, _TOKENS = range(3)  # separate streams, so that no setting of one moves another


def scaled(vectors: Tensor, lengths: Lengths) -> Tensor:
    """Normal vectors as embeddings: with normal entries, or of length 1. Entries N(0, 1/d) are the
    same up to a factor, which changes no choice of the largest score."""
    return normalize(vectors, dim=-1) if lengths == "unit" else vectors


class Draws:
    """The random numbers of one split and seed, the same in whatever chunks they are taken.

    Normal numbers are float32 from the processor, on every device.

    Args:
        probabilities: (tokens,), of each token.
    """

    def __init__(
        self, probabilities: NDArray[np.float64], classes: int, split: Split, seed: int
    ) -> None:
        self.probabilities, self.classes = probabilities, classes
        self._key = (_OF_SPLIT[split], seed)

    def counts(self, trial: int, samples: Sequence[int]) -> Tensor:
        """How often each token is among n independent samples, float64 (len(samples), tokens)."""
        # One multinomial draw has the counts of n samples: as cheap for n = 10⁹.
        rows = [
            self._generator(_COUNTS, trial, n).multinomial(n, self.probabilities) for n in samples
        ]
        counts = np.stack(rows) if rows else np.empty((0, len(self.probabilities)))
        return torch.from_numpy(counts.astype(np.float64))

    def class_vectors(self, trials: range, group: int, width: int) -> Tensor:
        """Normal numbers, float32 (len(trials), classes, width)."""
        vectors = torch.empty(len(trials), self.classes, width)
        for place, trial in enumerate(trials):
            _fill(vectors[place], self._generator(_CLASSES, trial, group))
        return vectors

    def token_vectors(
        self, trials: range, group: int, width: int, at_once: int
    ) -> Iterator[tuple[slice, Tensor]]:
        """Tokens in order, ``at_once`` at a time: which, and normal numbers, float32
        (len(trials), tokens, width). What is yielded is overwritten by the next."""
        generators = [self._generator(_TOKENS, trial, group) for trial in trials]
        count = len(self.probabilities)
        buffer = torch.empty(len(trials), min(at_once, count), width)
        for start in range(0, count, at_once):
            stop = min(start + at_once, count)
            vectors = buffer[:, : stop - start]
            for place, generator in enumerate(generators):
                _fill(vectors[place], generator)
            yield slice(start, stop), vectors

    def _generator(self, *key: int) -> np.random.Generator:
        # SFC64 is among the fastest of NumPy's generators: normal numbers take most of the time.
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence((*self._key, *key))))


def _fill(vectors: Tensor, generator: np.random.Generator) -> None:
    # In place and in float32, as memory and time are those of the vectors.
    generator.standard_normal(out=vectors.numpy(), dtype=np.float32)
