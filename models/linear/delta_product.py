"""Gated DeltaProduct (Siems et al. 2025, arXiv 2502.10297): a position makes several steps of the
delta rule, so that what it does to the memory is a product of Householder matrices."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.heads import head_width
from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.mixer import RecurrentMixer, linear, unit
from models.layers.recurrence.writes import Writes
from models.layers.residual import ResidualModel
from models.linear.parts import NORM_EPSILON, ConvolvedHeads, DecayByHead, without_weight_decay
from models.specification import SequenceSpecification


class DeltaState(NamedTuple):
    """Inputs that the convolution still sees, and the memory of each head."""

    past: Tensor
    memory: Tensor


def delta_product(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    log_decays: Tensor,
    strengths: Tensor,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """S ← α_t S_{t−1}; S ← S + β_j k_j ⊗ (v_j − Sᵀ k_j) for j = 1 … n; o_t = Sᵀ q_t.

    The delta rule on a sequence n times as long, which decays in the first of n steps and is read
    after the last.

    Args:
        queries: q, (batch, time, heads, key width); what o is scaled by, they are.
        keys: (batch, time, n, heads, key width), of length 1.
        values: (batch, time, n, heads, value width).
        log_decays: ln α, (batch, time, heads).
        strengths: β, (batch, time, n, heads), at most 2.
        state: the memory before, (batch, heads, key width, value width); None is an empty one.

    Returns:
        o (batch, time, heads, value width), and the memory after the last position.
    """
    steps = keys.shape[2]
    decays = functional.pad(log_decays.unsqueeze(2), (0, 0, 0, steps - 1))
    reads = functional.pad(queries.unsqueeze(2), (0, 0, 0, 0, steps - 1, 0))
    writes = Writes(
        keys.flatten(1, 2), values.flatten(1, 2), decays.flatten(1, 2), strengths.flatten(1, 2)
    )
    outputs, state = linear_recurrence(reads.flatten(1, 2), writes, state)
    return outputs.unflatten(1, (-1, steps))[:, :, -1], state


class DeltaProductMixer(RecurrentMixer):
    """y_t = W_o (norm(o_t) ∘ SiLU(W_g x_t)), o of :func:`delta_product`.

    q, n keys and n values of a position are SiLU of a short convolution of linear maps, q and the
    keys then of length 1 and q scaled by 1/√(head width). β_j = b σ(W_j x) with b the largest
    strength, ln α = −e^A softplus(W_a x + c) as in Gated DeltaNet. The norm is the root mean square
    of a head, with a gain that heads share. The arguments are those of :class:`DeltaProduct`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        steps: int = 2,
        largest_strength: float = 2.0,
        convolution: int = 4,
    ) -> None:
        super().__init__()
        if steps < 1:
            raise ValueError(f"a position makes at least one step, got steps={steps}")
        if not 0 < largest_strength <= 2:
            raise ValueError(
                f"largest_strength={largest_strength} is outside (0, 2]: above 2 errors grow; "
                "choose 1, or 2 for negative eigenvalues"
            )
        self.heads, self.head_width = heads, head_width(width, heads)
        self.steps, self.largest_strength = steps, largest_strength
        channels = (width, steps * width, steps * width)
        self.streams = ConvolvedHeads(width, channels, heads, convolution)
        self.strength = linear(width, steps * heads)
        self.decay = DecayByHead(width, heads)
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

    def advance(self, hidden: Tensor, state: DeltaState | None) -> tuple[Tensor, DeltaState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        (queries, *others), past = self.streams(hidden, state.past if state else None)
        keys, values = (
            x.flatten(2).unflatten(-1, (self.steps, self.heads, self.head_width)) for x in others
        )
        strengths = self.largest_strength * torch.sigmoid(self.strength(hidden))
        read, memory = delta_product(
            unit(queries) * self.head_width**-0.5,
            unit(keys),
            values,
            self.decay(hidden),
            strengths.unflatten(-1, (self.steps, self.heads)),
            state.memory if state else None,
        )
        mixed = self.norm(read).flatten(2) * functional.silu(self.gate(hidden))
        return self.output_projection(mixed), DeltaState(past, memory)


class DeltaProduct(ResidualModel):
    """Gated DeltaProduct in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories of each block.
        steps: n, of the delta rule for each position; with 1 it is Gated DeltaNet.
        largest_strength: b. 2 lets a step be a reflection, and two of them a rotation.
        convolution: positions that the short convolution sees; 1 has none.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: no step, a strength that is not stable, or sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        steps: int = 2,
        largest_strength: float = 2.0,
        convolution: int = 4,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            DeltaProductMixer(
                width,
                heads,
                steps=steps,
                largest_strength=largest_strength,
                convolution=convolution,
            )
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
