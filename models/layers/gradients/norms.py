"""Root-mean-square norms over the last axis whose gradient is written out: fewer passes over the
numbers.

They are differentiable any number of times, and batched by ``torch.func.vmap``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def rms_norm(x: Tensor, epsilon: float, weight: Tensor | None = None) -> Tensor:
    """weight ⊙ x / √(mean of x² + ε); other devices than a CPU have a kernel for it.

    Args:
        x: (..., size); in half precision PyTorch's own norm computes in float32.
        weight: (size,); None is 1.
    """
    is_wide = x.dtype in (torch.float32, torch.float64)
    is_of_one_type = weight is None or weight.dtype == x.dtype
    if x.device.type != "cpu" or not is_wide or not is_of_one_type:
        return functional.rms_norm(x, x.shape[-1:], weight, epsilon)
    return _RootMeanSquare.apply(x, weight, epsilon)


class _RootMeanSquare(torch.autograd.Function):
    """(x, weight or None, epsilon) -> weight ⊙ x / √(mean of x² + ε)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
        normed = x * _inverse_root(x, epsilon)
        return normed if weight is None else normed * weight

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, ctx.epsilon = inputs
        ctx.save_for_backward(x, *([] if weight is None else [weight]))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        x, *weights = ctx.saved_tensors
        factor = _inverse_root(x, ctx.epsilon)
        normed = x * factor
        products = gradient * normed
        if not weights:
            along = products.mean(-1, keepdim=True)
            return torch.addcmul(gradient, normed, along, value=-1) * factor, None, None
        (weight,) = weights
        along = (products @ (weight / len(weight))).unsqueeze(-1)
        of_x = torch.addcmul(gradient * weight, normed, along, value=-1) * factor
        return of_x, products.flatten(0, -2).sum(0), None


def _inverse_root(x: Tensor, epsilon: float) -> Tensor:
    return (x.square().mean(-1, keepdim=True) + epsilon).rsqrt()
