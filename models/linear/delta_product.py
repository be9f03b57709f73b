"""Gated DeltaProduct (Siems et al. 2025, arXiv 2502.10297): a position makes several steps of the
delta rule, so that what it does to the memory is a product of Householder matrices."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.mixer import linear, unit
from models.layers.recurrence.writes import Writes
from models.layers.residual import ResidualModel
from models.linear.parts import ConvolvedHeads, DeltaState, GatedDeltaMixer
from models.specification import SequenceSpecification


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
    # ln α in the first of the n steps, 0 (nothing decays) in the others.
    decays = functional.pad(log_decays.unsqueeze(2), (0, 0, 0, steps - 1))
    # Only the last step of a position is read; the others have a query of 0.
    reads = functional.pad(queries.unsqueeze(2), (0, 0, 0, 0, steps - 1, 0))
    writes = Writes(
        keys.flatten(1, 2), values.flatten(1, 2), decays.flatten(1, 2), strengths.flatten(1, 2)
    )
    outputs, state = linear_recurrence(reads.flatten(1, 2), writes, state)
    # n products of I − β k ⊗ k: with n = 2 a rotation of two keys' plane.
    return outputs.unflatten(1, (-1, steps))[:, :, -1], state


class DeltaProductMixer(GatedDeltaMixer):
    """y_t = W_o (norm(o_t) ∘ SiLU(W_g x_t)), o of :func:`delta_product`.

    The layer of Gated DeltaNet with n keys and n values for each position, which go through the
    convolution as q does, and with n strengths β_j = b σ(W_j x), b the largest strength. Keys and q
    have length 1, and q is scaled by 1/√(head width). The arguments are those of
    :class:`DeltaProduct`.
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
        super().__init__(width, heads, convolution=convolution)
        if steps < 1:
            raise ValueError(f"a position makes at least one step, got steps={steps}")
        # |1 − β| <= 1 is what keeps I − β k ⊗ k from growing.
        if not 0 < largest_strength <= 2:
            raise ValueError(
                f"largest_strength={largest_strength} is outside (0, 2]: above 2 errors grow; "
                "choose 1, or 2 for negative eigenvalues"
            )
        self.steps, self.largest_strength = steps, largest_strength
        channels = (width, steps * width, steps * width)
        # In place of the base class's: n keys and n values for one query.
        self.streams = ConvolvedHeads(width, channels, heads, convolution)
        self.strength = linear(width, steps * heads)

    def advance(self, hidden: Tensor, state: DeltaState | None) -> tuple[Tensor, DeltaState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        (queries, *others), past = self.streams(hidden, state.past if state else None)
        keys, values = (
            # Steps before heads: the n keys of a position lie one after another in time.
            x.flatten(2).unflatten(-1, (self.steps, self.heads, self.head_width))
            for x in others
        )
        strengths = self.largest_strength * self.strengths(hidden).squeeze(-1)
        read, memory = delta_product(
            unit(queries) * self.head_width**-0.5,
            unit(keys),
            values,
            self.decay(hidden),
            strengths.unflatten(-1, (self.steps, self.heads)),
            state.memory if state else None,
        )
        return self.leave(read, hidden), DeltaState(past, memory)


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
