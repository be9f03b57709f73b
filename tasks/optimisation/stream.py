"""Tokens that follow Zipf's law, and their classes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def zipf(tokens: int, alpha: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Probabilities (tokens,) in proportion to (z + 1)^-alpha for z = 0, 1, …"""
    weights = torch.arange(1, tokens + 1, dtype=dtype) ** -alpha
    return weights / weights.sum()


def draw(probabilities: Tensor, samples: int, generators: Sequence[torch.Generator]) -> Tensor:
    """(trials, samples) int64: independent tokens, the next numbers of each generator."""
    drawn = [
        torch.multinomial(probabilities, samples, replacement=True, generator=generator)
        for generator in generators
    ]
    return torch.stack(drawn)
