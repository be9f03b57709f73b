"""Slopes with bootstrap intervals, against laws that are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduce.judging.claims import CONTRADICTED, REPRODUCED, UNDECIDED
from reproduce.judging.power_laws import band_over_trials, fit_power_law, slope_within

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


def test_bands_are_those_of_the_normal_law_for_many_trials() -> None:
    values = np.random.default_rng(0).normal(5, 2, (400, 3))
    band = band_over_trials(values)
    np.testing.assert_allclose(band.mean, values.mean(0))
    half = 1.96 * values.std(0) / 20
    np.testing.assert_allclose(band.high - band.mean, half, rtol=0.1)
    np.testing.assert_allclose(band.mean - band.low, half, rtol=0.1)


def test_three_verdicts() -> None:
    values = noisy(-0.5, 60, 1)
    fit = fit_power_law(X, values)
    assert fit is not None
    low, high = fit.interval()

    def verdict(first: float, last: float, trials: int = 60) -> str:
        return slope_within("it", fit, first, last, 1, trials).verdict

    assert verdict(-0.6, -0.4) == REPRODUCED
    assert verdict(-1.1, -0.9) == CONTRADICTED
    assert verdict((low + high) / 2 + 1e-3, 0.0) == UNDECIDED
    assert verdict(-0.6, -0.4, trials=1) == UNDECIDED
    undecided = slope_within("it", fit, fit.slope - (high - low) / 8, 0.0, 2, 60)
    assert undecided.seeds_needed is not None
    assert 25 <= undecided.seeds_needed <= 45  # four times narrower takes sixteen times as many
    assert slope_within("it", None, -1, 0, 1, 60).verdict == UNDECIDED
