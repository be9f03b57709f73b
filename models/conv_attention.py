"""Attention with a short convolution: the step from one token to the next is given, not learned.

Source: the depthwise convolution after queries, keys and values of recent sequence models (Poli et
al. 2023, Hyena; Arora et al. 2024, Based; Behrouz et al. 2025, Titans), in GPT2's block. Arora et
al., "Zoology" (2023, arXiv 2312.04927), measure recall with and without it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.dropout import Dropout
from models.layers.embedding import InputOutput
from models.layers.heads import head_width, join_heads, split_heads
from models.layers.short_convolution import ShortConvolution
from models.specification import SequenceSpecification

STANDARD_DEVIATION = 0.02
BYTES_PER_NUMBER = 4


class ConvAttentionState(NamedTuple):
    """What one block keeps.

    Attributes:
        recent: (batch, kernel - 1, 3 width), the last projections, which later positions still see.
        keys, values: (batch, heads, positions so far, head width).
    """

    recent: Tensor
    keys: Tensor
    values: Tensor


class ConvAttentionMixer(nn.Module):
    """Causal softmax attention over convolved queries, keys and values."""

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.heads = heads
        self.projection = nn.Linear(width, 3 * width, bias=False)
        # After the projection, so that queries, keys and values have filters of their own.
        self.convolution = ShortConvolution(3 * width, kernel, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(
        self, hidden: Tensor, state: ConvAttentionState | None
    ) -> tuple[Tensor, ConvAttentionState]:
        """Hidden vectors (batch, time, width) -> (batch, time, width), and the state after them.

        With a state, ``time`` is 1.
        """
        convolved, recent = self.convolution(
            self.projection(hidden), state.recent if state else None
        )
        queries, keys, values = (
            split_heads(part, self.heads) for part in convolved.chunk(3, dim=-1)
        )
        # Cached keys and values are convolved already; ``recent`` holds the raw projections that
        # the convolution of later positions still needs.
        if state is not None:
            keys = torch.cat((state.keys, keys), dim=2)
            values = torch.cat((state.values, values), dim=2)
        attended = functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=state is None
        )
        return self.output(join_heads(attended)), ConvAttentionState(recent, keys, values)


class ConvAttentionBlock(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)) unless ``mlp`` is false; the MLP is 4 times
    wider, tanh GELU."""

    def __init__(self, width: int, heads: int, kernel: int, dropout: float, *, mlp: bool) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, bias=False)
        self.attention = ConvAttentionMixer(width, heads, kernel)
        self.mlp = mlp
        if mlp:
            self.mlp_norm = nn.LayerNorm(width, bias=False)
            self.expansion = nn.Linear(width, 4 * width, bias=False)
            self.output = nn.Linear(4 * width, width, bias=False)
        self.dropout = Dropout(dropout)

    def forward(
        self, hidden: Tensor, state: ConvAttentionState | None = None
    ) -> tuple[Tensor, ConvAttentionState]:
        """Hidden vectors (batch, time, width) -> (batch, time, width), and the state after them."""
        attended, state = self.attention(self.attention_norm(hidden), state)
        hidden = hidden + self.dropout(attended)
        if not self.mlp:
            return hidden, state
        expanded = functional.gelu(self.expansion(self.mlp_norm(hidden)), approximate="tanh")
        return hidden + self.dropout(self.output(expanded)), state


class ConvAttention(nn.Module):
    """Pre-norm transformer without biases, with a tied head and without encoding of positions: the
    convolution tells neighbours apart, and the causal mask earlier from later.

    Dropout acts on embeddings, attention output and MLP output. Matrices start as N(0, 0.02²),
    those that write to the residual stream as N(0, 0.02²/(2 layers)).

    Args:
        specification: shapes of the task. Its ``maximum_length`` sets no limit here.
        width: size of the hidden vectors, a multiple of ``heads``.
        layers: number of blocks.
        heads: attention heads of each block.
        kernel: positions that the convolution sees, the present one included; 1 sees no other.
        dropout: probability.
        mlp: false leaves the MLP of each block out; what is left starts as with it.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        kernel: int = 3,
        dropout: float = 0.0,
        mlp: bool = True,
    ) -> None:
        super().__init__()
        # For its refusal of heads that do not divide the width.
        head_width(width, heads)
        if layers < 1 or kernel < 1:
            raise ValueError(f"layers={layers} and kernel={kernel} must be at least 1; raise them")
        self.width, self.kernel = width, kernel
        self.input_output = InputOutput(specification, width, standard_deviation=STANDARD_DEVIATION)
        self.dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(
            ConvAttentionBlock(width, heads, kernel, dropout, mlp=mlp) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width, bias=False)
        for name, parameter in self.blocks.named_parameters():
            if name.endswith("output.weight"):
                nn.init.normal_(parameter, std=STANDARD_DEVIATION / math.sqrt(2 * layers))
            # A filter has as many inputs as taps: it keeps the start that is made for them.
            elif parameter.dim() == 2 and "convolution" not in name:
                nn.init.normal_(parameter, std=STANDARD_DEVIATION)

    def forward(self, inputs: Tensor) -> Tensor:
        """int64 (batch, time) or (batch, time, channels) -> (batch, time, output_size)."""
        return self.input_output.read_out(self.hidden(inputs))

    def hidden(self, inputs: Tensor) -> Tensor:
        """Inputs as in ``forward`` -> (batch, time, width), what ``output_matrix`` reads out."""
        hidden = self.dropout(self.input_output.embed(inputs))
        for block in self.blocks:
            hidden, _ = block(hidden)
        return self.norm(hidden)

    @property
    def output_matrix(self) -> Tensor:
        """(output_size, width)"""
        return self.input_output.matrix

    def step(
        self, inputs: Tensor, state: list[ConvAttentionState] | None = None
    ) -> tuple[Tensor, list[ConvAttentionState]]:
        """One position: (batch,) or (batch, channels) -> (batch, output_size), state per block."""
        hidden = self.dropout(self.input_output.embed(inputs).unsqueeze(1))
        states = []
        for index, block in enumerate(self.blocks):
            hidden, following = block(hidden, state[index] if state else None)
            states.append(following)
        return self.input_output.read_out(self.norm(hidden)).squeeze(1), states

    def state_bytes(self, length: int) -> int:
        """Bytes (float32) of keys, values and recent projections in all blocks."""
        vectors = 2 * length + 3 * (self.kernel - 1)
        return BYTES_PER_NUMBER * len(self.blocks) * self.width * vectors
