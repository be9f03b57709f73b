"""The trained baselines of CogScale, as its package builds them.

Source: Bendi-Ouis et al. 2026, CogScale (arXiv 2605.19758); ``baseline/scripts/models.py`` in the
source distribution of the package cogscale 0.2.0 (PyPI). They differ from this project's models of
the same names in what stands around the layers: an LSTM and a GRU of one layer between the inputs
and a linear map, Mamba layers without residual or norm between them, and a transformer with the
norm after each residual sum. For comparison with the published numbers.
"""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.attention import attend
from models.layers.dropout import Dropout
from models.layers.heads import head_width, join_heads, split_heads
from models.layers.residual import BYTES_PER_NUMBER, Mixer
from models.mamba import MambaMixer
from models.specification import SequenceSpecification

POSITION_BASE = 10_000.0  # the longest wave of the positions, over 2π


def _channels_of(specification: SequenceSpecification) -> int:
    """Raises:
    ValueError: the task gives tokens.
    """
    if specification.input_channels is None:
        raise ValueError(
            "CogScale's baselines read real channels, and this task gives tokens: choose another "
            "model, or tasks=cogscale"
        )
    return specification.input_channels


class _OneLayer(nn.Module):
    """A recurrent layer of torch between the inputs and a linear map; all weights start as torch's.

    Args:
        specification: shapes of a task with channels.
        width: units of the layer.
        layer: ``torch.nn.LSTM`` or ``torch.nn.GRU``.
    """

    kept_per_unit: int  # numbers of the state

    def __init__(
        self, specification: SequenceSpecification, width: int, layer: type[nn.LSTM | nn.GRU]
    ) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width={width} makes no layer; set width to 1 or more")
        self.width = width
        self.layer = layer(_channels_of(specification), width, batch_first=True)
        self.read_out = nn.Linear(width, specification.output_size)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, time, channels) -> (batch, time, output_size)."""
        return self.read_out(self._advance(inputs, None)[0])

    def prefill(self, inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Inputs as in ``forward`` -> outputs of the last position (batch, output_size), and the
        state from which ``step`` goes on."""
        hidden, state = self._advance(inputs, None)
        return self.read_out(hidden[:, -1]), state

    def step(
        self, inputs: Tensor, state: tuple[Tensor, ...] | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One position: (batch, channels) -> (batch, output_size), and the state: each
        tensor (batch, width)."""
        hidden, state = self._advance(inputs.unsqueeze(1), state)
        return self.read_out(hidden.squeeze(1)), state

    def state_bytes(self, length: int) -> int:
        """Bytes (float32) that the layer keeps of one sequence, of any ``length``."""
        return BYTES_PER_NUMBER * self.kept_per_unit * self.width

    def _advance(
        self, inputs: Tensor, state: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """A piece of a sequence: hidden vectors (batch, time, width), and the state after it."""
        initial: Any = None
        if state is not None:  # torch has an axis of layers before the batch
            initial = tuple(part.unsqueeze(0) for part in state)
            initial = initial if len(initial) > 1 else initial[0]
        hidden, last = self.layer(inputs, initial)
        parts = last if isinstance(last, tuple) else (last,)
        return hidden, tuple(part.squeeze(0) for part in parts)


class CogScaleLSTM(_OneLayer):
    """One LSTM layer and a linear map.

    Args:
        specification: shapes of a task with channels.
        width: cells.
    """

    kept_per_unit = 2  # output and cell

    def __init__(self, specification: SequenceSpecification, *, width: int = 64) -> None:
        super().__init__(specification, width, nn.LSTM)


class CogScaleGRU(_OneLayer):
    """One GRU layer and a linear map.

    Args:
        specification: shapes of a task with channels.
        width: units.
    """

    kept_per_unit = 1

    def __init__(self, specification: SequenceSpecification, *, width: int = 64) -> None:
        super().__init__(specification, width, nn.GRU)


class CogScaleMamba(nn.Module):
    """Mamba layers one after the other, without residual or norm between them, then a LayerNorm.

    Args:
        specification: shapes of a task with channels.
        width: hidden channels.
        layers: Mamba layers.
        state: states of each inner channel.
        convolution: positions that the short convolution sees.
        expand: inner channels for each hidden channel.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 64,
        layers: int = 2,
        state: int = 16,
        convolution: int = 4,
        expand: int = 2,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers={layers} makes no model; set layers to 1 or more")
        self.encoder = nn.Linear(_channels_of(specification), width)
        self.layers = nn.ModuleList(
            MambaMixer(width, state=state, convolution=convolution, expand=expand)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.read_out = nn.Linear(width, specification.output_size)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, time, channels) -> (batch, time, output_size)."""
        hidden = self.encoder(inputs)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.read_out(self.norm(hidden))

    def prefill(self, inputs: Tensor) -> tuple[Tensor, list[Any]]:
        """Inputs as in ``forward`` -> outputs of the last position (batch, output_size), and the
        state from which ``step`` goes on."""
        hidden, states = self.encoder(inputs), []
        for layer in self.layers:
            hidden, state = cast(Mixer, layer).prefill(hidden)
            states.append(state)
        return self.read_out(self.norm(hidden[:, -1])), states

    def step(self, inputs: Tensor, state: list[Any] | None = None) -> tuple[Tensor, list[Any]]:
        """One position: (batch, channels) -> (batch, output_size), and the states."""
        hidden, states = self.encoder(inputs), []
        for index, layer in enumerate(self.layers):
            mixer = cast(Mixer, layer)
            hidden, of_layer = mixer.step(hidden, state[index] if state else None)
            states.append(of_layer)
        return self.read_out(self.norm(hidden)), states

    def state_bytes(self, length: int) -> int:
        """Bytes (float32) that all layers keep of one sequence, of any ``length``."""
        return BYTES_PER_NUMBER * sum(cast(Mixer, layer).state_size for layer in self.layers)


class KeysAndValues(NamedTuple):
    """What one block keeps: each (batch, heads, positions so far, head width)."""

    keys: Tensor
    values: Tensor


class _PostNormBlock(nn.Module):
    """norm(x + attention(x)), then norm(x + MLP(x)), as ``torch.nn.TransformerEncoderLayer``:
    biases, a ReLU, an MLP four times wider, and dropout at four places."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropped_weights = heads, dropout
        self.projection = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width)
        self.expansion = nn.Linear(width, 4 * width)
        self.contraction = nn.Linear(4 * width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)
        # As torch.nn.MultiheadAttention; the other maps start as torch.nn.Linear.
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)
        nn.init.zeros_(self.output.bias)

    def forward(
        self, hidden: Tensor, cache: KeysAndValues | None = None
    ) -> tuple[Tensor, KeysAndValues]:
        """Hidden vectors (batch, time, width) -> (batch, time, width) and all keys and values; with
        a cache, ``time`` is 1."""
        queries, keys, values = (
            split_heads(part, self.heads) for part in self.projection(hidden).chunk(3, dim=-1)
        )
        if cache is not None:
            keys = torch.cat((cache.keys, keys), dim=2)
            values = torch.cat((cache.values, values), dim=2)
        read = attend(
            queries,
            keys,
            values,
            causal=cache is None,
            dropout=self.dropped_weights if self.training else 0.0,
        )
        hidden = self.attention_norm(hidden + self.dropout(self.output(join_heads(read))))
        expanded = self.dropout(functional.relu(self.expansion(hidden)))
        hidden = self.mlp_norm(hidden + self.dropout(self.contraction(expanded)))
        return hidden, KeysAndValues(keys, values)


class CogScaleDecoder(nn.Module):
    """Causal transformer with the norm after each sum and sinusoidal positions.

    All blocks start from the same weights, since ``torch.nn.TransformerEncoder`` copies one layer.

    Args:
        specification: shapes of a task with channels.
        width: size of the hidden vectors, a multiple of ``heads`` and of 2.
        layers: number of blocks.
        heads: attention heads of each block.
        dropout: probability, on attention weights, attention output, and both layers of the MLP.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 64,
        layers: int = 2,
        heads: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers={layers} makes no model; set layers to 1 or more")
        if width % 2:
            raise ValueError(f"width={width}: sine and cosine come in pairs; give an even width")
        head_width(width, heads)  # refuses heads that do not divide the width
        self.width = width
        self.encoder = nn.Linear(_channels_of(specification), width)
        first = _PostNormBlock(width, heads, dropout)
        self.blocks = nn.ModuleList([first, *(copy.deepcopy(first) for _ in range(layers - 1))])
        self.norm = nn.LayerNorm(width)
        self.read_out = nn.Linear(width, specification.output_size)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, time, channels) -> (batch, time, output_size)."""
        return self.read_out(self.norm(self._advance(inputs, None)[0]))

    def prefill(self, inputs: Tensor) -> tuple[Tensor, list[KeysAndValues]]:
        """Inputs as in ``forward`` -> outputs of the last position (batch, output_size), and the
        state from which ``step`` goes on."""
        hidden, caches = self._advance(inputs, None)
        return self.read_out(self.norm(hidden[:, -1])), caches

    def step(
        self, inputs: Tensor, state: list[KeysAndValues] | None = None
    ) -> tuple[Tensor, list[KeysAndValues]]:
        """One position: (batch, channels) -> (batch, output_size), and the caches."""
        hidden, caches = self._advance(inputs.unsqueeze(1), state)
        return self.read_out(self.norm(hidden)).squeeze(1), caches

    def state_bytes(self, length: int) -> int:
        """Bytes (float32) of the keys and values of ``length`` positions in all blocks."""
        return BYTES_PER_NUMBER * len(self.blocks) * 2 * self.width * length

    def _advance(
        self, inputs: Tensor, state: list[KeysAndValues] | None
    ) -> tuple[Tensor, list[KeysAndValues]]:
        hidden = self.encoder(inputs)
        start = state[0].keys.shape[2] if state else 0
        hidden = hidden + self._positions(start, start + hidden.shape[1]).to(hidden.dtype)
        caches = []
        for index, block in enumerate(self.blocks):
            hidden, cache = block(hidden, state[index] if state else None)
            caches.append(cache)
        return hidden, caches

    def _positions(self, start: int, end: int) -> Tensor:
        """(time, width), float64: sine and cosine in turn, of waves from 2π to 2π · 10⁴."""
        device = self.encoder.weight.device
        pairs = torch.arange(0, self.width, 2, device=device, dtype=torch.float64)
        frequencies = torch.exp(-math.log(POSITION_BASE) / self.width * pairs)
        angles = torch.arange(start, end, device=device)[:, None] * frequencies
        return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)
