"""The memory of the Titans README with another optimiser, or with numbers as they are for keys.

S. Ghosh's README "Titans: Learning to memorise at test time" (github.com/suyash144/titans): Adam
might have avoided its training issues; numbers have to be tokens, since the network will else look
for a mathematical relation between them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.memories.stored_in_weights import StoredInWeights
from models.memories.trained import Weights


class StoredByOptimizer(StoredInWeights):
    """A :class:`models.memories.stored_in_weights.StoredInWeights`, trained otherwise.

    Args:
        key_size, value_size: as there.
        optimizer: "adam", which has no use for ``momentum``, or "sgd".
        tokens: with a vocabulary, whether a number is looked up in a table of vectors; else it is
            an input as it is, from -1 for 0 to 1 for ``vocabulary`` - 1.
        others: as there.

    Raises:
        ValueError: as there, or an unknown optimiser.
    """

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        optimizer: str = "adam",
        tokens: bool = True,
        hidden: int = 128,
        loss: str = "classes",
        lr: float = 0.01,
        steps: int = 200,
        batch_size: int = 64,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        clip: float | None = None,
        tolerance: float = 1e-5,
        check_every: int = 5,
        stop_at: float = 1.0,
        patience: int | None = None,
        replay: float = 1.0,
        vocabulary: int | None = None,
        embedding_size: int = 8,
    ) -> None:
        if optimizer not in ("adam", "sgd"):
            raise ValueError(f"optimizer={optimizer} is unknown: give adam or sgd")
        super().__init__(
            key_size,
            value_size,
            hidden=hidden,
            loss=loss,
            lr=lr,
            steps=steps,
            batch_size=batch_size,
            momentum=momentum,
            weight_decay=weight_decay,
            clip=clip,
            tolerance=tolerance,
            check_every=check_every,
            stop_at=stop_at,
            patience=patience,
            replay=replay,
            vocabulary=vocabulary if tokens else None,
            embedding_size=embedding_size,
        )
        self.adam, self.tokens = optimizer == "adam", tokens
        # Of numbers as they are too: keys are checked alike, and tasks see that keys are numbers.
        self.vocabulary = vocabulary

    def outputs(self, weights: Weights, keys: Tensor) -> Tensor:
        """The perceptron's answers, (batch, items, value_size)."""
        if self.tokens or self.vocabulary is None:
            return super().outputs(weights, keys)
        first, first_bias, second, second_bias = weights
        # Token numbers 0 … V − 1 on [−1, 1]: the perceptron sees their order, and no embedding.
        scaled = 2 * keys / max(self.vocabulary - 1, 1) - 1
        return torch.baddbmm(second_bias, torch.baddbmm(first_bias, scaled, first).relu(), second)

    def optimizer(self, weights: Weights) -> torch.optim.Optimizer:
        """Adam, or that of the README."""
        if not self.adam:
            return super().optimizer(weights)
        return torch.optim.Adam(weights, lr=self.lr, weight_decay=self.weight_decay)
