"""Checks against scipy, closed forms, brute force, and the coverage that an interval promises."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bench.ground.statistics import (
    Interval,
    difference_interval,
    mean_interval,
    rank_ranges,
    seeds_needed,
)

numbers = st.floats(-1e3, 1e3).map(lambda value: round(value, 6))
samples = st.lists(numbers, min_size=2, max_size=8).filter(lambda v: np.std(v) > 1e-6)


@given(samples)
def test_mean_interval_equals_scipy(values):
    result = mean_interval(values)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert result.interval == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-9)
    assert result.deviation == pytest.approx(np.std(values, ddof=1))


@given(samples, samples)
def test_difference_interval_equals_scipy_welch(a, b):
    result = difference_interval(a, b)
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert result.interval == pytest.approx((expected.low, expected.high), rel=1e-8, abs=1e-8)


def test_known_interval_by_hand():
    # 1, 2, 3: mean 2, deviation 1, t(0.975, 2) = 4.302653, half-width 4.302653/√3
    result = mean_interval([1.0, 2.0, 3.0])
    assert result.mean == 2.0
    assert result.interval is not None
    assert result.interval.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-6)


def test_one_seed_has_no_interval_and_failures_are_counted():
    assert mean_interval([0.5])[:3] == (0.5, None, None)
    total_failure = mean_interval([None, math.nan, math.inf])
    assert total_failure == (None, None, None, 0, 3)
    assert mean_interval([0.5, None, 0.7]).failures == 1
    assert mean_interval([0.0, 0.0, 0.0]).mean == 0.0  # a zero is a number, not a failure
    assert difference_interval([0.5], [0.1, 0.2]).interval is None
    assert difference_interval([None], [0.1]).difference is None


def test_mean_does_not_depend_on_order():
    values = [0.1, 1e16, -1e16, 0.2, 0.3]
    means = {mean_interval(list(order)).mean for order in itertools.permutations(values)}
    assert len(means) == 1


@pytest.mark.parametrize("count", [3, 5])
def test_intervals_cover_what_they_promise(count):
    draws = np.random.default_rng(7).normal(1.0, 2.0, size=(4000, 2 * count))
    inside = difference_inside = 0
    for row in draws.tolist():
        interval = mean_interval(row[:count]).interval
        difference = difference_interval(row[:count], row[count:]).interval
        assert interval is not None
        assert difference is not None
        inside += interval.low <= 1.0 <= interval.high
        difference_inside += difference.low <= 0.0 <= difference.high
    # 95 % of 4000, four standard errors (0.0034); Welch is slightly conservative at small n.
    assert inside / 4000 == pytest.approx(0.95, abs=0.014)
    assert 0.936 <= difference_inside / 4000 <= 0.985


intervals = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 4)).map(lambda p: Interval(p[0], p[0] + p[1])),
    max_size=5,
)


@settings(max_examples=60)
@given(intervals, st.sampled_from(["maximise", "minimise"]))
def test_rank_ranges_equal_enumeration(items, direction):
    """Every ordering that does not place a surely worse item before a surely better one."""

    def surely_better(a, b):
        return a.low > b.high if direction == "maximise" else a.high < b.low

    possible: list[set[int]] = [set() for _ in items]
    for order in itertools.permutations(range(len(items))):
        pairs = itertools.combinations(order, 2)
        if not any(surely_better(items[late], items[early]) for early, late in pairs):
            for rank, index in enumerate(order, start=1):
                possible[index].add(rank)
    found = rank_ranges(items, direction)
    assert [(r.best, r.worst) for r in found] == [(min(p), max(p)) for p in possible]


def test_unknown_interval_leaves_every_rank_open():
    found = rank_ranges([Interval(3, 4), None, Interval(1, 2)], "maximise")
    assert found == [(1, 2), (1, 3), (2, 3)]


@given(
    st.lists(st.floats(0.01, 10), min_size=1, max_size=2),
    st.floats(0.5, 20),
)
def test_seeds_needed_is_the_smallest_number_that_settles(deviations, gap):
    found = seeds_needed(*deviations, gap=gap, maximum=10_000)
    assert found is not None

    def half_width(n):
        if len(deviations) == 1:
            return stats.t.ppf(0.975, n - 1) * deviations[0] / math.sqrt(n)
        # Two samples of n values with exactly these deviations, through scipy's own Welch test.
        unit = np.r_[np.ones(n // 2), -np.ones(n // 2), np.zeros(n % 2)]
        unit /= unit.std(ddof=1)
        test = stats.ttest_ind(unit * deviations[0], unit * deviations[1], equal_var=False)
        return test.confidence_interval(0.95).high

    assert half_width(found) < gap * (1 + 1e-9)
    assert found == 2 or half_width(found - 1) >= gap * (1 - 1e-9)


def test_seeds_needed_at_its_limits():
    assert seeds_needed(1.0, gap=0.0) is None
    assert seeds_needed(1.0, 1.0, gap=1e-6) is None
    assert seeds_needed(0.0, 0.0, gap=0.1) == 2
    assert seeds_needed(1.0, gap=-1.0) == seeds_needed(1.0, gap=1.0) == 7
    assert seeds_needed(1.0, gap=1.0, maximum=6) is None


def test_seeds_needed_beside_a_spread_that_no_seed_makes_smaller():
    def half_width(n):
        seeds, documents, freedom = 1 / n, 0.2, 39
        welch = (seeds + documents) ** 2 / (seeds**2 / (n - 1) + documents**2 / freedom)
        return stats.t.ppf(0.975, welch) * math.sqrt(seeds + documents)

    found = seeds_needed(1.0, gap=1.0, fixed=[(0.2, 39)])
    assert found is not None
    assert half_width(found) < 1 <= half_width(found - 1)
    assert found > seeds_needed(1.0, gap=1.0)
    assert seeds_needed(1.0, gap=1.0, fixed=[(0.3, 39)]) is None  # too wide without any seed
