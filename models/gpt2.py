"""GPT2: the transformer baseline, with the positions that are compared in the literature.

Source: Radford et al. 2019 in the layout of nanoGPT without biases, as the baseline of Zhang et
al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), appendix C. RoPE: Su et al. 2021
(arXiv 2104.09864), equation (34). ALiBi: Press et al. 2022 (arXiv 2108.12409), section 3.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.attention import attend
from models.layers.dropout import Dropout
from models.layers.embedding import InputOutput
from models.layers.heads import head_width, join_heads, split_heads
from models.layers.positions import add_positions
from models.layers.rotary import ROTARY_BASE, rotate
from models.specification import SequenceSpecification

Positions = Literal["learned", "rope", "alibi", "none"]
STANDARD_DEVIATION = 0.02
BYTES_PER_NUMBER = 4


class KeyValueCache(NamedTuple):
    """What one block keeps: keys and values, each (batch, heads, positions so far, head width)."""

    keys: Tensor
    values: Tensor


class PositionCode(NamedTuple):
    """What the attention of every block needs to know about positions.

    Attributes:
        angles: (time, head width / 2) radians by which RoPE rotates queries and new keys.
        bias: (heads, time of queries, time of keys) ALiBi added to the scores, -inf on the future.
    """

    angles: Tensor | None = None
    bias: Tensor | None = None


def alibi_slopes(heads: int) -> list[float]:
    """Slopes 2^(-8i/n), i = 1..n, for n a power of two; otherwise those of the power of two below,
    then every other slope of the power of two above."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2.0 ** (-4 * i / power) for i in range(1, 2 * power + 1, 2)]
    return slopes + between[: heads - power]


class Attention(nn.Module):
    """Causal softmax attention with one fused projection for queries, keys and values."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.projection = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(
        self, hidden: Tensor, position: PositionCode, cache: KeyValueCache | None = None
    ) -> tuple[Tensor, KeyValueCache]:
        """Hidden vectors (batch, time, width) -> (batch, time, width) and all keys and values.

        With a cache, ``time`` is 1 and the position attends to all that came before.
        """
        # Each (batch, heads, time, head width).
        queries, keys, values = (
            split_heads(part, self.heads) for part in self.projection(hidden).chunk(3, dim=-1)
        )
        if position.angles is not None:
            # Values are not turned: a product of two turned vectors depends on the distance of
            # their positions alone, and what is read should not depend on it at all.
            queries, keys = rotate(queries, position.angles), rotate(keys, position.angles)
        if cache is not None:
            keys = torch.cat((cache.keys, keys), dim=2)
            values = torch.cat((cache.values, values), dim=2)
        attended = attend(
            queries,
            keys,
            values,
            # The kernel wants one dtype; ``_bias`` comes in float64.
            bias=None if position.bias is None else position.bias.to(queries.dtype),
            # A cache leaves one query, which sees all keys; ALiBi's bias has −∞ on the future
            # already, and the kernel refuses a bias beside its own mask.
            causal=cache is None and position.bias is None,
            dropout=self.dropout if self.training else 0.0,
        )
        return self.output(join_heads(attended)), KeyValueCache(keys, values)

    def of_last(self, hidden: Tensor, position: PositionCode) -> Tensor:
        """Weights (batch, heads, time) with which the last of hidden vectors (batch, time, width)
        reads them all, float32 or wider.

        ``position`` has the angles of all positions, and the bias of the last query alone.
        """
        for_query, for_keys, _ = self.projection.weight.chunk(3)
        query = split_heads(functional.linear(hidden[:, -1:], for_query), self.heads)
        keys = split_heads(functional.linear(hidden, for_keys), self.heads)
        if position.angles is not None:
            query, keys = rotate(query, position.angles[-1:]), rotate(keys, position.angles)
        # These weights are looked at as numbers, and in bfloat16 many of them would not add up to
        # 1.
        wide = torch.promote_types(hidden.dtype, torch.float32)
        scores = (query.to(wide) * keys.to(wide)).sum(-1) / math.sqrt(keys.shape[-1])
        if position.bias is not None:
            scores = scores + position.bias[:, -1].to(wide)
        return scores.softmax(-1)


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)) unless ``mlp`` is false; the MLP is 4 times
    wider, tanh GELU."""

    def __init__(self, width: int, heads: int, dropout: float, *, mlp: bool) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, eps=1e-5, bias=False)
        self.attention = Attention(width, heads, dropout)
        self.mlp = mlp
        if mlp:
            self.mlp_norm = nn.LayerNorm(width, eps=1e-5, bias=False)
            self.expansion = nn.Linear(width, 4 * width, bias=False)
            self.output = nn.Linear(4 * width, width, bias=False)
        self.dropout = Dropout(dropout)

    def forward(
        self, hidden: Tensor, position: PositionCode, cache: KeyValueCache | None = None
    ) -> tuple[Tensor, KeyValueCache]:
        """Hidden vectors (batch, time, width) -> (batch, time, width) and all keys and values."""
        attended, cache = self.attention(self.attention_norm(hidden), position, cache)
        hidden = hidden + self.dropout(attended)
        if not self.mlp:
            return hidden, cache
        expanded = functional.gelu(self.expansion(self.mlp_norm(hidden)), approximate="tanh")
        return hidden + self.dropout(self.output(expanded)), cache


class GPT2(nn.Module):
    """Pre-norm decoder-only transformer without biases and with a tied head.

    Dropout acts on embeddings, attention weights, attention output and MLP output. Matrices start
    as N(0, 0.02²), those that write to the residual stream as N(0, 0.02²/(2 layers)).

    Args:
        specification: shapes of the task; ``maximum_length`` is the size of a learned table.
        width: size of the hidden vectors, a multiple of ``heads``.
        layers: number of blocks.
        heads: attention heads of each block.
        dropout: probability.
        positions: "learned" table added to the embedding, "rope", "alibi", or "none".
        mlp: false leaves the MLP of each block out; what is left starts as with it.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        dropout: float = 0.05,
        positions: Positions = "learned",
        mlp: bool = True,
    ) -> None:
        super().__init__()
        self.width, self.heads, self.positions = width, heads, positions
        self.head_width = head_width(width, heads)
        if layers < 1:
            raise ValueError(f"layers={layers} makes no model; set layers to 1 or more")
        if positions not in get_args(Positions):
            choices = ", ".join(get_args(Positions))
            raise ValueError(f"positions={positions!r} is unknown; choose one of {choices}")
        if positions == "rope" and self.head_width % 2:
            raise ValueError(
                f"rope turns pairs of channels, but a head of width={width} / heads={heads} has "
                f"{self.head_width}; make width a multiple of 2 heads"
            )
        self.input_output = InputOutput(specification, width, standard_deviation=STANDARD_DEVIATION)
        self.position_table = (
            nn.Embedding(specification.maximum_length, width) if positions == "learned" else None
        )
        self.dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout, mlp=mlp) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=1e-5, bias=False)
        if self.position_table is not None:
            nn.init.normal_(self.position_table.weight, std=STANDARD_DEVIATION)
        for name, parameter in self.blocks.named_parameters():
            # A block writes twice to the residual stream: with 1/√(2 layers) the variance that
            # these writes add up to at the start does not depend on the depth.
            if name.endswith("output.weight"):
                nn.init.normal_(parameter, std=STANDARD_DEVIATION / math.sqrt(2 * layers))
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=STANDARD_DEVIATION)

    def forward(self, inputs: Tensor) -> Tensor:
        """int64 (batch, time) or (batch, time, channels) -> (batch, time, output_size).

        Raises:
            ValueError: the sequence is longer than a learned table of positions.
        """
        return self.input_output.read_out(self.hidden(inputs))

    def hidden(self, inputs: Tensor) -> Tensor:
        """Inputs as in ``forward`` -> (batch, time, width), what ``output_matrix`` reads out."""
        hidden, position = self._encode(self.input_output.embed(inputs), start=0)
        for block in self.blocks:
            hidden, _ = block(hidden, position)
        return self.norm(hidden)

    @property
    def output_matrix(self) -> Tensor:
        """(output_size, width)"""
        return self.input_output.matrix

    def prefill(self, inputs: Tensor) -> tuple[Tensor, list[KeyValueCache]]:
        """Inputs as in ``forward`` -> outputs of the last position (batch, output_size), and the
        state from which ``step`` goes on."""
        hidden, position = self._encode(self.input_output.embed(inputs), start=0)
        caches = []
        for block in self.blocks:
            hidden, cache = block(hidden, position)
            caches.append(cache)
        return self.input_output.read_out(self.norm(hidden[:, -1])), caches

    def step(
        self, inputs: Tensor, state: list[KeyValueCache] | None = None
    ) -> tuple[Tensor, list[KeyValueCache]]:
        """One position: (batch,) or (batch, channels) -> (batch, output_size), cache per block."""
        # The cache knows how many positions came before.
        start = state[0].keys.shape[2] if state else 0
        hidden, position = self._encode(self.input_output.embed(inputs).unsqueeze(1), start)
        caches = []
        for index, block in enumerate(self.blocks):
            hidden, cache = block(hidden, position, state[index] if state else None)
            caches.append(cache)
        return self.input_output.read_out(self.norm(hidden)).squeeze(1), caches

    def attention_of_last(self, inputs: Tensor) -> Tensor:
        """Inputs as in ``forward`` -> (layers, batch, heads, time): the weights with which the
        last position reads each position, without a time × time map of weights."""
        embedded = self.input_output.embed(inputs)
        time = embedded.shape[1]
        last = PositionCode(self._angles(0, time), self._bias(time - 1, time))
        hidden = self.dropout(add_positions(embedded, self.position_table, start=0))
        # Layers below the last are computed whole and need the bias of all queries.
        position = last._replace(bias=self._bias(0, time)) if len(self.blocks) > 1 else last
        weights = []
        for block in self.blocks:
            assert isinstance(block, Block)
            weights.append(block.attention.of_last(block.attention_norm(hidden), last))
            if len(weights) < len(self.blocks):
                hidden, _ = block(hidden, position)
        return torch.stack(weights)

    @property
    def context_limit(self) -> int | None:
        """Positions in a learned table; None where any number will do."""
        return None if self.position_table is None else self.position_table.num_embeddings

    def state_bytes(self, length: int) -> int:
        """Bytes (float32) of the keys and values of ``length`` positions in all blocks."""
        return BYTES_PER_NUMBER * len(self.blocks) * 2 * self.width * length

    def position_parameters(self) -> int:
        """Parameters of the table of positions, which published sizes leave out."""
        return 0 if self.position_table is None else self.position_table.weight.numel()

    def _encode(self, embedded: Tensor, start: int) -> tuple[Tensor, PositionCode]:
        """Embeddings (batch, time, width) of positions from ``start`` on, with their positions."""
        end = start + embedded.shape[1]
        position = PositionCode(self._angles(start, end), self._bias(start, end))
        return self.dropout(add_positions(embedded, self.position_table, start)), position

    def _angles(self, start: int, end: int) -> Tensor | None:
        """RoPE's angles of the positions from ``start`` to ``end``."""
        if self.positions != "rope":
            return None
        device = self.norm.weight.device
        # float64: in float32 an angle near 10⁵ radians is a multiple of 0.008.
        pairs = torch.arange(self.head_width // 2, device=device, dtype=torch.float64)
        frequencies = ROTARY_BASE ** (-2 * pairs / self.head_width)
        return torch.arange(start, end, device=device)[:, None] * frequencies

    def _bias(self, start: int, end: int) -> Tensor | None:
        """ALiBi of the queries from ``start`` to ``end`` on the keys from 0 to ``end``."""
        if self.positions != "alibi":
            return None
        device = self.norm.weight.device
        queries = torch.arange(start, end, device=device)
        distance = queries[:, None] - torch.arange(end, device=device)
        slopes = torch.tensor(alibi_slopes(self.heads), device=device, dtype=torch.float64)
        return torch.where(distance < 0, -math.inf, -slopes[:, None, None] * distance)
