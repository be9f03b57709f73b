"""Dropout whose masks are cheap to draw on a CPU.

PyTorch's draws cost more there than the exponentials of an attention. Here four masks come from one
number of 64 bits: the probability is rounded to a multiple of 2⁻¹⁶, and what is kept is scaled by
the share that is really kept. Masks come from PyTorch's default generator.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

LEVELS = 2**16
AT_ONCE = 2**18  # masks whose numbers stay in the cache


class Dropout(nn.Dropout):
    """``torch.nn.Dropout``, with the masks of ``dropout``."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape; in eval mode the input itself."""
        return dropout(input, self.p if self.training else 0.0)


def dropout(x: Tensor, probability: float) -> Tensor:
    """x with entries dropped and the others scaled, so that the mean is the same.

    Without dropout, and on other devices, this is PyTorch's function.
    """
    if not probability or x.device.type != "cpu":
        return functional.dropout(x, probability)
    masks = kept(x.shape, probability).to(x.dtype)
    return x * masks.mul_(scale_of_kept(probability))


def kept(shape: tuple[int, ...], probability: float) -> Tensor:
    """Masks, uint8 of ``shape`` on the CPU: 1 with probability 1 - ``probability``, else 0."""
    # int16 starts at −2¹⁵: the levels below this threshold are those dropped.
    threshold = _levels_dropped(probability) - LEVELS // 2
    total = math.prod(shape)
    parts = []
    for start in range(0, max(1, total), AT_ONCE):
        size = min(AT_ONCE, total - start)
        # The bound is exclusive: of 2⁶⁴ numbers the largest is never drawn.
        words = torch.randint(-(2**63), 2**63 - 1, (math.ceil(size / 4),))
        parts.append(words.view(torch.int16).ge_(threshold)[:size].to(torch.uint8))
    return torch.cat(parts).view(shape)


def scale_of_kept(probability: float) -> float:
    """One over the share that ``kept`` keeps."""
    return LEVELS / (LEVELS - _levels_dropped(probability))


def _levels_dropped(probability: float) -> int:
    if not 0 <= probability < 1:
        raise ValueError(f"dropout={probability} is not a probability from 0 to below 1; lower it")
    return min(round(probability * LEVELS), LEVELS - 1)
