"""What memories share that keep every pair as it was written."""

from __future__ import annotations

import torch
from torch import Tensor

from models.memories.interface import Memory, bytes_of, wide


def euclidean(queries: Tensor, keys: Tensor) -> Tensor:
    """Distances (*batch, queries, items), as sums of squared differences: those by inner products
    lose near neighbours among long vectors to rounding."""
    return torch.cdist(queries, keys, compute_mode="donot_use_mm_for_euclid_dist")


def nearest(queries: Tensor, keys: Tensor, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The nearest key of each query.

    Args:
        queries: (*batch, queries, size).
        keys: (*batch, items, size).
        among: (*batch, items), False for items that do not count; None counts all.

    Returns:
        int64 index (*batch, queries) of the nearest key, and the closeness 1 / (1 + |q - k|²),
        from 0 for far to 1 for equal: for unit vectors 1 / (3 - 2 cos). float32 or wider.
    """
    queries, keys = wide(queries), wide(keys)
    # A choice has no gradient; the closeness of the chosen key has, below.
    with torch.no_grad():
        distances = euclidean(queries, keys)
        if among is not None:
            distances = distances.masked_fill(~among[..., None, :], torch.inf)
        index = distances.argmin(-1)
    differences = queries - keys.gather(-2, index[..., None].expand(*index.shape, keys.shape[-1]))
    return index, 1 / (1 + differences.square().sum(-1))


class StoredPairs(Memory):
    """All keys and values in the order in which they were written, in the type they came in."""

    def __init__(self, key_size: int, value_size: int) -> None:
        super().__init__(key_size, value_size)
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def size_in_bytes(self) -> int:
        """Bytes of every pair that was written."""
        return bytes_of(self._keys, self._values)

    def _write(self, keys: Tensor, values: Tensor) -> None:
        # A copy also of the first call: the caller may change its own tensors.
        self._keys = torch.cat((*_given(self._keys), keys), -2)
        self._values = torch.cat((*_given(self._values), values), -2)

    def _reset(self) -> None:
        self._keys = self._values = None


def _given(x: Tensor | None) -> tuple[Tensor, ...]:
    return () if x is None else (x,)
