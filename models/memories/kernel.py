"""Kernel regression over all written pairs: the contextual memory of a Memory Mosaic.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), equations (2), (3) and (7);
the bandwidth that depends on the number of pairs from Zhang et al., "Memory Mosaics at scale"
(NeurIPS 2025, arXiv 2507.03285).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from models.layers.contextual_memory import read_slots, unit
from models.memories.interface import Reading, wide
from models.memories.stored_pairs import StoredPairs, euclidean, nearest

KERNELS = ("unit", "gaussian")


def read_by_softmax(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Σ_i softmax_i(q·k_i) v_i by the Mosaic's own ``read_slots``.

    Args:
        queries: (*batch, queries, size), times the inverse bandwidth already.
        keys: (*batch, items, size).
        values: (*batch, items, value size).

    Returns:
        (*batch, queries, value size)
    """
    # ``read_slots`` takes one width for all: zeros in keys add nothing to a product, and zeros in
    # values are cut off again.
    *batch, count, size = queries.shape
    value_size = values.shape[-1]
    width = max(size, value_size)
    queries, keys, values = (
        functional.pad(x, (0, width - x.shape[-1])).reshape(math.prod(batch), -1, width)
        for x in (queries, keys, values)
    )
    read = read_slots(queries[None], keys, values, 0.0)
    return read[0, ..., :value_size].reshape(*batch, count, value_size)


class Kernel(StoredPairs):
    """y(q) = Σ_i w_i v_i / Σ_i w_i with w_i = exp(-β/2 |q - k_i|²).

    Confidence is the closeness 1 / (1 + |q - k|²) of the nearest key, in (0, 1].

    Args:
        key_size: width of keys.
        value_size: width of values.
        kernel: "unit" divides queries and keys by their norm first, as the Mosaic does; "gaussian"
            takes them as they are.
        beta: β₀ of the inverse bandwidth β(n) = β₀ + β₁ n^α for n stored pairs.
        growth: β₁; 0 keeps β constant. Memory Mosaics v2 starts at β₀ = β₁ = e^1.5.
        exponent: α; 1/3 at the start of Memory Mosaics v2.

    Raises:
        ValueError: an unknown kernel, or an inverse bandwidth that is not above 0.
    """

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        kernel: str = "unit",
        beta: float = 20.0,
        growth: float = 0.0,
        exponent: float = 1 / 3,
    ) -> None:
        super().__init__(key_size, value_size)
        if kernel not in KERNELS:
            raise ValueError(f"kernel is one of {', '.join(KERNELS)}, got {kernel!r}")
        if beta < 0 or growth < 0 or not beta + growth > 0:
            raise ValueError(
                "the inverse bandwidth beta + growth · n^exponent is above 0 and neither part is "
                f"negative, got beta {beta} and growth {growth}"
            )
        self.kernel, self.beta, self.growth, self.exponent = kernel, beta, growth, exponent

    def inverse_bandwidth(self, items: int) -> float:
        """β for a memory of that many pairs, at least one."""
        return self.beta + self.growth * items**self.exponent

    def _read(self, keys: Tensor) -> Reading:
        assert self._keys is not None
        assert self._values is not None
        beta = self.inverse_bandwidth(self._keys.shape[-2])
        if self.kernel == "unit":
            queries, stored = unit(keys), unit(self._keys)
            values = read_by_softmax(beta * queries, stored, wide(self._values))
        else:
            queries, stored = wide(keys), wide(self._keys)
            # Not by inner products, in which keys far from the origin lose their distances.
            squares = euclidean(queries, stored).square()
            values = torch.softmax(-beta / 2 * squares, -1) @ wide(self._values)
        # The nearest key, not the mean of many: it tells a stored key from an unseen one.
        _, closeness = nearest(queries, stored)
        return Reading(values.to(keys.dtype), closeness.to(keys.dtype))
