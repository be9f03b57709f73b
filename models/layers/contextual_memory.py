"""How the memories of a Memory Mosaic are read: Gaussian kernel regression on unit keys.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), equations (3) and (7). On
keys of unit norm exp(-β/2 |k - k'|²) is, up to a constant, exp(β k·k'), so the regression is a
softmax attention whose queries carry β. Each read has a fast form and a plain one with the same
arguments; ``FAST`` and ``REFERENCE`` are the two sets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from models.layers.attention import attend
from models.layers.leaky_average import leaky_average, leaky_average_reference

SMALLEST_NORM = 1e-6


class Kernels(NamedTuple):
    """The functions that dominate the cost of a Memory Mosaic.

    Attributes:
        average: (batch, heads, time, head width), decay (heads,) -> averages of the same shape.
        read_past: ``read_past`` below.
        read_slots: ``read_slots`` below.
    """

    average: Callable[[Tensor, Tensor], Tensor]
    read_past: Callable[[Tensor, Tensor, Tensor, float], Tensor]
    read_slots: Callable[[Tensor, Tensor, Tensor, float], Tensor]


def unit(x: Tensor) -> Tensor:
    """x / ‖x‖ over the last axis, float32 or wider.

    Norms below 1e-6, which half precision could not hold, count as 1e-6: no NaN for a zero vector.
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    # The released library has no ε here; a zero vector was NaN there.
    return functional.normalize(wide, dim=-1, eps=SMALLEST_NORM)


def read_past(queries: Tensor, keys: Tensor, values: Tensor, dropout: float) -> Tensor:
    """y_t = Σ_{s<t} softmax_s(queries_t · keys_s) values_s, with y_0 = 0 for the empty memory.

    Strictly causal: the value of position t holds x_{t+1}, so a position may not read its own.
    After a shift by one this is the ordinary causal mask, which flash kernels know.

    Args:
        queries: (batch, heads, time, head width), times the inverse bandwidth β already.
        keys: (batch, heads, time, head width); the last one is not read.
        values: (batch, heads, time - 1, head width).
        dropout: probability of dropping an attention weight.

    Returns:
        (batch, heads, time, head width)
    """
    if queries.shape[2] == 1:
        return torch.zeros_like(queries)
    read = attend(
        queries[:, :, 1:], keys[:, :, :-1], values, causal=True, dropout=dropout, scale=1.0
    )
    # Padded as (batch, time, heads, width), in which heads are joined next: one copy, not two.
    return functional.pad(read.transpose(1, 2), (0, 0, 0, 0, 1, 0)).transpose(1, 2)


def read_past_reference(queries: Tensor, keys: Tensor, values: Tensor, dropout: float) -> Tensor:
    """``read_past`` with explicit scores and an explicit mask."""
    time = queries.shape[2]
    if time == 1:
        return torch.zeros_like(queries)
    # (time, time − 1), true where s < t.
    earlier = torch.ones(time, time - 1, dtype=torch.bool, device=queries.device).tril(-1)
    scores = queries @ keys[:, :, :-1].transpose(2, 3)
    weights = torch.softmax(scores[:, :, 1:].masked_fill(~earlier[1:], -torch.inf), dim=-1)
    read = functional.dropout(weights, dropout) @ values
    return torch.cat((torch.zeros_like(queries[:, :, :1]), read), dim=2)


def read_slots(queries: Tensor, keys: Tensor, values: Tensor, dropout: float) -> Tensor:
    """y_t = Σ_i softmax_i(queries_t · keys_i) values_i over slots that all positions share.

    Batch and time become one axis of queries. So the slots are neither copied for each sequence
    nor get a gradient for each, and shapes agree, without which no flash kernel is taken.

    Args:
        queries: (batch, heads, time, head width), times the inverse bandwidth β already.
        keys, values: (heads, slots, head width).
        dropout: probability of dropping an attention weight.

    Returns:
        (batch, heads, time, head width)
    """
    batch, heads, time, width = queries.shape
    read = attend(
        # (1, heads, batch · time, head width)
        queries.transpose(1, 2).reshape(1, batch * time, heads, width).transpose(1, 2),
        keys[None],
        values[None],
        causal=False,
        dropout=dropout,
        scale=1.0,
    )
    return read.transpose(1, 2).reshape(batch, time, heads, width).transpose(1, 2)


def read_slots_reference(queries: Tensor, keys: Tensor, values: Tensor, dropout: float) -> Tensor:
    """``read_slots`` with explicit scores."""
    weights = torch.softmax(queries @ keys.transpose(1, 2), dim=-1)
    return functional.dropout(weights, dropout) @ values


FAST = Kernels(leaky_average, read_past, read_slots)
REFERENCE = Kernels(leaky_average_reference, read_past_reference, read_slots_reference)
