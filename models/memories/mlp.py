"""A perceptron with one hidden layer trained until it recalls.

Nichani, Lee and Bietti 2025 (arXiv 2412.06538), capacity of MLP associative memories.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.memories.trained import TrainedMemory, Weights


class MLP(TrainedMemory):
    """answer = relu(k V + b) W with m hidden units, by AdamW on all pairs at once.

    V (key_size, m) and W (m, value_size) start from N(0, 1/fan-in), the same in each memory of a
    batch, and b (m,) at zero; W has no bias.

    Args:
        expansion: m / key_size; m is rounded.
        others: as ``models.memories.trained.TrainedMemory``.

    Raises:
        ValueError: no hidden unit.
    """

    first: Tensor
    second: Tensor

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        expansion: float = 1.0,
        lr: float = 0.03,
        steps: int = 32768,
        check_every: int = 256,
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
        hidden = round(expansion * key_size)
        if hidden < 1:
            raise ValueError(
                f"expansion={expansion} of keys of width {key_size} leaves no hidden unit: give "
                f"at least {1 / key_size:g}"
            )
        self.inner_size = hidden
        # Normal with 1/fan-in: the initialisation of the published code (LeCun's).
        self.register_buffer("first", torch.randn(key_size, hidden) / key_size**0.5)
        self.register_buffer("second", torch.randn(hidden, value_size) / hidden**0.5)

    def initial(self, batch: int, like: Tensor) -> list[Tensor]:
        """V (batch, key_size, m), b (batch, 1, m) and W (batch, m, value_size)."""
        first, second = (w.to(like).repeat(batch, 1, 1) for w in (self.first, self.second))
        return [first, like.new_zeros(batch, 1, first.shape[-1]), second]

    def outputs(self, weights: Weights, keys: Tensor) -> Tensor:
        """relu(k V + b) W."""
        first, bias, second = weights
        # (batch, items, m); one kernel for product and bias.
        return torch.baddbmm(bias, keys, first).relu() @ second
