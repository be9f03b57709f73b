"""Modern Hopfield network: the query first moves towards stored keys, then reads their values.

Source: Ramsauer et al., "Hopfield networks is all you need" (ICLR 2021, arXiv 2008.02217),
equations (3) and (10).
"""

from __future__ import annotations

from torch import Tensor

from models.memories.interface import Reading, wide
from models.memories.kernel import read_by_softmax
from models.memories.stored_pairs import StoredPairs, nearest


class ModernHopfield(StoredPairs):
    """q ← Σ_i softmax_i(β q·k_i) k_i, ``updates`` times, then y = Σ_i softmax_i(β q·k_i) v_i.

    Keys are not normalised: among keys of different length, long ones draw more. With no update
    and unit keys it is the kernel memory. Confidence is the closeness 1 / (1 + |q - k|²) of the
    key nearest to the query as it was asked, in (0, 1].

    Args:
        key_size: width of keys.
        value_size: width of values.
        beta: β, the inverse temperature, above 0.
        updates: retrieval steps before the values are read, at least 0.

    Raises:
        ValueError: a beta that is not above 0, or negative updates.
    """

    def __init__(
        self, key_size: int, value_size: int, *, beta: float = 20.0, updates: int = 1
    ) -> None:
        super().__init__(key_size, value_size)
        if not beta > 0:
            raise ValueError(f"beta is an inverse temperature and above 0, got {beta}")
        if updates < 0:
            raise ValueError(f"updates is a number of retrieval steps, 0 or more, got {updates}")
        self.beta, self.updates = beta, updates

    def _read(self, keys: Tensor) -> Reading:
        assert self._keys is not None
        assert self._values is not None
        stored, state = wide(self._keys), wide(keys)
        for _ in range(self.updates):
            state = read_by_softmax(self.beta * state, stored, stored)
        values = read_by_softmax(self.beta * state, stored, wide(self._values))
        # Of the query as asked: after the updates every query lies near some key.
        _, closeness = nearest(keys, stored)
        return Reading(values.to(keys.dtype), closeness.to(keys.dtype))
