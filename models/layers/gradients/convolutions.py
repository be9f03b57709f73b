"""A short causal convolution whose gradient is written out: autograd would put each tap's together
from zeros and copies as long as the sequence.

It is differentiable once, and batched by ``torch.func.vmap``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

NUMBERS_IN_CACHE = 2**17  # half a mebibyte in float32


def causal_convolution(x: Tensor, filters: Tensor, bias: Tensor) -> Tensor:
    """y_t = bias + Σ_j filters_j ⊙ x_{t−taps+1+j}, j = 0 … taps − 1, with nothing before x_0.

    Args:
        x: (batch, time, channels), in float32 or float64.
        filters: (taps, channels), in the same type.
        bias: (channels,), in the same type.
    """
    return _CausalConvolution.apply(x, filters, bias)


class _CausalConvolution(torch.autograd.Function):
    """(x, filters, bias) -> y."""

    @staticmethod
    def forward(x: Tensor, filters: Tensor, bias: Tensor) -> Tensor:
        *earlier, own = filters.unbind(0)
        y = torch.addcmul(bias, x, own)
        for lag, weights in _lags(earlier, x):
            y[:, lag:].addcmul_(x[:, :-lag], weights)
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, filters, _ = inputs
        ctx.save_for_backward(x, filters)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        return _CausalConvolutionGradient.apply(gradient, *ctx.saved_tensors)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Any, Any]:
        (y,), axes = _with_models_as_channels(
            lambda *folded: (_CausalConvolution.apply(*folded),), info.batch_size, in_dims, tensors
        )
        return y, axes[0]


class _CausalConvolutionGradient(torch.autograd.Function):
    """Gradients of the three tensors of :class:`_CausalConvolution`; a Function of its own, for
    under vmap its in-place work needs plain tensors."""

    @staticmethod
    def forward(gradient: Tensor, x: Tensor, filters: Tensor) -> tuple[Tensor, ...]:
        *earlier, own = filters.unbind(0)
        of_x = gradient * own
        for lag, weights in _lags(earlier, x):
            of_x[:, :-lag].addcmul_(gradient[:, lag:], weights)
        return of_x, _of_filters(gradient, x, len(filters)), gradient.sum((0, 1))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept: the convolution is differentiable once."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Any, Any]:
        function = _CausalConvolutionGradient.apply
        return _with_models_as_channels(function, info.batch_size, in_dims, tensors)


def _with_models_as_channels(
    function: Callable[..., tuple[Tensor, ...]],
    models: int,
    in_dims: tuple[int | None, ...],
    tensors: tuple[Tensor, ...],
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Apply ``function`` once to stacked models, their axis folded into that of channels, which is
    the last of every tensor."""
    folded = []
    for tensor, axis in zip(tensors, in_dims, strict=True):
        stacked = (
            tensor.unsqueeze(-2).expand(*tensor.shape[:-1], models, -1)
            if axis is None
            else tensor.movedim(axis, -2)
        )
        folded.append(stacked.flatten(-2))
    outputs = [output.unflatten(-1, (models, -1)) for output in function(*folded)]
    return tuple(outputs), tuple(output.dim() - 2 for output in outputs)


def _of_filters(gradient: Tensor, x: Tensor, taps: int) -> Tensor:
    """(taps, channels): over all positions the sums of products of the gradient of y and of the
    inputs that each tap sees."""
    _, length, channels = x.shape
    # A few sequences at a time, whose products are summed before they leave the cache.
    few = max(1, NUMBERS_IN_CACHE // (length * channels))
    sums = []
    for of_y, seen in zip(gradient.split(few), x.split(few), strict=True):
        # A tap that no position of so short a sequence reaches has a sum of none.
        products = (of_y[:, lag:] * seen[:, : max(0, length - lag)] for lag in range(taps))
        sums.append(torch.stack([product.sum((0, 1)) for product in products]))
    return torch.stack(sums).sum(0).flip(0)


def _lags(earlier: list[Tensor], x: Tensor) -> list[tuple[int, Tensor]]:
    """How far each tap but the last looks back and its weights, the nearest first, as far as the
    sequence reaches."""
    return list(enumerate(reversed(earlier), start=1))[: x.shape[1] - 1]
