"""Copying after a fixed delay: numbers, or tokens.

Source: the two "postcasting" tasks of CogScale (arXiv 2605.19758, package cogscale 0.2.0). Here
sequences are drawn anew in every batch, and numbers have variance 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from tasks.generated import Array, GeneratedTask
from tasks.interface import IGNORED, Batch, Metric

CERTAIN = 30.0  # logit of a predictor that gives one token nearly all probability


class _DelayedCopy(GeneratedTask):
    """What both forms share: sizes, and the predictors that need no training.

    Args:
        length: T, positions of a sequence.
        delay: k; the answer at position t is the input at t − k, and nothing is asked before k.
        evaluation_sequences: how many sequences validation and test have, each.
        data_seed: seed of all data; the run's seed is mixed into the training batches.

    Raises:
        ValueError: a number out of range, or a delay of the whole sequence or more.
    """

    def __init__(
        self, length: int = 64, delay: int = 10, evaluation_sequences: int = 256, data_seed: int = 0
    ) -> None:
        super().__init__(evaluation_sequences, data_seed)
        if not 0 <= delay < length:
            raise ValueError(f"delay={delay}: give a number from 0 to less than length={length}")
        self.length, self.delay = length, delay

    def asked(self, shape: tuple[int, ...]) -> Array:
        """Where an answer is asked for: bool (count, time)."""
        # Before that nothing was read that could be asked for.
        return np.broadcast_to(np.arange(shape[1]) >= self.delay, shape[:2])

    def shifted(self, inputs: Array, delay: int) -> Array:
        """The inputs of ``delay`` positions earlier, (count, time, …); the first ones stand where
        there are none."""
        # The first input fills the start, where nothing is asked.
        return inputs[:, np.maximum(np.arange(inputs.shape[1]) - delay, 0)]


class DelayedCopy(_DelayedCopy):
    """Name the number that was read ``delay`` positions ago.

    Numbers are independent and uniform over [−√3, √3], so that an error of 1 is that of whoever
    answers 0. ``error`` is the mean square over positions that are asked for.

    Example: ``length=6, delay=2``, the first training sequence of seed 0; nothing is asked at dots:

        input   -1.69 -0.90 -1.35  0.22  0.01 -0.77
        target    .     .   -1.69 -0.90 -1.35  0.22
    """

    channels, outputs = 1, 1
    headline = Metric("error", "minimise")

    def draw(self, generator: np.random.Generator, count: int) -> tuple[Array, ...]:
        """Real inputs and targets (count, time, 1), and where answers are asked for."""
        largest = math.sqrt(3)  # variance 1
        inputs = generator.uniform(-largest, largest, (count, self.length, 1)).astype(np.float32)
        return inputs, self.shifted(inputs, self.delay), self.asked(inputs.shape)

    def predictors(self) -> Mapping[str, Callable[[Batch], Array]]:
        """The latest number, and the right one."""
        return {
            "latest input": lambda batch: batch.inputs.numpy(),
            "delayed input (oracle)": lambda batch: self.shifted(batch.inputs.numpy(), self.delay),
        }


class DelayedCopyOfTokens(_DelayedCopy):
    """Name the token that was read ``delay`` positions ago.

    Tokens are independent, and all as frequent. ``accuracy`` is over positions that are asked for.

    Example: ``length=6, delay=2, vocabulary=8``, the first training sequence of seed 0; nothing is
    asked at dots:

        input   0 0 4 1 2 0
        target  . . 0 0 4 1

    Args:
        vocabulary: how many tokens there are; a guess is right with 1/vocabulary.
    """

    headline = Metric("accuracy", "maximise")

    def __init__(
        self,
        vocabulary: int = 16,
        length: int = 64,
        delay: int = 10,
        evaluation_sequences: int = 256,
        data_seed: int = 0,
    ) -> None:
        super().__init__(length, delay, evaluation_sequences, data_seed)
        if vocabulary < 2:
            raise ValueError(f"vocabulary={vocabulary} leaves nothing to ask: give 2 or more")
        self.vocabulary = vocabulary

    def draw(self, generator: np.random.Generator, count: int) -> tuple[Array, ...]:
        """Tokens and targets, int64 (count, time), with −100 where nothing is asked."""
        inputs = generator.integers(0, self.vocabulary, (count, self.length))
        targets = np.where(self.asked(inputs.shape), self.shifted(inputs, self.delay), IGNORED)
        return inputs, targets

    def predictors(self) -> Mapping[str, Callable[[Batch], Array]]:
        """The latest token, and the right one."""
        # Certain, but finite: a wrong answer has a loss that is a number.
        logits = CERTAIN * np.eye(self.specification().output_size, dtype=np.float32)

        def of(delay: int) -> Callable[[Batch], Array]:
            return lambda batch: logits[self.shifted(batch.inputs.numpy(), delay)]

        return {"latest input": of(0), "delayed input (oracle)": of(self.delay)}
