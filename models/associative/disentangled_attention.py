"""Two layers of attention whose streams of tokens and positions are kept apart: the setting in
which three gradient steps make an induction head.

Source: Bietti et al., "Birth of a Transformer: A Memory Viewpoint" (2023, arXiv 2306.00802),
section 5 (the theorem on three steps). Layer 1 looks by position alone: t sees
Σ_s softmax(p_tᵀ W_K¹ p_s) R e_{z_s}. Layer 2 looks from e_{z_t} at what layer 1 saw, through W_K²,
and reads e_{z_s}; logits are U W_O² of what was read. Nothing is scaled by √d.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from models.associative.two_layer_attention import Attended, causal_softmax, check_sizes

Embeddings = Literal["orthonormal", "gaussian"]


class DisentangledAttention(nn.Module):
    """As ``TwoLayerAttention`` without a residual stream; its three matrices start at zero.

    All embeddings are fixed, so a score depends on pairs of tokens or positions alone: scores are
    computed once for all pairs and looked up.

    Args:
        vocabulary: number of tokens.
        length: longest sequence.
        width: size of the embeddings, d.
        embeddings: "orthonormal", or "gaussian" with entries from N(0, 1/width).

    Raises:
        ValueError: unknown embeddings, a size below 1, or more orthonormal vectors than ``width``.
    """

    tokens: Tensor
    positions: Tensor
    readout: Tensor
    moved: Tensor

    def __init__(
        self,
        vocabulary: int,
        length: int,
        *,
        width: int = 256,
        embeddings: Embeddings = "orthonormal",
    ) -> None:
        super().__init__()
        check_sizes(vocabulary, length, width)
        if embeddings not in get_args(Embeddings):
            raise ValueError(f"embeddings={embeddings!r} is unknown: use orthonormal or gaussian")
        if embeddings == "orthonormal" and max(vocabulary, length) > width:
            raise ValueError(
                f"width={width} has no room for {max(vocabulary, length)} orthonormal vectors: "
                "raise width, or use embeddings=gaussian"
            )

        def drawn(rows: int) -> Tensor:
            normal = torch.randn(rows, width)
            if embeddings == "gaussian":
                return normal / math.sqrt(width)
            # Q of a Gaussian matrix: orthonormal rows in random directions.
            orthonormal: Tensor = torch.linalg.qr(normal.T).Q
            return orthonormal.T.contiguous()

        self.register_buffer("tokens", drawn(vocabulary))
        self.register_buffer("positions", drawn(length))
        self.register_buffer("readout", drawn(vocabulary))
        self.register_buffer("moved", drawn(width))
        self.output_2 = nn.Parameter(torch.zeros(width, width))
        self.key_2 = nn.Parameter(torch.zeros(width, width))
        self.key_1 = nn.Parameter(torch.zeros(width, width))

    def forward(self, inputs: Tensor) -> Tensor:
        """int64 (batch, time) -> logits (batch, time, vocabulary)."""
        return self.attend(inputs).logits

    def attend(self, inputs: Tensor) -> Attended:
        """Logits of int64 inputs (batch, time), and who looks where."""
        time = inputs.shape[1]
        first = causal_softmax(self.position_scores()[:time, :time])
        # Layer 1 leaves Σ_r first[s, r] R e_{z_r} at s, and the score of layer 2 is linear in that:
        # all pairs of tokens (batch, t, r) first, then their mean over r.
        pairs = self.token_scores()[inputs[:, :, None], inputs[:, None, :]]
        second = causal_softmax(pairs @ first.T)
        return Attended(second @ self.output_scores()[inputs], first, second)

    def output_scores(self) -> Tensor:
        """What W_O² stores: score of each output (column) for each attended token (row),
        (vocabulary, vocabulary)."""
        return self.tokens @ (self.readout @ self.output_2).T

    def token_scores(self) -> Tensor:
        """What W_K² stores: how much a token (row) looks for a position that follows a token
        (column), (vocabulary, vocabulary)."""
        return self.tokens @ self.key_2 @ self.moved @ self.tokens.T

    def position_scores(self) -> Tensor:
        """What W_K¹ stores: how much a position (row) looks at a position (column),
        (length, length)."""
        return self.positions @ self.key_1 @ self.positions.T
