"""A linear map and a short causal convolution of each of its channels, then SiLU.

It is what queries, keys and values go through in Mamba (arXiv 2312.00752, figure 3) and in Titans
(arXiv 2501.00663, section 4.4): neighbouring positions meet before anything is looked up.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class ShortConvolution(nn.Module):
    """y_t = SiLU(Σ_j filters_j ⊙ W x_{t−j} + bias), j = 0 … taps − 1, with nothing before x_0.

    Args:
        width: channels of x.
        outputs: channels of y.
        taps: positions that the convolution sees; 1 sees its own alone.

    Raises:
        ValueError: no taps.
    """

    def __init__(self, width: int, outputs: int, taps: int) -> None:
        super().__init__()
        if taps < 1:
            raise ValueError(f"a convolution sees at least its own position, got taps={taps}")
        self.taps = taps
        self.projection = nn.Linear(width, outputs, bias=False)
        # torch's initialisation of a depthwise convolution: uniform within 1/sqrt(fan_in).
        bound = 1 / math.sqrt(taps)
        self.filters = nn.Parameter(torch.empty(taps, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    @property
    def state_size(self) -> int:
        """Numbers that one sequence keeps."""
        return (self.taps - 1) * self.bias.numel()

    def forward(self, x: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """A piece of a sequence.

        Args:
            x: (batch, time, width).
            past: what the last call returned, (batch, taps − 1, outputs); None starts a sequence.

        Returns:
            y (batch, time, outputs), and what the next call needs.
        """
        time = x.shape[1]
        projected = self.projection(x)
        if past is None:
            seen = functional.pad(projected, (0, 0, self.taps - 1, 0))
        else:
            seen = torch.cat((past, projected), 1)
        convolved: Tensor = self.bias
        for lag, weights in enumerate(self.filters.unbind(0)):
            convolved = torch.addcmul(convolved, seen.narrow(1, lag, time), weights)
        return functional.silu(convolved), seen[:, time:]
