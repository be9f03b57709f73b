"""Momentum DeltaNet (ICML 2026, arXiv 2605.05838): what the delta rule would write goes to a second
memory first, which fades by itself and feeds the one that is read."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.general_delta import (
    cut_in_chunks,
    in_float32_or_wider,
    join_chunks,
    solve_unit_triangular,
)
from models.layers.recurrence.mixer import linear, unit
from models.layers.recurrence.writes import Writes
from models.layers.residual import ResidualModel
from models.linear.parts import (
    DecayByHead,
    GatedDeltaMixer,
    uniform_logarithms,
    without_weight_decay,
)
from models.specification import SequenceSpecification

CHUNK = 32
SMALLEST_DRAW = 0.01  # the paper's U(0, ·) can draw 0, whose logarithm is −∞
LARGEST_ANGLE_RATE, LARGEST_CORRECTION = 4.0, 1.0


class MomentumState(NamedTuple):
    """S and M, each (batch, heads, key width, value width)."""

    memory: Tensor
    momentum: Tensor


class MomentumGates(NamedTuple):
    """Gates of a sequence, each (batch, time, heads).

    Attributes:
        log_decays: ln α <= 0, finite.
        log_momentum: ln μ <= 0, finite.
        rates: η, how much of an error goes to the momentum.
        shares: β, how much of the momentum goes to the memory.
    """

    log_decays: Tensor
    log_momentum: Tensor
    rates: Tensor
    shares: Tensor


def momentum_delta_rule(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    gates: MomentumGates,
    state: MomentumState | None = None,
    *,
    chunk: int = CHUNK,
) -> tuple[Tensor, MomentumState]:
    """M_t = μ_t M_{t−1} + η_t k_t ⊗ (v_t − α_t S_{t−1}ᵀ k_t),  S_t = α_t S_{t−1} + β_t M_t.

    Chunks of positions are computed abreast. With a and m the sums of ln α and ln μ inside a chunk,
    a write of position j is in the memory after i >= j with the weight

        Γ_ij = Σ_{s=j..i} β_s e^{a_i − a_s} e^{m_s − m_j},

    the product of two triangular matrices of numbers that are positive and at most β and 1. Nothing
    cancels, where the paper's difference of two cumulative sums loses about (α/μ)^chunk times the
    rounding.

    Args:
        queries: q, (batch, time, heads, key width); what o is scaled by, they are.
        keys: k, of the same shape, of length 1.
        values: v, (batch, time, heads, value width).
        gates: of the same positions.
        state: what the last call returned; None starts a sequence.
        chunk: positions that are computed abreast.

    Returns:
        o = S_tᵀ q_t, (batch, time, heads, value width), in the type of the values, and the state in
        float32 or wider.
    """
    length, dtype = queries.shape[1], values.dtype
    chunk = min(chunk, length)
    with torch.autocast(queries.device.type, enabled=False):
        q, k, v = (cut_in_chunks(in_float32_or_wider(x), chunk) for x in (queries, keys, values))
        log_decays, log_momentum, rates, shares = (
            cut_in_chunks(in_float32_or_wider(gate).unsqueeze(-1), chunk) for gate in gates
        )
        if state is None:
            zeros = v.new_zeros(*v.shape[1:3], k.shape[-1], v.shape[-1])
            state = MomentumState(zeros, zeros)
        memory, momentum = map(in_float32_or_wider, state)

        # a and m of the docstring.
        decayed, faded = log_decays.cumsum(-2), log_momentum.cumsum(-2)
        released = _between(decayed) * shares.mT  # β_s e^{a_i − a_s}
        stored = _between(faded)  # e^{m_s − m_j}
        # Γ; one for what a query of i reads, after the write of i itself.
        weights = released @ stored
        # Γ before the release of i: an error is of the memory as position i finds it.
        weights_before = released.tril(-1) @ stored
        # How much of the momentum that entered the chunk has reached the memory.
        of_momentum = released @ faded.exp()
        of_momentum_before = released.tril(-1) @ faded.exp()

        corrections = weights_before * (k @ k.mT) * rates.mT
        # Memory and momentum side by side, so that one product reads both.
        reads = torch.cat((decayed.exp() * k, of_momentum_before * k), -1)
        offsets, by_state = solve_unit_triangular(corrections, v, reads)
        scores = weights * (q @ k.mT) * rates.mT
        to_memory = (weights[..., -1:, :].mT * rates * k).mT
        # The momentum takes every error at its own rate and fades it to the end.
        to_momentum = ((faded[..., -1:, :] - faded).exp() * rates * k).mT
        per_chunk = (
            offsets,
            by_state,
            to_memory,
            to_momentum,
            decayed[..., -1:, :].exp(),
            of_momentum[..., -1:, :],
            faded[..., -1:, :].exp(),
        )
        entering, errors = [], []
        # The only loop over chunks.
        for offset, read, write, store, keep, release, fade in zip(
            *(part.unbind(0) for part in per_chunk), strict=True
        ):
            stacked = torch.cat((memory, momentum), -2)
            entering.append(stacked)
            # v − α S k of all positions of the chunk, by the state that entered it.
            error = offset - read @ stacked
            errors.append(error)
            memory = keep * memory + release * momentum + write @ error
            momentum = fade * momentum + store @ error
        looks = torch.cat((decayed.exp() * q, of_momentum * q), -1)
        outputs = looks @ torch.stack(entering) + scores @ torch.stack(errors)
    return join_chunks(outputs, length).to(dtype), MomentumState(memory, momentum)


def _between(sums: Tensor) -> Tensor:
    """e^{sum_i − sum_j} for j <= i, 0 elsewhere: (..., chunk, 1) -> (..., chunk, chunk)."""
    later = torch.ones(sums.shape[-2], sums.shape[-2], dtype=torch.bool, device=sums.device)
    return (sums - sums.mT).masked_fill(later.triu(1), -math.inf).exp()


class MomentumMixerState(NamedTuple):
    """Inputs that the convolution still sees, and the two memories of each head."""

    past: Tensor
    memories: MomentumState


class MomentumDeltaMixer(GatedDeltaMixer):
    """y_t = W_o (norm(o_t) ∘ σ(W_g x_t)), o of :func:`momentum_delta_rule`, with for each head

        η = 1 + tanh(W_η x / √width),  θ = arctan(η e^f),  β = sin²θ σ(W_β x),
        ln α = ln cos²θ − e^A softplus(W_a x + c),  ln μ = max(−2, −e^U softplus(W_m x + d)),

    so that α + β <= 1. q loses e^D k before both get the length 1; q is scaled by 1/√(head width).
    e^f starts uniform on [0.01, 4], e^A and e^U on [0.01, 16], e^D on [0.01, 1], and c and d as the
    same draw, with softplus(c) log-uniform on [1e-3, 0.1]. The arguments are those of
    :class:`MomentumDeltaNet`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        momentum: bool = True,
        smallest_log_momentum: float | None = -2.0,
        convolution: int = 4,
    ) -> None:
        super().__init__(width, heads, convolution=convolution, sigmoid_gate=True)
        if smallest_log_momentum is not None and smallest_log_momentum >= 0:
            raise ValueError(
                f"smallest_log_momentum={smallest_log_momentum} leaves no momentum that fades; "
                "choose a number below 0, or null for no limit"
            )
        self.width, self.smallest_log_momentum = width, smallest_log_momentum
        self.rate = linear(width, heads)
        self.log_angle_rates = uniform_logarithms(heads, SMALLEST_DRAW, LARGEST_ANGLE_RATE)
        self.log_corrections = uniform_logarithms(heads, SMALLEST_DRAW, LARGEST_CORRECTION)
        self.momentum: DecayByHead | None = None
        if momentum:
            self.momentum = DecayByHead(width, heads)
            with torch.no_grad():
                # Memory and momentum start with equal biases of their steps.
                self.momentum.step_bias.copy_(self.decay.get_parameter("step_bias"))

    @property
    def state_size(self) -> int:
        """Both memories, or one, and what the convolution still sees."""
        memories = 1 if self.momentum is None else 2
        return memories * self.heads * self.head_width**2 + self.streams.state_size

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on what makes the decays, on f and D, and on norms."""
        names = ("log_rates", "step_bias", "log_angle_rates", "log_corrections")
        return without_weight_decay(self, *names)

    def advance(
        self, hidden: Tensor, state: MomentumMixerState | None
    ) -> tuple[Tensor, MomentumMixerState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        (queries, keys, values), past = self.streams(hidden, state.past if state else None)
        # The query loses a part along its own key, whose pair it has just written.
        queries = unit(queries - self.log_corrections.exp()[:, None] * keys)
        queries, keys = queries * self.head_width**-0.5, unit(keys)
        rates = 1 + torch.tanh(self.rate(hidden) / math.sqrt(self.width))
        # tan²θ; cos² = 1/(1 + tan²) needs no arctan and no cosine.
        tangents = (rates * self.log_angle_rates.exp()).square()
        shares = tangents / (1 + tangents) * torch.sigmoid(self.strength(hidden))
        # ln cos²θ = −ln(1 + tan²θ), without a cancellation near θ = 0.
        log_decays = self.decay(hidden) - torch.log1p(tangents)
        memories = state.memories if state else None
        if self.momentum is None:
            # μ = 0: M is the last error alone, which the plain delta rule writes at once.
            writes = Writes(keys, values, log_decays, shares * rates)
            read, memory = linear_recurrence(queries, writes, memories.memory if memories else None)
            # Empty: a variant without momentum keeps one memory.
            memories = MomentumState(memory, memory[:, :0])
        else:
            log_momentum = self.momentum(hidden)
            if self.smallest_log_momentum is not None:
                # At each step at least e^limit of the momentum stays.
                log_momentum = log_momentum.clamp(min=self.smallest_log_momentum)
            gates = MomentumGates(log_decays, log_momentum, rates, shares)
            read, memories = momentum_delta_rule(queries, keys, values, gates, memories)
        return self.leave(read, hidden), MomentumMixerState(past, memories)


class MomentumDeltaNet(ResidualModel):
    """Momentum DeltaNet in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: pairs of memories of each block.
        momentum: false makes μ = 0, the delta rule with the strength βη.
        smallest_log_momentum: the limit of ln μ; None has none.
        convolution: positions that the short convolution sees; 1 has none.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: a limit that is not below 0, or sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        momentum: bool = True,
        smallest_log_momentum: float | None = -2.0,
        convolution: int = 4,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            MomentumDeltaMixer(
                width,
                heads,
                momentum=momentum,
                smallest_log_momentum=smallest_log_momentum,
                convolution=convolution,
            )
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
