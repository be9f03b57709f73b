"""Gated DeltaNet-2 (2026, arXiv 2605.22791, equations 8 to 12): a gate for each channel of the keys
says what is erased, another one for each channel of the values what is written."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.heads import head_width
from models.layers.recurrence.general_delta import Edits, general_delta_rule
from models.layers.recurrence.mixer import RecurrentMixer, linear, unit
from models.layers.residual import ResidualModel
from models.linear.parts import (
    NORM_EPSILON,
    ConvolvedHeads,
    DecayByChannel,
    DeltaState,
    without_weight_decay,
)
from models.specification import SequenceSpecification

Gates = Literal["both", "erase", "write", "tied"]
Activation = Literal["silu", "sigmoid"]
# Where e^A starts, as in Mamba-2.
RATES = 1.0, 16.0


class DecoupledDeltaRule(RecurrentMixer):
    """S' = Diag(α_t) S_{t−1},  S_t = S' + k_t ⊗ (w_t ∘ v_t − S'ᵀ (b_t ∘ k_t)).

    y_t = W_o (norm(S_tᵀ q_t) ∘ f(W_g x_t)). q, k and v are SiLU of a short convolution of linear
    maps, q and k then of length 1 and q scaled by 1/√(head width). b = c σ(W_b x), c the largest
    erasure, w = σ(W_w x). ln α = −e^A softplus(W₂ W₁ x + δ) for each channel of the keys, e^A
    uniform on [1, 16] at the start, softplus(δ) log-uniform on [1e-3, 0.1]. The map to the output
    gate has the rank of a head too, and a bias. The norm is the root mean square of a head, with a
    gain that heads share. The arguments are those of :class:`GatedDeltaNet2`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        gates: Gates = "both",
        largest_erasure: float = 1.0,
        output_activation: Activation = "silu",
        convolution: int = 4,
    ) -> None:
        super().__init__()
        for key, value, choices in (
            ("gates", gates, get_args(Gates)),
            ("output_activation", output_activation, get_args(Activation)),
        ):
            if value not in choices:
                raise ValueError(f"{key}={value!r} is unknown; choose one of {', '.join(choices)}")
        if not 0 < largest_erasure <= 2:
            raise ValueError(
                f"largest_erasure={largest_erasure} is outside (0, 2]: above 2 errors grow; "
                "choose 1, or 2 for negative eigenvalues"
            )
        self.heads, self.head_width = heads, head_width(width, heads)
        self.gates, self.largest_erasure = gates, largest_erasure
        self.output_activation = output_activation
        self.streams = ConvolvedHeads(width, (width, width, width), heads, convolution)
        # Full maps; only those of the decay and of the output gate have the rank of a head.
        self.erase_gate = linear(width, width)
        self.write_gate = linear(width, width)
        # A decay for each channel of the keys, as in KDA.
        self.decay = DecayByChannel(width, heads, width, rank=self.head_width, rates=RATES)
        self.output_gate = nn.Sequential(
            linear(width, self.head_width), linear(self.head_width, width, bias=True)
        )
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
        (queries, keys, values), past = self.streams(hidden, state.past if state else None)
        erase, write = self._gates(hidden)
        # With |k| = 1 and b <= 1 an eigenvalue of I − (b ∘ k) ⊗ k is between 0 and 1.
        keys = unit(keys)
        # b gates what is read before it is taken away, w what is written: two vectors.
        edits = Edits(erase * keys, keys, write * values, self.decay(hidden))
        # Length 1 first, then by 1/√(head width), as attention has it.
        queries = unit(queries) * self.head_width**-0.5
        read, memory = general_delta_rule(queries, edits, state.memory if state else None)
        gate = self.output_gate(hidden)
        gate = functional.silu(gate) if self.output_activation == "silu" else torch.sigmoid(gate)
        return self.output_projection(self.norm(read).flatten(2) * gate), DeltaState(past, memory)

    def _gates(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """b and w, (batch, time, heads, head width); the last axis is 1 where channels share."""
        erase, write = (
            torch.sigmoid(gate(hidden)).unflatten(-1, (self.heads, -1))
            for gate in (self.erase_gate, self.write_gate)
        )
        # The mean keeps the number of parameters, so that variants differ by the gates alone.
        if self.gates in ("write", "tied"):
            erase = erase.mean(-1, keepdim=True)
        if self.gates in ("erase", "tied"):
            write = write.mean(-1, keepdim=True)
        if self.gates == "tied":
            erase = write = (erase + write) / 2
        return self.largest_erasure * erase, write


class GatedDeltaNet2(ResidualModel):
    """Gated DeltaNet-2 in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories of each block.
        gates: which gates are one number for each channel. "both" are; of "erase" and "write" the
            other gate is the mean of its channels, one number for each head; "tied" is one number
            for erasing and writing, the mean of all channels of both, which is the rule of KDA.
            Parameters are as many in all four.
        largest_erasure: b is below it. Above 1 an eigenvalue can be negative.
        output_activation: f, "silu" as in the authors' code, "sigmoid" as in
            flash-linear-attention.
        convolution: positions that the short convolution sees; 1 has none.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: an unknown choice, an erasure that is not stable, or sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        gates: Gates = "both",
        largest_erasure: float = 1.0,
        output_activation: Activation = "silu",
        convolution: int = 4,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            DecoupledDeltaRule(
                width,
                heads,
                gates=gates,
                largest_erasure=largest_erasure,
                output_activation=output_activation,
                convolution=convolution,
            )
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
