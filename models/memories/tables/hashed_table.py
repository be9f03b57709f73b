"""A table whose reads compare a query only with keys of the same bucket of a hash.

Source: Charikar, "Similarity estimation techniques from rounding algorithms" (STOC 2002); as a way
to associative memories Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), section 8,
after Spring and Shrivastava 2017.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.layers.equal_keys import rows_of
from models.memories.interface import Reading, wide
from models.memories.stored_pairs import euclidean
from models.memories.tables.nearest_neighbour import NearestNeighbour

FINE = 1e4  # stripes to a unit of length, for a hash that tells neighbours apart


class HashedTable(NearestNeighbour):
    """A table of distinct keys with the latest value of each, and several hash tables over it.

    Each hash table has its own random hyperplanes; the sides on which a key lies are its bucket.
    Two keys at an angle θ share a bucket with probability (1 − θ/π)^bits. A read compares the
    query with the keys that share a bucket with it in one table or more, and answers the value of
    the nearest of these. Where there is none, the answer is 0 with the lowest confidence, else
    confidence is the closeness 1 / (1 + |q - k|²).

    What an index would look up is computed here as a mask over all keys, which costs as much as a
    search: ``compared`` counts what an index would compare.

    Args:
        key_size: width of keys.
        value_size: width of values.
        tables: hash tables, at least 1.
        bits: hyperplanes of each, from 1 to 60.
        local: whether near keys share buckets; False hashes by fine stripes in place of sides, so
            that equal keys alone do.

    Raises:
        ValueError: a number out of range.
    """

    planes: Tensor

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        tables: int = 24,
        bits: int = 8,
        local: bool = True,
    ) -> None:
        super().__init__(key_size, value_size)
        if tables < 1 or not 1 <= bits <= 60:
            raise ValueError(
                f"tables is at least 1 and bits from 1 to 60, got {tables} tables of {bits} bits"
            )
        self.register_buffer("planes", torch.randn(tables, bits, key_size))
        self.local = local

    def compared(self, keys: Tensor) -> Tensor:
        """int64 (*batch, queries): stored keys that a read would compare with each query.

        Raises:
            ValueError: an empty memory.
        """
        if self._keys is None:
            raise ValueError("an empty memory compares nothing: write to it first")
        return self._candidates(keys).sum(-1)

    def _candidates(self, keys: Tensor) -> Tensor:
        """bool (*batch, queries, items): whether a stored key shares a bucket with a query."""
        assert self._keys is not None
        assert self._there is not None
        queries, stored = self._buckets(keys), self._buckets(self._keys)
        share = torch.zeros(*queries.shape[:-1], stored.shape[-2], dtype=torch.bool)
        share = share.to(keys.device)
        for table in range(queries.shape[-1]):
            share |= queries[..., table][..., :, None] == stored[..., table][..., None, :]
        return share & self._there[..., None, :]

    def _buckets(self, keys: Tensor) -> Tensor:
        """int64 (*batch, items, tables)."""
        with torch.no_grad():
            projected = torch.einsum("...k,tbk->...tb", wide(keys), wide(self.planes))
            # The parity of a fine stripe: as random a bit as a side, which neighbours do not share.
            bits = projected > 0 if self.local else (FINE * projected).floor().remainder(2) > 0
            # All bits as one whole number: buckets are equal where these are.
            powers = 2 ** torch.arange(bits.shape[-1], device=keys.device)
            return (bits * powers).sum(-1)

    def _read(self, keys: Tensor) -> Reading:
        assert self._keys is not None
        assert self._values is not None
        queries, stored = wide(keys), wide(self._keys)
        candidates = self._candidates(keys)
        # The choice has no gradient; the closeness of what was chosen has.
        with torch.no_grad():
            index = euclidean(queries, stored).masked_fill(~candidates, torch.inf).argmin(-1)
        closeness = 1 / (1 + (queries - rows_of(stored, index)).square().sum(-1))
        found = candidates.any(-1)
        return Reading(
            rows_of(self._values, index).masked_fill(~found[..., None], 0),
            closeness.masked_fill(~found, self.lowest_confidence).to(keys.dtype),
        )
