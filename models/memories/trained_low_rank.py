"""A matrix of low rank trained until it recalls.

Nichani, Lee and Bietti 2025 (arXiv 2412.06538) prove what a matrix of rank m can store; they
publish no experiment, so the training is that of their linear memory with a step for two factors.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.memories.trained import TrainedMemory, Weights


class TrainedLowRank(TrainedMemory):
    """answer = k A B with A (key_size, rank) and B (rank, value_size), by AdamW on all pairs.

    Entries start from N(0, 1/key_size) and N(0, 1/rank), the same in each memory of a batch.

    Args:
        rank: m; above the smaller width nothing is gained.
        others: as ``models.memories.trained.TrainedMemory``.

    Raises:
        ValueError: a rank below 1.
    """

    left: Tensor
    right: Tensor

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        rank: int = 8,
        lr: float = 0.1,
        steps: int = 4096,
        check_every: int = 32,
        stop_at: float = 0.99,
        patience: int | None = None,
        replay: float = 1.0,
    ) -> None:
        super().__init__(
            key_size,
            value_size,
            lr=lr,
            steps=steps,
            check_every=check_every,
            stop_at=stop_at,
            patience=patience,
            replay=replay,
        )
        if rank < 1:
            raise ValueError(f"rank={rank} leaves nothing to train: give 1 or more")
        self.rank = self.inner_size = rank
        # Neither from zero: a factor has no gradient while the other is 0.
        self.register_buffer("left", torch.randn(key_size, rank) / key_size**0.5)
        self.register_buffer("right", torch.randn(rank, value_size) / rank**0.5)

    def initial(self, batch: int, like: Tensor) -> list[Tensor]:
        """A (batch, key_size, rank) and B (batch, rank, value_size)."""
        return [w.to(like).repeat(batch, 1, 1) for w in (self.left, self.right)]

    def outputs(self, weights: Weights, keys: Tensor) -> Tensor:
        """k A B."""
        left, right = weights
        return keys @ left @ right
