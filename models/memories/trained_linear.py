"""A matrix trained until it recalls: the linear memory of Nichani, Lee and Bietti.

Nichani, Lee and Bietti 2025, Understanding factual recall in transformers via associative memories
(arXiv 2412.06538), capacity of linear associative memories.
"""

from __future__ import annotations

from torch import Tensor

from models.memories.trained import TrainedMemory, Weights


class TrainedLinear(TrainedMemory):
    """answer = k W with W (key_size, value_size) from zero, by AdamW on all pairs at once.

    The published step size of 1000 makes it a perceptron: only the direction of W matters.

    Args:
        as ``models.memories.trained.TrainedMemory``.
    """

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        lr: float = 1000.0,
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

    def initial(self, batch: int, like: Tensor) -> list[Tensor]:
        """W of zeros, (batch, key_size, value_size)."""
        return [like.new_zeros(batch, self.key_size, self.value_size)]

    def outputs(self, weights: Weights, keys: Tensor) -> Tensor:
        """k W."""
        return keys @ weights[0]
