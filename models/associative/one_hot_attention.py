"""Linear attention between one-hot tokens: the model whose learning of facts goes by phases.

Nichani, Lee and Bietti 2025 (arXiv 2412.06538), sequential learning and hallucination.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class OneHotAttention(nn.Module):
    """logits = Σ_t A(z_T, z_t) V(z_t, ·), without softmax and without division by the length.

    Args:
        vocabulary: tokens; A is (vocabulary, vocabulary).
        answers: classes; V is (vocabulary, answers).
        initial: every entry of A and V before training.

    Raises:
        ValueError: a size below 1.
    """

    def __init__(self, vocabulary: int, answers: int, *, initial: float = 1e-5) -> None:
        super().__init__()
        if min(vocabulary, answers) < 1:
            raise ValueError(
                f"attention needs at least one token and answer, got {vocabulary} and {answers}"
            )
        self.attention = nn.Parameter(torch.full((vocabulary, vocabulary), initial))
        self.value = nn.Parameter(torch.full((vocabulary, answers), initial))

    def forward(self, counts: Tensor, last: int) -> Tensor:
        """Logits (batch, answers) of how often each token is in each sequence (batch, vocabulary),
        where every sequence ends in the token ``last``."""
        # Every sequence ends in ``last``, so only this row of A acts, and has a gradient.
        return (counts * self.attention[last]) @ self.value
