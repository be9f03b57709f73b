"""Two-layer MLP in the kernel regime: random first layer, Hermite activation, one gradient step.

Source: Nichani, Lee and Bietti, "Understanding factual recall in transformers via associative
memories" (ICLR 2025, arXiv 2412.06538), the construction of width m that stores about m d pairs,
with Hermite polynomials of degree about log N / log d.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.layers.contextual_memory import unit
from models.memories.interface import Reading, wide
from models.memories.matrix_memory import MatrixMemory, linear_reading


class HermiteFeatures(MatrixMemory):
    """The answer A φ(q) with φ(k) = He_p(W k / |k|) / √(p! m), W (m, key_size) from N(0, 1), kept.

    A starts at 0 and takes one step of size 1 against the gradient of Σ |v - A φ(k)|² / 2, which is
    A = Σ v φ(k)ᵀ. For unit keys E φ(k)·φ(q) = (k·q)^p, so that other keys disturb less, the higher
    the degree is; what is left of them is the error 1/√m of the mean over m units. Confidence is
    that of ``linear_reading`` of A and φ.

    Args:
        key_size: width of keys.
        value_size: width of values.
        width: m, at least 1.
        degree: p of the polynomial, at least 1; 1 is a random linear layer.

    Raises:
        ValueError: a width or a degree below 1.
    """

    first: Tensor

    def __init__(
        self, key_size: int, value_size: int, *, width: int = 256, degree: int = 2
    ) -> None:
        super().__init__(key_size, value_size)
        if width < 1 or degree < 1:
            raise ValueError(f"width and degree are at least 1, got {width} and {degree}")
        self.degree = degree
        self.register_buffer("first", torch.randn(width, key_size))

    def _features(self, keys: Tensor) -> Tensor:
        """(*batch, items, key_size) -> (*batch, items, width), float32 or wider."""
        hidden = unit(wide(keys)) @ wide(self.first).T
        before, polynomial = torch.ones_like(hidden), hidden
        # He_{n+1}(x) = x He_n(x) − n He_{n−1}(x)
        for n in range(1, self.degree):
            before, polynomial = polynomial, hidden * polynomial - n * before
        return polynomial / math.sqrt(math.factorial(self.degree) * len(self.first))

    def _write(self, keys: Tensor, values: Tensor) -> None:
        features = self._features(keys)
        self._matrix = self._started(features, self.value_size) + wide(values).mT @ features

    def _read(self, keys: Tensor) -> Reading:
        assert self._matrix is not None
        reading = linear_reading(self._matrix, self._features(keys))
        return Reading(reading.values.to(keys.dtype), reading.confidence.to(keys.dtype))
