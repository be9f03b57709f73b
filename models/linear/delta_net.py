"""The delta rule as a layer, with what was added to it since.

DeltaNet: Yang, Wang, Zhang, Shen and Kim 2024, "Parallelizing linear transformers with the delta
rule over sequence length" (arXiv 2406.06484). Gated DeltaNet: Yang, Kautz and Hatamizadeh 2024
(arXiv 2412.06464). Negative eigenvalues: Grazzi et al. 2024, "Unlocking state-tracking in linear
RNNs through negative eigenvalues" (arXiv 2411.12537). A decay for each channel: Kimi Team 2025,
"Kimi linear" (arXiv 2510.26692), Kimi delta attention (KDA).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.heads import head_width
from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.mixer import (
    Neighbours,
    RecurrentMixer,
    inverse_softplus,
    linear,
    unit,
)
from models.layers.recurrence.writes import Writes
from models.layers.residual import ResidualModel
from models.specification import SequenceSpecification

DecayOf = Literal["none", "head", "channel"]
SMALLEST_RATE, LARGEST_RATE = 0.01, 16.0
SMALLEST_STEP, LARGEST_STEP, STEP_FLOOR = 1e-3, 0.1, 1e-4
NORM_EPSILON = 1e-5


class DeltaState(NamedTuple):
    """Inputs that the convolution still sees, and the memory of each head."""

    past: Tensor
    memory: Tensor


class DeltaRuleMixer(RecurrentMixer):
    """S' = α_t S_{t−1},  S_t = S' + β_t k_t ⊗ (v_t − S'ᵀ k_t),  y_t = W_o norm(S_tᵀ q_t).

    q, k and v are SiLU of a short convolution of linear maps, q and k then of length 1 and q scaled
    by 1/√(key width). β = b σ(W_β x) with b the largest strength. With a decay, ln α =
    −exp(A) softplus(W_a x + c); for channels W_a has the rank of a head. The norm is the root mean
    square of a head, with a gain that heads share; an output gate multiplies it by SiLU(W_g x).

    exp(A) starts uniform on [0.01, 16] and c so that softplus(c) is log-uniform on [1e-3, 0.1].
    The arguments are those of :class:`DeltaNet`.

    Raises:
        ValueError: an unknown decay, a strength that is not stable, or sizes that do not fit.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        decay: DecayOf = "none",
        output_gate: bool = False,
        largest_strength: float = 1.0,
        convolution: int = 4,
        key_expansion: float = 1.0,
        value_expansion: float = 1.0,
    ) -> None:
        super().__init__()
        if decay not in get_args(DecayOf):
            choices = ", ".join(get_args(DecayOf))
            raise ValueError(f"decay={decay!r} is unknown; choose one of {choices}")
        # Along a unit key the transition has the eigenvalue α (1 − β), within [−1, 1] for β up to
        # 2.
        if not 0 < largest_strength <= 2:
            raise ValueError(
                f"largest_strength={largest_strength} is outside (0, 2]: above 2 errors grow; "
                "choose 1, or 2 for negative eigenvalues"
            )
        self.heads, self.decays_by, self.largest_strength = heads, decay, largest_strength
        keys = _inner_width(width, heads, key_expansion)
        values = _inner_width(width, heads, value_expansion)
        self.key_width, self.value_width = keys // heads, values // heads
        self.parts = (keys, keys, values)
        self.projection = linear(width, sum(self.parts))
        self.neighbours = Neighbours(sum(self.parts), convolution)
        self.strength = linear(width, heads)
        self.decay: nn.Module | None = None
        if decay == "head":
            self.decay = linear(width, heads)
        elif decay == "channel":
            # As in KDA: a full map to every channel would cost as much as that of the keys.
            rank = self.value_width
            self.decay = nn.Sequential(linear(width, rank), linear(rank, keys))
        if decay != "none":
            # U(0.01, 16) and not the papers' U(0, 16), which can draw 0, whose logarithm is −∞.
            rates = torch.empty(heads).uniform_(SMALLEST_RATE, LARGEST_RATE)
            self.log_rates = nn.Parameter(rates.log())
            low, high = math.log(SMALLEST_STEP), math.log(LARGEST_STEP)
            steps = torch.empty(heads if decay == "head" else keys).uniform_(low, high)
            self.step_bias = nn.Parameter(inverse_softplus(steps.exp().clamp(min=STEP_FLOOR)))
        self.gate = linear(width, values) if output_gate else None
        self.norm = nn.RMSNorm(self.value_width, eps=NORM_EPSILON)
        self.output_projection = nn.Linear(values, width, bias=False)

    @property
    def state_size(self) -> int:
        """The memories, and what the convolution still sees."""
        memory = self.heads * self.key_width * self.value_width
        return memory + self.neighbours.state_size

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on what makes the decays, and on norms."""
        names = {"log_rates", "step_bias", "norm.weight"} & dict(self.named_parameters()).keys()
        return {name: {"weight_decay": 0.0} for name in sorted(names)}

    def advance(self, hidden: Tensor, state: DeltaState | None) -> tuple[Tensor, DeltaState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        seen, past = self.neighbours(self.projection(hidden), state.past if state else None)
        queries, keys, values = (
            part.unflatten(-1, (self.heads, -1))
            for part in functional.silu(seen).split(self.parts, -1)
        )
        strengths = self.largest_strength * torch.sigmoid(self.strength(hidden))
        # Keys of exactly norm 1: with N(0, 1) keys of width 8 and β = 0.9 outputs reach 10⁵⁷ within
        # 200 steps.
        writes = Writes(unit(keys), values, self._log_decays(hidden), strengths)
        queries = unit(queries) * self.key_width**-0.5
        outputs, memory = linear_recurrence(queries, writes, state.memory if state else None)
        mixed = self.norm(outputs).flatten(2)
        if self.gate is not None:
            # The gate comes after the norm here; Mamba-2 has them the other way round.
            mixed = mixed * functional.silu(self.gate(hidden))
        return self.output_projection(mixed), DeltaState(past, memory)

    def _log_decays(self, hidden: Tensor) -> Tensor | None:
        """ln α, (batch, time, heads) or (batch, time, heads, key width)."""
        if self.decay is None:
            return None
        steps = functional.softplus(self.decay(hidden) + self.step_bias)
        rates = self.log_rates.exp()
        if self.decays_by == "head":
            return -rates * steps
        # A rate of each head for all channels of its keys.
        return -rates[:, None] * steps.unflatten(-1, (self.heads, -1))


def _inner_width(width: int, heads: int, expansion: float) -> int:
    """Channels of all heads together; ValueError where heads do not fit."""
    channels = round(expansion * width)
    if channels != expansion * width or channels < 1 or channels % heads:
        raise ValueError(
            f"{expansion} × width={width} channels cannot be split in heads={heads}; "
            "choose a width, an expansion and heads that fit"
        )
    return channels


class DeltaNet(ResidualModel):
    """The delta rule in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories of each block.
        decay: "none"; one of each "head" (Gated DeltaNet); of each "channel" of the keys (KDA).
        output_gate: whether SiLU of a linear map multiplies what is read.
        largest_strength: b. 1 keeps the eigenvalue along a key in (0, 1); 2 lets it be negative,
            down to a reflection.
        convolution: positions that the short convolution sees; 1 has none.
        key_expansion: channels of the keys of all heads for each channel of the layer.
        value_expansion: the same of the values.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: an unknown decay, a strength that is not stable, or sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        decay: DecayOf = "none",
        output_gate: bool = False,
        largest_strength: float = 1.0,
        convolution: int = 4,
        key_expansion: float = 1.0,
        value_expansion: float = 1.0,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        head_width(width, heads)
        mixers = [
            DeltaRuleMixer(
                width,
                heads,
                decay=decay,
                output_gate=output_gate,
                largest_strength=largest_strength,
                convolution=convolution,
                key_expansion=key_expansion,
                value_expansion=value_expansion,
            )
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
