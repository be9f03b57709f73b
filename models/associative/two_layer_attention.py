"""The transformer in which an induction head is three associative memories.

Source: Bietti et al., "Birth of a Transformer: A Memory Viewpoint" (2023, arXiv 2306.00802),
section 4: two layers of one head, no normalisation, queries not transformed; of the matrices only
W_K¹, W_K² and W_O² are trained (and W_F, if there is one), all others stay random.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Attended(NamedTuple):
    """Logits (batch, time, vocabulary) and the attention of both layers, each (time, time) for all
    sequences or (batch, time, time); row: the position that looks."""

    logits: Tensor
    first: Tensor
    second: Tensor


class TwoLayerAttention(nn.Module):
    """x⁰ = e + p, then xˡ = xˡ⁻¹ + W_Oˡ W_Vˡ attention(xˡ⁻¹) in two layers; logits are U x².

    Attention scores are x_tᵀ W_K x_s / √width over s <= t. Embeddings of tokens and positions are
    N(0, 1) in every entry; matrices start uniform in ±1/√width, as linear layers of PyTorch do.

    Args:
        vocabulary: number of tokens.
        length: longest sequence.
        width: size of the hidden vectors, d.
        feed_forward: a linear W_F after the second layer, x³ = x² + W_F x².

    Attributes:
        output_2: W_O² (width, width).
        key_2: W_K² (width, width), as it stands between x_t on the left and x_s on the right.
        key_1: W_K¹, likewise.

    Raises:
        ValueError: a size below 1.
    """

    tokens: Tensor
    positions: Tensor
    readout: Tensor
    moved: Tensor
    value_2: Tensor

    def __init__(
        self, vocabulary: int, length: int, *, width: int = 128, feed_forward: bool = False
    ) -> None:
        super().__init__()
        check_sizes(vocabulary, length, width)
        # Buffers: drawn once, saved with the model and never trained.
        self.register_buffer("tokens", torch.randn(vocabulary, width))
        self.register_buffer("positions", torch.randn(length, width))
        self.register_buffer("readout", _linear(vocabulary, width))
        # W_O¹ W_V¹: both stay random, so only their product acts.
        self.register_buffer("moved", _linear(width, width) @ _linear(width, width))
        self.register_buffer("value_2", _linear(width, width))
        self.output_2 = nn.Parameter(_linear(width, width))
        self.key_2 = nn.Parameter(_linear(width, width))
        self.key_1 = nn.Parameter(_linear(width, width))
        self.feed_forward = nn.Parameter(_linear(width, width)) if feed_forward else None

    def forward(self, inputs: Tensor) -> Tensor:
        """int64 (batch, time) -> logits (batch, time, vocabulary)."""
        return self.attend(inputs).logits

    def attend(self, inputs: Tensor) -> Attended:
        """Logits of int64 inputs (batch, time), and who looks where."""
        hidden = self.tokens[inputs] + self.positions[: inputs.shape[1]]
        # x_tᵀ W_K x_s, with W_Q = 1.
        first = causal_softmax(hidden @ self.key_1 @ hidden.mT / math.sqrt(hidden.shape[-1]))
        hidden = hidden + first @ hidden @ self.moved.T
        second = causal_softmax(hidden @ self.key_2 @ hidden.mT / math.sqrt(hidden.shape[-1]))
        hidden = hidden + second @ hidden @ (self.output_2 @ self.value_2).T
        if self.feed_forward is not None:
            hidden = hidden + hidden @ self.feed_forward.T
        return Attended(hidden @ self.readout.T, first, second)

    def output_scores(self) -> Tensor:
        """What W_O² stores: score of each output (column) for each attended token (row),
        (vocabulary, vocabulary)."""
        # Row k: U W_O² W_V² e_k, what attending to k says about the output.
        return self.tokens @ (self.readout @ self.output_2 @ self.value_2).T

    def token_scores(self) -> Tensor:
        """What W_K² stores: how much a token (row) looks for a position that follows a token
        (column), (vocabulary, vocabulary)."""
        # e_kᵀ W_K² W_O¹ W_V¹ e_j: layer 2 looks for what layer 1 wrote of the token before.
        return self.tokens @ self.key_2 @ self.moved @ self.tokens.T

    def position_scores(self) -> Tensor:
        """What W_K¹ stores: how much a position (row) looks at a position (column),
        (length, length)."""
        return self.positions @ self.key_1 @ self.positions.T

    def bigram_logits(self) -> Tensor | None:
        """What W_F stores: logits of the next token (column) for each token (row); None without."""
        if self.feed_forward is None:
            return None
        return self.tokens @ (self.readout @ self.feed_forward).T


def causal_softmax(scores: Tensor) -> Tensor:
    """Softmax of scores (..., time, time) over the columns up to the row."""
    time = scores.shape[-1]
    future = torch.ones(time, time, dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(future, -math.inf).softmax(-1)


def check_sizes(vocabulary: int, length: int, width: int) -> None:
    """Refuse sizes that make no model.

    Raises:
        ValueError: one of them is too small.
    """
    if vocabulary < 2 or length < 2 or width < 1:
        raise ValueError(
            f"vocabulary={vocabulary}, length={length} and width={width} make no model: give at "
            "least 2, 2 and 1"
        )


def _linear(rows: int, columns: int) -> Tensor:
    # Uniform on ±1/√columns, as ``nn.Linear`` starts.
    return (2 * torch.rand(rows, columns) - 1) / math.sqrt(columns)
