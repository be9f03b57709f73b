"""A layer with a unit for each stored key, whose threshold leaves out keys that are far.

Source: Bietti 2024, Associative memories as a tractable building block in transformers (slides),
"Increasing capacity": f(z) = argmax_y v_yᵀ Σ_z' v_f(z') σ(u_z'ᵀ u_z − b).
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.layers.contextual_memory import unit
from models.memories.interface import Reading, wide
from models.memories.stored_pairs import StoredPairs, nearest


class Thresholded(StoredPairs):
    """y(q) = Σ_i max(0, cos(q, k_i) − b) v_i: a perceptron whose first layer is the stored keys,
    whose second is their values, and whose units all have the bias −b.

    Where no key is as near as the threshold, the answer is 0. Confidence is the closeness
    1 / (1 + |q - k|²) of the nearest key of length 1, in (0, 1].

    Args:
        key_size: width of keys.
        value_size: width of values.
        threshold: b, the cosine from which a stored key takes part, from -1 to below 1.

    Raises:
        ValueError: a threshold outside its range.
    """

    def __init__(self, key_size: int, value_size: int, *, threshold: float = 0.75) -> None:
        super().__init__(key_size, value_size)
        if not -1 <= threshold < 1:
            raise ValueError(f"threshold is a cosine from -1 to below 1, got {threshold}")
        self.threshold = threshold

    def _read(self, keys: Tensor) -> Reading:
        assert self._keys is not None
        assert self._values is not None
        queries, stored = unit(keys), unit(self._keys)
        activations = torch.relu(queries @ stored.mT - self.threshold)
        values = activations @ wide(self._values)
        _, closeness = nearest(queries, stored)
        return Reading(values.to(keys.dtype), closeness.to(keys.dtype))
