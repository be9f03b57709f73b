"""Q-Delta (ICML 2026, arXiv 2606.08804, equations 17 to 20): the delta rule corrects what is read
at the key and at a share of the query."""

from __future__ import annotations

import torch
from torch import Tensor

from models.layers.recurrence.general_delta import Edits, general_delta_rule
from models.layers.recurrence.mixer import linear, unit
from models.layers.residual import ResidualModel
from models.linear.parts import DeltaState, GatedDeltaMixer
from models.specification import SequenceSpecification

SHARE_OFFSET = 0.9  # σ(−0.9) = 0.29 at the start


class QDeltaMixer(GatedDeltaMixer):
    """S' = α_t S_{t−1},  S_t = S' + β_t k_t ⊗ (v_t − S'ᵀ (k_t + λ_t q_t)),  o_t = S_tᵀ q_t / √K.

    k and q have length 1 and keys are K wide; λ = σ(W_λ x − 0.9) for each head, or fixed. With
    λ = 0 the layer is that of Gated DeltaNet. The arguments are those of :class:`QDelta`.
    """

    def __init__(
        self, width: int, heads: int, *, query_share: float | None = None, convolution: int = 4
    ) -> None:
        super().__init__(width, heads, convolution=convolution)
        if query_share is not None and not 0 <= query_share <= 1:
            raise ValueError(
                f"query_share={query_share} is outside [0, 1], where the rule is stable; null "
                "learns it"
            )
        self.query_share = query_share
        self.share = linear(width, heads) if query_share is None else None

    def advance(self, hidden: Tensor, state: DeltaState | None) -> tuple[Tensor, DeltaState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        (queries, keys, values), past = self.streams(hidden, state.past if state else None)
        queries, keys, strengths = unit(queries), unit(keys), self.strengths(hidden)
        # The error is that of the memory at k + λ q, what will be read; it is written at k alone.
        reads = strengths * (keys + self._shares(hidden) * queries)
        edits = Edits(reads, keys, strengths * values, self.decay(hidden))
        read, memory = general_delta_rule(
            queries * self.head_width**-0.5, edits, state.memory if state else None
        )
        return self.leave(read, hidden), DeltaState(past, memory)

    def _shares(self, hidden: Tensor) -> Tensor | float:
        """λ, (batch, time, heads, 1), or one number for all."""
        if self.share is None:
            assert self.query_share is not None
            return self.query_share
        return torch.sigmoid(self.share(hidden) - SHARE_OFFSET).unsqueeze(-1)


class QDelta(ResidualModel):
    """Q-Delta in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories of each block.
        query_share: λ for all heads and positions; None learns it.
        convolution: positions that the short convolution sees; 1 has none.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: a share outside [0, 1], or sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        query_share: float | None = None,
        convolution: int = 4,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            QDeltaMixer(width, heads, query_share=query_share, convolution=convolution)
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
