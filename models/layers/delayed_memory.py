"""The two contextual memories of Memory Mosaics v2: one of pairs long past, one of the last ones.

Source: Zhang and Bottou, "Memory Mosaics at scale" (NeurIPS 2025, arXiv 2507.03285), section 3.
Both store pairs (k_s, v_s) of one sequence and are read by kernel regression on unit keys,

    y_t = Σ_s softmax_s(β(n_t) k_t·k_s) v_s   over the n_t pairs that position t may see,

and differ in which these are. An empty memory gives 0. Their keys are an average of the past whose
weights depend on the input (equation 8), or that of the first version.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.contextual_memory import read_past, unit
from models.layers.heads import split_heads
from models.layers.leaky_average import leaky_average
from models.layers.scaled_sums import ScaledSum, scaled_sums
from models.layers.window_attention import attend_to_window

FIRST_BANDWIDTH, FIRST_EXPONENT = 1.5, 1 / 3
LARGEST_LOG_BANDWIDTH, LARGEST_LOG_VALUE = 10.0, 15.0
# Rates of the first version's average are stored ten times too small.
LEAK_GAIN = 10.0
# Of the first version, whose bandwidth is constant and stored ten times too small.
FIRST_CONSTANT, CONSTANT_GAIN, LARGEST_HALF = 0.1, 10.0, 5.0


class Choices(NamedTuple):
    """What all memories of a model agree on.

    Attributes:
        width: hidden channels, a multiple of ``heads``.
        heads: memories of each kind side by side.
        adaptive_bandwidth: see :class:`Bandwidth`.
        gated_keys: keys of :class:`GatedKeys`, else of :class:`LeakyKeys`.
        dropout: probability of dropping an attention weight.
    """

    width: int
    heads: int
    adaptive_bandwidth: bool
    gated_keys: bool
    dropout: float


class KeyState(NamedTuple):
    """The average of one position, (batch, heads, head width), and the logarithm of the factor by
    which the true one is larger, (batch, heads, 1): only directions count."""

    average: Tensor
    scale: Tensor


class GatedKeys(nn.Module):
    """k̄_t = g_t k̃_t + λ_t k̄_{t−1} with g_t = exp(W_g x_t) and λ_t = exp(−|W_λ x_t|) for each head.

    A key is unit(k̄_t), so a factor that a position's sum has as a whole does not matter: sums are
    kept relative to their largest weight, and none overflows.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, heads, bias=False)
        self.forgetting = nn.Linear(width, heads, bias=False)

    def forward(
        self, hidden: Tensor, projected: Tensor, state: KeyState | None = None
    ) -> tuple[Tensor, KeyState]:
        """A piece of a sequence.

        Args:
            hidden: x, (batch, time, width).
            projected: k̃, (batch, heads, time, head width).
            state: after the position before; None starts a sequence.

        Returns:
            Averages up to positive factors, of the shape of ``projected``, float32 at least; and
            the state after the last position.
        """
        gates, rates = self.gate(hidden).unsqueeze(-1), self.forgetting(hidden).unsqueeze(-1)
        with torch.autocast(hidden.device.type, enabled=False):
            wide = torch.promote_types(hidden.dtype, torch.float32)
            sums = scaled_sums(
                projected.transpose(1, 2).to(wide),
                gates.to(wide),
                -rates.to(wide).abs(),
                None if state is None else ScaledSum(state.scale, state.average),
            )
        averages = sums.total.transpose(1, 2)
        return averages, KeyState(sums.total[:, -1], sums.scale[:, -1])


class LeakyKeys(nn.Module):
    """The first version's k̄_t = k̃_t + λ k̄_{t−1}, with λ = exp(−10 |leak|) for each head; λ starts
    between exp(−0.5) and exp(−5)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.leak = nn.Parameter(torch.linspace(0.05, 0.5, heads))

    def forward(
        self, hidden: Tensor, projected: Tensor, state: KeyState | None = None
    ) -> tuple[Tensor, KeyState]:
        """As :meth:`GatedKeys.forward`; ``hidden`` is not looked at, and the scale is 0."""
        decay = LEAK_GAIN * self.leak.abs()
        averages = leaky_average(projected, decay)
        if state is not None:
            # (heads, time, 1): what is left of the state's average, λ at the first position after
            # it.
            ages = torch.arange(1, projected.shape[2] + 1, device=decay.device, dtype=decay.dtype)
            remaining = torch.exp(-decay[:, None] * ages).unsqueeze(-1)
            averages = averages + remaining * state.average.unsqueeze(2)
        last = averages[:, :, -1]
        return averages, KeyState(last, torch.zeros_like(last[..., :1]))


class DelayedMemoryState(NamedTuple):
    """What a memory keeps: its pairs, and what the pending pair is made of.

    Attributes:
        key: average of the last position; its unit vector is the key of the pending pair.
        value: ṽ of the last position, (batch, heads, head width), which waits for the next one.
        keys, values: of complete pairs that will still be seen, oldest first,
            (batch, heads, pairs, head width).
    """

    key: KeyState
    value: Tensor
    keys: Tensor
    values: Tensor


class Bandwidth(nn.Module):
    """The inverse bandwidth β of each head.

    Adaptive: β(n) = β₁ n^α + β₀, sharper with more pairs n, β₁ = e^min(θ₁, 10), β₀ = e^min(θ₀, 10),
    α = min(|θ|, 1), with θ₁ = θ₀ = 1.5 and θ = 1/3 at first. Constant, as in the first version:
    β = exp(2 min(10 κ, 5)), κ = 0.1 at first.
    """

    def __init__(self, heads: int, *, adaptive: bool) -> None:
        super().__init__()
        self.adaptive = adaptive
        if adaptive:
            self.log_slope = nn.Parameter(torch.full((heads,), FIRST_BANDWIDTH))
            self.log_offset = nn.Parameter(torch.full((heads,), FIRST_BANDWIDTH))
            self.exponent = nn.Parameter(torch.full((heads,), FIRST_EXPONENT))
        else:
            self.bandwidth = nn.Parameter(torch.full((heads,), FIRST_CONSTANT))

    def forward(self, pairs: Tensor) -> Tensor:
        """Numbers of visible pairs (time,), each at least 1 -> β, (heads, time, 1)."""
        if not self.adaptive:
            half = (CONSTANT_GAIN * self.bandwidth).clamp(max=LARGEST_HALF)
            return torch.exp(2 * half)[:, None, None].expand(-1, len(pairs), 1)  # (heads, time, 1)
        slope, offset = (
            torch.exp(theta.clamp(max=LARGEST_LOG_BANDWIDTH))
            for theta in (self.log_slope, self.log_offset)
        )
        power = pairs.to(slope.dtype) ** self.exponent.abs().clamp(max=1.0)[:, None]
        return (slope[:, None] * power + offset[:, None]).unsqueeze(-1)


class DelayedMemory(nn.Module, ABC):
    """Keys, values and bandwidth, whatever is visible.

    Values look one position ahead: v_s = α unit(γ ṽ_s + (1 − γ) ṽ_{s+1}) with ṽ = W_ψ x, γ
    uniform on [0, 1] at first, and α = e^min(|θ|, 15), θ = 0 at first. At θ = 0 the derivative of
    |θ| counts as 1: with torch's 0 it would never be learned.
    """

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self.heads, self.dropout = choices.heads, choices.dropout
        # Rows of W_φ, then of W_ψ.
        self.projection = nn.Linear(choices.width, 2 * choices.width, bias=False)
        self.key_extractor: GatedKeys | LeakyKeys
        if choices.gated_keys:
            self.key_extractor = GatedKeys(choices.width, choices.heads)
        else:
            self.key_extractor = LeakyKeys(choices.heads)
        self.bandwidth = Bandwidth(choices.heads, adaptive=choices.adaptive_bandwidth)
        self.value_mixing = nn.Parameter(torch.rand(choices.heads))
        self.value_scale = nn.Parameter(torch.zeros(choices.heads))

    @abstractmethod
    def visible(self, position: int, delay: int) -> tuple[int, int]:
        """The first pair that a position may see, and the one after the last."""

    @abstractmethod
    def vectors_after(self, positions: int) -> int:
        """Vectors of the whole width that one sequence keeps, those of the pending pair too."""

    @abstractmethod
    def _read(self, keys: Tensor, values: Tensor, delay: int) -> Tensor:
        """What each position reads, as :meth:`forward`, without the scale of values."""

    def forward(self, hidden: Tensor, delay: int) -> tuple[Tensor, DelayedMemoryState]:
        """A sequence (batch, time, width) -> what each position reads, (batch, heads, time, head
        width), and the state after the last position."""
        for_keys, for_values = self._project(hidden)
        averages, key = self.key_extractor(hidden, for_keys)
        keys = unit(averages)
        values = self._values(for_values[:, :, :-1], for_values[:, :, 1:])
        read = self._scaled(self._read(keys, values, delay).to(hidden.dtype))
        # What the position after the last one will not see is not kept.
        first, _ = self.visible(hidden.shape[1], delay)
        last = DelayedMemoryState(
            key, for_values[:, :, -1], keys[:, :, first:-1], values[:, :, first:].to(keys.dtype)
        )
        return read, last

    def step(
        self, hidden: Tensor, state: DelayedMemoryState | None, delay: int
    ) -> tuple[Tensor, DelayedMemoryState]:
        """One position (batch, width) -> what it reads, (batch, heads, 1, head width), and the
        next state."""
        hidden = hidden.unsqueeze(1)
        if state is None:
            return self(hidden, delay)
        for_keys, for_values = self._project(hidden)
        averages, key = self.key_extractor(hidden, for_keys, state.key)
        # The pair of the position before: its value mixes in the vector of this one.
        completed = self._values(state.value.unsqueeze(2), for_values)
        keys = torch.cat((state.keys, unit(state.key.average).unsqueeze(2)), 2)
        values = torch.cat((state.values, completed), 2)
        # Counted from the oldest pair that is kept: only the distance to the last one matters.
        first, last = self.visible(keys.shape[2], delay)
        seen = last - first
        if seen:
            queries = unit(averages) * self.bandwidth(torch.tensor([seen], device=keys.device))
            read = functional.scaled_dot_product_attention(
                queries, keys[:, :, first:last], values[:, :, first:last], scale=1.0
            )
        else:
            read = torch.zeros_like(completed)
        first, _ = self.visible(keys.shape[2] + 1, delay)
        state = DelayedMemoryState(
            key, for_values[:, :, -1], keys[:, :, first:], values[:, :, first:]
        )
        return self._scaled(read.to(hidden.dtype)), state

    def attention_of_last(self, hidden: Tensor, delay: int) -> Tensor:
        """Weights (batch, heads, time) with which the last of hidden vectors (batch, time, width)
        reads the pairs that start at each position; 0 for those it does not see."""
        time = hidden.shape[1]
        keys = unit(self.key_extractor(hidden, self._project(hidden)[0])[0])
        first, last = self.visible(time - 1, delay)
        # An empty softmax has no weights; any β will do.
        bandwidth = self.bandwidth(torch.tensor([max(last - first, 1)], device=keys.device))
        scores = (bandwidth * keys[:, :, -1:] * keys[:, :, first:last]).sum(-1)
        return functional.pad(scores.softmax(-1), (first, time - last))

    def _project(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """k̃ and ṽ, each (batch, heads, time, head width)."""
        keys, values = self.projection(hidden).chunk(2, -1)
        return split_heads(keys, self.heads), split_heads(values, self.heads)

    def _values(self, current: Tensor, following: Tensor) -> Tensor:
        """Unit values of projections one position apart, float32 at least."""
        mixing = self.value_mixing[:, None, None].to(current.dtype)
        return unit(torch.lerp(following, current, mixing))

    def _scaled(self, read: Tensor) -> Tensor:
        # Not ``abs``, whose gradient at the start, θ = 0, is 0.
        theta = torch.where(self.value_scale < 0, -self.value_scale, self.value_scale)
        return torch.exp(theta.clamp(max=LARGEST_LOG_VALUE))[:, None, None].to(read.dtype) * read

    def _attention_dropout(self) -> float:
        return self.dropout if self.training else 0.0


class LongTermMemory(DelayedMemory):
    """Pairs s <= t − delay: plain causal attention after a shift by the delay."""

    def visible(self, position: int, delay: int) -> tuple[int, int]:
        """All pairs up to position − delay: (0, position − delay + 1)."""
        return 0, max(position - delay + 1, 0)

    def vectors_after(self, positions: int) -> int:
        """Keys and values of all positions, an average and a pending value."""
        return 2 * positions + 2

    def _read(self, keys: Tensor, values: Tensor, delay: int) -> Tensor:
        stored = keys.shape[2] - delay
        if stored < 1:
            return torch.zeros_like(keys)
        # Position ``delay`` is the first to see a pair, and each one after it sees one more.
        pairs = torch.arange(1, stored + 1, device=keys.device)
        read = functional.scaled_dot_product_attention(
            keys[:, :, delay:] * self.bandwidth(pairs),
            keys[:, :, :stored],
            values[:, :, :stored],
            is_causal=True,
            scale=1.0,
            dropout_p=self._attention_dropout(),
        )
        return functional.pad(read, (0, 0, delay, 0))


class ShortTermMemory(DelayedMemory):
    """Pairs t − window <= s < t.

    Args:
        window: None sees all pairs before t, as the first version does.
    """

    def __init__(self, choices: Choices, window: int | None) -> None:
        super().__init__(choices)
        self.window = window

    def visible(self, position: int, delay: int) -> tuple[int, int]:
        """The last ``window`` pairs before the position, or all of them; the delay does not
        count."""
        return max(position - (self.window or position), 0), position

    def vectors_after(self, positions: int) -> int:
        """Keys and values of the window, an average and a pending value."""
        return 2 * min(positions, self.window or positions) + 2

    def _read(self, keys: Tensor, values: Tensor, delay: int) -> Tensor:
        time = keys.shape[2]
        if time == 1:
            return torch.zeros_like(keys)
        # t pairs before t, up to the window; at t = 0, whose reading is dropped, β wants at least
        # 1.
        pairs = torch.arange(time, device=keys.device).clamp(1, self.window)
        queries, dropout = keys * self.bandwidth(pairs), self._attention_dropout()
        if self.window is None:
            return read_past(queries, keys, values, dropout)
        read = attend_to_window(
            queries[:, :, 1:], keys[:, :, :-1], values, self.window, scale=1.0, dropout=dropout
        )
        return functional.pad(read, (0, 0, 1, 0))
