"""A network whose weights are the memory: written by gradient steps, read by a forward pass.

Behrouz, Zhong and Mirrokni 2025, "Titans: learning to memorize at test time" (arXiv 2501.00663),
section 3. The memory M is a perceptron without biases; a pair (k, v) surprises it by the gradient u
of ‖M(k) − v‖² in its weights, and (equations 13 and 14)

    S_t = η_t S_{t−1} − θ_t u_t,        M_t = (1 − α_t) M_{t−1} + S_t,

with a step θ, a momentum η of the surprise and a forgetting α of its own at every position. In
chunks of b positions all gradients are taken at the weights with which the chunk starts (equation
16); b = 1 is the plain recurrence. Chunks are counted from the first position ever written, so it
does not matter in how many calls a sequence comes, and none is too short to be written.

Position t reads M_t, that is, after its own write (equation 15), or M_{t−1} with
``read_own=False``. Both are causal: a write changes no reading before it.

:func:`scan_memory` is parallel within a chunk. Given its gradients the recurrence is linear, with
the same scalars for all weights; an associative scan makes from them the share that the start
(M_0, S_0) and each gradient have in every M_t. Gradients are outer products, u = e aᵀ in each
layer, so M_t x is a weighted attention to the inputs a of the chunk, and no weights but those at
the ends of chunks are ever formed. The scan multiplies numbers of at most one and divides by none:
no decay is too strong for it, also none that erases everything.

:func:`recur_memory` is the recurrence as it is written, one position after the other.

Gradient descent diverges where its steps are too long. ``largest_surprise`` c bounds ‖u_t‖ over all
layers (u_t is scaled to length c where it is longer), so that ‖S‖ ≤ c θ/(1 − η), and the weights
grow linearly in time at worst, never exponentially; with any α > 0 they stay bounded.

Bounded weights may still be a chaotic function of what was written long ago: a gradient that goes
back through hundreds of chunks of a deep memory leaves the range of float32. ``largest_gradient``
bounds it where chunks meet, in each layer and sequence, so that it grows within one chunk at most.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional

from models.layers.memory_network import Activation, Weights, forward, read_memory, surprise


class UpdateRule(NamedTuple):
    """What is fixed about writing.

    Attributes:
        chunk: b, positions whose gradients are taken at the same weights, at least 1.
        activation: between layers.
        largest_surprise: bound on the norm of a gradient; None leaves it as it is.
        largest_gradient: bound on the norm of what a training's gradient has for one layer (M and
            S together) of one memory at the end of a chunk; None leaves it as it is.
    """

    chunk: int = 1
    activation: Activation = "silu"
    largest_surprise: float | None = None
    largest_gradient: float | None = None

    def checked(self) -> UpdateRule:
        """The same; ValueError where it makes no sense."""
        if self.chunk < 1:
            raise ValueError(f"chunk={self.chunk} holds no position; set chunk to 1 or more")
        if self.activation not in get_args(Activation):
            choices = " or ".join(get_args(Activation))
            raise ValueError(f"activation={self.activation!r} is unknown; choose {choices}")
        if self.largest_surprise is not None and not self.largest_surprise > 0:
            raise ValueError(
                f"largest_surprise={self.largest_surprise} lets nothing be written; make it "
                "positive, or null for no bound"
            )
        if self.largest_gradient is not None and not self.largest_gradient > 0:
            raise ValueError(
                f"largest_gradient={self.largest_gradient} lets nothing be learned about earlier "
                "chunks; make it positive, or null for no bound"
            )
        return self


class GradientWrites(NamedTuple):
    """Positions to write, of one float type.

    Attributes:
        keys: (*batch, time, key size).
        values: (*batch, time, value size).
        steps: θ ≥ 0, (*batch, time).
        momenta: η in [0, 1], (*batch, time).
        forgetting: α in [0, 1], (*batch, time).
    """

    keys: Tensor
    values: Tensor
    steps: Tensor
    momenta: Tensor
    forgetting: Tensor

    def between(self, start: int, end: int) -> GradientWrites:
        """The positions from ``start`` to ``end``."""
        keys, values, *rates = self
        return GradientWrites(
            keys[..., start:end, :], values[..., start:end, :], *(r[..., start:end] for r in rates)
        )

    def followed_by(self, other: GradientWrites) -> GradientWrites:
        """These positions, then those of ``other``."""
        return GradientWrites(
            torch.cat((self.keys, other.keys), -2),
            torch.cat((self.values, other.values), -2),
            *(torch.cat(pair, -1) for pair in zip(self[2:], other[2:], strict=True)),
        )

    @property
    def time(self) -> int:
        """Number of positions."""
        return self.keys.shape[-2]


class MemoryState(NamedTuple):
    """A memory between two positions.

    Attributes:
        weights: M where the current chunk starts: (*batch, outputs, inputs) of each layer.
        momentum: S there, of the same shapes.
        pending: what the current chunk has written so far, fewer than b positions.
    """

    weights: Weights
    momentum: Weights
    pending: GradientWrites


def start_of(weights: Weights, like: GradientWrites) -> MemoryState:
    """The state before the first position.

    Args:
        weights: M_0, broadcastable to (*batch, outputs, inputs).
        like: writes of the same batch, of any time.
    """
    batch = like.keys.shape[:-2]
    spread = tuple(layer.expand(*batch, *layer.shape[-2:]) for layer in weights)
    # No surprise yet: S_0 = 0.
    return MemoryState(spread, tuple(map(torch.zeros_like, spread)), like.between(0, 0))


def scan_memory(
    state: MemoryState,
    writes: GradientWrites,
    queries: Tensor | None,
    rule: UpdateRule,
    *,
    read_own: bool = True,
) -> tuple[Tensor | None, MemoryState]:
    """Write and read positions, in parallel within chunks.

    Args:
        state: the memory before the first of them.
        writes: at least one position.
        queries: (*batch, time, key size), one at each position; None reads nothing.
        rule: the same in all calls.
        read_own: position t reads M_t; otherwise M_{t−1}.

    Returns:
        Readings (*batch, time, value size), and the memory after the last position.
    """
    before = state.pending.time
    if before:
        writes = state.pending.followed_by(writes)
        if queries is not None:
            # Positions of the same chunk that came in an earlier call have had their readings.
            queries = functional.pad(queries, (0, 0, before, 0))
    chunks, rest = divmod(writes.time, rule.chunk)
    whole = chunks * rule.chunk
    parts = [(index * rule.chunk, (index + 1) * rule.chunk) for index in range(chunks)]
    shares = _shares(writes.between(0, whole), chunks) if chunks else []
    layers = _stacked(state)
    readings = []
    if rest:
        parts.append((whole, writes.time))
        shares = [*shares, *_shares(writes.between(whole, writes.time), 1)]
    for (start, end), share in zip(parts, shares, strict=True):
        # An open chunk changes no weights yet: without a question there is nothing to do.
        if end > whole and queries is None:
            break
        part = writes.between(start, end)
        gradients = _steps(_weights(layers), part, rule)
        if queries is not None:
            chunk_queries = queries[..., start:end, :]
            rows = share.within[..., 1:, :] if read_own else share.within[..., :-1, :]
            readings.append(_read_within(layers, gradients, rows, chunk_queries, rule))
        if end <= whole:
            # Weights change at the end of a chunk only: all gradients in it are of its start.
            layers = _bounded(_end_of_chunk(layers, gradients, share.at_end), rule)
    outputs = torch.cat(readings, -2)[..., before:, :] if readings else None
    return outputs, MemoryState(
        _weights(layers), _momentum(layers), writes.between(whole, writes.time)
    )


def recur_memory(
    state: MemoryState,
    writes: GradientWrites,
    queries: Tensor,
    rule: UpdateRule,
    *,
    read_own: bool = True,
) -> tuple[Tensor, MemoryState]:
    """Arguments and results of :func:`scan_memory`, by the recurrence as it is written."""
    before = state.pending.time
    writes = state.pending.followed_by(writes)
    start = weights = state.weights
    start_momentum = momentum = state.momentum
    readings = []
    for position in range(writes.time):
        write = writes.between(position, position + 1)
        eta, keep = write.momenta.unsqueeze(-1), 1 - write.forgetting.unsqueeze(-1)
        previous = weights
        # −θ u = errors ⊗ inputs, as ``_steps`` gives it, once more as a matrix.
        momentum = tuple(
            eta * layer + errors.mT @ inputs
            for layer, (inputs, errors) in zip(momentum, _steps(start, write, rule), strict=True)
        )
        weights = tuple(keep * m + s for m, s in zip(weights, momentum, strict=True))
        if position >= before:
            query = queries[..., position - before : position - before + 1, :]
            readings.append(read_memory(weights if read_own else previous, query, rule.activation))
        if (position + 1) % rule.chunk == 0:
            ended = MemoryState(weights, momentum, writes.between(0, 0))
            layers = _bounded(_stacked(ended), rule)
            start, start_momentum = weights, momentum = _weights(layers), _momentum(layers)
    pending = writes.between(writes.time // rule.chunk * rule.chunk, writes.time)
    return torch.cat(readings, -2), MemoryState(start, start_momentum, pending)


def weights_now(state: MemoryState, rule: UpdateRule) -> Weights:
    """M after the last position written, (*batch, outputs, inputs) of each layer."""
    if not state.pending.time:
        return state.weights
    (share,) = _shares(state.pending, 1)
    gradients = _steps(state.weights, state.pending, rule)
    return _weights(_end_of_chunk(_stacked(state), gradients, share.at_end))


class _Share(NamedTuple):
    """Shares of M_0, S_0 and the n steps −θu of a chunk, on the last axis.

    Attributes:
        within: in M_0 … M_n, (*batch, n + 1, 2 + n).
        at_end: in M_n and S_n, (*batch, 2, 2 + n).
    """

    within: Tensor
    at_end: Tensor


def _stacked(state: MemoryState) -> Weights:
    """M and S of each layer in one tensor (*batch, 2, outputs, inputs): they change together."""
    return tuple(torch.stack(pair, -3) for pair in zip(state.weights, state.momentum, strict=True))


def _weights(layers: Weights) -> Weights:
    """M of ``_stacked``."""
    return tuple(layer[..., 0, :, :] for layer in layers)


def _momentum(layers: Weights) -> Weights:
    """S of ``_stacked``."""
    return tuple(layer[..., 1, :, :] for layer in layers)


def _bounded(layers: Weights, rule: UpdateRule) -> Weights:
    """The same numbers, whose gradients are no longer than the rule allows."""
    if rule.largest_gradient is not None:
        for layer in layers:
            if layer.requires_grad:
                layer.register_hook(partial(_no_longer_than, rule.largest_gradient))
    return layers


def _no_longer_than(longest: float, gradient: Tensor) -> Tensor:
    """Gradients (*batch, 2, outputs, inputs), each scaled to ``longest`` where it is longer."""
    # One length for M and S of a layer together, for each memory of the batch.
    length = gradient.flatten(-3).norm(dim=-1)[..., None, None, None]
    # min(1, longest / length).
    return gradient * (longest / length.clamp(min=longest))


def _linear_scan(factors: Tensor, inputs: Tensor) -> Tensor:
    """x_t = f_t x_{t−1} + inputs_t from x_{−1} = 0, by doubling: log₂(time) passes.

    The pairs (f, x) of neighbours join associatively: (f, x), (f', x') -> (f f', f' x + x').

    Args:
        factors: (*batch, time); the first does not count.
        inputs: (*batch, time, size).
    """
    factors = factors.unsqueeze(-1)
    reach = 1
    while reach < inputs.shape[-2]:
        # After k passes every x_t holds the 2ᵏ newest inputs.
        joined = factors[..., reach:, :] * inputs[..., :-reach, :] + inputs[..., reach:, :]
        inputs = torch.cat((inputs[..., :reach, :], joined), -2)
        longer = factors[..., reach:, :] * factors[..., :-reach, :]
        factors = torch.cat((factors[..., :reach, :], longer), -2)
        reach *= 2
    return inputs


def _shares(writes: GradientWrites, chunks: int) -> list[_Share]:
    """Shares in each of ``chunks`` chunks of equal length, all at once."""
    momenta, keeps = (
        functional.pad(rate.unflatten(-1, (chunks, -1)), (1, 0))  # in front: the start
        for rate in (writes.momenta, 1 - writes.forgetting)
    )
    size = momenta.shape[-1]
    # Position 0 stands for the start: S_0, then M_0, enter there and decay like what follows.
    # Rows: before the first step and after each; columns of momenta: S_0 and the n steps.
    units = torch.eye(size, dtype=momenta.dtype, device=momenta.device)
    of_momentum = _linear_scan(momenta, units.expand(*momenta.shape, size))
    # One column more in front, for M_0; at the start M holds no share of S_0.
    added = functional.pad(of_momentum[..., 1:, :], (1, 0, 1, 0))
    of_weights = _linear_scan(keeps, added + functional.pad(units[:1], (0, 1, 0, size - 1)))
    momentum_at_end = functional.pad(of_momentum[..., -1, :], (1, 0))
    at_end = torch.stack((of_weights[..., -1, :], momentum_at_end), -2)
    return [_Share(*pair) for pair in zip(of_weights.unbind(-3), at_end.unbind(-3), strict=True)]


def _steps(
    weights: Weights, writes: GradientWrites, rule: UpdateRule
) -> list[tuple[Tensor, Tensor]]:
    """−θ u of each layer and position, bounded by the rule, as (inputs, errors)."""
    gradients = surprise(weights, writes.keys, writes.values, rule.activation)
    scale = -writes.steps
    if rule.largest_surprise is not None:
        # ‖e aᵀ‖² = ‖e‖² ‖a‖²: the gradient itself is never formed.
        squares = [
            inputs.square().sum(-1) * errors.square().sum(-1) for inputs, errors in gradients
        ]
        longest = torch.stack(squares).sum(0).clamp(min=rule.largest_surprise**2)
        scale = scale * rule.largest_surprise * longest.rsqrt()  # min(1, c/‖u‖)
    return [(inputs, scale.unsqueeze(-1) * errors) for inputs, errors in gradients]


def _read_within(
    layers: Weights,
    gradients: list[tuple[Tensor, Tensor]],
    rows: Tensor,
    queries: Tensor,
    rule: UpdateRule,
) -> Tensor:
    """M_t(q_t) at every position of a chunk; ``rows`` are the shares in these M_t."""
    of_start, of_steps = rows[..., :2, None], rows[..., 2:]

    def layer_at(layer: Tensor, inputs: Tensor, errors: Tensor) -> Callable[[Tensor], Tensor]:
        def apply(x: Tensor) -> Tensor:
            # M_0 x and S_0 x by one product, (…, positions, 2, outputs).
            from_start = (x @ layer.flatten(-3, -2).mT).unflatten(-1, (2, -1))
            return (of_start * from_start).sum(-2) + (of_steps * (x @ inputs.mT)) @ errors

        return apply

    each = zip(layers, gradients, strict=True)
    return forward(
        queries, [layer_at(layer, *gradient) for layer, gradient in each], rule.activation
    )


def _end_of_chunk(
    layers: Weights, gradients: list[tuple[Tensor, Tensor]], at_end: Tensor
) -> Weights:
    """M and S after the last position of a chunk, stacked as before it."""
    of_start, of_steps = at_end[..., :2], at_end[..., 2:, None]
    following = []
    for layer, (inputs, errors) in zip(layers, gradients, strict=True):
        # The shares of M_0 and S_0 in M_n and S_n: a 2 × 2 matrix times both, flattened.
        from_start = (of_start @ layer.flatten(-2)).unflatten(-1, layer.shape[-2:])
        # One product for M and S: their rows side by side.
        shared = (of_steps * errors.unsqueeze(-3)).transpose(-1, -2).flatten(-3, -2)
        following.append(from_start + (shared @ inputs).unflatten(-2, (2, -1)))
    return tuple(following)
