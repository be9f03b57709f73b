"""Sums over the past whose weights are exponentials too large or small for a float.

    S_t = e^{decay_t} S_{t−1} + e^{exponent_t} x_t

Each sum is held as e^{scale} total, with a scale near the largest exponent inside, as a softmax
subtracts its maximum (RWKV-4 does so with a running maximum: Peng et al. 2023, arXiv 2305.13048,
appendix D). With the scales known beforehand what is left is a linear recurrence whose
coefficients are at most about 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class ScaledSum(NamedTuple):
    """The number e^{scale} total. The scale is a choice, so no gradient flows through it.

    Attributes:
        scale: (batch, ..., 1)
        total: (batch, ..., size)
    """

    scale: Tensor
    total: Tensor


def scaled_sums(
    x: Tensor, exponents: Tensor, decays: Tensor, state: ScaledSum | None = None
) -> ScaledSum:
    """S_t at every position, exactly, whatever the exponents and the sign of the decays.

    Time is cut in pieces of about √time: one loop runs inside all pieces abreast, another one over
    the pieces. Call it in float32 at least.

    Args:
        x: (batch, time, ..., size).
        exponents: (batch, time, ..., 1), natural logarithms of the weights of x.
        decays: the same shape; logarithms of what a sum keeps from the position before.
        state: S_{−1}, without the axis of time; None is zero.

    Returns:
        S_t with scale (batch, time, ..., 1) and total (batch, time, ..., size).
    """
    with torch.no_grad():
        # Largest exponent: max_s (exponent_s + Σ_{s<r<=t} decay_r). Its rounding does no harm.
        sums = decays.cumsum(1)
        # The decays telescope: exponent_s − sums_s + sums_t, so that one running maximum does.
        largest = (exponents - sums).cummax(1).values
        if state is not None:
            largest = torch.maximum(largest, state.scale.unsqueeze(1))
        scale = largest + sums
    # Without a state the first factor multiplies zeros: any finite number serves.
    first = scale[:, :1] if state is None else state.scale.unsqueeze(1)
    keeps = torch.cat((first, scale[:, :-1]), 1) - scale + decays
    writes = torch.exp(exponents - scale) * x
    return ScaledSum(scale, _recurrence(keeps, writes, None if state is None else state.total))


def add_scaled(one: ScaledSum, other: ScaledSum) -> ScaledSum:
    """one + other; a sum of nothing has the scale −∞."""
    scale = torch.maximum(one.scale, other.scale).detach()
    return ScaledSum(
        scale,
        torch.exp(one.scale - scale) * one.total + torch.exp(other.scale - scale) * other.total,
    )


def _recurrence(keeps: Tensor, writes: Tensor, start: Tensor | None) -> Tensor:
    """y_t = e^{keeps_t} y_{t−1} + writes_t along axis 1; y_{−1} is ``start`` or zero."""
    time = writes.shape[1]
    piece = math.isqrt(time - 1) + 1  # ⌈√time⌉
    # Of factors e⁰ and writes of 0: positions that change nothing.
    padding = (0, 0) * (writes.dim() - 2) + (0, -time % piece)
    keeps, writes = (
        functional.pad(part, padding).unflatten(1, (-1, piece)) for part in (keeps, writes)
    )
    factors = torch.exp(keeps)
    local = [writes[:, :, 0]]
    for factor, write in zip(factors.unbind(2)[1:], writes.unbind(2)[1:], strict=True):
        local.append(torch.addcmul(write, factor, local[-1]))
    inside = torch.stack(local, 2)
    # What each position of a piece keeps of the sum that entered the piece.
    through = torch.exp(keeps.cumsum(2))
    before = [torch.zeros_like(inside[:, 0, 0]) if start is None else start]
    ends = zip(through[:, :-1, -1].unbind(1), inside[:, :-1, -1].unbind(1), strict=True)
    for factor, end in ends:
        before.append(torch.addcmul(end, factor, before[-1]))
    carried = torch.stack(before, 1).unsqueeze(2)
    return torch.addcmul(inside, through, carried).flatten(1, 2)[:, :time]
