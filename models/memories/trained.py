"""Memories whose weights are trained inside ``write``, until they recall what was stored.

Nichani, Lee and Bietti 2025, Understanding factual recall in transformers via associative memories
(arXiv 2412.06538), experiments on associative memories: the values that were stored are classes,
scored by their inner product with what the weights answer.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from models.memories.interface import Memory, Reading, bytes_of

Weights = Sequence[Tensor]  # each (batch, rows, columns), one slice for each memory


class TrainedMemory(Memory):
    """Weights, the distinct values that were stored, and pairs that are kept to be trained again.

    Each ``write`` trains on its pairs and on those kept, from the present weights on, and keeps
    the weights of the check with the best recall. Training keeps no graph: gradients reach the
    keys of a ``read``, not what was written. The confidence is the largest cosine between what the
    weights answer and a stored value, in [-1, 1]. float16 and bfloat16 are trained in float32.

    Args:
        key_size, value_size: widths of keys and values.
        lr: step size.
        steps: at most so many passes over the pairs in one ``write``.
        check_every: passes between two checks of the recall.
        stop_at: share of pairs recalled at which training ends. May be set later too: a measurement
            that asks for less need not wait for more.
        patience: checks in a row without a better recall after which it gives up; None: never.
        replay: share of the pairs of each ``write`` that is kept and trained again by later ones.

    Raises:
        ValueError: a setting outside its range.
    """

    lowest_confidence = -1.0
    inner_size: int | None = None  # m, of memories with a layer between keys and values
    stop_at: float
    _weights: list[Tensor]

    def __init__(
        self,
        key_size: int,
        value_size: int,
        *,
        lr: float,
        steps: int,
        check_every: int,
        stop_at: float,
        patience: int | None,
        replay: float,
    ) -> None:
        super().__init__(key_size, value_size)
        if not lr > 0 or not math.isfinite(lr):
            raise ValueError(f"lr={lr} is no step size: give a number above 0")
        if steps < 1 or check_every < 1:
            raise ValueError(
                f"steps={steps} and check_every={check_every} count passes over what is stored: "
                "give 1 or more of each"
            )
        if not 0 < stop_at <= 1 or not 0 <= replay <= 1:
            raise ValueError(
                f"stop_at={stop_at} and replay={replay} are shares: give numbers up to 1, the "
                "first above 0 and the other at least 0"
            )
        if patience is not None and patience < 1:
            raise ValueError(f"patience={patience} counts checks: give 1 or more, or null")
        self.lr, self.steps, self.check_every = lr, steps, check_every
        self.patience = patience
        self.stop_at, self.replay = stop_at, replay
        self._reset()

    @abstractmethod
    def initial(self, batch: int, like: Tensor) -> list[Tensor]:
        """Weights before training, each (batch, rows, columns), like ``like``."""

    @abstractmethod
    def outputs(self, weights: Weights, keys: Tensor) -> Tensor:
        """What weights answer, (batch, items, value_size), for keys (batch, items, key_size)."""

    def optimizer(self, weights: Weights) -> torch.optim.Optimizer:
        """Here AdamW without weight decay. Any other moves each entry by its own gradient alone
        too, so that a batch is independent memories."""
        return torch.optim.AdamW(weights, lr=self.lr, weight_decay=0.0, fused=True)

    def batches(self, items: int) -> Iterator[Tensor | slice]:
        """The pairs of each step of one pass; here all of them."""
        yield slice(None)

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The sum over the batch of each memory's mean loss.

        Args:
            outputs: (batch, items, value_size).
            labels: int64 (batch, items), the class of each pair.
        """
        logits = self.logits(outputs).flatten(0, 1)
        # The mean over items, the sum over memories: a memory trains as it would alone.
        return F.cross_entropy(logits, labels.flatten(), reduction="sum") / labels.shape[1]

    def check(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """How good each memory is (batch,), higher is better, and whether that is enough."""
        right = self.logits(outputs).argmax(-1) == labels
        recall = (right & outputs.isfinite().all(-1)).double().mean(-1)
        return recall, recall >= self.stop_at - 1e-9  # for shares such as 0.99 of 100

    def logits(self, outputs: Tensor) -> Tensor:
        """(batch, items, classes): inner products with the stored values."""
        scores = outputs @ self._classes.mT
        if not self._padded:
            return scores
        # Padding repeats a class, which would count twice in the softmax.
        return scores.masked_fill(~self._present[:, None], torch.finfo(scores.dtype).min)

    def before_step(self, weights: Weights) -> None:
        """Called between the gradient and the step; may change gradients."""

    def weights_in_bytes(self) -> int:
        """Bytes of the weights alone. 0 when empty."""
        return bytes_of(*self._weights)

    def size_in_bytes(self) -> int:
        """Weights, scale, distinct values, and the pairs that are kept, their values as numbers of
        a class."""
        tensors = (self._scale, self._classes, self._present, self._keys, self._labels)
        return self.weights_in_bytes() + bytes_of(*tensors)

    def _write(self, keys: Tensor, values: Tensor) -> None:
        with torch.enable_grad():
            # Half-precision weights would not feel small steps.
            working = torch.promote_types(keys.dtype, torch.float32)
            batch = math.prod(keys.shape[:-2])
            flat = (x.detach().to(working, copy=True) for x in (keys, values))
            new_keys, new_values = (x.reshape(batch, *x.shape[-2:]) for x in flat)
            self._write_flat(new_keys, new_values)

    def _write_flat(self, keys: Tensor, values: Tensor) -> None:
        if not self._weights:
            self._weights = self.initial(len(keys), keys)
            self._keys = keys[:, :0]
            self._labels = keys.new_zeros(len(keys), 0, dtype=torch.int64)
            self._classes = values[:, :0]
        classes_before = self._classes.shape[1]
        self._classes, self._present, place = distinct(torch.cat([self._classes, values], dim=1))
        self._padded = not bool(self._present.all())
        # Classes are sorted anew with each write, so old labels move to their new places.
        old = place[:, :classes_before].gather(1, self._labels)
        all_keys = torch.cat([self._keys, keys], dim=1)
        labels = torch.cat([old, place[:, classes_before:]], dim=1)
        self._train(all_keys, labels)
        items = keys.shape[1]
        replayed = round(self.replay * items)
        # Every (1/replay)-th pair, evenly from first to last, without a generator.
        chosen = torch.arange(replayed, device=keys.device) * items // max(replayed, 1)
        chosen = torch.cat([torch.arange(old.shape[1], device=keys.device), old.shape[1] + chosen])
        self._keys, self._labels = all_keys[:, chosen], labels[:, chosen]

    def _train(self, keys: Tensor, labels: Tensor) -> None:
        weights = [weight.clone().requires_grad_() for weight in self._weights]
        optimizer = self.optimizer(weights)
        best = torch.full((len(keys),), -math.inf, dtype=torch.float64, device=keys.device)
        done = torch.zeros_like(best, dtype=torch.bool)
        stale = torch.zeros_like(best)
        for step in range(self.steps + 1):
            if step % self.check_every == 0 or step == self.steps:
                with torch.no_grad():
                    score, enough = self.check(self.outputs(weights, keys), labels)
                    better = (score >= best) & ~done  # of equal ones the latest, until it is done
                    self._weights = [
                        torch.where(better[:, None, None], new, old).detach()
                        for new, old in zip(weights, self._weights, strict=True)
                    ]
                stale = torch.where(score > best, 0, stale + 1)
                best, done = torch.maximum(best, score), done | enough
                if self.patience is not None:
                    done |= stale >= self.patience
                if step == self.steps or done.all():
                    break
            for chosen in self.batches(keys.shape[1]):
                self.step(weights, optimizer, keys[:, chosen], labels[:, chosen])
        self._scale = self.fitted_scale(keys, labels)

    def step(
        self, weights: Weights, optimizer: torch.optim.Optimizer, keys: Tensor, labels: Tensor
    ) -> None:
        """One step on pairs: keys (batch, items, key_size), labels (batch, items)."""
        optimizer.zero_grad()
        self.loss(self.outputs(weights, keys), labels).backward()
        self.before_step(weights)
        optimizer.step()

    def stored_values(self, labels: Tensor) -> Tensor:
        """(batch, items, value_size) of labels (batch, items)."""
        return self._classes.gather(1, labels[..., None].expand(-1, -1, self._classes.shape[-1]))

    def fitted_scale(self, keys: Tensor, labels: Tensor) -> Tensor:
        """The factor (batch, 1, 1) that brings answers nearest to the values: to an inner product
        their length means nothing."""
        with torch.no_grad():
            answers = self.outputs(self._weights, keys)
            squares = (answers * answers).sum((-1, -2))
            scale = (answers * self.stored_values(labels)).sum((-1, -2)) / squares
            return torch.where(squares > 0, scale, 1.0)[:, None, None]

    def _read(self, keys: Tensor) -> Reading:
        flat = keys.reshape(len(self._classes), *keys.shape[-2:]).to(self._classes.dtype)
        answers = self.outputs(self._weights, flat)
        values = (answers * self._scale).reshape(*keys.shape[:-1], self.value_size)
        confidence = self.confidence(answers).reshape(keys.shape[:-1])
        return Reading(values.to(keys.dtype), confidence.to(keys.dtype))

    def confidence(self, answers: Tensor) -> Tensor:
        """(batch, items): the largest cosine with a stored value."""
        # Directions: trained by inner products, answers have no length that means anything.
        cosines = F.normalize(answers, dim=-1) @ F.normalize(self._classes, dim=-1).mT
        return cosines.amax(-1)

    def _reset(self) -> None:
        nothing = torch.empty(0)
        self._weights = []
        self._scale, self._keys, self._classes = nothing, nothing, nothing
        self._present, self._labels, self._padded = nothing, nothing, False


def distinct(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The different vectors of each batch element.

    Args:
        values: (batch, items, size).

    Returns:
        The vectors (batch, classes, size), where one that has fewer repeats its first; which of
        them count, bool (batch, classes); and the class of each item, int64 (batch, items).
    """
    # One memory at a time: the number of classes differs between them.
    unique = [torch.unique(element, dim=0, return_inverse=True) for element in values]
    most = max(len(classes) for classes, _ in unique)
    padded = [torch.cat([c, c[:1].expand(most - len(c), -1)]) for c, _ in unique]
    counts = torch.tensor([len(classes) for classes, _ in unique], device=values.device)
    present = torch.arange(most, device=values.device) < counts[:, None]
    return torch.stack(padded), present, torch.stack([place for _, place in unique])
