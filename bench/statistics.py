"""Intervals over seeds and over sequences, differences, ranks: small pure functions.

An interval is unknown (``None``) where the data cannot give one: a single seed says nothing about
the spread over seeds, so it never gets an interval of width zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Direction = Literal["maximise", "minimise"]

_RESAMPLES_AT_ONCE = 100  # bounds the memory of a bootstrap over many sequences


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


class Mean(NamedTuple):
    """A mean over seeds; `seeds` of them gave a number and `failures` did not."""

    mean: float | None
    interval: Interval | None
    deviation: float | None  # sample standard deviation, n − 1 in the denominator
    seeds: int
    failures: int


class Difference(NamedTuple):
    """Mean of `a` minus mean of `b`."""

    difference: float | None
    interval: Interval | None


class Bootstrap(NamedTuple):
    """A mean over sequences with its interval, each of shape () or (positions,), float64."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class RankRange(NamedTuple):
    """The best and the worst rank, from 1, that the intervals leave open."""

    best: int
    worst: int


def mean_interval(values: Sequence[float | None], level: float = 0.95) -> Mean:
    """Mean and Student-t interval over seeds.

    Args:
        values: one number for each seed; None or a number that is not finite is a failed seed.
        level: coverage of the interval if the seeds' values are normally distributed.
    """
    numbers = _finite(values)
    count, failures = len(numbers), len(values) - len(numbers)
    if count == 0:
        return Mean(None, None, None, 0, failures)
    mean = _mean(numbers)
    if count == 1:
        return Mean(mean, None, None, 1, failures)
    deviation = _deviation(numbers)
    half = _student_quantile(level, count - 1) * deviation / math.sqrt(count)
    return Mean(mean, Interval(mean - half, mean + half), deviation, count, failures)


def paired_difference(
    a: Sequence[float | None], b: Sequence[float | None], level: float = 0.95
) -> Mean:
    """Mean and interval of a − b over pairs, such as two models on the same seed.

    A pair with a failed member counts as a failure.

    Raises:
        ValueError: `a` and `b` differ in length.
    """
    if len(a) != len(b):
        raise ValueError(f"pairs need equal lengths, but there are {len(a)} and {len(b)} values")
    pairs = zip(a, b, strict=True)
    return mean_interval([None if x is None or y is None else x - y for x, y in pairs], level)


def difference_interval(
    a: Sequence[float | None], b: Sequence[float | None], level: float = 0.95
) -> Difference:
    """Difference of two means over independent seeds, with Welch's interval.

    The interval is unknown unless both sides have at least two finite values.
    """
    left, right = _finite(a), _finite(b)
    if not left or not right:
        return Difference(None, None)
    difference = _mean(left) - _mean(right)
    if len(left) < 2 or len(right) < 2:
        return Difference(difference, None)
    half = _welch_half_width((_deviation(left), _deviation(right)), (len(left), len(right)), level)
    return Difference(difference, Interval(difference - half, difference + half))


def bootstrap_interval(
    values: ArrayLike, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Bootstrap:
    """Mean over sequences with its percentile bootstrap interval; deterministic given `seed`.

    Args:
        values: float (sequences,) or (sequences, positions). Whole sequences are drawn, so that
            the dependence between positions is kept.

    Raises:
        ValueError: there is no sequence, or a value is not finite.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (1, 2) or len(array) == 0 or not np.isfinite(array).all():
        raise ValueError(
            "a bootstrap needs finite values of shape (sequences,) or (sequences, positions) "
            f"with at least one sequence, but got shape {array.shape}"
        )
    generator = np.random.default_rng(seed)
    count = len(array)
    means = []
    for start in range(0, resamples, _RESAMPLES_AT_ONCE):
        size = min(_RESAMPLES_AT_ONCE, resamples - start)
        # How often each sequence is drawn; equal to drawing indices, and a matrix product.
        draws = generator.multinomial(count, np.full(count, 1 / count), size=size)
        means.append(draws @ array / count)
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(means), (tail, 1 - tail), axis=0)
    return Bootstrap(array.mean(axis=0), low, high)


def rank_ranges(intervals: Sequence[Interval | None], direction: Direction) -> list[RankRange]:
    """Ranks that stay possible: one is surely better than another only if they do not overlap.

    This is stricter than testing each pair: intervals may overlap although Welch's test finds a
    difference. An unknown interval overlaps everything.
    """
    oriented = [_orient(interval, direction) for interval in intervals]
    ranges = []
    for own in oriented:
        surely_better = sum(other.low > own.high for other in oriented)
        surely_worse = sum(other.high < own.low for other in oriented)
        ranges.append(RankRange(1 + surely_better, len(oriented) - surely_worse))
    return ranges


def seeds_needed(
    *deviations: float, gap: float, level: float = 0.95, maximum: int = 10_000
) -> int | None:
    """Seeds of each group that would settle a comparison, if spread and gap stay as observed.

    Args:
        deviations: standard deviation over seeds of each group: one for a mean against a constant
            or for paired differences, two for two independent means (Welch).
        gap: distance from the observed mean, or difference of means, to the value that has to be
            outside the interval (a threshold, zero, or the edge of a tolerance).

    Returns:
        The smallest number, at least 2, whose interval has a half-width below `gap`; None if the
        gap is zero or more than `maximum` would be needed.
    """
    if not deviations:
        raise ValueError("seeds_needed takes the standard deviation of at least one group")
    if gap == 0:
        return None

    def settles(count: int) -> bool:
        counts = [count] * len(deviations)
        return _welch_half_width(deviations, counts, level) < abs(gap)

    if not settles(maximum):
        return None
    low, high = 1, 2  # the half-width falls with the count: double, then bisect
    while not settles(high):
        low, high = high, min(2 * high, maximum)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if settles(middle) else (middle, high)
    return high


def _finite(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)  # exact sum: the same in whatever order seeds come


def _deviation(values: Sequence[float]) -> float:
    centre = _mean(values)
    squares = math.fsum((value - centre) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1))


def _student_quantile(level: float, freedom: float) -> float:
    from scipy.special import stdtrit  # half a second to import, and not every reader needs it

    return float(stdtrit(freedom, (1 + level) / 2))


def _welch_half_width(deviations: Sequence[float], counts: Sequence[int], level: float) -> float:
    """Half-width of the interval of a sum or difference of independent means."""
    variances = [s * s / n for s, n in zip(deviations, counts, strict=True)]
    variance = math.fsum(variances)
    if variance == 0:
        return 0.0
    # Welch–Satterthwaite; shares instead of squared variances, which could underflow.
    shares = [v / variance for v in variances]
    freedom = 1 / math.fsum(w * w / (n - 1) for w, n in zip(shares, counts, strict=True))
    return _student_quantile(level, freedom) * math.sqrt(variance)


def _orient(interval: Interval | None, direction: Direction) -> Interval:
    if interval is None:
        return Interval(-math.inf, math.inf)
    if direction == "maximise":
        return interval
    return Interval(-interval.high, -interval.low)
