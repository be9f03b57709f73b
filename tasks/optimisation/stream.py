"""Streams of independent tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def draw(probabilities: Tensor, samples: int, generators: Sequence[torch.Generator]) -> Tensor:
    """(trials, samples) int64: independent tokens, the next numbers of each generator."""
    drawn = [
        torch.multinomial(probabilities, samples, replacement=True, generator=generator)
        for generator in generators
    ]
    return torch.stack(drawn)
