"""Pairs of key and value, then keys alone.

Source: Arora et al., "Zoology: Measuring and Improving Recall in Efficient Language Models" (2023,
arXiv 2312.04927), multi-query associative recall and its released generator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.interface import IGNORED

Integers = NDArray[np.int64]
FILLER = 0
DISTANCE_EXPONENT = 0.01  # a: a query comes after a gap g with probability ~ g^(a-1)


@dataclass(frozen=True)
class Recall:
    """Sequences of one number of pairs.

    Attributes:
        inputs: int64 (sequences, length).
        targets: int64 (sequences, length): the value at each query, -100 elsewhere.
        first_values: int64 (sequences, length): at each query the value that its key had first.
        writes: positions that hold pairs, from the start.
    """

    inputs: Integers
    targets: Integers
    first_values: Integers
    writes: int

    @property
    def asked(self) -> NDArray[np.bool_]:
        """(sequences, length): where a query stands."""
        return self.targets != IGNORED

    @property
    def rewritten(self) -> NDArray[np.bool_]:
        """(sequences, length): queries whose key was written twice."""
        return self.asked & (self.targets != self.first_values)


def draw(
    generator: np.random.Generator,
    count: int,
    *,
    vocabulary: int,
    length: int,
    pairs: int,
    rewritten: int,
    random_filler: bool,
) -> Recall:
    """``count`` sequences: ``pairs + rewritten`` writes in random order, then every key once.

    Token 0 is the filler, keys are 1 to V/2 - 1, values the rest. The later value counts where a
    key is written twice; all values of a sequence differ. Queries stand at even distances from
    the end of the writes, near ones more often; the filler, or random tokens, are between them.
    """
    half = vocabulary // 2
    writes = pairs + rewritten
    keys = 1 + _distinct(generator, count, half - 1, pairs)
    values = half + _distinct(generator, count, vocabulary - half, writes)
    # Which key is written when: each once, `rewritten` of them twice.
    once = np.broadcast_to(np.arange(pairs), (count, pairs))
    twice = np.argsort(generator.random((count, pairs)), axis=1)[:, :rewritten]
    order = generator.permuted(np.concatenate([once, twice], axis=1), axis=1)
    written = np.take_along_axis(keys, order, axis=1)
    # The last and the first write of each key: (sequences, pairs, writes).
    # (sequences, pairs, writes): which writes are of which key.
    writes_of_key = order[:, None, :] == np.arange(pairs)[:, None]
    # argmax finds the first True; of the reversed row it is the last.
    last = writes - 1 - writes_of_key[:, :, ::-1].argmax(-1)
    first = writes_of_key.argmax(-1)
    shape = (count, length)
    inputs = (
        generator.integers(0, vocabulary, shape)
        if random_filler
        else np.full(shape, FILLER, dtype=np.int64)
    )
    inputs[:, 0 : 2 * writes : 2], inputs[:, 1 : 2 * writes : 2] = written, values
    gaps = np.arange(1, (length - 2 * writes) // 2 + 1, dtype=np.float64)
    # The `pairs` smallest of E_g / p_g with exponential E_g are a draw without replacement.
    # P(g) ∝ g^(a−1), so E / p is E · g^(1−a).
    waits = generator.standard_exponential((count, len(gaps))) * gaps ** (1 - DISTANCE_EXPONENT)
    places = 2 * writes + 2 * np.argsort(waits, axis=1, kind="stable")[:, :pairs]
    np.put_along_axis(inputs, places, keys, axis=1)
    targets, first_values = np.full(shape, IGNORED), np.full(shape, IGNORED)
    np.put_along_axis(targets, places, np.take_along_axis(values, last, axis=1), axis=1)
    np.put_along_axis(first_values, places, np.take_along_axis(values, first, axis=1), axis=1)
    return Recall(inputs, targets, first_values, 2 * writes)


def _distinct(generator: np.random.Generator, count: int, size: int, number: int) -> Integers:
    """Ordered draws without replacement from 0..size-1: (count, number)."""
    marks = generator.random((count, size))
    chosen = np.argpartition(marks, number - 1, axis=1)[:, :number]
    order = np.argsort(np.take_along_axis(marks, chosen, axis=1), axis=1)
    return np.take_along_axis(chosen, order, axis=1)
