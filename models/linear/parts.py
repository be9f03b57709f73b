"""Parts of the layers that grew out of Gated DeltaNet (arXiv 2412.06464): how queries, keys and
values are made, how fast a memory forgets, and how what was read leaves the layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.heads import head_width
from models.layers.recurrence.mixer import Neighbours, RecurrentMixer, inverse_softplus, linear

SMALLEST_STEP, LARGEST_STEP, STEP_FLOOR = 1e-3, 0.1, 1e-4
SMALLEST_RATE, LARGEST_RATE = 0.01, 16.0  # the papers' U(0, 16) can draw 0, whose logarithm is −∞
NORM_EPSILON = 1e-5


class ConvolvedHeads(nn.Module):
    """Streams y = SiLU(causal depthwise convolution of W x), each split in heads.

    Args:
        width: channels of x.
        channels: of each stream, all heads together; multiples of ``heads``.
        heads: of each stream.
        taps: positions that the convolution sees; 1 has none.
    """

    def __init__(self, width: int, channels: Sequence[int], heads: int, taps: int) -> None:
        super().__init__()
        self.channels, self.heads = list(channels), heads
        self.projection = linear(width, sum(channels))
        self.neighbours = Neighbours(sum(channels), taps)

    @property
    def state_size(self) -> int:
        """Numbers that one sequence keeps."""
        return self.neighbours.state_size

    def forward(self, hidden: Tensor, past: Tensor | None) -> tuple[list[Tensor], Tensor]:
        """A piece of a sequence (batch, time, width), and what the last call returned -> streams
        (batch, time, heads, channels / heads), and what the next call needs."""
        seen, past = self.neighbours(self.projection(hidden), past)
        streams = functional.silu(seen).split(self.channels, -1)
        # Channels of a head lie together, so heads are a view.
        return [stream.unflatten(-1, (self.heads, -1)) for stream in streams], past


class DecayByHead(nn.Module):
    """ln α = −e^A softplus(W x + c), one for each head.

    e^A starts uniform between two rates, and c so that softplus(c) is log-uniform on [1e-3, 0.1].

    Args:
        width: channels of x.
        heads: of the memory.
        rates: smallest and largest e^A at the start.
    """

    def __init__(
        self, width: int, heads: int, rates: tuple[float, float] = (SMALLEST_RATE, LARGEST_RATE)
    ) -> None:
        super().__init__()
        self.projection = linear(width, heads)
        self.log_rates = nn.Parameter(torch.empty(heads).uniform_(*rates).log())
        self.step_bias = nn.Parameter(initial_steps(heads))

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, time, width) -> (batch, time, heads)."""
        # softplus of Mamba: Δ > 0, so that ln α < 0 whatever the input.
        steps = functional.softplus(self.projection(hidden) + self.step_bias)
        return -self.log_rates.exp() * steps


class DecayByChannel(nn.Module):
    """ln α = −e^A softplus(W₂ W₁ x + c), with A for each head and c for each channel of its keys.

    Args:
        width: channels of x.
        heads: of the memory.
        channels: of the keys of all heads.
        rank: rows of W₁.
        rates: smallest and largest e^A at the start.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        channels: int,
        *,
        rank: int,
        rates: tuple[float, float] = (SMALLEST_RATE, LARGEST_RATE),
    ) -> None:
        super().__init__()
        self.heads = heads
        # No activation between the two: a matrix of low rank, not a network.
        self.projection = nn.Sequential(linear(width, rank), linear(rank, channels))
        self.log_rates = nn.Parameter(torch.empty(heads).uniform_(*rates).log())
        self.step_bias = nn.Parameter(initial_steps(channels))

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, time, width) -> (batch, time, heads, key width)."""
        steps = functional.softplus(self.projection(hidden) + self.step_bias)
        return -self.log_rates.exp()[:, None] * steps.unflatten(-1, (self.heads, -1))


class DeltaState(NamedTuple):
    """Inputs that the convolution still sees, and the memory of each head."""

    past: Tensor
    memory: Tensor


class GatedDeltaMixer(RecurrentMixer):
    """What the variants of Gated DeltaNet share.

    q, k and v come of :class:`ConvolvedHeads`; β = σ(W_β x) for each head; α of
    :class:`DecayByHead`; what was read, o, leaves as W_o (norm(o) ∘ f(W_g x)). The norm is the root
    mean square of a head, with a gain that heads share. All other matrices start N(0, 0.02²).

    Args:
        width: hidden channels, a multiple of ``heads``.
        heads: memories of the layer, with keys and values as wide as a head.
        convolution: positions that the short convolution sees; 1 has none.
        sigmoid_gate: f is the sigmoid; else SiLU.
    """

    def __init__(
        self, width: int, heads: int, *, convolution: int = 4, sigmoid_gate: bool = False
    ) -> None:
        super().__init__()
        self.heads, self.head_width = heads, head_width(width, heads)
        self.sigmoid_gate = sigmoid_gate
        self.streams = ConvolvedHeads(width, (width, width, width), heads, convolution)
        self.strength = linear(width, heads)
        self.decay: nn.Module = DecayByHead(width, heads)
        self.gate = linear(width, width)
        self.norm = nn.RMSNorm(self.head_width, eps=NORM_EPSILON)
        self.output_projection = nn.Linear(width, width, bias=False)

    @property
    def state_size(self) -> int:
        """The memories, and what the convolution still sees."""
        return self.heads * self.head_width**2 + self.streams.state_size

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on what makes the decays, and on norms."""
        return without_weight_decay(self, "log_rates", "step_bias")

    def strengths(self, hidden: Tensor) -> Tensor:
        """β, (batch, time, heads, 1)."""
        return torch.sigmoid(self.strength(hidden)).unsqueeze(-1)

    def leave(self, read: Tensor, hidden: Tensor) -> Tensor:
        """o (batch, time, heads, head width) -> (batch, time, width)."""
        # Normalised first, then gated: what the gate closes stays closed.
        gate = self.gate(hidden)
        gate = torch.sigmoid(gate) if self.sigmoid_gate else functional.silu(gate)
        return self.output_projection(self.norm(read).flatten(2) * gate)


def initial_steps(size: int) -> Tensor:
    """c with softplus(c) log-uniform on [1e-3, 0.1], (size,)."""
    low, high = math.log(SMALLEST_STEP), math.log(LARGEST_STEP)
    return inverse_softplus(torch.empty(size).uniform_(low, high).exp().clamp(min=STEP_FLOOR))


def uniform_logarithms(size: int, smallest: float, largest: float) -> nn.Parameter:
    """Logarithms of numbers uniform on [smallest, largest], (size,)."""
    return nn.Parameter(torch.empty(size).uniform_(smallest, largest).log())


def without_weight_decay(module: nn.Module, *names: str) -> dict[str, dict[str, float]]:
    """Rules of the optimiser for parameters of a module by the last part of their name, and for
    the gains of its norms."""
    return {
        path: {"weight_decay": 0.0}
        for path, _ in module.named_parameters()
        if path.rpartition(".")[2] in names or path.endswith("norm.weight")
    }
