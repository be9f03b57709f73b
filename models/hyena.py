"""Hyena of order 2 (Poli et al. 2023, "Hyena hierarchy: towards larger convolutional language
models", arXiv 2302.10866, sections 3.2 and 3.3)."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from models.layers.growing_state import GrowingMixer, GrowingModel
from models.layers.residual import STANDARD_DEVIATION
from models.layers.short_convolution import ShortConvolution
from models.layers.state_space.diagonal import causal_convolution
from models.specification import SequenceSpecification

FilterInitialisation = Literal["own", "wrapper"]
LOWEST_FREQUENCY = 1e-4
FIRST_SINE = 10.0
# At n = maximum_length − 1 the window of the fastest channel is at 0.01^(1/0.3), of the slowest at
# 0.01^(1/1.5).
WINDOW_TARGET, FASTEST, SLOWEST = 0.01, 0.3, 1.5


class Filter(nn.Module):
    """A long filter as a function of the position n: a small network times an exponential window.

        h_n = MLP(n/(L−1), cos 2πf_j n/L, −sin 2πf_j n/L) ∘ exp(−δ n/(L−1))

    with frequencies f_j from 1e-4 to bands − 1 and decays δ from 3.07 to 15.35, both fixed. The
    network has three hidden layers with sin(ω ∘ ·), one learned ω, 10 at first, for all three, and
    no bias at its end.

    Args:
        channels: of the filter.
        maximum_length: L.
        width: of the hidden layers.
        bands: cosines, and sines.
        initialisation: of the linear maps: "own" is the authors', which is torch's; "wrapper" is
            N(0, 0.02²) with zero biases, which makes a filter that hardly varies over time.
    """

    def __init__(
        self,
        channels: int,
        maximum_length: int,
        *,
        width: int,
        bands: int,
        initialisation: FilterInitialisation,
    ) -> None:
        super().__init__()
        self.channels, self.maximum_length, self.bands = channels, maximum_length, bands
        self.hidden = nn.ModuleList(
            nn.Linear(inputs, width) for inputs in (2 * bands + 1, width, width)
        )
        self.sine = nn.Parameter(torch.full((width,), FIRST_SINE))
        self.output = nn.Linear(width, channels, bias=False)
        if initialisation == "wrapper":
            for name, parameter in self.named_parameters():
                if name.endswith("weight"):
                    nn.init.normal_(parameter, std=STANDARD_DEVIATION)
                elif name.endswith("bias"):
                    nn.init.zeros_(parameter)

    def forward(self, length: int) -> Tensor:
        """h_0 … h_{length−1}, (channels, length)."""
        device, dtype = self.sine.device, self.sine.dtype
        positions = torch.arange(length, device=device, dtype=dtype).unsqueeze(-1)
        time = positions / max(self.maximum_length - 1, 1)
        frequencies = torch.linspace(
            LOWEST_FREQUENCY, self.bands - 1, self.bands, device=device, dtype=dtype
        )
        # The released code divides angles by L, but time by L − 1.
        angles = 2 * math.pi * positions / self.maximum_length * frequencies
        values = torch.cat((time, angles.cos(), -angles.sin()), -1)
        for layer in self.hidden:
            values = torch.sin(self.sine * layer(values))
        slowest, fastest = (-math.log(WINDOW_TARGET) / share for share in (SLOWEST, FASTEST))
        decays = torch.linspace(slowest, fastest, self.channels, device=device, dtype=dtype)
        return (self.output(values) * torch.exp(-time * decays)).T


class HyenaMixer(GrowingMixer):
    """Two gates around a long convolution:

        (x⁰, x¹, v) = short convolution of W u + b;  z = v ∘ x¹;
        out = W_o (x⁰ ∘ (h ∗ z + d ∘ z)),  with d standard normal at first.

    Generation keeps all z: a filter that is no state space has no state of fixed size. Each step
    computes the filter anew, in time linear in the number of positions.

    Args:
        width: hidden channels.
        maximum_length: the length by which the filter measures time; no limit.
        filter_width, bands, filter_initialisation: see :class:`Filter`.
        convolution: positions that the short convolution sees.
    """

    def __init__(
        self,
        width: int,
        *,
        maximum_length: int,
        filter_width: int = 64,
        bands: int = 2,
        convolution: int = 3,
        filter_initialisation: FilterInitialisation = "own",
    ) -> None:
        super().__init__()
        if filter_initialisation not in get_args(FilterInitialisation):
            choices = ", ".join(get_args(FilterInitialisation))
            raise ValueError(
                f"filter_initialisation={filter_initialisation!r} is unknown; choose one of "
                f"{choices}"
            )
        if filter_width < 1 or bands < 1 or maximum_length < 1:
            raise ValueError(
                f"filter_width={filter_width}, bands={bands} and filter_length={maximum_length} "
                "must be at least 1; raise them"
            )
        self.width, self.maximum_length = width, maximum_length
        self.input_projection = nn.Linear(width, 3 * width)
        nn.init.normal_(self.input_projection.weight, std=STANDARD_DEVIATION)
        nn.init.zeros_(self.input_projection.bias)
        self.short = ShortConvolution(3 * width, convolution, bias=True)
        # The length only scales time: a filter answers for longer texts too, with its window
        # closing further.
        self.filter = Filter(
            width,
            maximum_length,
            width=filter_width,
            bands=bands,
            initialisation=filter_initialisation,
        )
        self.skip = nn.Parameter(torch.randn(width))
        self.output_projection = nn.Linear(width, width)

    @property
    def state_size(self) -> int:
        """Numbers that are kept of a sequence after ``maximum_length`` positions."""
        return self.numbers_after(self.maximum_length)

    def numbers_after(self, positions: int) -> int:
        """All z, and what the short convolution keeps."""
        return self.width * positions + self.short.state_size

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on the filter and d."""
        names = [f"filter.{name}" for name, _ in self.filter.named_parameters()]
        return {name: {"weight_decay": 0.0} for name in (*names, "skip")}

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.prefill(hidden)[0]

    def prefill(self, hidden: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """What ``forward`` gives, and the state: the last inputs of the short convolution
        (batch, taps − 1, 3 width), and all z (batch, time, width)."""
        # All three streams go through the short convolution, as in the paper's figure.
        mixed, past = self.short(self.input_projection(hidden))
        gate, inner, values = mixed.chunk(3, -1)
        products = inner * values
        # CUDA has no Fourier transform in bfloat16.
        with torch.autocast(hidden.device.type, enabled=False):
            wide = torch.promote_types(hidden.dtype, torch.float32)
            channels_first = products.to(wide).transpose(1, 2)
            convolved = causal_convolution(channels_first, self.filter(hidden.shape[1]))
        outputs = convolved.transpose(1, 2).to(products.dtype) + self.skip * products
        return self.output_projection(gate * outputs), (past, products)

    def step(
        self, hidden: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One position, (batch, width) -> (batch, width)."""
        past, earlier = state or (None, None)
        mixed, past = self.short(self.input_projection(hidden.unsqueeze(1)), past)
        gate, inner, values = mixed.chunk(3, -1)
        now = inner * values
        products = now if earlier is None else torch.cat((earlier, now), 1)
        # (positions, channels), newest tap last: it meets the newest product.
        taps = self.filter(products.shape[1]).T.flip(0)
        outputs = (taps * products).sum(1) + self.skip * now.squeeze(1)
        return self.output_projection(gate.squeeze(1) * outputs), (past, products)


class Hyena(GrowingModel):
    """Hyena mixers in pre-norm residual blocks.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        filter_length: the length by which the filter measures time; None is the task's maximum.
        filter_width: hidden units of the network that makes the filter.
        bands: cosines, and sines, of the position that this network sees.
        convolution: positions that the short convolution sees.
        filter_initialisation: "own" (the authors') or "wrapper" (N(0, 0.02²), as RegBench left it).
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        filter_length: int | None = None,
        filter_width: int = 64,
        bands: int = 2,
        convolution: int = 3,
        filter_initialisation: FilterInitialisation = "own",
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        longest = specification.maximum_length if filter_length is None else filter_length
        mixers = [
            HyenaMixer(
                width,
                maximum_length=longest,
                filter_width=filter_width,
                bands=bands,
                convolution=convolution,
                filter_initialisation=filter_initialisation,
            )
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
