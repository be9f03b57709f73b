"""The pre-norm residual wrapper that the recurrent and state-space baselines share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

from torch import Tensor, nn
from torch.nn import functional

from models.layers.embedding import InputOutput
from models.specification import SequenceSpecification

STANDARD_DEVIATION = 0.02
BYTES_PER_NUMBER = 4


class Mixer(nn.Module, ABC):
    """A causal map over time with a state: what a recurrent block does. The state
    is of a fixed size, but that of a ``GrowingMixer``.

    A linear map named ``output_projection`` is initialised by the wrapper, all else by the mixer.
    """

    @property
    @abstractmethod
    def state_size(self) -> int:
        """Real numbers that one sequence keeps, whatever its length."""

    @abstractmethod
    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""

    @abstractmethod
    def step(self, hidden: Tensor, state: Any | None) -> tuple[Tensor, Any]:
        """One position, (batch, width) -> (batch, width) and the next state; None starts."""

    @abstractmethod
    def prefill(self, hidden: Tensor) -> tuple[Tensor, Any]:
        """What ``forward`` gives, and the state after the last position."""

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """Optimisation rules of their own: name in this mixer -> rules."""
        return {}


class FeedForward(nn.Module):
    """Two linear maps, width -> 4 width -> width, with a tanh-approximated GELU between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.input_projection = nn.Linear(width, 4 * width)
        self.output_projection = nn.Linear(4 * width, width)
        nn.init.normal_(self.input_projection.weight, std=STANDARD_DEVIATION)
        nn.init.zeros_(self.input_projection.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (..., width) -> (..., width)."""
        expanded = functional.gelu(self.input_projection(hidden), approximate="tanh")
        return self.output_projection(expanded)


class ResidualBlock(nn.Module):
    """x + mixer(norm(x)), then x + MLP(norm(x)) unless ``mlp`` is false."""

    def __init__(self, width: int, mixer: Mixer, *, mlp: bool) -> None:
        super().__init__()
        # Pre-norm: the residual stream itself is never normalised on its way to the last norm.
        self.mixer_norm = nn.LayerNorm(width, eps=1e-5)
        self.mixer = mixer
        # A block without MLP has no second norm either.
        self.mlp = nn.Sequential(nn.LayerNorm(width, eps=1e-5), FeedForward(width)) if mlp else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self._transform(hidden + self.mixer(self.mixer_norm(hidden)))

    def step(self, hidden: Tensor, state: Any | None) -> tuple[Tensor, Any]:
        """One position, (batch, width) -> (batch, width) and the next state of the mixer."""
        mixed, state = self.mixer.step(self.mixer_norm(hidden), state)
        return self._transform(hidden + mixed), state

    def prefill(self, hidden: Tensor) -> tuple[Tensor, Any]:
        """What ``forward`` gives, and the state of the mixer after the last position."""
        mixed, state = self.mixer.prefill(self.mixer_norm(hidden))
        return self._transform(hidden + mixed), state

    def _transform(self, hidden: Tensor) -> Tensor:
        # The MLP sees one position at a time, so it needs no state in generation.
        return hidden if self.mlp is None else hidden + self.mlp(hidden)


class ResidualModel(nn.Module):
    """A sequence model of pre-norm residual blocks, each a mixer and an MLP.

    The wrapper that RegBench calls "simple LM" (Akyürek et al. 2024, code of the study): embedding
    with dropout, blocks, final LayerNorm, read-out; matrices N(0, 0.02²), those that write to
    the residual stream N(0, 0.02²/2L) for L layers, biases 0. Nothing encodes positions: a mixer
    with a state does not need it.

    Args:
        specification: shapes of the task. Its ``maximum_length`` sets no limit here.
        width: size of the hidden vectors.
        mixers: one per layer, each of ``width``.
        mlp: false leaves the MLPs out.
        dropout: probability, on the embedded inputs only.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        width: int,
        mixers: Sequence[Mixer],
        *,
        mlp: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        if not mixers:
            raise ValueError("a model needs a layer, got layers=0; set layers to 1 or more")
        self.input_output = InputOutput(specification, width, standard_deviation=STANDARD_DEVIATION)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(ResidualBlock(width, mixer, mlp=mlp) for mixer in mixers)
        self.norm = nn.LayerNorm(width, eps=1e-5)
        # Two writes in each block, counted without MLPs too: what is left starts the same.
        deviation = STANDARD_DEVIATION / math.sqrt(2 * len(mixers))
        for name, parameter in self.blocks.named_parameters():
            # By name: those of mixers and of MLPs alike write to the residual stream.
            if name.endswith("output_projection.weight"):
                nn.init.normal_(parameter, std=deviation)
            elif name.endswith("output_projection.bias"):
                nn.init.zeros_(parameter)

    def forward(self, inputs: Tensor) -> Tensor:
        """int64 (batch, time) or (batch, time, channels) -> (batch, time, output_size)."""
        return self.input_output.read_out(self.hidden(inputs))

    def hidden(self, inputs: Tensor) -> Tensor:
        """Inputs as in ``forward`` -> (batch, time, width), what ``output_matrix`` reads out."""
        hidden = self.dropout(self.input_output.embed(inputs))
        for block in self.blocks:
            hidden = block(hidden)
        return self.norm(hidden)

    @property
    def output_matrix(self) -> Tensor:
        """(output_size, width)"""
        return self.input_output.matrix

    def prefill(self, inputs: Tensor) -> tuple[Tensor, list[Any]]:
        """Inputs as in ``forward`` -> outputs of the last position (batch, output_size), and the
        state from which ``step`` goes on."""
        hidden = self.dropout(self.input_output.embed(inputs))
        states = []
        for block in self._typed_blocks():
            hidden, state = block.prefill(hidden)
            states.append(state)
        # Only the last position is read out: logits of all others would be thrown away.
        return self.input_output.read_out(self.norm(hidden[:, -1])), states

    def step(self, inputs: Tensor, state: list[Any] | None = None) -> tuple[Tensor, list[Any]]:
        """One position: (batch,) or (batch, channels) -> (batch, output_size), state per layer."""
        hidden = self.dropout(self.input_output.embed(inputs))
        states = []
        for block, previous in zip(
            self._typed_blocks(), state or [None] * len(self.blocks), strict=True
        ):
            hidden, following = block.step(hidden, previous)
            states.append(following)
        return self.input_output.read_out(self.norm(hidden)), states

    def state_bytes(self, length: int) -> int:
        """Bytes (float32) kept for one sequence; the same after any ``length``."""
        return BYTES_PER_NUMBER * sum(block.mixer.state_size for block in self._typed_blocks())

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """Optimisation rules of parameters that have their own: name -> rules."""
        return {
            # The optimiser knows parameters by their names in the whole model.
            f"blocks.{index}.mixer.{name}": rules
            for index, block in enumerate(self._typed_blocks())
            for name, rules in block.mixer.parameter_options().items()
        }

    def _typed_blocks(self) -> list[ResidualBlock]:
        return cast(list[ResidualBlock], list(self.blocks))
