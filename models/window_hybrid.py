"""Sliding-window attention between layers of a recurrent mixer.

A window of softmax attention sees the last positions exactly, a recurrent state keeps something of
all others: Ren et al. 2024 (Samba, arXiv 2406.07522) alternate it with Mamba, Yang, Kautz and
Hatamizadeh 2024 (arXiv 2412.06464) with Gated DeltaNet. Which mixer is a word of the configuration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from models.h3 import H3Mixer
from models.hyena import HyenaMixer
from models.layers.growing_state import GrowingMixer, GrowingModel
from models.layers.heads import head_width, join_heads, split_heads
from models.layers.residual import STANDARD_DEVIATION, Mixer
from models.layers.rotary import ROTARY_BASE, rotate
from models.layers.window_attention import attend_to_window
from models.linear.delta_net import DeltaRuleMixer
from models.linear.gla import GatedLinearAttention
from models.linear.linear_transformer import LinearAttention
from models.linear.mamba2 import Mamba2Mixer
from models.linear.retnet import Retention
from models.lstm import LSTMMixer
from models.mamba import MambaMixer
from models.rwkv4 import TimeMixing
from models.s4d import S4DMixer
from models.specification import SequenceSpecification


class WindowState(NamedTuple):
    """Keys, not yet rotated, and values of the last positions, (batch, heads, positions, head
    width); at most as many as the window has."""

    keys: Tensor
    values: Tensor


class WindowAttention(GrowingMixer):
    """Softmax attention over the last ``window`` positions, the own one included, with rotary
    positions (as GPT2's rope) and the scale 1/√(head width). No biases.

    Args:
        width: hidden channels.
        heads: of attention; each of an even width.
        window: positions that are seen.
    """

    def __init__(self, width: int, *, heads: int, window: int) -> None:
        super().__init__()
        self.width, self.heads, self.window = width, heads, window
        self.size = head_width(width, heads)
        if self.size % 2:
            raise ValueError(
                f"rotary positions turn pairs of channels, but a head of width={width} / "
                f"heads={heads} has {self.size}; make width a multiple of 2 heads"
            )
        if window < 1:
            raise ValueError(f"a window sees at least its own position, got window={window}")
        self.projection = nn.Linear(width, 3 * width, bias=False)
        nn.init.normal_(self.projection.weight, std=STANDARD_DEVIATION)
        self.output_projection = nn.Linear(width, width, bias=False)

    @property
    def state_size(self) -> int:
        """Keys and values of a full window."""
        return self.numbers_after(self.window)

    def numbers_after(self, positions: int) -> int:
        """Keys and values of the window, or of all positions."""
        return 2 * self.width * min(positions, self.window)

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden vectors (batch, time, width) -> (batch, time, width)."""
        return self.prefill(hidden)[0]

    def prefill(self, hidden: Tensor) -> tuple[Tensor, WindowState]:
        """What ``forward`` gives, and the keys and values of the last positions."""
        queries, keys, values = self._project(hidden)
        angles = self._angles(hidden.shape[1], hidden.device)
        read = attend_to_window(
            rotate(queries, angles),
            rotate(keys, angles),
            values,
            self.window,
            scale=1 / math.sqrt(self.size),
        )
        return self.output_projection(join_heads(read)), self._last(keys, values)

    def step(self, hidden: Tensor, state: WindowState | None) -> tuple[Tensor, WindowState]:
        """One position, (batch, width) -> (batch, width).

        Only differences of angles count, so the oldest key that is seen may have the angle 0.
        """
        query, keys, values = self._project(hidden.unsqueeze(1))
        if state is not None:
            keys = torch.cat((state.keys, keys), 2)
            values = torch.cat((state.values, values), 2)
        state = self._last(keys, values)
        # Keys are kept unturned: angles are counted from the oldest that is seen and stay small,
        # however long the text grows.
        angles = self._angles(state.keys.shape[2], hidden.device)
        read = nn.functional.scaled_dot_product_attention(
            rotate(query, angles[-1:]),
            rotate(state.keys, angles),
            state.values,
            scale=1 / math.sqrt(self.size),
        )
        return self.output_projection(join_heads(read)).squeeze(1), state

    def _project(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, values = (
            split_heads(part, self.heads) for part in self.projection(hidden).chunk(3, -1)
        )
        return queries, keys, values

    def _last(self, keys: Tensor, values: Tensor) -> WindowState:
        return WindowState(keys[:, :, -self.window :], values[:, :, -self.window :])

    def _angles(self, time: int, device: torch.device) -> Tensor:
        """(time, head width / 2) radians of the positions 0 … time − 1."""
        pairs = torch.arange(self.size // 2, device=device, dtype=torch.float64)
        return torch.arange(time, device=device)[:, None] * ROTARY_BASE ** (-2 * pairs / self.size)


class Place(NamedTuple):
    """Where in a model a mixer stands: what its constructor may need."""

    width: int
    heads: int
    layer: int
    layers: int
    longest: int  # sequence of the task


# Not RWKV-7's, whose later layers mix in values of the first one, nor those that attend themselves:
# Titans, GPT2, attention with a convolution and the Mosaics.
MixerName = Literal[
    "mamba",
    "mamba2",
    "s4d",
    "h3",
    "hyena",
    "lstm",
    "rwkv4",
    "linear_transformer",
    "retnet",
    "gla",
    "delta_net",
    "delta_net_negative",
    "gated_delta_net",
    "gated_delta_net_negative",
    "kda",
]
SUMS: Any = {"feature_map": "elu", "normaliser": True, "convolution": 1, "score_dropout": 0.0}
GATED: Any = {"decay": "head", "output_gate": True}
NEGATIVE: Any = {"largest_strength": 2.0}
MIXERS: dict[str, Callable[[Place], Mixer]] = {
    "mamba": lambda at: MambaMixer(at.width),
    # Mamba-2 has 2 width inner channels; so it gets as many heads as the other mixers.
    "mamba2": lambda at: Mamba2Mixer(at.width, head_width=2 * at.width // at.heads),
    "s4d": lambda at: S4DMixer(at.width),
    "h3": lambda at: H3Mixer(at.width),
    "hyena": lambda at: HyenaMixer(at.width, maximum_length=at.longest),
    "lstm": lambda at: LSTMMixer(at.width),
    "rwkv4": lambda at: TimeMixing(at.width, layer=at.layer, layers=at.layers),
    "linear_transformer": lambda at: LinearAttention(at.width, at.heads, **SUMS),
    "retnet": lambda at: Retention(at.width, at.heads),
    "gla": lambda at: GatedLinearAttention(at.width, at.heads),
    "delta_net": lambda at: DeltaRuleMixer(at.width, at.heads),
    "delta_net_negative": lambda at: DeltaRuleMixer(at.width, at.heads, **NEGATIVE),
    "gated_delta_net": lambda at: DeltaRuleMixer(at.width, at.heads, **GATED),
    "gated_delta_net_negative": lambda at: DeltaRuleMixer(at.width, at.heads, **GATED, **NEGATIVE),
    "kda": lambda at: DeltaRuleMixer(at.width, at.heads, decay="channel", output_gate=True),
}


class WindowHybrid(GrowingModel):
    """A recurrent mixer and sliding-window attention in turn, in pre-norm residual blocks.

    Each ``window_every``-th layer is attention, the others are the mixer: 2 alternates and starts
    with the mixer, 1 has attention alone. A stack of n window layers reaches n (window − 1)
    positions back; for what is further away the mixer is needed.

    Args:
        specification: shapes of the task.
        width: hidden channels.
        layers: number of blocks.
        heads: of attention, and of the mixer if it has heads.
        window: positions that attention sees.
        window_every: one layer of so many is attention.
        mixer: a name in ``MIXERS``, each as its own model has it by default.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: an unknown mixer, or sizes that do not fit.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        window: int = 32,
        window_every: int = 2,
        mixer: MixerName = "mamba",
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        if window_every < 1:
            raise ValueError(
                f"window_every={window_every} is no distance between layers; set it to 1 for "
                "attention in every layer, to 2 for every other one"
            )
        if layers < window_every:
            raise ValueError(
                f"window_every={window_every} puts no attention into layers={layers}: a hybrid has "
                f"layers={window_every} or more; window_every=1 is attention alone"
            )
        if mixer not in MIXERS:
            raise ValueError(f"mixer={mixer!r} is unknown; choose one of {', '.join(MIXERS)}")
        head_width(width, heads)
        mixers: list[Mixer] = []
        for layer in range(layers):
            # Attention last in each group: the recurrent mixer sees the embeddings first.
            if (layer + 1) % window_every == 0:
                mixers.append(WindowAttention(width, heads=heads, window=window))
            else:
                place = Place(width, heads, layer, layers, specification.maximum_length)
                mixers.append(MIXERS[mixer](place))
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
