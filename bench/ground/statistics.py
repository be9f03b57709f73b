"""Intervals over seeds, differences, ranks: small pure functions.

An interval is unknown (``None``) where the data cannot give one: a single seed says nothing about
the spread over seeds, so it never gets an interval of width zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

Direction = Literal["maximise", "minimise"]

MAXIMUM_SEEDS = 200  # a comparison that would need more is called not computable


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
    half = half_width([over_seeds(_deviation(x), len(x)) for x in (left, right)], level)
    return Difference(difference, Interval(difference - half, difference + half))


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


def half_width(parts: Sequence[tuple[float, int]], level: float = 0.95) -> float:
    """Half-width of the interval of a sum or difference of independent estimates.

    Args:
        parts: of each estimate its variance and the degrees of freedom of that; the sum has those
            of Welch and Satterthwaite.
    """
    total = math.fsum(variance for variance, _ in parts)
    if total == 0:
        return 0.0
    # Shares instead of squared variances, which could underflow.
    shares = [(variance / total, freedom) for variance, freedom in parts]
    freedom = 1 / math.fsum(share * share / freedom for share, freedom in shares)
    return _student_quantile(level, freedom) * math.sqrt(total)


def over_seeds(deviation: float, count: int) -> tuple[float, int]:
    """The part of :func:`half_width` that is a mean over seeds."""
    return deviation * deviation / count, count - 1


def seeds_needed(
    *deviations: float,
    gap: float,
    level: float = 0.95,
    maximum: int = MAXIMUM_SEEDS,
    fixed: Sequence[tuple[float, int]] = (),
) -> int | None:
    """Seeds of each group that would settle a comparison, if spread and gap stay as observed.

    Args:
        deviations: standard deviation over seeds of each group: one for a mean against a constant,
            two for two independent means (Welch).
        gap: distance from the observed mean, or difference of means, to the value that has to be
            outside the interval (a threshold, zero, or the edge of a tolerance).
        fixed: parts of :func:`half_width` that no seed makes smaller.

    Returns:
        The smallest number, at least 2, whose interval has a half-width below `gap`; None if the
        gap is zero or more than `maximum` would be needed.
    """

    def settles(count: int) -> bool:
        parts = [over_seeds(deviation, count) for deviation in deviations]
        return half_width([*parts, *fixed], level) < abs(gap)

    return next(filter(settles, range(2, maximum + 1)), None)


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


def _orient(interval: Interval | None, direction: Direction) -> Interval:
    if interval is None:
        return Interval(-math.inf, math.inf)
    if direction == "maximise":
        return interval
    return Interval(-interval.high, -interval.low)
