"""Softmax attention that is fast with dropout of its weights on a CPU.

PyTorch's flash kernel for CPUs has no dropout, and the form without it holds several maps of
time × time. Here queries go in chunks that stay in the cache, and the backward pass computes their
weights again; one byte for each weight is kept, which says whether it was dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import (
    register_flop_formula,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from models.layers.dropout import kept, scale_of_kept

# Measured on one CPU thread at (8, 8, 410, 16) and (16, 2, 170, 32): causal chunks of 32 and 64
# queries are equal, 16 and 128 slower; without a causal mask 256 and 512 are equal, 64 slower.
CAUSAL_CHUNK = 64
CHUNK = 256
WEIGHTS_AT_ONCE = 2**18  # of several heads: their buffers stay in the cache


class _Chunk(NamedTuple):
    """Heads and queries that are computed at once, the keys that the last of the queries sees, and
    where the masks of these weights lie in the masks of a head."""

    heads: slice
    queries: slice
    keys: slice
    masks: slice


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    causal: bool,
    dropout: float = 0.0,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """softmax(scale · queries keysᵀ) values, each weight dropped with probability ``dropout``.

    Without dropout, and on devices whose kernels know it, this is PyTorch's function. With it, a
    gradient is not differentiable again, and masks come from PyTorch's default generator.

    Args:
        queries: (batch, heads, time, head width).
        keys, values: (batch, heads, positions, head width).
        causal: query t sees the keys up to t; ``positions`` is ``time`` then.
        dropout: probability, below 1; those kept are scaled, so that the mean is the same.
        bias: (heads, time, positions) added to the scores; with it, PyTorch's function as well.
        scale: of the scores; None is 1/√(head width).

    Returns:
        (batch, heads, time, head width)
    """
    if not dropout or bias is not None or queries.device.type != "cpu":
        return functional.scaled_dot_product_attention(
            queries, keys, values, bias, dropout, is_causal=causal, scale=scale
        )
    scale = 1 / math.sqrt(queries.shape[-1]) if scale is None else scale
    wide = torch.promote_types(queries.dtype, torch.float32)
    with torch.autocast(queries.device.type, enabled=False):
        q, k, v = (x.to(wide).flatten(0, 1).contiguous() for x in (queries, keys, values))
        # Masks of a head lie end to end: where the last chunk's end is their number.
        *_, last = _chunks(1, q.shape[1], k.shape[1], causal)
        masks = kept((len(q), last.masks.stop), dropout)
        # The values instead of each weight that is kept: fewer numbers to scale.
        read = _Attend.apply(q * scale, k, v * scale_of_kept(dropout), masks, causal)
    return read.unflatten(0, queries.shape[:2]).to(queries.dtype)


# The two below are operators, so that counters of FLOPs and compilers see one thing each. Their
# tensors are (heads of all sequences, time, head width); masks (heads, weights), chunk by chunk.


@torch.library.custom_op("models::attend", mutates_args=())
def _attend(queries: Tensor, keys: Tensor, values: Tensor, masks: Tensor, causal: bool) -> Tensor:
    """(masks · softmax(queries keysᵀ)) values."""
    read = queries.new_empty(*queries.shape[:2], values.shape[2])
    for chunk, weights, mask, _ in _weights(queries, keys, masks, causal):
        read[chunk.heads, chunk.queries] = weights.mul_(mask) @ values[chunk.heads, chunk.keys]
    return read


@torch.library.custom_op("models::attend_backward", mutates_args=())
def _attend_backward(
    gradient: Tensor,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    masks: Tensor,
    read: Tensor,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values.

    With weights p, masks m and the gradient g of what was read, that of the scores is
    p (m g·v - g·read).
    """
    d_queries, d_keys = torch.empty_like(queries), torch.zeros_like(keys)
    d_values = torch.zeros_like(values)
    mean = -(gradient * read).sum(-1, keepdim=True)
    for chunk, weights, mask, d_scores in _weights(queries, keys, masks, causal):
        heads, rows, seen = chunk.heads, chunk.queries, chunk.keys
        # From here on ``mask`` holds m p, in the buffer that it was given.
        used = mask.mul_(weights)
        d_values[heads, seen].baddbmm_(used.mT, gradient[heads, rows])
        torch.bmm(gradient[heads, rows], values[heads, seen].mT, out=d_scores)
        d_scores.mul_(used).addcmul_(weights, mean[heads, rows])
        d_queries[heads, rows] = d_scores @ keys[heads, seen]
        d_keys[heads, seen].baddbmm_(d_scores.mT, queries[heads, rows])
    return d_queries, d_keys, d_values


class _Attend(torch.autograd.Function):
    """(queries, keys, values, masks, causal) -> what was read."""

    @staticmethod
    def forward(
        queries: Tensor, keys: Tensor, values: Tensor, masks: Tensor, causal: bool
    ) -> Tensor:
        return _attend(queries, keys, values, masks, causal)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.causal = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *_AttendGradient.apply(gradient, *ctx.saved_tensors, ctx.causal), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Tensor, int]:
        (read,), _ = _with_models_as_heads(_Attend, info.batch_size, in_dims, arguments)
        return read, 0


class _AttendGradient(torch.autograd.Function):
    """Gradients of the three tensors; a Function of its own because in-place work under vmap needs
    plain tensors. It is differentiable once."""

    @staticmethod
    def forward(
        gradient: Tensor,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        masks: Tensor,
        read: Tensor,
        causal: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return _attend_backward(gradient, queries, keys, values, masks, read, causal)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return _with_models_as_heads(_AttendGradient, info.batch_size, in_dims, arguments)


def _with_models_as_heads(
    function: Any, models: int, in_dims: tuple[int | None, ...], arguments: tuple[Any, ...]
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Apply ``function`` once to stacked models: all tensors have heads first."""
    *tensors, causal = arguments
    folded = [
        (x.expand(models, *x.shape) if axis is None else x.movedim(axis, 0)).flatten(0, 1)
        for x, axis in zip(tensors, in_dims, strict=False)
    ]
    results = function.apply(*folded, causal)
    outputs = (results,) if isinstance(results, Tensor) else results
    return tuple(x.unflatten(0, (models, -1)) for x in outputs), (0,) * len(outputs)


_attend.register_fake(
    lambda queries, keys, values, masks, causal: queries.new_empty(
        *queries.shape[:2], values.shape[2]
    )
)
_attend_backward.register_fake(
    lambda gradient, queries, keys, values, masks, read, causal: (
        torch.empty_like(queries),
        torch.empty_like(keys),
        torch.empty_like(values),
    )
)


@register_flop_formula(torch.ops.models.attend)
# PyTorch's formulas count (batch, heads, time, width); heads come first here.
def _flops(queries: Any, keys: Any, values: Any, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(*((1, *shape) for shape in (queries, keys, values)))


@register_flop_formula(torch.ops.models.attend_backward)
def _backward_flops(gradient: Any, queries: Any, keys: Any, values: Any, *_: Any, **__: Any) -> int:
    shapes = (gradient, queries, keys, values)
    return sdpa_backward_flop_count(*((1, *shape) for shape in shapes))


def _weights(
    queries: Tensor, keys: Tensor, masks: Tensor, causal: bool
) -> Iterator[tuple[_Chunk, Tensor, Tensor, Tensor]]:
    """Each chunk with its softmax weights, its masks and room for as many numbers, all (heads,
    queries, keys), in buffers that the next chunk overwrites."""
    chunks = list(_chunks(len(queries), queries.shape[1], keys.shape[1], causal))
    largest = max((c.heads.stop - c.heads.start) * (c.masks.stop - c.masks.start) for c in chunks)
    buffers = queries.new_empty(3, largest)
    size = chunks[0].queries.stop
    future = queries.new_full((size, size), -math.inf).triu(1)
    for chunk in chunks:
        mask = masks[chunk.heads, chunk.masks].unflatten(1, (-1, chunk.keys.stop))
        scores, floats, spare = (buffer[: mask.numel()].view(mask.shape) for buffer in buffers)
        torch.bmm(queries[chunk.heads, chunk.queries], keys[chunk.heads, chunk.keys].mT, out=scores)
        # Only the last of these keys, as many as queries, can be later than a query.
        if causal:
            rows = scores.shape[1]
            scores[:, :, chunk.queries.start :].add_(future[:rows, :rows])
        torch.softmax(scores, -1, out=scores)
        yield chunk, scores, floats.copy_(mask), spare


def _chunks(heads: int, time: int, positions: int, causal: bool) -> Iterator[_Chunk]:
    size = min(time, CAUSAL_CHUNK if causal else CHUNK)
    together = max(1, WEIGHTS_AT_ONCE // (size * positions))
    for first in range(0, heads, together):
        used = 0
        for start in range(0, time, size):
            end = min(start + size, time)
            seen = end if causal else positions
            # Masks of a head lie chunk after chunk, without the keys that no query of a chunk may
            # see.
            masks = slice(used, used + (end - start) * seen)
            head_group = slice(first, min(first + together, heads))
            yield _Chunk(head_group, slice(start, end), slice(0, seen), masks)
            used = masks.stop
