"""Slopes with bootstrap intervals, against laws that are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduce.claims.power_laws import Fit, fit_power_law, slope_between
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED, Finding

X = [8, 16, 32, 64, 128, 256]


def noisy(slope: float, trials: int, seed: int, spread: float = 0.3) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return 2 * np.power(X, slope) * np.exp(spread * generator.standard_normal((trials, len(X))))


@settings(max_examples=30)
@given(st.floats(-3, 1), st.floats(0.01, 100))
def test_an_exact_law_is_found_exactly(slope: float, scale: float) -> None:
    fit = fit_power_law(X, np.tile(scale * np.power(X, slope), (4, 1)))
    assert fit is not None
    assert fit.slope == pytest.approx(slope, abs=1e-9)
    assert fit.scale == pytest.approx(scale)
    assert fit.interval() == pytest.approx((slope, slope), abs=1e-9)


def test_the_window_is_what_is_fitted() -> None:
    bent = [[8**-1.0, 16**-1.0, 32**-1.0, 9.0, 9.0, 0.0]]
    fit = fit_power_law(X, bent, 8, 40)
    assert fit is not None
    assert (fit.slope, fit.low, fit.high) == (pytest.approx(-1), 8, 32)


def test_means_of_zero_are_left_out_and_one_point_is_no_law() -> None:
    values = np.zeros((3, 6))
    values[:, :2] = [1.0, 0.5]
    fit = fit_power_law(X, values)
    assert fit is not None
    assert fit.slope == pytest.approx(-1)
    values[:, 1] = 0
    assert fit_power_law(X, values) is None
    # Above 0 in a single trial, which many bootstrap samples lack.
    values[0, 1] = 0.5
    assert fit_power_law(X, values) is None


def test_intervals_cover_the_true_slope() -> None:
    covered = 0
    for seed in range(60):
        fit = fit_power_law(X, noisy(-0.5, 40, seed))
        assert fit is not None
        low, high = fit.interval()
        covered += low < -0.5 < high
    assert 50 <= covered <= 60  # 57 expected


def test_a_difference_of_slopes_is_surer_than_two_slopes_of_the_same_trials() -> None:
    own = np.random.default_rng(4).normal(0, 0.1, (40, 1))  # what a trial adds to the exponent
    values = noisy(-0.5, 40, 3, spread=0.01) * np.exp(own * np.log(X))
    early, late = fit_power_law(X, values, 8, 64), fit_power_law(X, values, 32, 256)
    assert early is not None
    assert late is not None
    assert (late - early).slope == pytest.approx(late.slope - early.slope)
    widths = [high - low for low, high in (fit.interval() for fit in (late - early, late, early))]
    assert widths[0] < min(widths[1:])


def judged(fit: Fit | None, low: float, high: float, least: int = 2) -> Finding:
    return slope_between("it", fit, low, high, least).judge([], 0.95)


def test_three_verdicts() -> None:
    fit = fit_power_law(X, noisy(-0.5, 60, 1))
    assert fit is not None
    low, high = fit.interval()
    assert judged(fit, -0.6, -0.4).verdict == REPRODUCED
    assert judged(fit, low, high).verdict == REPRODUCED  # the ends belong to it
    assert judged(fit, -1.1, -0.9).verdict == CONTRADICTED
    assert judged(fit, (low + high) / 2 + 1e-3, 0.0).verdict == UNDECIDED
    assert judged(None, -1, 0).verdict == UNDECIDED
    few = judged(fit, -0.6, -0.4, least=80)
    assert (few.verdict, few.seeds, few.seeds_needed) == (UNDECIDED, 60, 80)
    alone = fit_power_law(X, noisy(-0.5, 1, 1))
    assert judged(alone, -9, 9).verdict == UNDECIDED  # one trial has no interval


def test_as_many_trials_as_are_asked_for_settle_it_with_the_power() -> None:
    """By drawing them: the slope has an end of the range 0.03 away."""
    fit = fit_power_law(X, noisy(-0.5, 30, 2))
    assert fit is not None
    spread = float(np.std(fit.slopes))
    asked = judged(fit, fit.slope - 1.5 * spread, fit.slope + 9 * spread)
    assert asked.verdict == UNDECIDED
    assert asked.seeds_needed is not None
    shifts = [slope_of(asked.seeds_needed, seed) + 0.5 for seed in range(60)]
    # Their intervals are narrower by the root of the ratio of trials.
    reach = 1.96 * spread * np.sqrt(30 / asked.seeds_needed)
    settled = np.mean([shift - reach > -1.5 * spread for shift in shifts])
    assert 0.65 <= settled <= 0.95
    farther = judged(fit, fit.slope - 1.8 * spread, fit.slope + 9 * spread)
    assert farther.seeds_needed is not None
    assert farther.seeds_needed < asked.seeds_needed
    both = judged(fit, fit.slope - 1.5 * spread, fit.slope + 1.5 * spread)
    assert both.seeds_needed is not None
    assert both.seeds_needed > asked.seeds_needed


def slope_of(trials: int, seed: int) -> float:
    fit = fit_power_law(X, noisy(-0.5, trials, 1000 + seed))
    assert fit is not None
    return fit.slope
