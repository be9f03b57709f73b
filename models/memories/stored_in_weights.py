"""The memory of the Titans README: pairs are stored in the weights of a small perceptron by SGD.

S. Ghosh's README "Titans: Learning to memorise at test time" (github.com/suyash144/titans), which
takes from Behrouz et al. 2025 (arXiv 2501.00663) that a memory is learned by online regression.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from models.memories.interface import Reading
from models.memories.trained import TrainedMemory, Weights


class StoredInWeights(TrainedMemory):
    """answer = relu(k V + b) W + c, by SGD with momentum on shuffled batches of pairs.

    The stable form takes the stored values as classes and clips gradients. The original form
    (``loss="squared"``) regresses on values as they are; it can diverge, then answers NaN and
    has a confidence of -1. Its confidence is 2 / (1 + δ²) - 1 at distance δ from the nearest value.

    Args:
        hidden: units of the hidden layer.
        loss: "classes" or "squared" (the mean squared error).
        tolerance: mean loss at which the squared form stops.
        batch_size: pairs in a step.
        momentum, weight_decay: those of SGD; each ``write`` starts at rest.
        clip: largest norm of a memory's gradient, or None.
        online: one pass, one pair a step, in the order written, by plain SGD, and nothing is
            replayed. Momentum, replay, steps and batches have no effect. In the squared form many
            calls of ``write`` are one; with classes, a step knows those of its own call and before.
        vocabulary: where keys are numbers of tokens, such as (3, 14, 159), how many tokens there
            are: a table of vectors (vocabulary, embedding_size) is then part of the weights.
        others: as ``models.memories.trained.TrainedMemory``; ``steps`` are epochs.

    Raises:
        ValueError: a setting outside its range; on ``write`` and ``read``, a key that is no token.
    """

    first: Tensor

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        hidden: int = 128,
        loss: str = "classes",
        lr: float = 0.5,
        steps: int = 200,
        batch_size: int = 64,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        clip: float | None = 1.0,
        tolerance: float = 1e-5,
        check_every: int = 5,
        stop_at: float = 1.0,
        patience: int | None = None,
        replay: float = 1.0,
        online: bool = False,
        vocabulary: int | None = None,
        embedding_size: int = 8,
    ) -> None:
        super().__init__(
            key_size,
            value_size,
            lr=lr,
            steps=1 if online else steps,
            check_every=check_every,
            stop_at=stop_at,
            patience=patience,
            replay=0.0 if online else replay,
        )
        if loss not in ("classes", "squared"):
            raise ValueError(f"loss={loss} is unknown: give classes or squared")
        if min(hidden, batch_size, embedding_size) < 1 or (
            vocabulary is not None and vocabulary < 1
        ):
            raise ValueError("hidden, batch_size, embedding_size and vocabulary are at least 1")
        if not 0 <= momentum < 1 or weight_decay < 0 or tolerance < 0:
            raise ValueError(
                f"momentum={momentum}, weight_decay={weight_decay} and tolerance={tolerance}: "
                "the first is from 0 to below 1 and the others are not below 0"
            )
        if clip is not None and not clip > 0:
            raise ValueError(f"clip={clip} is no norm: give a number above 0, or null")
        self.squared, self.tolerance, self.online = loss == "squared", tolerance, online
        self.batch_size = 1 if online else batch_size
        self.momentum = 0.0 if online else momentum
        self.weight_decay, self.clip = weight_decay, clip
        self.vocabulary = vocabulary
        width = key_size if vocabulary is None else key_size * embedding_size
        if vocabulary is not None:
            self.register_buffer("table", torch.randn(vocabulary, embedding_size))
        for name, shape, inputs in (
            ("first", (width, hidden), width),
            ("first_bias", (1, hidden), width),
            ("second", (hidden, value_size), hidden),
            ("second_bias", (1, value_size), hidden),
        ):
            # PyTorch's start of linear layers: U(±1/√inputs), biases too.
            self.register_buffer(name, (torch.rand(shape) * 2 - 1) / inputs**0.5)
        self.inner_size = hidden
        # The shuffles of every ``write`` start from this seed, whatever was drawn in between.
        self._order = int(torch.randint(2**62, ()))

    def initial(self, batch: int, like: Tensor) -> list[Tensor]:
        """V, b, W and c, and the table of tokens in front of them, each (batch, ...)."""
        return [buffer.to(like).repeat(batch, 1, 1) for buffer in self.buffers()]

    def outputs(self, weights: Weights, keys: Tensor) -> Tensor:
        """The perceptron's answers, (batch, items, value_size)."""
        first, first_bias, second, second_bias = weights[-4:]
        if self.vocabulary is not None:
            # (batch, 1, 1): each memory looks up its own table; then (batch, items, key_size ·
            # embedding).
            each = torch.arange(len(keys), device=keys.device)[:, None, None]
            keys = weights[0][each, keys.long()].flatten(-2)
        return torch.baddbmm(second_bias, torch.baddbmm(first_bias, keys, first).relu(), second)

    def _write(self, keys: Tensor, values: Tensor) -> None:
        self._check_tokens(keys)
        super()._write(keys, values)

    def _read(self, keys: Tensor) -> Reading:
        self._check_tokens(keys)
        return super()._read(keys)

    def _check_tokens(self, keys: Tensor) -> None:
        if self.vocabulary is None:
            return
        if (keys != keys.round()).any() or keys.amin() < 0 or keys.amax() >= self.vocabulary:
            raise ValueError(
                f"keys are numbers of tokens here, whole and from 0 to {self.vocabulary - 1}: give "
                "such keys, or vocabulary=null for vectors"
            )

    def _train(self, keys: Tensor, labels: Tensor) -> None:
        self._shuffling = torch.Generator().manual_seed(self._order)
        if not self.online:
            super()._train(keys, labels)
            return
        weights = [weight.clone().requires_grad_() for weight in self._weights]
        optimizer = self.optimizer(weights)
        # The order of the calls is the order of the items: no shuffling, nothing is seen twice.
        for item in range(keys.shape[1]):
            self.step(weights, optimizer, keys[:, item : item + 1], labels[:, item : item + 1])
        self._weights = [weight.detach() for weight in weights]
        self._scale = self.fitted_scale(keys, labels)

    def fitted_scale(self, keys: Tensor, labels: Tensor) -> Tensor:
        """1 in the squared form, whose answers are values as they are."""
        if self.squared or self.online:
            return keys.new_ones(len(keys), 1, 1)
        return super().fitted_scale(keys, labels)

    def optimizer(self, weights: Weights) -> torch.optim.Optimizer:
        """SGD with momentum."""
        return torch.optim.SGD(
            weights, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
        )

    def batches(self, items: int) -> Iterator[Tensor | slice]:
        """Shuffled batches."""
        order = torch.randperm(items, generator=self._shuffling).to(self.first.device)
        yield from order.split(self.batch_size)

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy over the stored values, or the mean squared error."""
        if not self.squared:
            return super().loss(outputs, labels)
        # Mean over items and channels of each memory, then the sum: gradients do not depend on the
        # batch.
        return (outputs - self.stored_values(labels)).square().mean((-1, -2)).sum()

    def check(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Recall; in the squared form minus the loss, and weights that diverged are kept."""
        if not self.squared:
            return super().check(outputs, labels)
        loss = (outputs - self.stored_values(labels)).square().mean((-1, -2)).double()
        diverged = ~loss.isfinite()  # it never comes back, and must be seen
        return torch.where(diverged, math.inf, -loss), diverged | (loss < self.tolerance)

    def before_step(self, weights: Weights) -> None:
        """Each memory's gradient is shortened to the norm ``clip``."""
        if self.clip is None:
            return
        gradients = [w.grad for w in weights if w.grad is not None]
        squares = sum(g.square().flatten(1).sum(1) for g in gradients)
        assert isinstance(squares, Tensor)
        # 1e-12: no 0/0 for a gradient of zeros
        factor = (self.clip / squares.sqrt().clamp_min(1e-12)).clamp_max(1.0)
        for gradient in gradients:
            gradient *= factor[:, None, None]

    def confidence(self, answers: Tensor) -> Tensor:
        """The largest cosine, or how near a stored value is; (batch, items)."""
        if not self.squared:
            return super().confidence(answers)
        squares = torch.cdist(answers, self._classes).square().amin(-1)
        # from 1 at a stored value to −1 far away
        return (2 / (1 + squares) - 1).nan_to_num(self.lowest_confidence)
