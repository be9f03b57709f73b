"""A line through the origin with the interval of its slope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.statistics import LEVEL, Interval, half_width


@dataclass(frozen=True)
class Proportion:
    """Least squares of y = slope · x.

    Attributes:
        interval: of the slope, from the spread of the points about the line; None for a single
            point, which has none.
    """

    slope: float
    interval: Interval | None
    level: float = LEVEL

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.slope:.3f}, one point: no interval"
        low, high = self.interval
        return f"{self.slope:.3f}, {self.level:.0%} interval {low:.3f} to {high:.3f}"


def fit_proportion(x: Sequence[float], y: Sequence[float], level: float = LEVEL) -> Proportion:
    """The proportion of ``y`` to ``x``, both (points,), at least one of them.

    The interval is Student's with points − 1 degrees of freedom: errors of equal size at all
    points are supposed.
    """
    squares = math.fsum(a * a for a in x)
    slope = math.fsum(a * b for a, b in zip(x, y, strict=True)) / squares
    freedom = len(x) - 1
    if not freedom:
        return Proportion(slope, None, level)
    rest = math.fsum((b - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    half = half_width([(rest / freedom / squares, freedom)], level)
    return Proportion(slope, Interval(slope - half, slope + half), level)
