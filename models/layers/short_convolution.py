"""A short causal convolution of each channel by itself, alone or behind a linear map.

It is what queries, keys and values go through in Hyena (Poli et al. 2023, arXiv 2302.10866), in
Mamba (arXiv 2312.00752, figure 3) and in Titans (arXiv 2501.00663, section 4.4): neighbouring
positions meet before anything is looked up.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class ShortConvolution(nn.Module):
    """y_t = Σ_j filters_j ⊙ x_{t−taps+1+j} + bias, j = 0 … taps − 1, with nothing before x_0.

    Args:
        channels: of x and y.
        taps: positions that the convolution sees; 1 sees its own alone.
        bias: whether one is learned; without it there is none.

    Raises:
        ValueError: no taps.
    """

    def __init__(self, channels: int, taps: int, *, bias: bool) -> None:
        super().__init__()
        if taps < 1:
            raise ValueError(f"a convolution sees at least its own position, got taps={taps}")
        self.taps = taps
        # torch's initialisation of a depthwise convolution: uniform within 1/sqrt(fan_in).
        bound = 1 / math.sqrt(taps)
        self.filters = nn.Parameter(torch.empty(taps, channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound)) if bias else None

    @property
    def state_size(self) -> int:
        """Numbers that one sequence keeps."""
        return (self.taps - 1) * self.filters.shape[1]

    def forward(self, x: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """A piece of a sequence. A sum of shifted products: for a few taps as fast as a library's
        convolution, and batched by vmap.

        Args:
            x: (batch, time, channels).
            past: what the last call returned, (batch, taps − 1, channels); None starts a sequence.

        Returns:
            y (batch, time, channels), and what the next call needs.
        """
        time = x.shape[1]
        if past is None:
            seen = functional.pad(x, (0, 0, self.taps - 1, 0))
        else:
            seen = torch.cat((past, x), 1)
        oldest, *later = self.filters.unbind(0)
        # The oldest tap starts taps − 1 positions back.
        first = seen[:, :time]
        convolved = first * oldest if self.bias is None else torch.addcmul(self.bias, first, oldest)
        for place, weights in enumerate(later, start=1):
            convolved = torch.addcmul(convolved, seen.narrow(1, place, time), weights)
        # The last taps − 1 inputs, of this piece and, if it is short, of those before.
        return convolved, seen[:, time:]

    def without_time(self, x: Tensor) -> Tensor:
        """Vectors (..., channels) that have no place in time -> x + bias."""
        return x if self.bias is None else x + self.bias


class ConvolvedProjection(nn.Module):
    """y = SiLU(convolution(W x)).

    Args:
        width: channels of x.
        outputs: channels of y.
        taps: of the convolution.

    Raises:
        ValueError: no taps.
    """

    def __init__(self, width: int, outputs: int, taps: int) -> None:
        super().__init__()
        # Drawn first, listed last: both orders show in the last digits of a training.
        projection = nn.Linear(width, outputs, bias=False)
        self.convolution = ShortConvolution(outputs, taps, bias=True)
        self.projection = projection

    @property
    def state_size(self) -> int:
        """Numbers that one sequence keeps."""
        return self.convolution.state_size

    def forward(self, x: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """A piece of a sequence (batch, time, width), and what the last call returned, (batch,
        taps − 1, outputs) -> y (batch, time, outputs), and what the next call needs."""
        convolved, past = self.convolution(self.projection(x), past)
        return functional.silu(convolved), past

    def without_time(self, x: Tensor) -> Tensor:
        """Vectors (..., width) that have no place in time -> SiLU(W x + bias), (..., outputs)."""
        return functional.silu(self.convolution.without_time(self.projection(x)))
