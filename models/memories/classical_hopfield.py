"""Classical Hopfield network over the signs of keys and values.

Source: Hopfield (PNAS 1982); about 0.138 patterns for each neuron: Amit, Gutfreund and Sompolinsky
(1985).
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.memories.interface import Memory, Reading, bytes_of, wide


def signs(x: Tensor) -> Tensor:
    """±1, with +1 for 0."""
    return torch.where(x < 0, -1.0, 1.0).to(wide(x).dtype)


class ClassicalHopfield(Memory):
    """W = Σ x xᵀ without its diagonal, over patterns x = (sign k, sign v) of ±1.

    A query starts the key neurons at its signs and the value neurons at 0; all neurons then take
    the sign of their field at once, and keep their state where the field is 0, until nothing
    changes or ``updates`` have passed (two states may alternate for ever). Values come back as
    signs ±1: compare them by direction. A value neuron that no field ever reached answers 0.

    Confidence is the overlap of the signs of the query with the key neurons at the end, from -1
    to 1: a stored key stays where it is.

    Args:
        key_size: width of keys.
        value_size: width of values.
        updates: most synchronous updates, at least 1.

    Raises:
        ValueError: fewer than 1 update.
    """

    lowest_confidence = -1.0

    def __init__(self, key_size: int, value_size: int, *, updates: int = 10) -> None:
        super().__init__(key_size, value_size)
        if updates < 1:
            raise ValueError(f"values are read after at least 1 update, got {updates}")
        self.updates = updates
        self._weights: Tensor | None = None

    def size_in_bytes(self) -> int:
        """Bytes of W: the square of key_size + value_size numbers for each memory of the batch."""
        return bytes_of(self._weights)

    def _write(self, keys: Tensor, values: Tensor) -> None:
        patterns = torch.cat((signs(keys), signs(values)), -1)
        weights = patterns.mT @ patterns
        # Without a diagonal no neuron holds itself, and spurious fixed points are fewer.
        weights = weights - torch.diag_embed(weights.diagonal(dim1=-2, dim2=-1))
        self._weights = weights if self._weights is None else self._weights + weights

    def _read(self, keys: Tensor) -> Reading:
        assert self._weights is not None
        cues = signs(keys)
        state = torch.cat((cues, cues.new_zeros(*cues.shape[:-1], self.value_size)), -1)
        # All neurons at once: one at a time they would always settle, but in an order of theirs,
        # which would be part of the answer.
        for _ in range(self.updates):
            field = state @ self._weights
            following = torch.where(field == 0, state, signs(field))
            if torch.equal(following, state):
                break
            state = following
        settled, values = state.split((self.key_size, self.value_size), -1)
        overlap = (settled * cues).mean(-1)
        return Reading(values.to(keys.dtype), overlap.to(keys.dtype))

    def _reset(self) -> None:
        self._weights = None
