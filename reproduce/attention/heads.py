"""What is read from the average attention of heads, the weights with which the last position of a
window reads each position.

Attention is in units of uniform attention, 1 / time, so that windows of two lengths have one scale.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bench.records.schema import RunRecord
from reproduce.claims.grammar import setting

TRAINED, EXTENDED = "trained", "extended"  # windows of the training length, and longer ones
RECENT = 8  # the newest eighth is no part of the flat level
PEAK = 2.0  # times the flat level, where the recent peak ends

Heads = NDArray[np.float64]


def heads(record: RunRecord, windows: str) -> Heads:
    """Average attention of each head, float64 (heads, time), in units of uniform attention."""
    curves = np.asarray(record.arrays[windows], dtype=np.float64)
    return curves.reshape(-1, curves.shape[-1]) * curves.shape[-1]


def flat_level(curves: Heads) -> Heads:
    """Median of (heads, time) over all but the newest eighth of the positions, (heads,)."""
    time = curves.shape[-1]
    return np.median(curves[:, : time - time // RECENT], axis=-1)


def peak_widths(curves: Heads) -> list[float]:
    """Distance from the last position at which each of (heads, time) first falls to twice its flat
    level, positions joined by straight lines; 0 where the newest pair is no higher."""
    levels = flat_level(curves)
    return [_width(head, PEAK * level) for head, level in zip(curves, levels, strict=True)]


def _width(head: Heads, level: float) -> float:
    by_distance = head[-2::-1]  # from distance 1 on: a Mosaic does not see the last position itself
    low = np.flatnonzero(by_distance <= level)
    if not len(low):
        return float(len(by_distance))
    first = int(low[0])
    if first == 0:
        return 0.0
    above, below = by_distance[first - 1], by_distance[first]
    return float(first + (above - level) / (above - below))


def coefficients(record: RunRecord) -> list[float]:
    """λ of each head of a Mosaic."""
    return [float(value) for layer in record.arrays["leaky_coefficients"] for value in layer]


def rank_correlation(record: RunRecord, moved: bool = False) -> float | None:
    """Spearman's correlation over heads of λ and the width of the peak; None if all are equal. With
    ``moved`` each head has the λ of another."""
    widths = peak_widths(heads(record, TRAINED))
    if len(set(widths)) < 2:
        return None
    lambdas = coefficients(record)
    if len(set(lambdas)) < 2:
        return math.nan
    ranks = [_ranks(np.roll(lambdas, len(lambdas) // 2 * moved)), _ranks(np.asarray(widths))]
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1 on; equal values have the mean of theirs. Importing ``scipy.stats`` for it takes
    half a second."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank: np.ndarray = np.cumsum(count) - (count - 1) / 2
    return mean_rank[place]


def highest(record: RunRecord) -> float:
    """Attention to the position that a head attends to most on average, mean over heads."""
    return float(heads(record, TRAINED).max(axis=-1).mean())


def change_beyond(record: RunRecord) -> float:
    """The factor, up or down, between attention to positions farther away than training windows
    reach and attention to the farther half of those that they reach; geometric mean over heads."""
    curves, reach = heads(record, EXTENDED), int(setting(record, "tasks.length"))
    near = curves[:, -reach : -(reach // 2)].mean(axis=-1)
    far = curves[:, :-reach].mean(axis=-1)
    return float(np.exp(np.abs(np.log(_ratio(far, near, curves.shape[-1]))).mean()))


def _ratio(a: Heads, b: Heads, most: int) -> Heads:
    """a / b, kept between 1 / most and most: attention may be rounded to zero."""
    tiny = 1 / most**2
    return np.clip((a + tiny) / (b + tiny), 1 / most, most)
