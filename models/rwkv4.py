"""RWKV-4 (Peng et al. 2023, "RWKV: reinventing RNNs for the transformer era", arXiv 2305.13048),
and the model that RegBench measured under its name.

The code of RegBench (seq_icl, commit 9b9223d) was derived from another implementation of RWKV-4 in
which a decay is −exp(time_decay). It computes +exp(time_decay) and adds that to the logarithms of
the sums, so the weight of a token *grows* with its age: with the released initial values the first
five of 200 tokens hold 92 % of an average, with the right sign the last five do. The numbers
published of "RWKV" on RegBench are probably of that model. Against it speaks that at preset
``laptop`` the right sign comes nearer to them on the languages of the training.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.residual import STANDARD_DEVIATION, Mixer, ResidualModel
from models.layers.scaled_sums import ScaledSum, add_scaled, scaled_sums
from models.specification import SequenceSpecification

Vectors = Literal["official", "standard_normal"]


def weighted_average(
    keys: Tensor, values: Tensor, decay: Tensor, first: Tensor, state: ScaledSum | None = None
) -> tuple[Tensor, ScaledSum]:
    """The WKV of RWKV-4, in each channel by itself:

        (Σ_{s<t} e^{−(t−1−s) decay + k_s} v_s + e^{first + k_t} v_t) / (the same without v).

    Args:
        keys, values: (batch, time, channels), float32 at least.
        decay, first: (channels,). A negative decay makes weights grow with age.
        state: numerator and denominator after the positions before, as returned.

    Returns:
        (batch, time, channels), and the next state: scale (batch, channels, 1), numerator and
        denominator (batch, channels, 2).
    """
    # Numerator and denominator in one sum: (batch, time, channels, 2).
    pairs = torch.stack((values, torch.ones_like(values)), -1)
    exponents = keys.unsqueeze(-1)
    sums = scaled_sums(pairs, exponents, -decay.unsqueeze(-1).expand_as(exponents), state)
    if state is None:
        # Nothing has the weight e^−∞; the first average is then the first value itself.
        state = ScaledSum(
            torch.full_like(sums.scale[:, 0], -math.inf), torch.zeros_like(pairs[:, 0])
        )
    # Shifted by one, for position t adds its own pair with the bonus to what stood before it.
    earlier = ScaledSum(
        *(
            torch.cat((old.unsqueeze(1), new[:, :-1]), 1)
            for old, new in zip(state, sums, strict=True)
        )
    )
    # The sums of t − 1 are taken as they are: its pair counts with e^{k}, undecayed.
    weighted = add_scaled(earlier, ScaledSum(exponents + first.unsqueeze(-1), pairs))
    numerators, denominators = weighted.total.unbind(-1)
    return numerators / denominators, ScaledSum(sums.scale[:, -1], sums.total[:, -1])


class TimeMixingState(NamedTuple):
    """The last input (batch, width), and the sums of :func:`weighted_average`."""

    last: Tensor
    sums: ScaledSum


def shifted(hidden: Tensor, last: Tensor | None) -> Tensor:
    """The position before each one, (batch, time, width); before the first comes ``last``, or 0."""
    start = torch.zeros_like(hidden[:, 0]) if last is None else last
    return torch.cat((start.unsqueeze(1), hidden[:, :-1]), 1)


def share_of_width(width: int, exponent: float) -> Tensor:
    """(c / width)^exponent for the channels c = 0 … width − 1."""
    return (torch.arange(width) / width) ** exponent


class TimeMixing(Mixer):
    """What RWKV-4 has in the place of attention:

        y_t = W_o (σ(r_t) ∘ wkv_t),  with k, v and r linear in μ ∘ x_t + (1 − μ) ∘ x_{t−1},

    a vector μ for each of the three, and x_{−1} = 0. Matrices have no biases.

    Args:
        width: channels.
        layer, layers: the place in the model, on which official initial values depend.
        inverted_decay: weights grow by exp(time_decay) with each step of age instead of shrinking.
        vectors: initial values of decay, bonus and mixing vectors; "official" as the authors have
            them, "standard_normal" as RegBench has them.
    """

    mix_key: nn.Parameter
    mix_value: nn.Parameter
    mix_receptance: nn.Parameter
    time_decay: nn.Parameter
    time_first: nn.Parameter

    def __init__(
        self,
        width: int,
        *,
        layer: int = 0,
        layers: int = 1,
        inverted_decay: bool = False,
        vectors: Vectors = "official",
    ) -> None:
        super().__init__()
        if vectors not in get_args(Vectors):
            choices = ", ".join(get_args(Vectors))
            raise ValueError(f"vectors={vectors!r} is unknown; choose one of {choices}")
        self.width, self.inverted_decay, self.vectors = width, inverted_decay, vectors
        # ρ of the official formulas.
        depth = layer / (layers - 1) if layers > 1 else 0.0  # 0 / 0 in the official code
        remaining = 1 - layer / layers
        channel = torch.arange(width)
        mixing = share_of_width(width, remaining)
        official = {
            "mix_key": mixing,
            "mix_value": mixing + 0.3 * depth,
            "mix_receptance": share_of_width(width, remaining / 2),
            # Decays e^{−e^w}: from 0.993 in the first channel, nearly 1, to 0 in the last.
            "time_decay": -5 + 8 * (channel / max(width - 1, 1)) ** (0.7 + 1.3 * depth),
            # In three kinds that alternate, so that neighbours start with different bonuses.
            "time_first": math.log(0.3) + 0.5 * ((channel + 1) % 3 - 1),
        }
        for name, value in official.items():
            start = value if vectors == "official" else torch.randn(width)
            self.register_parameter(name, nn.Parameter(start))
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)
        self.output_projection = nn.Linear(width, width, bias=False)
        for matrix in (self.key, self.value, self.receptance):
            nn.init.normal_(matrix.weight, std=STANDARD_DEVIATION)

    @property
    def state_size(self) -> int:
        """Scale, numerator, denominator and last input of each channel."""
        return 4 * self.width

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on vectors; RegBench has no such exception."""
        if self.vectors == "standard_normal":
            return {}
        names = ("mix_key", "mix_value", "mix_receptance", "time_decay", "time_first")
        return {name: {"weight_decay": 0.0} for name in names}

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.prefill(hidden)[0]

    def prefill(
        self, hidden: Tensor, state: TimeMixingState | None = None
    ) -> tuple[Tensor, TimeMixingState]:
        """What ``forward`` gives, and the state after the last position."""
        before = shifted(hidden, state.last if state else None)
        keys = self.key(torch.lerp(before, hidden, self.mix_key))
        values = self.value(torch.lerp(before, hidden, self.mix_value))
        receptance = self.receptance(torch.lerp(before, hidden, self.mix_receptance))
        with torch.autocast(hidden.device.type, enabled=False):
            wide = torch.promote_types(hidden.dtype, torch.float32)
            decay = self.time_decay.to(wide).exp()
            averages, sums = weighted_average(
                keys.to(wide),
                values.to(wide),
                -decay if self.inverted_decay else decay,
                self.time_first.to(wide),
                state.sums if state else None,
            )
        mixed = self.output_projection(torch.sigmoid(receptance) * averages.to(receptance.dtype))
        return mixed, TimeMixingState(hidden[:, -1], sums)

    def step(self, hidden: Tensor, state: TimeMixingState | None) -> tuple[Tensor, TimeMixingState]:
        """One position, (batch, width) -> (batch, width)."""
        mixed, state = self.prefill(hidden.unsqueeze(1), state)
        return mixed.squeeze(1), state


class ChannelMixing(Mixer):
    """What RWKV-4 has in the place of an MLP: σ(W_r x_r) ∘ W_v max(W_k x_k, 0)², with x_k and x_r
    mixed from two positions as in :class:`TimeMixing`; W_k is 4 times as high as wide.

    Args:
        width: channels.
        layer, layers: the place in the model, on which initial values depend.
    """

    def __init__(self, width: int, *, layer: int = 0, layers: int = 1) -> None:
        super().__init__()
        self.width = width
        self.mix_key = nn.Parameter(share_of_width(width, 1 - layer / layers))
        self.mix_receptance = nn.Parameter(share_of_width(width, 1 - layer / layers))
        self.key = nn.Linear(width, 4 * width, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)
        self.output_projection = nn.Linear(4 * width, width, bias=False)
        for matrix in (self.key, self.receptance):
            nn.init.normal_(matrix.weight, std=STANDARD_DEVIATION)

    @property
    def state_size(self) -> int:
        """The last input."""
        return self.width

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on vectors."""
        return {name: {"weight_decay": 0.0} for name in ("mix_key", "mix_receptance")}

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.prefill(hidden)[0]

    def prefill(self, hidden: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What ``forward`` gives, and the last input (batch, width)."""
        before = shifted(hidden, state)
        # lerp: before + μ (hidden − before), as the formula has μ x_t + (1 − μ) x_{t−1}.
        keys = functional.relu(self.key(torch.lerp(before, hidden, self.mix_key))).square()
        receptance = self.receptance(torch.lerp(before, hidden, self.mix_receptance))
        return torch.sigmoid(receptance) * self.output_projection(keys), hidden[:, -1]

    def step(self, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """One position, (batch, width) -> (batch, width), and the last input."""
        mixed, state = self.prefill(hidden.unsqueeze(1), state)
        return mixed.squeeze(1), state


class RWKV4(ResidualModel):
    """Time mixing in pre-norm residual blocks, each with an MLP or with channel mixing.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        inverted_decay: see :class:`TimeMixing`.
        vectors: "official" or "standard_normal", see :class:`TimeMixing`.
        channel_mixing: the paper's own block: channel mixing in the place of the MLP.
        mlp: false leaves the MLP of each block out; channel mixing in its place stays.
        dropout: probability, on the embedded inputs.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        inverted_decay: bool = False,
        vectors: Vectors = "official",
        channel_mixing: bool = False,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers: list[Mixer] = []
        for layer in range(layers):
            place = {"layer": layer, "layers": layers}
            mixers.append(
                TimeMixing(width, inverted_decay=inverted_decay, vectors=vectors, **place)
            )
            if channel_mixing:
                mixers.append(ChannelMixing(width, **place))
        mlp = mlp and not channel_mixing
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
        if channel_mixing:  # the wrapper took each half of a block for a block
            with torch.no_grad():
                for name, parameter in self.blocks.named_parameters():
                    if name.endswith("output_projection.weight"):
                        # From 1/√(2 · 2 layers) to 1/√(2 layers).
                        parameter.mul_(math.sqrt(2))
