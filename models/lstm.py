"""LSTM layers (Hochreiter and Schmidhuber 1997; forget gate of Gers et al. 2000)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.layers.residual import Mixer, ResidualModel
from models.specification import SequenceSpecification


class LSTMMixer(Mixer):
    """One LSTM layer whose cells are as many as the hidden channels.

    Gates in torch's order i, f, g, o: c_t = σ(f) c_{t−1} + σ(i) tanh(g), h_t = σ(o) tanh(c_t).
    Input weights start Xavier-uniform, recurrent weights orthogonal, the bias of the forget gate
    at 1 and all other biases at 0, as the RegBench study has them.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.lstm = nn.LSTM(width, width, batch_first=True)
        parameters = dict(self.lstm.named_parameters())
        nn.init.xavier_uniform_(parameters["weight_ih_l0"])
        nn.init.orthogonal_(parameters["weight_hh_l0"])
        nn.init.zeros_(parameters["bias_hh_l0"])
        # torch adds two biases to each gate: with 1 in both, forget gates would start at σ(2).
        with torch.no_grad():
            parameters["bias_ih_l0"].zero_()[width : 2 * width] = 1.0

    @property
    def state_size(self) -> int:
        """The output and the cell of each channel."""
        return 2 * self.width

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.lstm(hidden)[0]

    def step(
        self, hidden: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One position, (batch, width) -> (batch, width), and (output, cell) of the same shape."""
        # torch has an axis of layers before the batch.
        initial = None if state is None else (state[0].unsqueeze(0), state[1].unsqueeze(0))
        outputs, (output, cell) = self.lstm(hidden.unsqueeze(1), initial)
        return outputs.squeeze(1), (output.squeeze(0), cell.squeeze(0))

    def prefill(self, hidden: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """What ``forward`` gives, and (output, cell) of the last position, each (batch, width)."""
        outputs, (output, cell) = self.lstm(hidden)
        return outputs, (output.squeeze(0), cell.squeeze(0))


class LSTM(ResidualModel):
    """LSTM layers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, and cells of each layer.
        layers: number of blocks.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers = [LSTMMixer(width) for _ in range(layers)]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
