"""A table of at most so many pairs: who is evicted when a new key comes to a full one.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), section 8: limited storage
could leverage least-recently used eviction schemes.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from models.layers.equal_keys import rows_of
from models.memories.interface import Memory, Reading, bytes_of
from models.memories.stored_pairs import nearest

Evicts = Literal["least_recent", "oldest", "never"]
EMPTY = -1  # the time of a row that holds nothing, before all others


class LimitedTable(Memory):
    """A table of distinct keys, answered by the nearest one, of which the latest value counts.

    A key is used when it is written, also again: a unit of a Memory Mosaic writes at every step
    what it has just seen. Reading is no use of a key, since it changes no memory. Confidence is the
    closeness 1 / (1 + |q - k|²) of the key whose value is answered, in (0, 1].

    Args:
        key_size: width of keys.
        value_size: width of values.
        slots: pairs that fit, at least 1.
        evicts: what a new key replaces in a full table: "least_recent", the key that was written
            last the longest ago; "oldest", the one that came first, however often it was written
            since; "never", nothing, and the new key is lost.

    Raises:
        ValueError: fewer than one slot, or another word for ``evicts``.
    """

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        slots: int = 64,
        evicts: Evicts = "least_recent",
    ) -> None:
        super().__init__(key_size, value_size)
        if slots < 1:
            raise ValueError(f"slots is a number of pairs, at least 1, got {slots}")
        if evicts not in get_args(Evicts):
            raise ValueError(f"evicts is one of {', '.join(get_args(Evicts))}, got {evicts!r}")
        self.slots, self.evicts = slots, evicts
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self._times: Tensor | None = None  # at which a row was used, or came
        self._now = 0

    def size_in_bytes(self) -> int:
        """Bytes of all slots, be they filled or not."""
        return bytes_of(self._keys, self._values, self._times)

    def _write(self, keys: Tensor, values: Tensor) -> None:
        batch = keys.shape[:-2]
        if self._keys is None or self._values is None or self._times is None:
            self._keys = keys.new_zeros(*batch, self.slots, self.key_size)
            self._values = values.new_zeros(*batch, self.slots, self.value_size)
            shape = (*batch, self.slots)
            self._times = torch.full(shape, EMPTY, dtype=torch.int64, device=keys.device)
        for key, value in zip(keys.unbind(-2), values.unbind(-2), strict=True):
            same = (self._keys == key[..., None, :]).all(-1) & (self._times != EMPTY)
            known = same.any(-1, keepdim=True)
            # Of a table that is not full, a row that holds nothing is the one used longest ago.
            longest_ago = self._times.argmin(-1, keepdim=True)
            place = torch.where(known, same.int().argmax(-1, keepdim=True), longest_ago)
            rows = torch.arange(self.slots, device=keys.device) == place
            if self.evicts == "never":
                full = self._times.amin(-1, keepdim=True) != EMPTY
                rows = rows & (known | ~full)
            used = rows & ~known if self.evicts == "oldest" else rows
            self._keys = torch.where(rows[..., None], key[..., None, :], self._keys)
            self._values = torch.where(rows[..., None], value[..., None, :], self._values)
            self._times = self._times.masked_fill(used, self._now)
            self._now += 1

    def _read(self, keys: Tensor) -> Reading:
        assert self._keys is not None
        assert self._values is not None
        assert self._times is not None
        index, closeness = nearest(keys, self._keys, self._times != EMPTY)
        return Reading(rows_of(self._values, index), closeness.to(keys.dtype))

    def _reset(self) -> None:
        self._keys = self._values = self._times = None
        self._now = 0
