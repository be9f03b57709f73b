"""Nearest neighbour: the value of the most similar key, the latest one if a key was written twice.

Source: Cover and Hart (1967). It is what retrieval over a table of vectors does, and so the
reference for what can be recalled at all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.layers.equal_keys import groups, latest, packed, rows_of
from models.memories.interface import Memory, Reading, bytes_of
from models.memories.stored_pairs import nearest


class NearestNeighbour(Memory):
    """A table of distinct keys with the latest value of each.

    Keys are the same where all their numbers are. Near means near in Euclidean distance, which for
    unit keys orders like cosine. Confidence is the closeness 1 / (1 + |q - k|²) of the key whose
    value is answered, in (0, 1].

    Args:
        key_size: width of keys.
        value_size: width of values.
    """

    def __init__(self, key_size: int, value_size: int) -> None:
        super().__init__(key_size, value_size)
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self._there: Tensor | None = None

    def size_in_bytes(self) -> int:
        """Bytes of all distinct keys with their values, and of the marks of rows that are there."""
        return bytes_of(self._keys, self._values, self._there)

    def _write(self, keys: Tensor, values: Tensor) -> None:
        occupied = torch.ones_like(keys[..., 0], dtype=torch.bool)
        if self._keys is not None and self._values is not None and self._there is not None:
            keys = torch.cat((self._keys, keys), -2)
            values = torch.cat((self._values, values), -2)
            occupied = torch.cat((self._there, occupied), -1)
        # One row for each distinct key, that of its latest value; rows of other tables pad it.
        index, self._there = packed(latest(groups(keys, occupied)) & occupied)
        self._keys, self._values = rows_of(keys, index), rows_of(values, index)

    def _read(self, keys: Tensor) -> Reading:
        assert self._keys is not None
        assert self._values is not None
        index, closeness = nearest(keys, self._keys, self._there)
        # A row of its own table: no mean, so an answer is a stored value, digit for digit.
        return Reading(rows_of(self._values, index), closeness.to(keys.dtype))

    def _reset(self) -> None:
        self._keys = self._values = self._there = None
