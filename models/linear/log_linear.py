"""Log-linear Mamba-2 and Gated DeltaNet (Guo et al. 2025, arXiv 2506.04761): a memory for each of
the blocks in which a position sees its past, and learned weights for them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.growing_state import GrowingMixer, GrowingModel
from models.layers.recurrence.levels import LevelState, levels_after, log_linear_recurrence
from models.layers.recurrence.mixer import linear, unit
from models.layers.recurrence.writes import Writes
from models.linear.mamba2 import Mamba2Mixer
from models.linear.parts import GatedDeltaMixer, without_weight_decay
from models.specification import SequenceSpecification

LEVELS = 15
LONGEST = 2 ** (LEVELS - 1)


class LogLinearState(NamedTuple):
    """Inputs that the convolution still sees, and the memories of all blocks."""

    past: Tensor
    blocks: LevelState


class LevelWeights(nn.Module):
    """λ = softplus(L ∘ W x), for each of 15 levels of each head; L starts at 1.

    Args:
        width: channels of x.
        heads: of the memory.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.projection = linear(width, heads * LEVELS)
        # L scales, for all inputs, what one of them says of a level.
        self.scales = nn.Parameter(torch.ones(heads, LEVELS))

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, time, width) -> (batch, time, heads, levels)."""
        projected = self.projection(hidden).unflatten(-1, self.scales.shape)
        # Positive: a level is weighed, and never subtracted.
        return functional.softplus(self.scales * projected)


class LogLinearMamba2Mixer(Mamba2Mixer, GrowingMixer):
    """Mamba-2 with the memories and weights of :mod:`models.layers.recurrence.levels`.

    exp(A) of head i of H starts at i, from 1 to H. The arguments are those of
    :class:`LogLinearMamba2`.
    """

    def __init__(
        self,
        width: int,
        *,
        state: int = 64,
        head_width: int = 64,
        convolution: int = 4,
        expand: int = 2,
    ) -> None:
        super().__init__(
            width, state=state, head_width=head_width, convolution=convolution, expand=expand
        )
        self.weights = LevelWeights(width, self.heads)
        with torch.no_grad():
            # Heads from slow to fast.
            self.log_rates.copy_(torch.arange(1, self.heads + 1).log())

    @property
    def state_size(self) -> int:
        """Numbers that are kept of the longest sequence."""
        # The state grows with log T; what is told is its largest.
        return self.numbers_after(LONGEST)

    def numbers_after(self, positions: int) -> int:
        """A memory for each level, and what the convolution still sees."""
        memories = levels_after(positions) * self.channels * self.state
        return memories + self.convolution.state_size

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on A, b_Δ, D and L, and on the norm."""
        return without_weight_decay(self, "log_rates", "step_bias", "skip", "scales")

    def advance(  # type: ignore[override]
        self, hidden: Tensor, state: LogLinearState | None
    ) -> tuple[Tensor, LogLinearState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        gates, inputs, steps = self.input_projection(hidden).split(self.parts, -1)
        inputs, past = self.convolution(inputs, state.past if state else None)
        x, write, read = functional.silu(inputs).split((self.channels, self.state, self.state), -1)
        x = x.unflatten(-1, (self.heads, -1))
        steps = functional.softplus(steps + self.step_bias)
        # C, B and Δx are q, k and v, as in Mamba-2.
        writes = Writes(write.unsqueeze(-2), steps.unsqueeze(-1) * x, -steps * self.log_rates.exp())
        outputs, blocks = log_linear_recurrence(
            read.unsqueeze(-2), writes, self.weights(hidden), state.blocks if state else None
        )
        outputs = torch.addcmul(outputs, x, self.skip[:, None])
        mixed = self.norm(outputs.flatten(2) * functional.silu(gates))
        return self.output_projection(mixed), LogLinearState(past, blocks)


class LogLinearDeltaMixer(GatedDeltaMixer, GrowingMixer):
    """Gated DeltaNet with the memories and weights of :mod:`models.layers.recurrence.levels`.

    The arguments are those of :class:`LogLinearDeltaNet`.
    """

    def __init__(self, width: int, heads: int, *, convolution: int = 4) -> None:
        super().__init__(width, heads, convolution=convolution)
        self.weights = LevelWeights(width, heads)

    @property
    def state_size(self) -> int:
        """Numbers that are kept of the longest sequence."""
        return self.numbers_after(LONGEST)

    def numbers_after(self, positions: int) -> int:
        """A memory for each level, and what the convolution still sees."""
        memories = levels_after(positions) * self.heads * self.head_width**2
        return memories + self.streams.state_size

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on what makes the decays, on L, and on norms."""
        return without_weight_decay(self, "log_rates", "step_bias", "scales")

    def advance(
        self, hidden: Tensor, state: LogLinearState | None
    ) -> tuple[Tensor, LogLinearState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        (queries, keys, values), past = self.streams(hidden, state.past if state else None)
        # One β for each position: all levels erase along the same key.
        strengths = self.strengths(hidden).squeeze(-1)
        writes = Writes(unit(keys), values, self.decay(hidden), strengths)
        queries = unit(queries) * self.head_width**-0.5
        read, blocks = log_linear_recurrence(
            queries, writes, self.weights(hidden), state.blocks if state else None
        )
        return self.leave(read, hidden), LogLinearState(past, blocks)


class LogLinearMamba2(GrowingModel):
    """Log-linear Mamba-2 in pre-norm residual blocks.

    Args:
        specification: shapes of the task; sequences of at most 16,384 positions.
        width: hidden channels.
        layers: number of blocks.
        state: channels of B and C.
        head_width: inner channels of each head.
        convolution: positions that the short convolution sees.
        expand: inner channels for each hidden channel.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: heads that do not fit.
    """

    context_limit = LONGEST

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        state: int = 64,
        head_width: int = 64,
        convolution: int = 4,
        expand: int = 2,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [
            LogLinearMamba2Mixer(
                width, state=state, head_width=head_width, convolution=convolution, expand=expand
            )
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)


class LogLinearDeltaNet(GrowingModel):
    """Log-linear Gated DeltaNet in pre-norm residual blocks.

    Args:
        specification: shapes of the task; sequences of at most 16,384 positions.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories of each block and level.
        convolution: positions that the short convolution sees; 1 has none.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: sizes that do not fit.
    """

    context_limit = LONGEST

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        convolution: int = 4,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [LogLinearDeltaMixer(width, heads, convolution=convolution) for _ in range(layers)]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
