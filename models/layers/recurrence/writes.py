"""What is written to a matrix memory: the arguments of ``linear_recurrence.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class Writes(NamedTuple):
    """What a sequence, or one position, does to the memory. With ``...`` for (batch, time), or for
    (batch,); keys and decays may have one head for all, and decays one sequence for all.

    Attributes:
        keys: k, (..., heads, key width). A rule that corrects is stable for |k| = 1 and β <= 2.
        values: v, (..., heads, value width).
        log_decays: g <= 0, natural and finite, (..., heads) or (..., heads, key width); None
            forgets nothing.
        strengths: β of the delta rule, (..., heads).
        rank_one: a and b of the rank-one rule, (..., heads, key width) each.
    """

    keys: Tensor
    values: Tensor
    log_decays: Tensor | None = None
    strengths: Tensor | None = None
    rank_one: tuple[Tensor, Tensor] | None = None

    def each(self, change: Callable[[Tensor], Tensor]) -> Writes:
        """The writes with every tensor changed."""
        decays, strengths = (
            None if x is None else change(x) for x in (self.log_decays, self.strengths)
        )
        pair = (
            None if self.rank_one is None else (change(self.rank_one[0]), change(self.rank_one[1]))
        )
        return Writes(change(self.keys), change(self.values), decays, strengths, pair)

    def at(self, position: int) -> Writes:
        """The writes of one position of a sequence."""
        return self.each(lambda x: x[:, position])

    def empty_memory(self) -> Tensor:
        """Zeros, (batch, heads, key width, value width)."""
        batch, heads = self.values.shape[0], self.values.shape[-2]
        return self.values.new_zeros(batch, heads, self.keys.shape[-1], self.values.shape[-1])
