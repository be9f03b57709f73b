"""Power laws through errors that trials measured, with bootstrap intervals over the trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.statistics import LEVEL, MAXIMUM_SEEDS, POWER, Interval
from reproduce.claims.grammar import Records, Rule
from reproduce.claims.verdicts import UNDECIDED, Finding, Verdict, place_of

RESAMPLES = 2000


@dataclass(frozen=True)
class Fit:
    """Least squares of log(mean over trials) on log x.

    Attributes:
        slope, scale: mean ≈ scale · x^slope.
        slopes: of every bootstrap sample of trials, (RESAMPLES,).
        low, high: first and last x of the fit.
        trials: that were pooled.
    """

    slope: float
    scale: float
    slopes: NDArray[np.float64]
    low: float
    high: float
    trials: int

    def __sub__(self, other: Fit) -> Fit:
        """The difference of two slopes, from the same samples of trials."""
        return replace(self, slope=self.slope - other.slope, slopes=self.slopes - other.slopes)

    def interval(self, level: float = LEVEL) -> Interval:
        """Percentile bootstrap interval of the slope."""
        tail = (1 - level) / 2
        # A tail smaller than one resample cannot be read off them: nothing is known then.
        if tail * RESAMPLES < 1:
            return Interval(-math.inf, math.inf)
        low, high = np.quantile(self.slopes, (tail, 1 - tail))
        return Interval(float(low), float(high))

    def __str__(self) -> str:
        low, high = self.interval()
        return f"{signed(self.slope)} ({LEVEL:.0%} interval {signed(low)} to {signed(high)})"


def resampled_means(values: ArrayLike, seed: int = 0) -> NDArray[np.float64]:
    """Means of bootstrap samples of whole trials: (trials, points) -> (RESAMPLES, points)."""
    array = np.asarray(values, dtype=np.float64)
    count = len(array)
    generator = np.random.default_rng(seed)
    draws = generator.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    means: NDArray[np.float64] = draws @ array / count
    return means


def fit_power_law(
    x: Sequence[float], values: ArrayLike, low: float = 0.0, high: float = math.inf
) -> Fit | None:
    """The power law of the means of ``values``, (trials, points), over low ≤ x ≤ high. Points whose
    mean is 0 are left out; None where fewer than two are left, in any bootstrap sample."""
    array, points = np.asarray(values, dtype=np.float64), np.asarray(x, dtype=np.float64)
    inside = (points >= low) & (points <= high)
    array, points = array[:, inside], points[inside]
    rows = np.concatenate([array.mean(0, keepdims=True), resampled_means(array)])
    positive = rows > 0
    if not len(array) or (positive.sum(1) < 2).any():
        return None
    slopes, scales = _lines(np.log(points), rows, positive)
    return Fit(float(slopes[0]), float(scales[0]), slopes[1:], points[0], points[-1], len(array))


def _lines(
    x: NDArray[np.float64], rows: NDArray[np.float64], used: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slope and factor of each row: x (points,), rows and used (rows, points)."""
    y = np.log(np.where(used, rows, 1.0))
    count = used.sum(1)
    centre_x, centre_y = used @ x / count, (y * used).sum(1) / count
    away = (x - centre_x[:, None]) * used
    slopes = (away * y).sum(1) / (away * away).sum(1)
    return slopes, np.exp(centre_y - slopes * centre_x)


def slope_difference(a: Fit, b: Fit, level: float = LEVEL) -> Interval:
    """Percentile bootstrap interval of the slope of ``a`` minus that of ``b``, over the same
    trials."""
    return (a - b).interval(level)


def slope_between(
    label: str, fit: Fit | None, low: float = -math.inf, high: float = math.inf, least: int = 2
) -> Rule:
    """The slope lies between ``low`` and ``high``: its whole interval over trials inside for
    "reproduced" and outside for "contradicted". Trials are counted where others count seeds.

    Args:
        least: trials below which nothing is settled.
    """

    def judge(records: Records, level: float) -> Finding:
        if fit is None:
            return Finding(UNDECIDED, f"{label}: too few errors above 0 for a slope", 0)
        evidence = f"{label}: slope {fit} over {fit.low:g} to {fit.high:g}; {fit.trials} trials"
        if fit.trials < least:
            return Finding(UNDECIDED, f"{evidence} of {least}", fit.trials, least)

        def at(level: float) -> Verdict:
            return place_of(fit.interval(level), low, high)

        needed = _trials_needed(fit, (low, high), level) if at(level) == UNDECIDED else None
        return Finding(at(level), evidence, fit.trials, needed, at=at)

    return Rule(f"the slope of {label}", judge)


def _trials_needed(fit: Fit, ends: tuple[float, float], level: float) -> int | None:
    """Trials whose interval leaves out the nearest end with a probability of ``POWER``, and the
    other one too where the slope lies between both. Slopes of resampled trials are about normal."""
    interval, normal = fit.interval(level), NormalDist()
    reach = normal.inv_cdf((1 + level) / 2)  # half of an interval in standard errors
    error = (interval.high - interval.low) / 2 / reach
    gap, opposite = sorted(abs(fit.slope - end) for end in ends)
    if not error or not gap:
        return None
    if not ends[0] < fit.slope < ends[1]:
        opposite = math.inf
    for count in range(fit.trials + 1, MAXIMUM_SEEDS * fit.trials + 1):
        finer = math.sqrt(count / fit.trials) / error
        if normal.cdf(gap * finer - reach) - normal.cdf(reach - opposite * finer) >= POWER:
            return count
    return None


def signed(value: float, digits: int = 3) -> str:
    """A number with so many decimals, and a minus sign that is one."""
    return f"{value:.{digits}f}".replace("-", "−")
