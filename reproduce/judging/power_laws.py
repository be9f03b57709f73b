"""Power laws through errors that trials measured, with bootstrap intervals over the trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.ground.statistics import Interval
from reproduce.judging.claims import LEVEL, MAXIMUM_SEEDS, UNDECIDED, Finding, place_of

RESAMPLES = 2000


@dataclass(frozen=True)
class Fit:
    """Least squares of log(mean over trials) on log x.

    Attributes:
        slope, scale: mean ≈ scale · x^slope.
        slopes: of every bootstrap sample of trials, (RESAMPLES,).
        low, high: first and last x of the fit.
    """

    slope: float
    scale: float
    slopes: NDArray[np.float64]
    low: float
    high: float

    def interval(self, level: float = LEVEL) -> Interval:
        """Percentile bootstrap interval of the slope."""
        tail = (1 - level) / 2
        low, high = np.quantile(self.slopes, (tail, 1 - tail))
        return Interval(float(low), float(high))

    def __str__(self) -> str:
        low, high = self.interval()
        return f"{signed(self.slope)} ({LEVEL:.0%} interval {signed(low)} to {signed(high)})"


class Band(NamedTuple):
    """Means over trials and the ends of their percentile bootstrap intervals, each (points,)."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def band_over_trials(values: ArrayLike, level: float = LEVEL) -> Band:
    """The mean of each point of ``values``, (trials, points), with its interval."""
    tail = (1 - level) / 2
    low, high = np.quantile(resampled_means(values), (tail, 1 - tail), axis=0)
    return Band(np.mean(np.asarray(values, dtype=np.float64), axis=0), low, high)


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
    return Fit(float(slopes[0]), float(scales[0]), slopes[1:], points[0], points[-1])


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
    return replace(a, slopes=a.slopes - b.slopes).interval(level)


def slope_within(
    label: str, fit: Fit | None, low: float, high: float, seeds: int, trials: int
) -> Finding:
    """Is the slope between ``low`` and ``high``? The whole interval over trials has to be inside
    for "reproduced" and outside for "contradicted".

    Args:
        seeds: runs whose trials were pooled.
    """
    if fit is None:
        return Finding(UNDECIDED, f"{label}: too few errors above 0 for a slope", seeds)
    found = fit.interval()
    verdict = place_of(found if trials > 1 else None, low, high)
    needed = None
    if verdict == UNDECIDED and trials > 1:
        gap = min(abs(fit.slope - edge) for edge in (low, high))
        half = (found.high - found.low) / 2
        more = math.ceil(seeds * (half / gap) ** 2) if gap else MAXIMUM_SEEDS + 1
        needed = max(more, seeds + 1) if more <= MAXIMUM_SEEDS else None
    evidence = f"{label}: slope {fit} over {fit.low:g} to {fit.high:g}; {trials} trials"
    return Finding(verdict, evidence, seeds, needed)


def signed(value: float) -> str:
    """Three decimals, with a minus sign that is one."""
    return f"{value:.3f}".replace("-", "−")
