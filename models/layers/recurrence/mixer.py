"""What mixers with a recurrent state share: a sequence and one position by the same method."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from models.layers.residual import STANDARD_DEVIATION, Mixer, ResidualBlock, ResidualModel
from models.layers.short_convolution import ShortConvolution


class RecurrentMixer(Mixer):
    """A mixer that goes on from a state with a piece of a sequence of any length."""

    @abstractmethod
    def advance(self, hidden: Tensor, state: Any | None) -> tuple[Tensor, Any]:
        """Hidden vectors (batch, time, width) -> (batch, time, width), and the state after the last
        position; None starts a sequence."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.advance(hidden, None)[0]

    def prefill(self, hidden: Tensor) -> tuple[Tensor, Any]:
        """What ``forward`` gives, and the state after the last position."""
        return self.advance(hidden, None)

    def step(self, hidden: Tensor, state: Any | None) -> tuple[Tensor, Any]:
        """One position, (batch, width) -> (batch, width) and the next state; None starts."""
        mixed, state = self.advance(hidden.unsqueeze(1), state)
        return mixed.squeeze(1), state


class RecurrentModel(ResidualModel):
    """A residual model whose blocks need more than their hidden vectors and states."""

    @abstractmethod
    def walk(self, embedded: Tensor, state: Any | None) -> tuple[Tensor, Any]:
        """A piece of a sequence, embedded, (batch, time, width) -> what the last norm gets, and
        the state after it; None starts a sequence. Dropout of the embedded inputs is made here."""

    def hidden(self, inputs: Tensor) -> Tensor:
        """Inputs as in ``forward`` -> (batch, time, width), what ``output_matrix`` reads out."""
        return self.norm(self.walk(self.input_output.embed(inputs), None)[0])

    def prefill(self, inputs: Tensor) -> tuple[Tensor, Any]:
        """Inputs as in ``forward`` -> outputs of the last position (batch, output_size), and the
        state from which ``step`` goes on."""
        hidden, state = self.walk(self.input_output.embed(inputs), None)
        return self.input_output.read_out(self.norm(hidden[:, -1])), state

    def step(self, inputs: Tensor, state: Any | None = None) -> tuple[Tensor, Any]:
        """One position: (batch,) or (batch, channels) -> (batch, output_size) and the state."""
        hidden, state = self.walk(self.input_output.embed(inputs).unsqueeze(1), state)
        return self.input_output.read_out(self.norm(hidden.squeeze(1))), state

    def finish(self, block: ResidualBlock, hidden: Tensor, mixed: Tensor) -> Tensor:
        """What leaves a block, from what entered it and what its mixer made of it."""
        hidden = hidden + mixed
        return hidden if block.mlp is None else hidden + block.mlp(hidden)


class Neighbours(nn.Module):
    """A short convolution; with one tap, which would see its own position alone, nothing.

    Args:
        channels: of its inputs and outputs.
        taps: positions that it sees.
        bias: whether one is learned.

    Raises:
        ValueError: no taps.
    """

    def __init__(self, channels: int, taps: int, *, bias: bool = False) -> None:
        super().__init__()
        if taps < 1:
            raise ValueError(f"convolution={taps} sees no position; 1 has none, 2 or more has one")
        self.convolution = ShortConvolution(channels, taps, bias=bias) if taps > 1 else None

    @property
    def state_size(self) -> int:
        """Numbers that one sequence keeps."""
        return 0 if self.convolution is None else self.convolution.state_size

    def forward(self, x: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        """A piece of a sequence (batch, time, channels), and what the last call returned, (batch,
        taps − 1, channels) -> the same shape, and what the next call needs."""
        # An empty past, so that states have the same form with and without a convolution.
        return (x, x[:, :0]) if self.convolution is None else self.convolution(x, past)


def count_more(state: Tensor | None, like: Tensor) -> tuple[int, Tensor]:
    """How many positions there were, and the counter after ``like`` (batch, time, ...) as well.

    A counter is a tensor (batch, positions, 0): it holds nothing, and its shape is the count, known
    without a look at numbers.
    """
    before = 0 if state is None else state.shape[1]
    # The batch is kept as first axis: whoever chooses sequences of a state chooses rows of it too.
    return before, like.new_empty(like.shape[0], before + like.shape[1], 0)


def linear(inputs: int, outputs: int, *, bias: bool = False) -> nn.Linear:
    """A linear map that starts as the wrapper's do: N(0, 0.02²), bias 0."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=STANDARD_DEVIATION)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def unit(x: Tensor) -> Tensor:
    """x / √(|x|² + 1e-6) over the last axis, in float32 or wider: zeros stay zeros, with gradients.

    The delta rule needs it: an error along a longer key would grow.
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    # ε inside the root, as flash-linear-attention has it: the gradient at 0 is finite.
    return wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + 1e-6)


def inverse_softplus(x: Tensor) -> Tensor:
    """The y with softplus(y) = x > 0."""
    # log(eˣ − 1) = x + log(1 − e⁻ˣ), which does not overflow for large x.
    return x + torch.log(-torch.expm1(-x))
