"""Numbers that the points of a curve give, as tasks work them out, and whether a metric is one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from statistics import linear_regression
from typing import NamedTuple

from bench.records.schema import Curve, RunRecord
from core.statistics import Interval, mean_of

Points = Sequence[tuple[float, float]]  # x and y
# What a metric should be: an interval where points say no more; None where it does not exist.
Expected = float | Interval | None

EXACT = 1e-6  # of sums in another order, of float32 too
HALF = 0.5


class Fact(NamedTuple):
    """What a metric should be, by what, and how near it must lie."""

    metric: str
    expected: Expected
    by: str
    within: float = EXACT


class MissingPoints(Exception):
    """A record has not what its metrics are worked out from; says what, in a clause."""


def points_of(curve: Curve) -> Points:
    return list(zip(curve.x, curve.y, strict=True))


def points_in(record: RunRecord, name: str) -> Points:
    """The points of a curve.

    Raises:
        MissingPoints: the record has no such curve.
    """
    if name not in record.curves:
        raise MissingPoints(f"it has no curves.{name}, by which its metrics are checked")
    return points_of(record.curves[name])


def ys(points: Points) -> list[float]:
    return [y for _, y in points]


def inside(points: Points, low: float, high: float) -> Points:
    """The points from ``low`` to ``high``, both included."""
    return [(x, y) for x, y in points if low <= x <= high]


def between(points: Points) -> Interval:
    """Where any mean of the points lies, whatever they weigh."""
    return Interval(min(ys(points)), max(ys(points)))


def beginnings(points: Points) -> Interval:
    """Where the mean lies if all items reach a quarter of the points, and fewer and fewer the later
    ones: that mean is one of the means of the first points, of a quarter to all of them."""
    means = [total / count for count, total in enumerate(accumulate(ys(points)), start=1)]
    reached = means[len(means) // 4 :]
    return Interval(min(reached), max(reached))


def weighted_unequally(points: Points, variation: float) -> Interval:
    """Where the mean lies if points have weights that are not known.

    It differs from the plain mean by the covariance of weights and values over the mean weight,
    which is at most the standard deviation of the values times the coefficient of variation of
    the weights (Cauchy and Schwarz).

    Args:
        variation: the coefficient of variation of the weights as they are drawn; that of n drawn
            ones is taken to be at most three of its standard errors, variation / √(2n), larger.
    """
    values = ys(points)
    mean = mean_of(values)
    deviation = math.sqrt(mean_of([(value - mean) ** 2 for value in values]))
    room = variation * (1 + 3 / math.sqrt(2 * len(values))) * deviation
    return Interval(mean - room, mean + room)


def crossing(points: Points, level: float = HALF) -> float | None:
    """Where y first reaches ``level``, by straight lines; None if it never does."""
    for (left, low), (x, y) in pairwise([points[0], *points]):
        if y >= level:
            return left + (level - low) / ((y - low) or 1.0) * (x - left)
    return None


def slope(points: Points) -> float | None:
    """Least squares of log y on log x, without points where y is 0; None of fewer than two."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    return linear_regression([x for x, _ in logs], ys(logs)).slope


TAKES: dict[str, Callable[[Points], Expected]] = {  # as cards call them
    "mean": lambda points: mean_of(ys(points)),
    "last": lambda points: points[-1][1],
    "middle": lambda points: points[len(points) // 2][1],
    "largest": lambda points: max(ys(points)),
    "first in units of the mean": lambda points: points[0][1] / (mean_of(ys(points)) or 1.0),
    "range": between,
    "mean of a beginning": beginnings,
    "crossing of 0.5": crossing,
    "number of rises": lambda points: float(sum(b > a for a, b in pairwise(ys(points)))),
    "log-log slope": slope,
}


def distance(value: float | None, expected: Expected) -> float:
    """How far a number is from what it should be."""
    if value is None or expected is None:
        return 0.0 if value is expected else math.inf
    low, high = _ends(expected)
    return max(low - value, value - high, 0.0)


def contradicted(
    metric: str, value: float | None, expected: Expected, by: str, within: float = EXACT
) -> str | None:
    """How a metric of the test is another one than it should be; None where it is that one.

    Args:
        by: what it should be by, in words.
        within: how far it may lie from that, in times of it where it is larger than 1.
    """
    if expected is None:
        none = f"its metrics.test.{metric} is {value}, and {by} does not exist"
        return None if value is None else none
    low, high = _ends(expected)
    reason = f"{by} is {low:g}" + (f" to {high:g}" if high > low else "")
    if value is None:
        return f"it has no metrics.test.{metric}, and {reason}"
    if distance(value, expected) <= within * max(1.0, abs(low), abs(high)):
        return None
    return f"its metrics.test.{metric} is {value}, and {reason}"


def _ends(expected: float | Interval) -> Interval:
    return expected if isinstance(expected, Interval) else Interval(expected, expected)
