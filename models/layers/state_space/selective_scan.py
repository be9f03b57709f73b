"""The selective scan of Mamba, parallel over time, with its own gradient.

Gu and Dao 2023, "Mamba: linear-time sequence modeling with selective state spaces", section 3.2 and
algorithm 2. For every channel e and state n

    h_t[n, e] = exp(Δ_t[e] A[e, n]) h_{t-1}[n, e] + Δ_t[e] B_t[n] x_t[e],      h_{-1} = 0,
    y_t[e]    = Σ_n C_t[n] h_t[n, e].

Time is cut twice. *Segments* follow one another, so that the states (batch, time, state, channels),
by far the largest tensors, never exist for all positions at once; only the state before each
segment is saved, and the backward pass computes the others again. Inside a segment of S positions,
*chunks* of √S positions (at least 8) run side by side: what each chunk adds, what it hands on, then
its states. Only products of decays of at most one appear, never a quotient, so no length overflows.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# Numbers in one tensor of expanded states. A processor wants it in its cache (1 MiB in float32), a
# GPU wants few and large kernels.
SEGMENT_NUMBERS = {"cpu": 2**18}
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
    if segment is None:
        numbers = SEGMENT_NUMBERS.get(inputs.device.type, SEGMENT_NUMBERS_ELSEWHERE)
        segment = max(SHORTEST_CHUNK, numbers // (batch * rates.numel()))
    segments = math.ceil(length / segment)
    positions = math.ceil(length / segments)
    chunk = min(positions, max(SHORTEST_CHUNK, math.isqrt(positions)))
    chunks = math.ceil(length / (segments * chunk))
    # A step of size 0 keeps the state, so positions that fill the last chunk change nothing.
    padding = segments * chunks * chunk - length
    dtype = torch.promote_types(inputs.dtype, torch.float32)

    def padded(tensor: Tensor) -> Tensor:
        return functional.pad(tensor.to(dtype), (0, 0, 0, 0, 0, padding)).unsqueeze(2).contiguous()

    with torch.autocast(inputs.device.type, enabled=False):
        outputs, states = _SelectiveScan.apply(
            padded(inputs),
            padded(step_sizes),
            rates.to(dtype).T.unsqueeze(0).contiguous(),
            padded(write),
            padded(read),
            (segments, chunks, chunk),
        )
    return outputs[:length].squeeze(2), states[-1].squeeze(1).transpose(1, 2)


# Below, every tensor but the rates has time first, and all have an axis of groups: channels of a
# group share B and C. One model is one group; models that vmap stacks are more groups.
#     inputs, step_sizes, outputs  (time, batch, groups, channels)
#     write, read                  (time, batch, groups, state)
#     rates                        (groups, state, channels)
#     states, decays               (time, batch, groups, state, channels)

Cut = tuple[int, int, int]  # segments, chunks in a segment, positions in a chunk


def _scan_(decays: Tensor, states: Tensor, chunks: int, *, reverse: bool = False) -> None:
    """Solve s_t = decays_t s_{t-1} + states_t (s_{t+1} if ``reverse``) in place of ``states``."""
    # (chunks, positions in a chunk, …)
    decay = decays.unflatten(0, (chunks, -1))
    state = states.unflatten(0, (chunks, -1))
    positions = list(range(state.shape[1]))
    order = list(range(chunks - 1))
    giving, taking = slice(None, -1), slice(1, None)
    if reverse:
        positions.reverse()
        order.reverse()
        giving, taking = taking, giving
    # What each chunk, started from 0, hands on; and by how much it fades what it is handed.
    if chunks > 1:
        carried = state[giving, positions[0]]
        faded = decay[giving, positions[0]]
        for position in positions[1:]:
            factor = decay[giving, position]
            carried = torch.addcmul(state[giving, position], factor, carried)
            faded = faded * factor
        # With one position in a chunk this is still a view of the states.
        carried = carried.clone()
        for previous, current in pairwise(order):
            carried[current].addcmul_(faded[current], carried[previous])
        state[taking, positions[0]].addcmul_(decay[taking, positions[0]], carried)
    # With what they were handed in their first position, all chunks go on side by side.
    for previous, current in pairwise(positions):
        state[:, current].addcmul_(decay[:, current], state[:, previous])


def _expand(
    decays: Tensor,
    states: Tensor,
    start: Tensor,
    segment: tuple[Tensor, Tensor, Tensor, Tensor],
    chunks: int,
) -> None:
    """Fill ``decays`` and ``states`` of a segment (Δ, Δx, B, A) from the state before it."""
    delta, steps, write, rates = segment
    torch.mul(delta.unsqueeze(-2), rates, out=decays).exp_()
    torch.mul(write.unsqueeze(-1), steps.unsqueeze(-2), out=states)
    states[0].addcmul_(decays[0], start)
    # The backward pass has the decay of one position more.
    _scan_(decays[: len(states)], states, chunks)


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
        all_steps = step_sizes * inputs
        outputs = torch.empty_like(inputs)
        # Two buffers serve all segments: fresh ones would cost more than the arithmetic.
        decays = inputs.new_empty(size, inputs.shape[1], *rates.shape)
        states = torch.empty_like(decays)
        starts = inputs.new_empty(segments + 1, *states.shape[1:])
        starts[0] = 0
        for index in range(segments):
            span = slice(index * size, (index + 1) * size)
            segment = step_sizes[span], all_steps[span], write[span], rates
            _expand(decays, states, starts[index], segment, chunks)
            outputs[span] = (read[span].unsqueeze(-2) @ states).squeeze(-2)
            starts[index + 1] = states[-1]
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
        # One step more, of size 0, stands for what follows the last position.
        following = functional.pad(step_sizes, (0, 0) * 3 + (0, 1))
        all_steps = step_sizes * inputs
        d_inputs, d_delta = torch.empty_like(inputs), torch.empty_like(inputs)
        d_write, d_read = torch.empty_like(write), torch.empty_like(read)
        d_rates = torch.zeros_like(rates)
        decays = inputs.new_empty(size + 1, inputs.shape[1], *rates.shape)
        states = torch.empty_like(decays[1:])
        adjoints = torch.empty_like(states)  # dLoss/dh
        adjoint = torch.zeros_like(starts[0])  # of the position after the segment
        ones = rates.new_ones(1, rates.shape[1])
        for index in reversed(range(segments)):
            span = slice(index * size, (index + 1) * size)
            delta, steps, grad = step_sizes[span], all_steps[span], gradient[span]
            segment = following[span.start : span.stop + 1], steps, write[span], rates
            _expand(decays, states, starts[index], segment, chunks)

            torch.mul(read[span].unsqueeze(-1), grad.unsqueeze(-2), out=adjoints)
            adjoints[-1].addcmul_(decays[-1], adjoint)
            # Position t acts on t + 1 through the decay of t + 1.
            _scan_(decays[1:], adjoints, chunks, reverse=True)
            adjoint.copy_(adjoints[0])

            d_read[span] = (grad.unsqueeze(-2) @ states.transpose(-1, -2)).squeeze(-2)
            d_write[span] = (steps.unsqueeze(-2) @ adjoints.transpose(-1, -2)).squeeze(-2)
            d_steps = (write[span].unsqueeze(-2) @ adjoints).squeeze(-2)
            d_inputs[span] = d_steps * delta

            # The buffer of adjoints goes on as the gradient of the exponents Δ A.
            # dLoss/d(Δ_t A) = dLoss/dh_t · exp(Δ_t A) · h_{t−1}
            d_exponents = adjoints.mul_(decays[:-1])
            d_exponents[1:].mul_(states[:-1])
            d_exponents[0].mul_(starts[index])
            weighted = torch.mul(d_exponents, rates, out=states)  # states are free from here on
            d_delta[span] = (ones @ weighted).squeeze(-2).addcmul_(d_steps, inputs[span])
            d_rates += d_exponents.mul_(delta.unsqueeze(-2)).sum((0, 1))
        return d_inputs, d_delta, d_rates, d_write, d_read

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept: the scan is differentiable once."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return _with_models_as_groups(_SelectiveScanGradient, info.batch_size, in_dims, arguments)


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
    """Only the rates, of three dimensions, have no time and batch before the groups."""
    return 0 if dimensions == 3 else 2
