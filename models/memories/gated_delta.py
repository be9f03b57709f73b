"""Gated delta rule: the matrix decays before each pair corrects it.

Source: Yang et al., "Gated delta networks" (ICLR 2025, arXiv 2412.06464), equation (10), with the
same decay for every item.
"""

from __future__ import annotations

from models.memories.delta_rule import DeltaRule


class GatedDelta(DeltaRule):
    """M ← (1 - c) M, then M ← M + b (v - M k) kᵀ, for each pair; the answer is M q.

    Args:
        key_size: width of keys.
        value_size: width of values.
        rate: b, above 0.
        decay: c in [0, 1]: 0 is the delta rule, 1 remembers the last pair alone.

    Raises:
        ValueError: a rate that is not above 0, or a decay outside [0, 1].
    """

    def __init__(
        self, key_size: int, value_size: int, *, rate: float = 1.0, decay: float = 0.02
    ) -> None:
        super().__init__(key_size, value_size, rate=rate)
        if not 0 <= decay <= 1:
            raise ValueError(
                f"decay is the share that each item forgets, between 0 and 1, got {decay}"
            )
        self.decay = decay
