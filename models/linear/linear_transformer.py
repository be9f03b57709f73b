"""Linear transformer (Katharopoulos, Vyas, Pappas and Fleuret 2020, "Transformers are RNNs", arXiv
2006.16236, equations 9 to 12 and 16 to 20): attention without a softmax, which is a sum."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.heads import head_width
from models.layers.linear_recurrence import linear_recurrence
from models.layers.positions import add_positions
from models.layers.recurrence.mixer import (
    Neighbours,
    RecurrentMixer,
    RecurrentModel,
    count_more,
    linear,
)
from models.layers.recurrence.writes import Writes
from models.layers.residual import STANDARD_DEVIATION, ResidualBlock
from models.specification import SequenceSpecification

FeatureMap = Literal["elu", "none"]
Positions = Literal["learned", "none"]
SMALLEST_NORMALISER = 1e-6


class MixerState(NamedTuple):
    """Inputs that the convolution still sees, and the memory of each head; with a normaliser the
    last column of the memory is the sum of the keys."""

    past: Tensor
    memory: Tensor


class LinearAttention(RecurrentMixer):
    """y_t = Σ_{s<=t} (φ(q_t)·φ(k_s)) v_s, divided by Σ_{s<=t} φ(q_t)·φ(k_s) if it is normalised.

    φ(x) = elu(x) + 1, or x with products scaled by 1/√(head width). Maps have biases.

    Args:
        width: hidden channels, a multiple of ``heads``.
        heads: memories of the layer.
        feature_map: "elu" or "none".
        normaliser: whether weights sum to 1.
        convolution: positions that a convolution over q, k and v sees; 1 has none.
        score_dropout: probability, in training, that a position does not read another.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        feature_map: FeatureMap,
        normaliser: bool,
        convolution: int,
        score_dropout: float,
    ) -> None:
        super().__init__()
        self.width, self.heads, self.head_width = width, heads, head_width(width, heads)
        self.feature_map, self.normaliser = feature_map, normaliser
        self.score_dropout = score_dropout
        self.projection = linear(width, 3 * width, bias=True)
        self.neighbours = Neighbours(3 * width, convolution)
        self.output_projection = nn.Linear(width, width)

    @property
    def state_size(self) -> int:
        """The memories, with a column for the normaliser, and what the convolution still sees."""
        columns = self.head_width + self.normaliser
        return self.width * columns + self.neighbours.state_size

    def advance(self, hidden: Tensor, state: MixerState | None) -> tuple[Tensor, MixerState]:
        """A piece of a sequence, (batch, time, width) -> (batch, time, width)."""
        seen, past = self.neighbours(self.projection(hidden), state.past if state else None)
        queries, keys, values = seen.unflatten(-1, (3, self.heads, -1)).unbind(-3)
        if self.feature_map == "elu":
            queries, keys = functional.elu(queries) + 1, functional.elu(keys) + 1
        else:
            # Without φ a product has both signs, and no divisor sets its scale.
            queries = queries * self.head_width**-0.5
        if self.normaliser:
            # A column of ones: Sᵀ q then ends in Σ φ(k_s)·φ(q), the normaliser.
            values = torch.cat((values, torch.ones_like(values[..., :1])), -1)
        memory = state.memory if state else None
        # A step from a memory has no single scores to drop; only whole sequences are trained.
        if self.training and self.score_dropout and memory is None:
            outputs, memory = self._drop_scores(queries, keys, values)
        else:
            outputs, memory = linear_recurrence(queries, Writes(keys, values), memory)
        if self.normaliser:
            # φ = elu + 1 is positive in float32 until x < −17; ε is for what lies below.
            outputs = outputs[..., :-1] / (outputs[..., -1:] + SMALLEST_NORMALISER)
        return self.output_projection(outputs.flatten(2)), MixerState(past, memory)

    def _drop_scores(self, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All pairs of positions at once, for each can be dropped."""
        q, k, v = (x.transpose(1, 2) for x in (queries, keys, values))
        # Masked by multiplication, as the study does: 0, not −∞, because there is no softmax.
        scores = functional.dropout((q @ k.mT).tril(), self.score_dropout)
        # The memory is not thinned by dropout: only readings of this pass are.
        return (scores @ v).transpose(1, 2), k.mT @ v


class State(NamedTuple):
    """The state of a whole model: a counter of positions, and the states of its blocks."""

    counter: Tensor
    blocks: list[MixerState]


class LinearTransformer(RecurrentModel):
    """Linear attention in pre-norm residual blocks.

    Args:
        specification: shapes of the task; ``maximum_length`` is the size of a learned table.
        width: hidden channels, a multiple of ``heads``.
        layers: number of blocks.
        heads: memories of each block.
        feature_map: "elu" or "none".
        normaliser: whether weights sum to 1; needs a feature map that is positive.
        convolution: positions that a convolution over queries, keys and values sees; 1 has none.
        positions: "learned" table added to the embedding, or "none".
        score_dropout: probability, on the products of queries and keys. Training then costs the
            square of the length.
        mlp: false leaves the MLP of each block out.
        dropout: probability, on the embedded inputs.

    Raises:
        ValueError: an unknown word, or a normaliser without a feature map.
    """

    def __init__(
        self,
        specification: SequenceSpecification,
        *,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        feature_map: FeatureMap = "elu",
        normaliser: bool = True,
        convolution: int = 1,
        positions: Positions = "none",
        score_dropout: float = 0.0,
        mlp: bool = True,
        dropout: float = 0.1,
    ) -> None:
        for name, word, words in (
            ("feature_map", feature_map, get_args(FeatureMap)),
            ("positions", positions, get_args(Positions)),
        ):
            if word not in words:
                raise ValueError(f"{name}={word!r} is unknown; choose one of {', '.join(words)}")
        if normaliser and feature_map == "none":
            raise ValueError(
                "without a feature map weights have both signs and their sum passes through zero; "
                "set normaliser=false or feature_map=elu"
            )
        mixers = [
            LinearAttention(
                width,
                heads,
                feature_map=feature_map,
                normaliser=normaliser,
                convolution=convolution,
                score_dropout=score_dropout,
            )
            for _ in range(layers)
        ]
        super().__init__(specification, width, mixers, mlp=mlp, dropout=dropout)
        self.position_table: nn.Embedding | None = None
        if positions == "learned":
            self.position_table = nn.Embedding(specification.maximum_length, width)
            nn.init.normal_(self.position_table.weight, std=STANDARD_DEVIATION)

    @property
    def context_limit(self) -> int | None:
        """Positions in a learned table; None where any number will do."""
        return None if self.position_table is None else self.position_table.num_embeddings

    def position_parameters(self) -> int:
        """Parameters of the table of positions, which published sizes leave out."""
        return 0 if self.position_table is None else self.position_table.weight.numel()

    def walk(self, embedded: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Through the blocks; positions count from 0.

        Raises:
            ValueError: the sequence is longer than a learned table of positions.
        """
        # The table of positions needs to know how many came before, which the memories do not.
        start, counter = count_more(state.counter if state else None, embedded)
        hidden = self.dropout(add_positions(embedded, self.position_table, start))
        after = []
        for index, block in enumerate(self.blocks):
            assert isinstance(block, ResidualBlock)
            assert isinstance(block.mixer, LinearAttention)
            block_state = state.blocks[index] if state else None
            mixed, following = block.mixer.advance(block.mixer_norm(hidden), block_state)
            hidden = self.finish(block, hidden, mixed)
            after.append(following)
        return hidden, State(counter, after)
