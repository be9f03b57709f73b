"""Two-layer MLP in closed form: random first layer, second layer by ridge regression.

Source: Rahimi and Recht, "Random features for large-scale kernel machines" (NeurIPS 2007); as an
associative memory of about width · key_size pairs Nichani, Lee and Bietti (ICLR 2025, arXiv
2412.06538).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.memories.interface import wide
from models.memories.ridge import Ridge


class RandomFeatures(Ridge):
    """v = A φ(k) with φ(k) = √(2/width) relu(W k), W (width, key_size) drawn from N(0, 1) and kept.

    A is the ridge regression from φ to v over everything written. The factor gives unit keys
    features of mean squared norm 1. Confidence is that of ``Ridge`` over φ.

    Args:
        key_size: width of keys.
        value_size: width of values.
        width: number of features, at least 1.
        ridge: above 0.

    Raises:
        ValueError: a width below 1, or a ridge that is not above 0.
    """

    first: Tensor

    def __init__(
        self, key_size: int, value_size: int, *, width: int = 256, ridge: float = 1e-3
    ) -> None:
        super().__init__(key_size, value_size, ridge=ridge)
        if width < 1:
            raise ValueError(f"width is a number of features, at least 1, got {width}")
        self.register_buffer("first", torch.randn(width, key_size))

    def _features(self, keys: Tensor) -> Tensor:
        hidden = torch.relu(wide(keys) @ wide(self.first).T)
        # E relu(w·k)² = |k|²/2 for w from N(0, 1).
        return math.sqrt(2 / len(self.first)) * hidden
