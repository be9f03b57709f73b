"""Zipf's law over a finite number of tokens."""

from __future__ import annotations

import torch
from torch import Tensor

TOGETHER = 2**14  # longer sums are shared by threads, whose number would change the last digits


def zipf(tokens: int, alpha: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """Probabilities (tokens,) in proportion to (z + 1)^-alpha for z = 0, 1, …"""
    weights = torch.arange(1, tokens + 1, dtype=dtype) ** -alpha
    return weights / torch.stack([part.sum() for part in weights.split(TOGETHER)]).sum()
