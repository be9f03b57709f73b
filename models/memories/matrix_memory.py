"""What memories share that keep one matrix M and answer M q."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.memories.interface import Memory, Reading, bytes_of, wide


def linear_reading(matrix: Tensor, keys: Tensor) -> Reading:
    """M q, and how much longer that is than for a query in a random direction.

    A matrix has no list of what was written; what it can tell is |M q| against its mean over
    directions: E |M q|² = |M|² |q|² / key_size with the Frobenius norm. The ratio lies between 0
    and √key_size. Written keys stand out while the items are fewer than about key_size.

    Args:
        matrix: (*batch, rows, key_size), float32 or wider.
        keys: (*batch, queries, key_size).
    """
    queries = wide(keys)
    answers = queries @ matrix.mT
    # √key_size times the root of the mean of |M q|² over directions.
    usual = torch.linalg.matrix_norm(matrix)[..., None] * torch.linalg.vector_norm(queries, dim=-1)
    length = torch.linalg.vector_norm(answers, dim=-1) * math.sqrt(matrix.shape[-1])
    # no division by 0 of M = 0 or q = 0
    confidence = length / usual.clamp_min(torch.finfo(usual.dtype).tiny)
    return Reading(answers.to(keys.dtype), confidence.to(keys.dtype))


class MatrixMemory(Memory):
    """A matrix (*batch, value_size, key_size), float32 or wider, that starts at 0.

    Confidence is that of ``linear_reading``.
    """

    def __init__(self, key_size: int, value_size: int) -> None:
        super().__init__(key_size, value_size)
        self._matrix: Tensor | None = None

    def size_in_bytes(self) -> int:
        """Bytes of M, however much was written."""
        return bytes_of(self._matrix)

    def _started(self, keys: Tensor, rows: int) -> Tensor:
        """The matrix, or zeros of the shape that ``keys`` ask for."""
        if self._matrix is None:
            return wide(keys).new_zeros(*keys.shape[:-2], rows, keys.shape[-1])
        return self._matrix

    def _read(self, keys: Tensor) -> Reading:
        assert self._matrix is not None
        return linear_reading(self._matrix, keys)

    def _reset(self) -> None:
        self._matrix = None
