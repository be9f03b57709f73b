"""Leaky average of a sequence: an exact linear recurrence in time that is linear to compute.

Source: Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), equation (6): keys are
averages over the past with one decay per head. The factor (1 - λ) is left out, because keys are
normalised afterwards. On CUDA a Triton kernel computes it, where the extra ``[gpu]`` is installed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from models.layers.recurrence.kernels import installed

# Measured on one CPU thread at (4, 8, 512, 32): 8 and 16 are equal, 32 costs 1.2 times as much.
CHUNK = 16


def leaky_average(x: Tensor, decay: Tensor) -> Tensor:
    """k_t = x_t + λ k_{t-1} with λ = exp(-decay), starting at k_{-1} = 0.

    Differentiable to any order in both arguments, and batched by ``torch.func.vmap``.

    Args:
        x: (batch, heads, time, head width), real, any strides. It is fastest as a view of
            (batch, time, heads, head width).
        decay: (heads,), at least 0. 0 is a plain sum over the past, infinity forgets at once.

    Returns:
        (batch, heads, time, head width), float32 or wider: a long memory does not fit in half
        precision.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    return _LeakyAverage.apply(x.to(dtype), decay.to(dtype), False)


def leaky_average_reference(x: Tensor, decay: Tensor) -> Tensor:
    """The recurrence of ``leaky_average`` as it is written, one position after the other."""
    factor = torch.exp(-decay)[:, None]
    average = torch.zeros_like(x[:, :, 0])
    averages = []
    for x_t in x.unbind(2):
        average = x_t + factor * average
        averages.append(average)
    return torch.stack(averages, dim=2)


def has_kernel(x: Tensor) -> bool:
    """Whether the Triton kernel can compute this: float32 on a GPU, and no ``torch.func``
    transform, for it has no batching rule."""
    if not x.is_cuda or x.dtype != torch.float32 or torch._C._are_functorch_transforms_active():
        return False
    return installed()


class _LeakyAverage(torch.autograd.Function):
    """The recurrence, from the past or, with ``backwards``, from the future.

    The gradient for x is the same recurrence run the other way:
    δ_t = g_t + λ δ_{t+1}, and dL/dλ = Σ_t δ_t · k_{t-1}.
    """

    @staticmethod
    def forward(x: Tensor, decay: Tensor, backwards: bool) -> Tensor:
        if has_kernel(x):
            from models.layers.recurrence.leaky_kernel import scan_by_kernel

            return scan_by_kernel(x, decay, backwards)
        batch, heads, time, width = x.shape
        flat = x.transpose(1, 2).reshape(batch, time, heads * width)
        averages = _scan(flat, decay.repeat_interleave(width), backwards)
        return averages.view(batch, time, heads, width).transpose(1, 2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, bool], output: Tensor) -> None:
        _, decay, ctx.backwards = inputs
        ctx.save_for_backward(decay, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        decay, averages = ctx.saved_tensors
        # By the same Function, so that a second derivative exists as well.
        delta = _LeakyAverage.apply(gradient, decay, not ctx.backwards)
        decay_gradient = None
        if ctx.needs_input_grad[1]:
            if ctx.backwards:
                products = delta[:, :, :-1] * averages[:, :, 1:]
            else:
                products = delta[:, :, 1:] * averages[:, :, :-1]
            # dλ/d(decay) = −λ
            decay_gradient = -torch.exp(-decay) * products.sum((0, 2)).sum(-1)
        return delta, decay_gradient, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, int | None, None],
        x: Tensor,
        decay: Tensor,
        backwards: bool,
    ) -> tuple[Tensor, int]:
        """Stacked models are more heads: the decay is per head already."""
        size = info.batch_size
        x_dim, decay_dim, _ = in_dims
        x = x.unsqueeze(1).expand(-1, size, *x.shape[1:]) if x_dim is None else x.movedim(x_dim, 1)
        decay = decay.expand(size, -1) if decay_dim is None else decay.movedim(decay_dim, 0)
        averages = _LeakyAverage.apply(x.flatten(1, 2), decay.flatten(), backwards)
        return averages.unflatten(1, (size, -1)), 1


def _scan(x: Tensor, decay: Tensor, backwards: bool) -> Tensor:
    """The recurrence over (batch, time, channels) with one decay per channel.

    Sequential inside chunks, with all chunks abreast; then the last average of each chunk is
    carried into the next one, which is the same recurrence over fewer positions. Powers are
    exp(-decay · n): products of λ would lose it near 1, and quotients would overflow near 0.
    """
    batch, time, channels = x.shape
    chunk = min(CHUNK, time)
    # Zeros after the end; run backwards they come first, and pass on nothing.
    averages = x.new_zeros(batch, time + -time % chunk, channels)
    averages[:, :time] = x
    averages = averages.view(batch, -1, chunk, channels)
    factor = torch.exp(-decay)
    order = range(chunk - 1, -1, -1) if backwards else range(chunk)
    for previous, current in pairwise(order):
        averages[:, :, current].addcmul_(averages[:, :, previous], factor)
    if averages.shape[1] > 1:
        # One position for each chunk, and a decay as long as a chunk.
        carry = _scan(averages[:, :, order[-1]], decay * chunk, backwards)[:, :, None]
        # A position n steps into a chunk has λⁿ of the average that the chunk before handed on.
        distance = torch.arange(1, chunk + 1, device=x.device, dtype=x.dtype)
        powers = torch.exp(-decay * distance[:, None])
        if backwards:
            averages[:, :-1].addcmul_(carry[:, 1:], powers.flip(0))
        else:
            averages[:, 1:].addcmul_(carry[:, :-1], powers)
    return averages.view(batch, -1, channels)[:, :time]
