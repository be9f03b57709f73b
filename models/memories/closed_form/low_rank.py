"""Low-rank memory: two factors, the first random, the second after one gradient step.

Source: Nichani, Lee and Bietti, "Understanding factual recall in transformers via associative
memories" (ICLR 2025, arXiv 2412.06538), the construction of rank m that stores about m d pairs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.memories.interface import Reading, wide
from models.memories.matrix_memory import MatrixMemory, linear_reading


class LowRank(MatrixMemory):
    """The answer W₁ᵀ W₂ q with W₁ (rank, value_size) drawn from N(0, 1/rank) and kept.

    W₂ (rank, key_size) starts at 0 and takes one step of size 1 against the gradient of
    Σ |v - W₁ᵀ W₂ k|² / 2, which is W₂ = Σ (W₁ v) kᵀ. Only W₂ is state. Confidence is that of
    ``linear_reading`` before W₁ᵀ.

    Args:
        key_size: width of keys.
        value_size: width of values.
        rank: m, at least 1.

    Raises:
        ValueError: a rank below 1.
    """

    first: Tensor

    def __init__(self, key_size: int, value_size: int, *, rank: int = 16) -> None:
        super().__init__(key_size, value_size)
        if rank < 1:
            raise ValueError(f"rank is a number of rows, at least 1, got {rank}")
        self.rank = rank
        self.register_buffer("first", torch.randn(rank, value_size) / math.sqrt(rank))

    def _write(self, keys: Tensor, values: Tensor) -> None:
        hidden = wide(values) @ wide(self.first).T
        self._matrix = self._started(keys, self.rank) + hidden.mT @ wide(keys)

    def _read(self, keys: Tensor) -> Reading:
        assert self._matrix is not None
        hidden = wide(keys) @ self._matrix.mT
        # |W₁ᵀ y| is in proportion to |y| up to chance, so W₂ alone tells as much.
        confidence = linear_reading(self._matrix, keys).confidence
        return Reading((hidden @ wide(self.first)).to(keys.dtype), confidence)
