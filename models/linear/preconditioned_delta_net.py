"""Preconditioned delta rules (ICML 2026, arXiv 2604.21100, section 3): channels of the keys that
were written often are written less, by a running sum of the squares of all keys."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.general_delta import Edits, general_delta_rule, in_float32_or_wider
from models.layers.recurrence.mixer import linear, unit
from models.layers.recurrence.writes import Writes
from models.layers.residual import ResidualModel
from models.linear.parts import DecayByChannel, DecayByHead, GatedDeltaMixer, without_weight_decay
from models.specification import SequenceSpecification

DecayOf = Literal["head", "channel"]
FIRST_CENTRE = -0.2
CHUNK = 64
EPSILON = 1e-6  # a channel in which no key was yet has A = 0, of which there is no logarithm


class PreconditionedState(NamedTuple):
    """Inputs that the convolution still sees, the memory of each head, and A (batch, heads, 1, key
    width)."""

    past: Tensor
    memory: Tensor
    squares: Tensor


class PreconditionedDeltaMixer(GatedDeltaMixer):
    """S' = α_t S_{t−1},  S_t = S' + β_t (M_t ∘ k_t) ⊗ (v_t − S'ᵀ k_t),  o_t = S_tᵀ q_t / √K, with

        A_t = a_t A_{t−1} + b_t k_t ∘ k_t,  r = ln(A_t + 1e-6) − c,  M_t = X^(−r / (1 + |r|)),

    so that M is between 1/X and X. k and q have length 1 and keys are K wide; a is made as α of
    Gated DeltaNet and b as β, by gates of their own; c, for each head, starts at −0.2. With X = 1
    the layer is that of Gated DeltaNet. The arguments are those of
    :class:`PreconditionedDeltaNet`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        decay: DecayOf = "head",
        base: float = 1.5,
        convolution: int = 4,
    ) -> None:
        super().__init__(width, heads, convolution=convolution)
        if decay not in get_args(DecayOf):
            choices = ", ".join(get_args(DecayOf))
            raise ValueError(f"decay={decay!r} is unknown; choose one of {choices}")
        if not 1 <= base <= 2:
            raise ValueError(
                f"base={base} is outside [1, 2]: 1 preconditions nothing, and above 2 a step can "
                "lengthen errors"
            )
        self.base = base
        if decay == "channel":
            self.decay = DecayByChannel(width, heads, width, rank=self.head_width)
        self.square_decay = DecayByHead(width, heads)
        self.square_strength = linear(width, heads)
        self.centre = nn.Parameter(torch.full((heads,), FIRST_CENTRE))

    @property
    def state_size(self) -> int:
        """The memories, A, and what the convolution still sees."""
        return super().state_size + self.heads * self.head_width

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on what makes the decays, on c, and on norms."""
        return without_weight_decay(self, "log_rates", "step_bias", "centre")

    def advance(
        self, hidden: Tensor, state: PreconditionedState | None
    ) -> tuple[Tensor, PreconditionedState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        (queries, keys, values), past = self.streams(hidden, state.past if state else None)
        queries, keys, strengths = unit(queries), unit(keys), self.strengths(hidden)
        factors, squares = self._factors(hidden, keys, state.squares if state else None)
        # β stands with what is read and with the values; what is written is M ∘ k, without it.
        edits = Edits(strengths * keys, factors * keys, strengths * values, self.decay(hidden))
        read, memory = general_delta_rule(
            queries * self.head_width**-0.5, edits, state.memory if state else None
        )
        return self.leave(read, hidden), PreconditionedState(past, memory, squares)

    def _factors(
        self, hidden: Tensor, keys: Tensor, before: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """M, (batch, time, heads, key width), and A after the last position."""
        weights = in_float32_or_wider(torch.sigmoid(self.square_strength(hidden))).unsqueeze(-1)
        writes = Writes(weights, keys.square(), self.square_decay(hidden))
        # With a chunk no kernel is asked, which keys of one channel may not fit.
        squares, last = linear_recurrence(torch.ones_like(weights), writes, before, chunk=CHUNK)
        # Where ln A = c a channel is written as it is, where A is larger less.
        relative = torch.log(squares + EPSILON) - self.centre[:, None]
        return torch.exp(-math.log(self.base) * relative / (1 + relative.abs())), last


class PreconditionedDeltaNet(ResidualModel):
    """Preconditioned Gated DeltaNet, or KDA, in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories of each block.
        decay: of the memory: one for each "head", as in Gated DeltaNet, or "channel", as in KDA.
        base: X.
        convolution: positions that the short convolution sees; 1 has none.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: an unknown decay, a base that is not stable, or sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        decay: DecayOf = "head",
        base: float = 1.5,
        convolution: int = 4,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            PreconditionedDeltaMixer(width, heads, decay=decay, base=base, convolution=convolution)
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
