"""Scores of answers and of confidences, over lists of queries, and of the size of a memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from models.memories.interface import Memory

Numbers = NDArray[np.float64]
BINS = 15  # of the calibration error (Guo et al. 2017)


@dataclass
class Filled:
    """What a memory was while more and more was written.

    Attributes:
        recalls, kept, state: after each number of items the recall of all of them, the numbers
            kept, the bytes of all its state.
        quarters: in the end, the recall by age, oldest first.
    """

    recalls: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    state: list[float] = field(default_factory=list)
    quarters: list[float] = field(default_factory=list)


def by_age(right: Tensor, parts: int) -> list[float]:
    """Means over trials of equal parts of the items, in the order in which they were written.

    Args:
        right: (trials, items).
    """
    return [part.mean().item() for part in right.mean(0).chunk(parts)]


def auroc(seen: Numbers, unseen: Numbers) -> float:
    """Probability that a seen query has more confidence than an unseen one, ties counted half:
    the area under the receiver operating curve, by ranks (Mann and Whitney)."""
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate((seen, unseen), axis=None))[: seen.size]
    # The smallest sum of ranks that as many could have: ranks above it count wins.
    count = seen.size * (seen.size + 1) / 2
    return float((ranks.sum() - count) / (seen.size * unseen.size))


def calibration_error(probability: Numbers, right: Numbers) -> float:
    """Expected calibration error: mean distance of probability and accuracy over equal bins,
    weighted by how many answers each holds."""
    # A probability of exactly 1 belongs to the last bin.
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    gaps = [
        (bins == b).mean() * abs(probability[bins == b].mean() - right[bins == b].mean())
        for b in np.unique(bins)
    ]
    return float(sum(gaps))


def risk_coverage(confidence: Numbers, right: Numbers) -> tuple[float, float]:
    """Area under the risk-coverage curve, and the accuracy at 90 % coverage: the surest answers
    are given first; among equal confidences the mean of every order counts."""
    order = np.argsort(-confidence, kind="stable")
    _, start = np.unique(-confidence[order], return_index=True)
    ordered = right[order]
    shares = np.diff(np.append(start, len(ordered)))
    even = np.repeat(np.add.reduceat(ordered, start) / shares, shares)
    accuracy = np.cumsum(even) / np.arange(1, len(even) + 1)
    covered = max(1, round(0.9 * len(even)))
    return float(np.mean(1 - accuracy)), float(accuracy[covered - 1])


def crossing(counts: Numbers, recall: Numbers, threshold: float) -> float | None:
    """How many items are recalled with at least ``threshold``: log-linear between the two counts
    where recall first falls below it; None if it never does, or is below from the start."""
    below = np.flatnonzero(recall < threshold)
    if not len(below) or below[0] == 0:
        return None
    k = below[0]
    share = (recall[k - 1] - threshold) / (recall[k - 1] - recall[k])
    return float(np.exp(np.log(counts[k - 1]) + share * np.log(counts[k] / counts[k - 1])))


def kept_numbers(memory: Memory, trials: int) -> float:
    """How many numbers one of ``trials`` memories answers with: the bytes of its weights, or of
    all that it keeps, in units of float32. Pairs kept for another training are no part of it."""
    weights: Callable[[], int] = getattr(memory, "weights_in_bytes", memory.size_in_bytes)
    return float(round(weights() / (4 * trials)))


def ladder(most: int) -> list[int]:
    """Numbers of items from 4 up to ``most``, each about √2 times the one before."""
    steps = int(np.floor(2 * np.log2(most / 4)))
    return sorted({round(4 * 2 ** (k / 2)) for k in range(steps + 1)} | {most})
