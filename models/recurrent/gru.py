"""GRU layers (Cho et al. 2014, arXiv 1406.1078), as torch has them."""

from __future__ import annotations

from torch import Tensor, nn

from models.layers.recurrence.mixer import RecurrentMixer
from models.layers.residual import ResidualModel
from models.specification import SequenceSpecification


class GRUMixer(RecurrentMixer):
    """One GRU layer with as many units as hidden channels.

    r = σ(W_r x + U_r h), z = σ(W_z x + U_z h), n = tanh(W_n x + b + r ∘ (U_n h + b')), and
    h_t = (1 − z) n + z h_{t−1}; each map has biases. Input weights start Xavier-uniform, recurrent
    weights orthogonal and biases at 0, as the project's LSTM.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.gru = nn.GRU(width, width, batch_first=True)
        for name, parameter in self.gru.named_parameters():
            if name.startswith("weight_ih"):
                nn.init.xavier_uniform_(parameter)
            elif name.startswith("weight_hh"):
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)

    @property
    def state_size(self) -> int:
        """The output of each channel."""
        return self.width

    def advance(self, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width), and the last output
        (batch, width)."""
        # torch has an axis of layers before the batch.
        outputs, last = self.gru(hidden, None if state is None else state.unsqueeze(0))
        return outputs, last.squeeze(0)


class GRU(ResidualModel):
    """GRU layers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels, and units of each layer.
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
        mixers = [GRUMixer(width) for _ in range(layers)]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
