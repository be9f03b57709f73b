"""Linear functions, the vectors at which they are seen, and what is seen there.

Source: Garg et al. 2022, "What can transformers learn in-context?" (arXiv 2208.01066), section 3.
Weights are divided by √d, so that values have variance 1 and an error is already the normalised one
of that study.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
TRAIN, VALIDATION, TEST = range(3)
STREAMS = {"validation": VALIDATION, "test": TEST}


@dataclass(frozen=True)
class Drawn:
    """Sequences of pairs, each of a linear function of its own.

    Attributes:
        vectors: x (sequences, queries, dimension), standard normal.
        weights: w (sequences, dimension), normal of variance 1 / dimension.
        noise: (sequences, queries), what is added to the values.
    """

    vectors: Numbers
    weights: Numbers
    noise: Numbers

    @property
    def values(self) -> Numbers:
        """w·x (sequences, queries)."""
        return np.einsum("sqd,sd->sq", self.vectors, self.weights)

    @property
    def observed(self) -> Numbers:
        """The values with their noise, as a sequence shows them."""
        return self.values + self.noise

    def update(self, digest: hashlib._Hash) -> None:
        """Add the content to a hash: what was drawn, since sums may differ in their last digit."""
        for part in (self.vectors, self.weights, self.noise):
            digest.update(part.astype("<f4").tobytes())


@dataclass(frozen=True)
class Functions:
    """A checked setting of the draws.

    Attributes:
        dimension: d of the vectors.
        pairs: what the last query can be answered from, at least d.
        noise: standard deviation of what is added to values, whose own is 1.
    """

    dimension: int
    pairs: int
    noise: float

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise ValueError(f"dimension={self.dimension} has no vectors: give 1 or more")
        if self.pairs < self.dimension:
            raise ValueError(
                f"pairs={self.pairs} do not determine a function of {self.dimension} weights: give "
                f"at least {self.dimension}"
            )
        if not 0 <= self.noise < float("inf"):
            raise ValueError(f"noise={self.noise} is no standard deviation: give 0 or more")

    def draw(self, count: int, *key: int) -> Drawn:
        """Sequences 0 … count - 1 of the stream ``key``, with ``pairs + 1`` queries each."""
        # Vectors, then weights, then noise: with noise 0 the same numbers are drawn and multiplied
        # by 0.
        generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
        vectors = generator.standard_normal((count, self.pairs + 1, self.dimension))
        # Var(w·x) = Σ_j Var(w_j) Var(x_j) = 1.
        weights = generator.standard_normal((count, self.dimension)) / self.dimension**0.5
        return Drawn(vectors, weights, self.noise * generator.standard_normal(vectors.shape[:2]))


def check_sizes(**sizes: int) -> None:
    """Raises:
    ValueError: a number of sequences below 1, or a seed below 0.
    """
    for name, value in sizes.items():
        least = 0 if name == "data_seed" else 1
        if value < least:
            raise ValueError(f"{name}={value} is too small: give at least {least}")
