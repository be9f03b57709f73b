"""Comba (Hu et al. 2025, arXiv 2506.02475): the delta rule corrects what is read at a weaker key,
and queries lose a share of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.layers.recurrence.general_delta import Edits, general_delta_rule
from models.layers.recurrence.mixer import unit
from models.layers.residual import ResidualModel
from models.linear.parts import DeltaState, GatedDeltaMixer, without_weight_decay
from models.specification import SequenceSpecification

FIRST_FEEDBACK = 1.0  # σ(1) = 0.73


class CombaMixer(GatedDeltaMixer):
    """S_t = α_t S_{t−1} + β_t k_t ⊗ (v_t − S_{t−1}ᵀ p_t),  o_t = S_tᵀ q_t / √K.

    p = σ(c) k with c for each head, 1 at the start. q loses D p before it gets the length 1, D for
    each head; k has the length 1, and keys are K wide. The output gate is a sigmoid. The arguments
    are those of :class:`Comba`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        decay_first: bool = False,
        unit_feedback: bool = False,
        query_correction: float = 1.0,
        convolution: int = 4,
    ) -> None:
        super().__init__(width, heads, convolution=convolution, sigmoid_gate=True)
        self.decay_first, self.unit_feedback = decay_first, unit_feedback
        self.feedback = nn.Parameter(torch.full((heads,), FIRST_FEEDBACK))
        self.correction = nn.Parameter(torch.full((heads,), float(query_correction)))

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on what makes the decays, on c and D, and on norms."""
        return without_weight_decay(self, "log_rates", "step_bias", "feedback", "correction")

    def advance(self, hidden: Tensor, state: DeltaState | None) -> tuple[Tensor, DeltaState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        (queries, keys, values), past = self.streams(hidden, state.past if state else None)
        shares = torch.sigmoid(self.feedback)[:, None]
        # The query loses its part along p before it is normalised: the order matters to its
        # direction.
        queries = unit(queries - self.correction[:, None] * shares * keys)
        feedback = unit(shares * keys) if self.unit_feedback else shares * unit(keys)
        strengths = self.strengths(hidden)
        edits = Edits(
            strengths * feedback,
            unit(keys),
            strengths * values,
            # α is the decay of the whole memory; whether p reads before or after it is an option.
            self.decay(hidden),
            undecayed=not self.decay_first,
        )
        read, memory = general_delta_rule(
            queries * self.head_width**-0.5, edits, state.memory if state else None
        )
        return self.leave(read, hidden), DeltaState(past, memory)


class Comba(ResidualModel):
    """Comba in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories of each block.
        decay_first: p reads the memory after its decay, as in the naive loop of
            flash-linear-attention; else before it, as in its kernels and decoder.
        unit_feedback: p gets the length 1, as in flash-linear-attention, so that σ(c) is lost.
        query_correction: D at the start; the authors advise 0.02 for small models.
        convolution: positions that the short convolution sees; 1 has none.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        decay_first: bool = False,
        unit_feedback: bool = False,
        query_correction: float = 1.0,
        convolution: int = 4,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            CombaMixer(
                width,
                heads,
                decay_first=decay_first,
                unit_feedback=unit_feedback,
                query_correction=query_correction,
                convolution=convolution,
            )
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
