"""The two ways in which Titans looks back: a neural memory of everything, and short attention.

Behrouz, Zhong and Mirrokni 2025, "Titans: learning to memorize at test time" (arXiv 2501.00663),
section 4.4. Both take a piece of a sequence and the state before it, so that one position with a
cache and a whole sequence are the same code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.contextual_memory import unit
from models.layers.heads import join_heads, split_heads
from models.layers.memory_network import Weights, initial_weights
from models.layers.neural_memory import (
    GradientWrites,
    MemoryState,
    UpdateRule,
    scan_memory,
    start_of,
)
from models.layers.short_convolution import ConvolvedProjection

# Forgetting starts at α = 0.01; momentum and step start in the middle of their ranges.
FORGETTING_BIAS = -4.6


class Sizes(NamedTuple):
    """What the parts of one mixer agree on.

    Attributes:
        width: hidden channels, a multiple of ``heads``.
        heads: memories, and attention heads, side by side.
        taps: of the short convolutions.
        segment: positions that attention sees.
        depth, expansion: layers of a memory, and units of its hidden layers for each channel.
        rule: how memories are written.
    """

    width: int
    heads: int
    taps: int
    segment: int
    depth: int
    expansion: int
    rule: UpdateRule


class LearnedState(NamedTuple):
    """State of :class:`LearnedMemory`: of its convolution, and of its memories."""

    past: Tensor
    memory: MemoryState


class LearnedMemory(nn.Module):
    """A neural memory for each head, whose pairs, rates and start are learned by training.

    Keys, values and queries are short convolutions; keys and queries of unit length. The memory
    stays stable at any length, because for a key k of unit length a step of θ on a matrix shrinks
    its error by 1 − 2θ, all b keys of a chunk may be the same, and momentum lets each surprise act
    1/(1 − η) times: so θ_t = (1 − η_t) σ(·)/b, which makes at most 2 of them all. A perceptron may
    be steeper than a matrix; there the bound on the surprise stops an overflow.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads, self.rule = sizes.heads, sizes.rule
        channels = sizes.width // sizes.heads
        self.inputs = ConvolvedProjection(sizes.width, 3 * sizes.width, sizes.taps)
        self.rates = nn.Linear(sizes.width, 3 * sizes.heads)
        with torch.no_grad():
            self.rates.bias.zero_()
            # σ(−4.6) = 0.01: a start near 1/2 would forget all within a few positions.
            self.rates.bias[2 * sizes.heads :] = FORGETTING_BIAS
        starts = [
            initial_weights(channels, channels, sizes.depth, sizes.expansion * channels)
            for _ in range(sizes.heads)
        ]
        # M_0 is learned: the only part of a memory that training changes directly.
        self.start = nn.ParameterList(torch.stack(layer) for layer in zip(*starts, strict=True))

    def forward(self, x: Tensor, state: LearnedState | None = None) -> tuple[Tensor, LearnedState]:
        """Hidden vectors (batch, time, width) -> what each position reads of all pairs up to its
        own, (batch, time, width), and the next state."""
        mixed, past = self.inputs(x, state.past if state else None)
        queries, keys, values = (split_heads(part, self.heads) for part in mixed.chunk(3, -1))
        # Sums of many small steps do not fit in half precision.
        with torch.autocast(x.device.type, enabled=False):
            # Each (batch, heads, time).
            steps, momenta, forgetting = (
                rate.transpose(1, 2) for rate in self._rates(x).chunk(3, -1)
            )
            keys, queries = unit(keys), unit(queries)
            writes = GradientWrites(keys, values.to(keys.dtype), steps, momenta, forgetting)
            memory = state.memory if state else start_of(self._start(keys), writes)
            outputs, memory = scan_memory(memory, writes, queries, self.rule)
        assert outputs is not None
        return join_heads(outputs).to(x.dtype), LearnedState(past, memory)

    def numbers_after(self, positions: int) -> int:
        """Most numbers in the state of one sequence after so many positions, or fewer."""
        learned = 2 * sum(layer.numel() for layer in self.start)
        pending = min(positions, self.rule.chunk - 1)
        width = self.inputs.projection.in_features
        return self.inputs.state_size + learned + pending * (2 * width + 3 * self.heads)

    def weights_at(self, state: LearnedState | None, like: Tensor) -> Weights:
        """Weights at the last end of a chunk, for the batch of ``like`` (batch, ...)."""
        if state is not None:
            return state.memory.weights
        return tuple(layer.expand(like.shape[0], *layer.shape) for layer in self._start(like))

    def _start(self, like: Tensor) -> Weights:
        wide = torch.promote_types(like.dtype, torch.float32)
        return tuple(layer.to(wide) for layer in self.start)

    def _rates(self, x: Tensor) -> Tensor:
        """θ, η and α, (batch, time, 3 heads)."""
        wide = torch.promote_types(x.dtype, torch.float32)
        shares = torch.sigmoid(
            functional.linear(x.to(wide), self.rates.weight.to(wide), self.rates.bias.to(wide))
        )
        step, momentum, forgetting = shares.chunk(3, -1)
        # θ ≤ (1 − η)/b: see the class.
        return torch.cat((step * (1 - momentum) / self.rule.chunk, momentum, forgetting), -1)


class AttentionState(NamedTuple):
    """State of :class:`Attention`: of its convolution, and keys and values
    (batch, heads, positions, head width) that the next position may see."""

    past: Tensor
    keys: Tensor
    values: Tensor


class TitansAttention(nn.Module):
    """Softmax attention by angles: short convolutions, queries and keys of unit length, and one
    learned scale for each head, without which unit vectors could not be told apart.

    Positions have no code; the convolutions tell neighbours from others.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads, self.window = sizes.heads, sizes.segment
        self.inputs = ConvolvedProjection(sizes.width, 3 * sizes.width, sizes.taps)
        # Cosines of random directions have the deviation 1/√(head width): scores start with 2.
        scale = math.log(2 * math.sqrt(sizes.width // sizes.heads))
        self.log_scale = nn.Parameter(torch.full((sizes.heads, 1, 1), scale))

    def project(
        self, x: Tensor, past: Tensor | None
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        """Queries, with their scale, keys and values of (batch, time, width), each
        (batch, heads, time, head width), and the next state of the convolution."""
        mixed, past = self.inputs(x, past)
        return self._split(mixed), past

    def tokens(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of vectors that have no place in time, so no convolution. The bias keeps
        the keys of zeros, which an empty memory reads, away from a length of zero."""
        _, keys, values = self._split(self.inputs.without_time(x))
        return keys, values

    def forward(
        self, x: Tensor, state: AttentionState | None, always: int
    ) -> tuple[Tensor, AttentionState]:
        """Sliding windows: position t reads t − window + 1 … t, and the first ``always`` ones.

        Args:
            x: (batch, time, width); one position if there is a state.
            state: before it.
            always: positions at the start that never leave the window.
        """
        (queries, keys, values), past = self.project(x, state.past if state else None)
        mask = None
        if state is None:
            time = torch.arange(x.shape[1], device=x.device)
            age = time[:, None] - time
            # (time, time), true where row t reads column s.
            mask = (age >= 0) & ((age < self.window) | (time < always))
        else:
            keys = torch.cat((state.keys, keys), 2)
            values = torch.cat((state.values, values), 2)
        read = attend(queries, keys, values, mask)
        # The next position sees the last window − 1 of these and the first ``always``, none twice.
        oldest = max(min(always, keys.shape[2]), keys.shape[2] - self.window + 1)
        keys, values = (
            torch.cat((rows[:, :, :always], rows[:, :, oldest:]), 2) for rows in (keys, values)
        )
        return join_heads(read), AttentionState(past, keys, values)

    def numbers_after(self, positions: int, always: int) -> int:
        """Most numbers in the state of one sequence after so many positions, or fewer."""
        rows = min(positions, always + self.window - 1)
        return self.inputs.state_size + 2 * rows * self.inputs.projection.in_features

    def _split(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, values = (split_heads(part, self.heads) for part in mixed.chunk(3, -1))
        scaled = unit(queries) * self.log_scale.exp()
        return scaled.to(values.dtype), unit(keys).to(values.dtype), values


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Attention with scores q·k as they are; ``mask`` is true where a query sees a key."""
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=1.0)
