"""How an interval is made, in one place: by the kind of a number, by what varies, and by what
happens where nothing seems to vary.

A number is a mean over training seeds of what each run measured on its test items. New seeds and
new test items would both move it, so the variances of both add up. No interval leaves the range of
its kind. An interval is unknown (``None``) where the data cannot give one: a single seed says
nothing about the spread over seeds, and equal seeds say nothing either unless the number of test
items behind a share is known.

Example: accuracies 0.99, 1.00 and 1.00 over seeds, each on 200 sequences::

    interval_of([0.99, 1.0, 1.0], SHARE, Items(200, 0.01 * 0.99 / 200))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np

Direction = Literal["maximise", "minimise"]

LEVEL = 0.95
POWER = 0.8  # with which the number of seeds that is asked for settles a question
MAXIMUM_SEEDS = 200  # a comparison that would need more is called not computable
ROUNDING = 1e-9  # equal numbers differ from their mean by less
STEPS = 200  # of the average over a standard error that is still to be observed


@dataclass(frozen=True)
class Kind:
    """What sort of number a metric is; ``low`` and ``high`` are the ends of its range."""

    name: str
    low: float = -math.inf
    high: float = math.inf


SHARE = Kind("share", 0.0, 1.0)  # a mean over items of values from 0 to 1
LOSS = Kind("loss", 0.0)
ERROR = Kind("error", 0.0)
COUNT = Kind("count", 0.0)
CHANGE = Kind("change", -1.0, 1.0)  # a difference of two shares
REAL = Kind("real")  # a slope, a margin, or a number whose range nobody stated
KINDS = {kind.name: kind for kind in (SHARE, LOSS, ERROR, COUNT, CHANGE, REAL)}


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Items:
    """What a number was measured on and another test would draw anew.

    Attributes:
        count: how many there are.
        variance: of a mean over so many; None where a record holds no number for each item, so that
            only their count is known.
        shared: of this variance what the spread over seeds holds too, since chance meets every seed
            and item anew (the residual of a table of seeds by items).
        name: what they are: "sequences", "documents".
        values: the number of each item, mean over seeds, where two models were measured on the
            same items and their differences have to be taken item by item.
        drawn: the hash of the data that they are from; only equal ones are the same items.
    """

    count: int
    variance: float | None = None
    shared: float = 0.0
    name: str = "test items"
    values: tuple[float, ...] | None = None
    drawn: str = ""


class Mean(NamedTuple):
    """A mean over seeds; `seeds` of them gave a number and `failures` did not."""

    mean: float | None
    interval: Interval | None
    deviation: float | None  # sample standard deviation, n − 1 in the denominator
    seeds: int
    failures: int


class RankRange(NamedTuple):
    """The best and the worst rank, from 1, that the intervals leave open."""

    best: int
    worst: int


Part = tuple[float, int]  # the variance of an estimate, and the degrees of freedom of that variance


def mean_interval(
    values: Sequence[float | None],
    kind: Kind = REAL,
    items: Items | None = None,
    level: float = LEVEL,
) -> Mean:
    """Mean over seeds and its interval.

    Args:
        values: one number for each seed; None or a number that is not finite is a failed seed.
    """
    numbers = [value for value in values if value is not None and math.isfinite(value)]
    failures = len(values) - len(numbers)
    if not numbers:
        return Mean(None, None, None, 0, failures)
    deviation = deviation_of(numbers) if len(numbers) > 1 else None
    interval = interval_of(numbers, kind, items, level)
    return Mean(mean_of(numbers), interval, deviation, len(numbers), failures)


def interval_of(
    values: Sequence[float], kind: Kind = REAL, items: Items | None = None, level: float = LEVEL
) -> Interval | None:
    """The interval of a mean over new seeds and new test items.

    Student's, with the degrees of freedom of Welch and Satterthwaite for the sum of the variances.
    The interval of a share is Clopper and Pearson's at the effective number of items that has this
    variance (Korn and Graubard 1998, Survey Methodology 24), which ends where the share does; where
    all seeds and items agree, at the number of items.
    """
    if not _can_be_known((values,), (items,)):
        return None
    mean = mean_of(values)
    half = half_width(over_seeds_and_items(values, kind, items), level, seeds=1)
    if kind is SHARE:
        effective = _effective_items(mean, half, level) if half > ROUNDING else None
        if effective is not None:
            effective = max(effective, _least_effective(len(values), items))
        elif items is not None:
            effective = items.count
        return None if effective is None else share_limits(mean * effective, effective, level)
    if half <= ROUNDING:
        return None
    return Interval(max(kind.low, mean - half), min(kind.high, mean + half))


def difference_interval(
    a: Sequence[float],
    b: Sequence[float],
    kind: Kind = REAL,
    items: tuple[Items | None, Items | None] = (None, None),
    level: float = LEVEL,
    together: Items | None = None,
) -> Interval | None:
    """The interval of the mean of ``a`` minus the mean of ``b``, over independent seeds.

    Welch's. Items on which both were measured count by their differences, others by the sum of
    their variances. Where a share shows no spread, the two intervals are put together by the
    distances of their ends (Zou and Donner 2008, Statistics in Medicine 27).

    Args:
        together: the items of this very difference, where their variance is known already.
    """
    if not _can_be_known((a, b), (*items, together)):
        return None
    together = together or paired_items(*items)
    parts = parts_of_difference(a, b, kind, items, together)
    half = half_width(parts, level, seeds=2)
    difference = mean_of(a) - mean_of(b)
    still = kind is SHARE and together is None and min(map(deviation_of, (a, b))) <= ROUNDING
    below = above = half
    if still or half <= ROUNDING:
        of_a, of_b = (
            interval_of(x, kind, of_side, level) for x, of_side in zip((a, b), items, strict=True)
        )
        if of_a is None or of_b is None:
            return None
        below = math.hypot(mean_of(a) - of_a.low, of_b.high - mean_of(b))
        above = math.hypot(of_a.high - mean_of(a), mean_of(b) - of_b.low)
    widest = kind.high - kind.low
    return Interval(max(-widest, difference - below), min(widest, difference + above))


def paired_items(a: Items | None, b: Items | None) -> Items | None:
    """The items of a difference, item by item; None unless both were measured on the same ones."""
    if a is None or b is None or a.values is None or b.values is None:
        return None
    if not a.drawn or a.drawn != b.drawn or a.count != b.count or a.count < 2:
        return None
    differences = [x - y for x, y in zip(a.values, b.values, strict=True)]
    variance, _ = over_seeds(deviation_of(differences), a.count)
    return Items(a.count, variance, a.shared + b.shared, a.name)


def share_limits(successes: float, count: float, level: float = LEVEL) -> Interval:
    """Both limits of a share, exact at ``level`` (Clopper and Pearson 1934): each end leaves
    half of the rest outside. Effective numbers need not be whole."""
    betaincinv = _special().betaincinv
    tail, failures = (1 - level) / 2, count - successes
    none, all_of_them = successes < ROUNDING, failures < ROUNDING
    low = 0.0 if none else float(betaincinv(successes, failures + 1, tail))
    high = 1.0 if all_of_them else float(betaincinv(successes + 1, failures, 1 - tail))
    return Interval(low, high)


def rank_ranges(intervals: Sequence[Interval | None], direction: Direction) -> list[RankRange]:
    """Ranks that stay possible: one is surely better than another only if they do not overlap.

    This is stricter than testing each pair: intervals may overlap although Welch's test finds a
    difference. An unknown interval overlaps everything.
    """
    oriented = [_orient(unsigned, direction) for unsigned in intervals]
    ranges = []
    for interval in oriented:
        surely_better = sum(other.low > interval.high for other in oriented)
        surely_worse = sum(other.high < interval.low for other in oriented)
        ranges.append(RankRange(1 + surely_better, len(oriented) - surely_worse))
    return ranges


def half_width(parts: Sequence[Part], level: float = LEVEL, seeds: int = 0) -> float:
    """Half-width of the interval of a sum or difference of independent estimates.

    Args:
        seeds: how many of the first parts are over seeds. Test items raise the degrees of freedom
            too, but what seeds vary by beyond the chance of items gets no narrower through that.
    """
    total = math.fsum(variance for variance, _ in parts)
    half = student_quantile(level, _freedom(parts)) * math.sqrt(total) if total > 0 else 0.0
    beyond = [*parts[:seeds], *(part for part in parts[seeds:] if part[0] < 0)]
    variance_beyond = math.fsum(variance for variance, _ in beyond)
    if not seeds or variance_beyond <= 0:
        return half
    return max(half, student_quantile(level, _freedom(parts[:seeds])) * math.sqrt(variance_beyond))


def over_seeds(deviation: float, count: int) -> Part:
    """The part of :func:`half_width` that is a mean over seeds."""
    return deviation * deviation / count, count - 1


def over_seeds_and_items(values: Sequence[float], kind: Kind, items: Items | None) -> list[Part]:
    """The parts of a mean over seeds that was measured on test items."""
    seeds = over_seeds(deviation_of(values), len(values))
    return _with_items([seeds], _over_items(mean_of(values), kind, items), items)


def parts_of_difference(
    a: Sequence[float],
    b: Sequence[float],
    kind: Kind,
    items: tuple[Items | None, Items | None],
    together: Items | None,
) -> list[Part]:
    """The parts of a difference of two means, those over seeds first; ``together`` as for
    :func:`difference_interval`."""
    if together is None:
        sides = zip((a, b), items, strict=True)
        of_a, of_b = (over_seeds_and_items(x, kind, of_side) for x, of_side in sides)
        return [of_a[0], of_b[0], *of_a[1:], *of_b[1:]]
    seeds = [over_seeds(deviation_of(x), len(x)) for x in (a, b)]
    return _with_items(seeds, (together.variance or 0.0, together.count - 1), together)


def _with_items(seeds: list[Part], over_items: Part | None, items: Items | None) -> list[Part]:
    if over_items is None or items is None:
        return seeds
    total = math.fsum(variance for variance, _ in seeds)
    shared = min(items.shared, total, over_items[0])  # the sum is no less than either
    freedom = sum(freedom for _, freedom in seeds) * over_items[1]
    return [*seeds, over_items, (-shared, freedom)] if shared else [*seeds, over_items]


def seeds_needed(
    *deviations: float,
    gap: float,
    level: float = LEVEL,
    power: float = POWER,
    maximum: int = MAXIMUM_SEEDS,
    fixed: Sequence[Part] = (),
    opposite: float = math.inf,
) -> int | None:
    """Seeds of each group that settle a comparison with probability ``power``, if spread and gap
    are as observed.

    Args:
        deviations: standard deviation over seeds of each group: one for a mean against a constant,
            two for two independent means (Welch).
        gap: distance from the observed mean, or difference of means, to the value that has to be
            outside the interval (a threshold, zero, or the edge of a tolerance).
        fixed: parts of :func:`half_width` that no seed makes smaller.
        opposite: distance to a value on the other side that has to be outside as well, where the
            interval has to lie between two.

    Returns:
        The smallest number, at least 2, whose interval leaves the value outside with that
        probability (noncentral t distribution); None if the gap is zero or more than ``maximum``
        would be needed.
    """
    special = _special()
    shares = np.linspace(0, 1, 2 * STEPS + 1)[1::2]  # the middles of so many equal parts

    # In standard errors, even if they were known.
    least = special.ndtri((1 + level) / 2) + special.ndtri(power)

    def chance(count: int) -> float:
        parts = [*(over_seeds(deviation, count) for deviation in deviations), *fixed]
        error = math.sqrt(math.fsum(variance for variance, _ in parts))
        if not error:
            return 1.0 if gap else 0.0
        if abs(gap) < least * error:
            return 0.0
        freedom = _freedom(parts)
        # The mean is normal for each standard error that may be observed.
        observed = np.sqrt(2 / freedom * special.gammaincinv(freedom / 2, shares))
        half = student_quantile(level, freedom) * observed
        inside = special.ndtr(abs(gap) / error - half) - special.ndtr(half - opposite / error)
        return float(np.maximum(inside, 0).mean())

    return next((n for n in range(2, maximum + 1) if chance(n) >= power), None)


def mean_of(values: Sequence[float]) -> float:
    """The mean, summed exactly: the same in whatever order seeds come."""
    return math.fsum(values) / len(values)


def deviation_of(values: Sequence[float]) -> float:
    """Sample standard deviation; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    centre = mean_of(values)
    return math.sqrt(math.fsum([(value - centre) ** 2 for value in values]) / (len(values) - 1))


def _over_items(mean: float, kind: Kind, items: Items | None) -> Part | None:
    if items is None:
        return None
    if items.variance is not None:
        return items.variance, max(items.count - 1, 1)
    # No mean of values from 0 to 1 varies more than a share of successes does.
    return (mean * (1 - mean) / items.count, items.count - 1) if kind is SHARE else None


def _can_be_known(samples: Sequence[Sequence[float]], items: Sequence[Items | None]) -> bool:
    """Whether there is more than one seed and item of each, and no number is infinite."""
    return all(len(values) > 1 and all(map(math.isfinite, values)) for values in samples) and all(
        of_sample is None or of_sample.count > 1 for of_sample in items
    )


def _least_effective(seeds: int, items: Items | None) -> float:
    """No mean of numbers from 0 to 1 varies more than successes do, as many as there are seeds and
    items: the interval of plain yes and no over seeds is Clopper and Pearson's."""
    return 1 / (1 / seeds + (0.0 if items is None else 1 / items.count))


def _effective_items(mean: float, half: float, level: float) -> float | None:
    """So many items give a share this half-width, if it is nearly normal."""
    spread, normal = mean * (1 - mean), float(_special().ndtri((1 + level) / 2))
    return None if spread < ROUNDING else spread * (normal / half) ** 2


def _freedom(parts: Sequence[Part]) -> float:
    """Welch and Satterthwaite's degrees of freedom of a sum of variances."""
    total = math.fsum(variance for variance, _ in parts)
    # Shares instead of squared variances, which could underflow.
    shares = [(variance / total, freedom) for variance, freedom in parts]
    return 1 / math.fsum(share * share / freedom for share, freedom in shares)


@lru_cache(maxsize=4096)  # a board asks it of hundreds of thousands of means over a few seeds
def student_quantile(level: float, freedom: float) -> float:
    return float(_special().stdtrit(freedom, (1 + level) / 2))


@cache
def _special() -> ModuleType:
    """SciPy's functions, whose import takes half a second that not every reader needs."""
    from scipy import special

    return special


def _orient(interval: Interval | None, direction: Direction) -> Interval:
    if interval is None:
        return Interval(-math.inf, math.inf)
    if direction == "maximise":
        return interval
    return Interval(-interval.high, -interval.low)
