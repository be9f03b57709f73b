"""minGRU (Feng et al. 2024, "Were RNNs all we needed?", arXiv 2410.01201): a GRU whose gate and
candidate look at the input alone, so that it is a sum and needs no loop over positions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from models.layers.recurrence.general_delta import in_float32_or_wider
from models.layers.recurrence.mixer import RecurrentMixer, linear
from models.layers.residual import ResidualModel
from models.layers.scaled_sums import ScaledSum, scaled_sums
from models.specification import SequenceSpecification


class MinGRUMixer(RecurrentMixer):
    """h_t = (1 − z_t) h_{t−1} + z_t g(W_h x_t),  z = σ(W_z x_t), for each channel, from h = 0.

    g(a) is a + ½ for a >= 0 and σ(a) below, as in the paper's form by logarithms, which keeps h
    positive. Both maps have biases.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.projection = linear(width, 2 * width, bias=True)

    @property
    def state_size(self) -> int:
        """h of each channel."""
        return self.width

    def advance(self, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width), and the last h
        (batch, width), in float32 or wider."""
        gates, candidates = self.projection(hidden).chunk(2, -1)
        with torch.autocast(hidden.device.type, enabled=False):
            gates, candidates = in_float32_or_wider(gates), in_float32_or_wider(candidates)
            positive = candidates.clamp(min=0) + 0.5
            candidates = torch.where(candidates >= 0, positive, torch.sigmoid(candidates))
            # A channel is a sum of one number.
            entering = functional.logsigmoid(gates).unsqueeze(-1)
            keeping = functional.logsigmoid(-gates).unsqueeze(-1)
            before = None
            if state is not None:
                total = in_float32_or_wider(state).unsqueeze(-1)
                before = ScaledSum(torch.zeros_like(total), total)
            sums = scaled_sums(candidates.unsqueeze(-1), entering, keeping, before)
            outputs = (sums.scale.exp() * sums.total).squeeze(-1)
        return outputs.to(hidden.dtype), outputs[:, -1]


class MinGRU(ResidualModel):
    """minGRU layers in pre-norm residual blocks.

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
        mixers = [MinGRUMixer(width) for _ in range(layers)]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
