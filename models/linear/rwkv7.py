"""RWKV-7 (Peng et al. 2025, "RWKV-7 Goose with expressive dynamic state evolution", arXiv
2503.14456, sections 3 and 4, and the authors' code, BlinkDL/RWKV-LM)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.contextual_memory import unit
from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.mixer import RecurrentMixer, RecurrentModel
from models.layers.recurrence.writes import Writes
from models.layers.residual import STANDARD_DEVIATION, Mixer, ResidualBlock
from models.specification import SequenceSpecification

NORM_EPSILON = 64e-5
# The authors' exponents of channel / width in the shares of the position before.
SHARES = {"r": 0.2, "w": 0.9, "k": 0.7, "v": 0.7, "a": 0.9, "g": 0.2}
# Ranks of the small maps, as multiples of √width.
RANKS = {"w": 2.5, "a": 2.5, "v": 1.7, "g": 5.0}
SMALL = 1e-4


class LayerPlace(NamedTuple):
    """Where a mixer stands, for its initial values.

    Attributes:
        layer: from 0.
        layers: of the model.
    """

    layer: int
    layers: int

    @property
    def depth(self) -> float:
        """Where the layer stands, from 0 for the first layer to 1 for the last; 0 for a single
        one."""
        return self.layer / max(1, self.layers - 1)

    def shares(self, width: int, exponent: float) -> nn.Parameter:
        """How much of the position before each channel sees: 1 − (c/width)^exponent."""
        return nn.Parameter(1 - (torch.arange(width) / width) ** exponent)


def shift(x: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
    """x_{t−1} − x_t for x (batch, time, width) after x_{−1} (batch, width), 0 at the start; and the
    last x, for the next call."""
    first = torch.zeros_like(x[:, :1]) if before is None else before.unsqueeze(1)
    return torch.cat((first, x[:, :-1]), 1) - x, x[:, -1]


class LowRankMap(nn.Module):
    """x ↦ f(x W₁) W₂ of a small rank, a multiple of 32. The authors start W₁ at 0; it starts at
    1e-4, so that W₂ has a gradient too. W₂ starts orthogonal, times 0.1."""

    def __init__(self, width: int, multiple: float) -> None:
        super().__init__()
        rank = max(32, 32 * round(multiple * math.sqrt(width) / 32))
        self.down = nn.Parameter(SMALL * torch.randn(width, rank))
        self.up = nn.Parameter(torch.empty(rank, width))
        # The authors' gain where the rank is above the width.
        nn.init.orthogonal_(self.up, gain=0.1 * max(1.0, math.sqrt(rank / width)))

    def forward(self, x: Tensor, activation: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """(..., width) -> (..., width)."""
        inner = x @ self.down
        return (inner if activation is None else activation(inner)) @ self.up


class RWKV7TimeMixingState(NamedTuple):
    """The last input, (batch, width), and the memory of each head."""

    before: Tensor
    memory: Tensor


class RWKV7TimeMixing(RecurrentMixer):
    """S_t = Diag(α_t) S_{t−1} − (κ_t ⊙ a_t) ⊗ (S_{t−1}ᵀ κ_t) + k̃_t ⊗ v_t, read by r_t.

    Each of r, w, k, v, a, g sees x_t + μ ⊙ (x_{t−1} − x_t) with a μ of its own; "low" is a map of a
    small rank:

        r, k, v = W x;  α = exp(−exp(−½ − softplus(−(w₀ + low tanh x))));  a = σ(a₀ + low x);
        after the first layer v ← v + (v of the first layer − v) σ(v₀ + low x);
        κ = k ⊙ k_κ of length 1 in each head;  k̃ = k ⊙ (1 + (a − 1) ⊙ k_a);
        y = norm(Sᵀ r) + (Σ r ⊙ k̃ ⊙ r_k) v, sum and norm by head;  W_o (y ⊙ low σ x).

    The first layer has the parameters that mix values too, as in the authors' code, unused. Initial
    values are theirs, but for W_o, which starts as the wrapper says, and see :class:`LowRank`.

    Args:
        width: hidden channels.
        head_width: channels of a head; at most all of them.
        place: of the layer.

    Raises:
        ValueError: heads that do not fit.
    """

    def __init__(self, width: int, head_width: int, place: LayerPlace) -> None:
        super().__init__()
        self.first = place.layer == 0
        self.width, self.head_width = width, min(head_width, width)
        # A head of one channel would be normalised to 0.
        if self.head_width < 2 or width % self.head_width:
            raise ValueError(
                f"width={width} cannot be split in heads of head_width={head_width}; make width a "
                "multiple of head_width, and that at least 2"
            )
        heads = width // self.head_width
        # The later a layer, the less it sees of the position before.
        later = 1 - place.layer / place.layers
        self.shares = nn.ParameterDict(
            {n: place.shares(width, e * later) for n, e in SHARES.items()}
        )
        self.low = nn.ModuleDict({name: LowRankMap(width, rank) for name, rank in RANKS.items()})
        share = torch.arange(width) / max(1, width - 1)
        along = share - 0.5
        # From −1 to 1 within each head: each has channels that forget fast and slowly.
        within = torch.linspace(-1, 1, self.head_width).repeat(heads)
        bow = within * within.abs()
        decays = -5.5 + 6 * share ** (1 + place.depth**0.3) + 2.5 * bow
        self.offsets = nn.ParameterDict(
            {
                "w": nn.Parameter(decays),
                "a": nn.Parameter(-0.19 + 0.3 * bow + 0.4 * along),
                "v": nn.Parameter(0.73 - 0.4 * along),
            }
        )
        self.removal_scale = nn.Parameter(0.71 - 0.1 * along)
        self.rate_scale = nn.Parameter(torch.full((width,), 1.02))
        self.bonus = nn.Parameter(torch.full((heads, self.head_width), -0.04))
        self.read_map, self.key_map, self.value_map = (
            nn.Linear(width, width, bias=False) for _ in range(3)
        )
        for matrix, bound in ((self.read_map, 0.5), (self.key_map, 0.05), (self.value_map, 0.5)):
            nn.init.uniform_(matrix.weight, -bound / math.sqrt(width), bound / math.sqrt(width))
        self.norm = nn.GroupNorm(heads, width, eps=NORM_EPSILON)
        self.output_projection = nn.Linear(width, width, bias=False)

    @property
    def state_size(self) -> int:
        """The memories and the last input."""
        return self.width * (self.head_width + 1)

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """Weight decay on the four large matrices alone, as in the authors' code."""
        large = ("read_map", "key_map", "value_map", "output_projection")
        names = (name for name, _ in self.named_parameters() if not name.startswith(large))
        return {name: {"weight_decay": 0.0} for name in names}

    def advance(
        self, hidden: Tensor, state: RWKV7TimeMixingState | None
    ) -> tuple[Tensor, RWKV7TimeMixingState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width), as first layer."""
        mixed, following, _ = self.advance_with(hidden, state, None)
        return mixed, following

    def advance_with(
        self, hidden: Tensor, state: RWKV7TimeMixingState | None, first_values: Tensor | None
    ) -> tuple[Tensor, RWKV7TimeMixingState, Tensor]:
        """The same with the values of the first layer (batch, time, width), None in it; they are
        also returned."""
        difference, before = shift(hidden, state.before if state else None)
        seen = {n: torch.addcmul(hidden, difference, mu) for n, mu in self.shares.items()}
        read, keys, values = (
            self.read_map(seen["r"]),
            self.key_map(seen["k"]),
            self.value_map(seen["v"]),
        )
        if self.first or first_values is None:
            first_values = values
        else:
            share = torch.sigmoid(self.offsets["v"] + self.low["v"](seen["v"]))
            values = values + (first_values - values) * share
        wanted = self.offsets["w"] + self.low["w"](seen["w"], torch.tanh)
        # −½ − softplus(−w) = logsigmoid(w) − ½: α = exp(−e^that) lies between 0.545 and 1.
        log_decays = -torch.exp(functional.logsigmoid(wanted) - 0.5)
        rates = torch.sigmoid(self.offsets["a"] + self.low["a"](seen["a"]))
        # κ, the direction that is erased: were it longer than 1, erasing could make it grow.
        removed = unit(self._heads(keys * self.removal_scale))
        # k̃ is made after κ: erasing and writing use keys of different scale.
        keys = keys * (1 + (rates - 1) * self.rate_scale)

        read, keys, values, log_decays, rates = (
            self._heads(x) for x in (read, keys, values, log_decays, rates)
        )
        # a = −κ reads the memory before its decay, b = κ ⊙ a writes what is taken away.
        writes = Writes(keys, values, log_decays, rank_one=(-removed, removed * rates))
        outputs, memory = linear_recurrence(read, writes, state.memory if state else None)
        # GroupNorm wants (positions, channels); its groups are the heads.
        normed = self.norm(outputs.flatten(0, 1).flatten(1)).view_as(hidden)
        # What this position wrote itself, weighted by r_k and not by the memory.
        bonus = (read * keys * self.bonus).sum(-1, keepdim=True) * values
        mixed = (normed + bonus.flatten(2)) * self.low["g"](seen["g"], torch.sigmoid)
        return self.output_projection(mixed), RWKV7TimeMixingState(before, memory), first_values

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_width))


class RWKV7ChannelMixing(RecurrentMixer):
    """y = W_v relu(W_k (x_t + μ ⊙ (x_{t−1} − x_t)))², the MLP of RWKV; its state is x_t."""

    def __init__(self, width: int, place: LayerPlace) -> None:
        super().__init__()
        self.width = width
        # The authors' exponent: it falls faster with depth than those of time mixing.
        self.shares = place.shares(width, (1 - place.layer / place.layers) ** 4)
        self.expansion = nn.Linear(width, 4 * width, bias=False)
        bound = 0.5 / math.sqrt(width)
        nn.init.uniform_(self.expansion.weight, -bound, bound)
        self.output_projection = nn.Linear(4 * width, width, bias=False)

    @property
    def state_size(self) -> int:
        """The last input."""
        return self.width

    def parameter_options(self) -> dict[str, dict[str, float]]:
        """No weight decay on the shares."""
        return {"shares": {"weight_decay": 0.0}}

    def advance(self, hidden: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        difference, before = shift(hidden, state)
        inner = self.expansion(torch.addcmul(hidden, difference, self.shares))
        return self.output_projection(functional.relu(inner).square()), before


class RWKV7(RecurrentModel):
    """Time mixing in pre-norm residual blocks, with an MLP or RWKV's own channel mixing.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        head_width: channels of each memory.
        channel_mixing: takes the place of the MLP, as in the paper.
        mlp: false leaves either out.
        dropout: probability, on the embedded inputs.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        head_width: int = 64,
        channel_mixing: bool = False,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        mixers: list[Mixer] = []
        for layer in range(layers):
            place = LayerPlace(layer, layers)
            mixers.append(RWKV7TimeMixing(width, head_width, place))
            if mlp and channel_mixing:
                mixers.append(RWKV7ChannelMixing(width, place))
        plain = mlp and not channel_mixing
        super().__init__(specification, width, mixers, mlp=plain, dropout=dropout)
        # The wrapper counts mixers as layers, but what writes to the residual stream is as many.
        deviation = STANDARD_DEVIATION / math.sqrt(2 * layers)
        for mixer in mixers:
            assert isinstance(mixer, RWKV7TimeMixing | RWKV7ChannelMixing)
            nn.init.normal_(mixer.output_projection.weight, std=deviation)

    def walk(self, embedded: Tensor, state: list[Any] | None) -> tuple[Tensor, list[Any]]:
        """Through the blocks, with the values of the first layer."""
        hidden = self.dropout(embedded)
        first_values: Tensor | None = None
        after: list[Any] = []
        for index, block in enumerate(self.blocks):
            assert isinstance(block, ResidualBlock)
            block_state = state[index] if state else None
            entering = block.mixer_norm(hidden)
            following: Any
            if isinstance(block.mixer, RWKV7TimeMixing):
                mixed, following, first_values = block.mixer.advance_with(
                    entering, block_state, first_values
                )
            else:
                assert isinstance(block.mixer, RWKV7ChannelMixing)
                mixed, following = block.mixer.advance(entering, block_state)
            hidden = self.finish(block, hidden, mixed)
            after.append(following)
        return hidden, after
