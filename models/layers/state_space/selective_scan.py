"""The selective scan of Mamba, parallel over time, with its own gradient.

Gu and Dao 2023, "Mamba: linear-time sequence modeling with selective state spaces", section 3.2 and
algorithm 2. For every channel e and state n

    h_t[n, e] = exp(Δ_t[e] A[e, n]) h_{t-1}[n, e] + Δ_t[e] B_t[n] x_t[e],      h_{-1} = 0,
    y_t[e]    = Σ_n C_t[n] h_t[n, e].

The batch is cut into *parts*, one after the other, whose expanded states fit in a cache; time is
cut twice. *Segments* follow one another, so that the states (batch, time, state, channels),
by far the largest tensors, never exist for all positions at once; only the state before each
segment is saved, and the backward pass computes the others again. Inside a segment of S positions,
*chunks* of √S positions (at least 8) run side by side: what each chunk adds, what it hands on, then
its states. Only products of decays of at most one appear, never a quotient, so no length overflows.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from models.layers.state_space.expanded import WayBack, Workspace

# Numbers in one tensor of expanded states. A processor wants three of them in its cache (half a MiB
# each, in float32), a GPU wants few and large kernels.
SEGMENT_NUMBERS = {"cpu": 2**17}
SEGMENT_NUMBERS_ELSEWHERE = 2**26
SHORTEST_CHUNK = 8


def selective_step(
    state: Tensor, inputs: Tensor, step_sizes: Tensor, rates: Tensor, write: Tensor, read: Tensor
) -> tuple[Tensor, Tensor]:
    """One position of the recursion: outputs (batch, channels) and the next state.

    Args:
        state: (batch, channels, state).
        inputs: x_t, (batch, channels).
        step_sizes: Δ_t, (batch, channels).
        rates: A, (channels, state).
        write: B_t, (batch, state).
        read: C_t, (batch, state).
    """
    decays = torch.exp(step_sizes.unsqueeze(-1) * rates)
    # B̄ = Δ B as the released code has it; equation (4) of the paper has (exp(ΔA) − 1)/A · B.
    state = decays * state + (step_sizes * inputs).unsqueeze(-1) * write.unsqueeze(-2)
    return (state * read.unsqueeze(-2)).sum(-1), state


def selective_scan_reference(
    inputs: Tensor, step_sizes: Tensor, rates: Tensor, write: Tensor, read: Tensor
) -> Tensor:
    """The recursion position by position; same arguments and result as :func:`selective_scan`."""
    state = inputs.new_zeros(inputs.shape[1], *rates.shape)
    outputs = []
    for x, delta, b, c in zip(inputs, step_sizes, write, read, strict=True):
        output, state = selective_step(state, x, delta, rates, b, c)
        outputs.append(output)
    return torch.stack(outputs)


def selective_scan(
    inputs: Tensor,
    step_sizes: Tensor,
    rates: Tensor,
    write: Tensor,
    read: Tensor,
    *,
    segment: int | None = None,
) -> Tensor:
    """Outputs y of all positions, (time, batch, channels); see :func:`scan_to_state`."""
    return scan_to_state(inputs, step_sizes, rates, write, read, segment=segment)[0]


def scan_to_state(
    inputs: Tensor,
    step_sizes: Tensor,
    rates: Tensor,
    write: Tensor,
    read: Tensor,
    *,
    segment: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Outputs y of all positions (time, batch, channels), and the state after the last one
    (batch, channels, state), in float32 or wider.

    The outputs are differentiable once, in every argument, also under ``torch.func``; the state
    is not.

    Args:
        inputs: x, (time, batch, channels).
        step_sizes: Δ ≥ 0, (time, batch, channels).
        rates: A < 0, (channels, state).
        write: B, (time, batch, state).
        read: C, (time, batch, state).
        segment: the most positions whose states are in memory together; None fits the device.
    """
    length, batch, _ = inputs.shape
    together = batch
    if segment is None:
        numbers = SEGMENT_NUMBERS.get(inputs.device.type, SEGMENT_NUMBERS_ELSEWHERE)
        together = min(batch, max(1, numbers // (SHORTEST_CHUNK * rates.numel())))
        segment = max(SHORTEST_CHUNK, numbers // (together * rates.numel()))
    parts = math.ceil(batch / together)
    segments = math.ceil(length / segment)
    positions = math.ceil(length / segments)
    chunk = min(positions, max(SHORTEST_CHUNK, math.isqrt(positions)))
    chunks = math.ceil(length / (segments * chunk))
    # A step of size 0 keeps the state, so positions that fill the last chunk change nothing, and
    # neither do sequences that fill the last part of the batch.
    padding = segments * chunks * chunk - length
    more = -batch % parts
    dtype = torch.promote_types(inputs.dtype, torch.float32)

    def cut(tensor: Tensor) -> Tensor:
        """(time, batch, channels) -> (parts, time, batch, 1, channels)"""
        tensor = tensor.to(dtype)
        if padding or more:
            tensor = functional.pad(tensor, (0, 0, 0, more, 0, padding))
        return tensor.unflatten(1, (parts, -1)).movedim(1, 0).unsqueeze(3).contiguous()

    with torch.autocast(inputs.device.type, enabled=False):
        outputs, states = _SelectiveScan.apply(
            cut(inputs),
            cut(step_sizes),
            rates.to(dtype).T.unsqueeze(0).contiguous(),
            cut(write),
            cut(read),
            (segments, chunks, chunk),
        )
    outputs = outputs.squeeze(3).movedim(0, 1).flatten(1, 2)[:length, :batch]
    return outputs, states[:, -1].squeeze(2).flatten(0, 1)[:batch].transpose(1, 2)


# Below, every tensor but the rates has parts of the batch first, then time, and all have an axis of
# groups: channels of a group share B and C. One model is one group; models that vmap stacks are
# more groups. A part is done after the other, since then its states stay in the cache.
#     inputs, step_sizes, outputs  (parts, time, batch, groups, channels)
#     write, read                  (parts, time, batch, groups, state)
#     rates                        (groups, state, channels)
#     states between segments      (parts, segments + 1, batch, groups, state, channels)
# and inside a part states and decays are (time, batch, groups, state, channels).

Cut = tuple[int, int, int]  # segments, chunks in a segment, positions in a chunk


class _SelectiveScan(torch.autograd.Function):
    """(inputs, step_sizes, rates, write, read) -> outputs, and the states between segments.

    The first of these states is 0, the last one that after the last position.
    """

    @staticmethod
    def forward(
        inputs: Tensor, step_sizes: Tensor, rates: Tensor, write: Tensor, read: Tensor, cut: Cut
    ) -> tuple[Tensor, Tensor]:
        segments, chunks, chunk = cut
        size = chunks * chunk
        parts, _, batch = inputs.shape[:3]
        outputs = torch.empty_like(inputs)
        work = Workspace(inputs, (size, batch, *rates.shape), chunks)
        starts = inputs.new_empty(parts, segments + 1, *work.first_state.shape)
        starts[:, 0] = 0
        by_segment = zip(
            _segments(step_sizes.unsqueeze(-2), size),
            _segments((step_sizes * inputs).unsqueeze(-2), size),
            _segments(write.unsqueeze(-1), size),
            _matrices(read.unsqueeze(-2), size),
            _matrices(outputs.unsqueeze(-2), size),
            _states(starts, slice(None, -1)),
            _states(starts, slice(1, None)),
            strict=True,
        )
        for delta, steps, b, c, y, start, following in by_segment:
            work.expand(start, delta, steps, b, rates)
            torch.bmm(c, work.matrices, out=y)
            following.copy_(work.last_state)
        return outputs, starts

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        *tensors, ctx.cut = inputs
        _, starts = output
        ctx.mark_non_differentiable(starts)
        ctx.save_for_backward(*tensors, starts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return *_SelectiveScanGradient.apply(gradient, *ctx.saved_tensors, ctx.cut), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return _with_models_as_groups(_SelectiveScan, info.batch_size, in_dims, arguments)


class _SelectiveScanGradient(torch.autograd.Function):
    """Gradients of the five tensors of :class:`_SelectiveScan`.

    It is a Function of its own because under vmap its in-place work needs plain tensors.
    """

    @staticmethod
    def forward(
        gradient: Tensor,
        inputs: Tensor,
        step_sizes: Tensor,
        rates: Tensor,
        write: Tensor,
        read: Tensor,
        starts: Tensor,
        cut: Cut,
    ) -> tuple[Tensor, ...]:
        segments, chunks, chunk = cut
        size = chunks * chunk
        work = Workspace(inputs, (size, inputs.shape[2], *rates.shape), chunks)
        back = WayBack(work.decays, chunks)
        d_steps, d_delta = torch.empty_like(inputs), torch.empty_like(inputs)
        d_write, d_read = torch.empty_like(write), torch.empty_like(read)
        d_rates = torch.zeros_like(rates)
        ones = rates.new_ones(1, 1, rates.shape[1]).expand(len(work.matrices), -1, -1)
        all_steps = step_sizes * inputs
        by_segment = zip(
            _segments(step_sizes.unsqueeze(-2), size),
            _segments(all_steps.unsqueeze(-2), size),
            _segments(write.unsqueeze(-1), size),
            _segments(read.unsqueeze(-1), size),
            _segments(gradient.unsqueeze(-2), size),
            _states(starts, slice(None, -1)),
            _matrices(all_steps.unsqueeze(-2), size),
            _matrices(write.unsqueeze(-2), size),
            _matrices(gradient.unsqueeze(-2), size),
            _matrices(d_read.unsqueeze(-2), size),
            _matrices(d_write.unsqueeze(-2), size),
            _matrices(d_steps.unsqueeze(-2), size),
            _matrices(d_delta.unsqueeze(-2), size),
            strict=True,
        )
        for number, segment in enumerate(reversed([*by_segment])):
            delta, steps, b, c, grad, start, steps_row, b_row, grad_row, *found = segment
            of_read, of_write, of_steps, of_delta = found
            if number % segments == 0:  # nothing comes after the last segment of a part
                back.arriving.zero_()
            work.expand(start, delta, steps, b, rates)
            torch.bmm(grad_row, work.matrices.mT, out=of_read)
            back.solve(c, grad)
            torch.bmm(steps_row, back.matrices.mT, out=of_write)
            torch.bmm(b_row, back.matrices, out=of_steps)
            # dLoss/d(Δ_t A) = dLoss/dh_t · exp(Δ_t A) · h_{t−1}
            d_exponents = work.decays
            d_exponents[1:].mul_(work.states[:-1])
            d_exponents[0].mul_(start)
            torch.mul(d_exponents, rates, out=work.states)  # free from here on
            torch.bmm(ones, work.matrices, out=of_delta)
            d_rates += d_exponents.mul_(delta).sum((0, 1))
        d_delta.addcmul_(d_steps, inputs)
        d_inputs = d_steps.mul_(step_sizes)
        return d_inputs, d_delta, d_rates, d_write, d_read

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept: the scan is differentiable once."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return _with_models_as_groups(_SelectiveScanGradient, info.batch_size, in_dims, arguments)


def _segments(x: Tensor, size: int) -> tuple[Tensor, ...]:
    """(parts, time, …) -> (time, …) of each segment of each part, as views."""
    return x.flatten(0, 1).split(size)


def _matrices(x: Tensor, size: int) -> tuple[Tensor, ...]:
    """(parts, time, batch, groups, rows, columns) -> the matrices of each segment, as views."""
    return x.flatten(0, 3).split(size * x.shape[2] * x.shape[3])


def _states(starts: Tensor, chosen: slice) -> list[Tensor]:
    """Of the states between segments the chosen ones of each part, as views."""
    return [state for part in starts.unbind(0) for state in part[chosen].unbind(0)]


def _with_models_as_groups(
    function: Any, models: int, in_dims: tuple[int | None, ...], arguments: tuple[Any, ...]
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Apply ``function`` once to stacked models, their axis folded into the axis of groups."""
    *tensors, cut = arguments
    folded = []
    for tensor, axis in zip(tensors, in_dims, strict=False):
        stacked = tensor.unsqueeze(0) if axis is None else tensor.movedim(axis, 0)
        stacked = stacked.expand(models, *stacked.shape[1:])
        groups = _group_axis(stacked.dim() - 1)
        folded.append(stacked.movedim(0, groups).flatten(groups, groups + 1).contiguous())
    outputs = function.apply(*folded, cut)
    axes = tuple(_group_axis(output.dim()) for output in outputs)
    return tuple(
        output.unflatten(axis, (models, -1)) for output, axis in zip(outputs, axes, strict=True)
    ), axes


def _group_axis(dimensions: int) -> int:
    """Only the rates, of three dimensions, have no parts, time and batch before the groups."""
    return 0 if dimensions == 3 else 3
