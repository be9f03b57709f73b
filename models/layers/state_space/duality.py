"""Mamba-2's recurrence in chunks of positions, with its own gradient.

Dao and Gu 2024, "Transformers are SSMs", arXiv 2405.21060, section 6. Every head h has a memory S,
a matrix from N keys to its values, and all heads share k and q (the paper's B and C):

    S_t[h] = exp(g_t[h]) S_{t−1}[h] + k_t ⊗ Δ_t[h] x_t[h],    y_t[h] = S_t[h]ᵀ q_t.

With c the sums of g from the start of a chunk, a position reads in its chunk what earlier ones
wrote, by the products of q and k times exp(c_i − c_j), and what the chunk found, times exp(c_i).
All chunks are done at once but for the memories between them. Since keys are shared, products with
a memory are those of one matrix that has the values of all heads side by side.

The gradient of c needs no square of positions: a write reaches its readers through exp(c_i − c_j)
alone, so that dLoss/dc_i is y_i · dLoss/dy_i less v_i · dLoss/dv_i with v = Δ x.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# Positions abreast: the squares of scores are then as large as the memories between chunks, for
# N = 64 keys.
CHUNK = 64


def shared_keys_recurrence(
    queries: Tensor,
    keys: Tensor,
    inputs: Tensor,
    step_sizes: Tensor,
    log_decays: Tensor,
    memory: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """What every position reads, and the memory after the last one.

    Differentiable once, in every argument, also under ``torch.func``.

    Args:
        queries, keys: q and k, (batch, time, N).
        inputs: x, (batch, time, heads, head width).
        step_sizes: Δ, (batch, time, heads).
        log_decays: g <= 0, natural and finite, (batch, time, heads).
        memory: before the first position, (batch, heads, N, head width); None is empty.

    Returns:
        y (batch, time, heads, head width) in the type of the inputs, and the memory, in float32 or
        wider.
    """
    length = inputs.shape[1]
    chunk = min(CHUNK, length)
    missing = -length % chunk
    wide = torch.promote_types(inputs.dtype, torch.float32)

    def cut(x: Tensor) -> Tensor:
        """(batch, chunks, chunk, …), with zeros after the end: they write nothing, keep all."""
        x = x.to(wide)
        filled = functional.pad(x, (0, 0) * (x.dim() - 2) + (0, missing)) if missing else x
        return filled.unflatten(1, (-1, chunk))

    if memory is None:
        memory = inputs.new_zeros(
            inputs.shape[0], inputs.shape[2], keys.shape[-1], inputs.shape[3], dtype=wide
        )
    with torch.autocast(inputs.device.type, enabled=False):
        read, last, *_ = _SharedKeys.apply(
            *(cut(x) for x in (queries, keys, inputs, step_sizes, log_decays)), memory.to(wide)
        )
    return read.flatten(1, 2)[:, :length].to(inputs.dtype), last


# Below, with C chunks of L positions, H heads and values of width P:
#     q, k  (batch, C, L, N)          Δ, g, c  (batch, C, L, H)
#     x, y  (batch, C, L, H, P)       scores   (batch, C, H, L, L)
#     S     (batch, H, N, P), and all that chunks find (batch, C, N, H P)


class _SharedKeys(torch.autograd.Function):
    """(q, k, x, Δ, g, S) -> y, the last S, and what the gradient needs of the way there: decays
    from position to position, scores, and what chunks find."""

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, x: Tensor, steps: Tensor, logs: Tensor, memory: Tensor
    ) -> tuple[Tensor, ...]:
        sums = logs.cumsum(2)
        faded = x * (steps * _to_end(sums)).unsqueeze(-1)
        entering, state = _carry(k.mT @ _beside(faded), sums, memory)
        by_head = sums.transpose(2, 3).contiguous()  # (batch, C, H, L)
        # Later writes are left out after the exponential, which may overflow for them.
        decays = (by_head.unsqueeze(-1) - by_head.unsqueeze(-2)).exp_().tril_()
        scores = (q @ k.mT).unsqueeze(2) * decays
        values = _heads_first(x) * _heads_first(steps.unsqueeze(-1))
        across = _apart(q @ entering, x)
        read = torch.addcmul((scores @ values).transpose(2, 3), across, sums.exp().unsqueeze(-1))
        return read, state, decays, scores, entering, values, faded

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        read, last, *between = output
        ctx.mark_non_differentiable(*between)
        # They would be zeros as large as what has no gradient.
        ctx.set_materialize_grads(False)
        q, k, x, steps, logs, _ = inputs
        ctx.save_for_backward(q, k, x, steps, logs, read, last, *between)

    @staticmethod
    def backward(
        ctx: Any, of_read: Tensor | None, of_last: Tensor | None, *_: None
    ) -> tuple[Tensor, ...]:
        *_, read, last = ctx.saved_tensors[:7]
        of_read = torch.zeros_like(read) if of_read is None else of_read
        of_last = torch.zeros_like(last) if of_last is None else of_last
        return _SharedKeysGradient.apply(of_read, of_last, *ctx.saved_tensors)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Any, Any]:
        return _with_models_as_batch(_SharedKeys, info.batch_size, in_dims, tensors)


class _SharedKeysGradient(torch.autograd.Function):
    """Gradients of the six tensors of :class:`_SharedKeys`; a Function of its own, for under
    vmap its in-place work needs plain tensors."""

    @staticmethod
    def forward(
        of_read: Tensor,
        of_last: Tensor,
        q: Tensor,
        k: Tensor,
        x: Tensor,
        steps: Tensor,
        logs: Tensor,
        read: Tensor,
        last: Tensor,
        decays: Tensor,
        scores: Tensor,
        entering: Tensor,
        values: Tensor,
        faded: Tensor,
    ) -> tuple[Tensor, ...]:
        sums = logs.cumsum(2)
        # Through the memories, from the last chunk to the first.
        arrived = _beside(of_read * sums.exp().unsqueeze(-1))
        leaving, of_memory = _carry(q.mT @ arrived, sums, of_last, reverse=True)
        # Inside the chunks.
        of_heads = _heads_first(of_read)
        of_products = _sum_of_products(of_heads @ values.mT, decays)
        of_queries = (of_products @ k).add_(arrived @ entering.mT)
        of_keys = (of_products.mT @ q).add_(_beside(faded) @ leaving.mT)
        of_values = torch.addcmul(
            (scores.mT @ of_heads).transpose(2, 3),
            _apart(k @ leaving, x),
            _to_end(sums).unsqueeze(-1),
        )
        # The gradient of c, then that of g, which is part of all sums from its own on.
        of_steps = (of_values * x).sum(-1)
        of_sums = (of_read * read).sum(-1) - of_steps * steps
        # c at the end of a chunk: what the next one finds, and what leaves the last one.
        of_found = (leaving[:, :-1] * entering[:, 1:]).sum(2)
        of_end = (leaving[:, -1] * _together(last)).sum(1, keepdim=True)
        of_ends = _apart(torch.cat((of_found, of_end), 1), x).sum(-1)
        of_logs = of_sums.flip(2).cumsum(2).flip(2) + of_ends.unsqueeze(2)
        of_inputs = of_values * steps.unsqueeze(-1)
        return of_queries, of_keys, of_inputs, of_steps, of_logs, of_memory

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept: the recurrence is differentiable once."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Any, Any]:
        return _with_models_as_batch(_SharedKeysGradient, info.batch_size, in_dims, tensors)


def _with_models_as_batch(
    function: Any, models: int, in_dims: tuple[int | None, ...], tensors: tuple[Tensor, ...]
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Apply ``function`` once to stacked models, as more sequences: it has no parameters."""
    folded = []
    for tensor, axis in zip(tensors, in_dims, strict=True):
        stacked = tensor.unsqueeze(0) if axis is None else tensor.movedim(axis, 0)
        folded.append(stacked.expand(models, *stacked.shape[1:]).flatten(0, 1))
    outputs = function.apply(*folded)
    return tuple(output.unflatten(0, (models, -1)) for output in outputs), (0,) * len(outputs)


def _beside(x: Tensor) -> Tensor:
    """(…, H, P) -> (…, H P)."""
    return x.flatten(-2)


def _apart(x: Tensor, like: Tensor) -> Tensor:
    """(…, H P) -> (…, H, P)."""
    return x.unflatten(-1, like.shape[-2:])


def _heads_first(x: Tensor) -> Tensor:
    """(batch, C, L, H, P) -> (batch, C, H, L, P)."""
    return x.transpose(2, 3).contiguous()


def _together(memory: Tensor) -> Tensor:
    """(batch, H, N, P) -> (batch, N, H P)."""
    return memory.transpose(1, 2).flatten(2)


def _to_end(sums: Tensor) -> Tensor:
    """What is left of each write at the end of its chunk, (batch, C, L, H)."""
    return (sums[:, :, -1:] - sums).exp()


def _carry(
    additions: Tensor, sums: Tensor, memory: Tensor, *, reverse: bool = False
) -> tuple[Tensor, Tensor]:
    """What each chunk finds, (batch, C, N, H P), if it decays and adds to (batch, H, N, P), and
    what the last one leaves; from the last chunk to the first if ``reverse``."""
    # What is left of a memory after a chunk, the same for the values of a head.
    wholes = sums[:, :, -1:].exp().repeat_interleave(memory.shape[-1], -1)
    chunks = [*zip(additions.unbind(1), wholes.unbind(1), strict=True)]
    state = _together(memory)
    found = []
    for addition, whole in reversed(chunks) if reverse else chunks:
        found.append(state)
        state = torch.addcmul(addition, state, whole)
    if reverse:
        found.reverse()
    return torch.stack(found, 1), state.unflatten(-1, (memory.shape[1], -1)).transpose(1, 2)


def _sum_of_products(x: Tensor, y: Tensor) -> Tensor:
    """Over the heads, (batch, C, H, L, L) -> (batch, C, L, L)."""
    (first, *others), (weights, *more) = x.unbind(2), y.unbind(2)
    total = first * weights
    for factor, weights in zip(others, more, strict=True):
        total.addcmul_(factor, weights)
    return total
