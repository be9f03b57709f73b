"""Checks against scipy, closed forms, brute force, and the coverage that an interval promises."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from core.statistics import (
    CHANGE,
    COUNT,
    ERROR,
    KINDS,
    LOSS,
    REAL,
    SHARE,
    Interval,
    Items,
    Kind,
    difference_interval,
    interval_of,
    mean_interval,
    over_seeds_and_items,
    paired_items,
    rank_ranges,
    share_limits,
)
from tests.bench.tables import items_in, seeds_in

numbers = st.floats(-1e3, 1e3).map(lambda value: round(value, 6))
samples = st.lists(numbers, min_size=2, max_size=8).filter(lambda v: np.std(v) > 1e-6)


# Numbers of unknown range: Student and Welch


@given(samples)
def test_mean_interval_equals_scipy(values):
    result = mean_interval(values)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert result.interval == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-9)
    assert result.deviation == pytest.approx(np.std(values, ddof=1))


@given(samples, samples)
def test_difference_interval_equals_scipy_welch(a, b):
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    found = difference_interval(a, b)
    assert found == pytest.approx((expected.low, expected.high), rel=1e-8, abs=1e-8)


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
    assert difference_interval([0.5], [0.1, 0.2]) is None
    for values in ([math.inf, 1.0], [math.inf, -math.inf]):  # what a lost run may have given
        assert interval_of(values) is None
        assert difference_interval(values, [0.1, 0.2]) is None


def test_mean_does_not_depend_on_order():
    values = [0.1, 1e16, -1e16, 0.2, 0.3]
    means = {mean_interval(list(order)).mean for order in itertools.permutations(values)}
    assert len(means) == 1


# Shares: Clopper and Pearson, Korn and Graubard


@pytest.mark.parametrize("count", [1, 2, 7, 30])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_limits_of_a_share_are_clopper_and_pearsons(count, level):
    for successes in range(count + 1):
        exact = stats.binomtest(successes, count).proportion_ci(level, method="exact")
        found = share_limits(successes, count, level)
        assert found == pytest.approx((exact.low, exact.high), abs=1e-9)


@pytest.mark.parametrize(("successes", "count"), [(1, 2), (1, 10), (5, 10), (19, 20)])
def test_the_interval_of_yes_and_no_over_seeds_is_exact(successes, count):
    values = [1.0] * successes + [0.0] * (count - successes)
    exact = stats.binomtest(successes, count).proportion_ci(0.95, method="exact")
    assert interval_of(values, SHARE) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_the_interval_of_a_share_is_korn_and_graubards():
    """Their recipe for a survey of clusters, with scipy's beta distribution: seeds are clusters."""
    values = [0.9, 0.93, 0.91, 0.95]
    p, variance = np.mean(values), np.var(values, ddof=1) / 4
    ratio = stats.norm.ppf(0.975) / stats.t.ppf(0.975, 3)
    n = p * (1 - p) / variance * ratio**2
    assert n > 4
    low, high = (
        stats.beta.ppf(0.025, n * p, n - n * p + 1),
        stats.beta.ppf(0.975, n * p + 1, n - n * p),
    )
    assert interval_of(values, SHARE) == pytest.approx((low, high), abs=1e-9)


def test_equal_seeds_say_as_much_as_their_items():
    equal = [1.0, 1.0, 1.0]
    assert interval_of(equal, SHARE) is None
    assert interval_of(equal, LOSS, Items(500)) is None  # only a share's items tell its spread
    for items in (Items(500), Items(500, 0.0)):
        found = interval_of(equal, SHARE, items)
        exact = stats.binomtest(500, 500).proportion_ci(0.95, method="exact")
        assert found == pytest.approx((exact.low, 1.0), abs=1e-9)
    # The same failures in every seed: the seeds add nothing to what the items say.
    found = interval_of([0.98] * 3, SHARE, Items(500))
    assert found is not None
    few = interval_of([0.98] * 3, SHARE, Items(50))
    assert few is not None
    assert few.low < found.low < 0.98 < found.high < few.high


def test_a_single_item_gives_no_interval():
    values, one = [0.4, 0.5, 0.6], Items(1, 0.0, values=(0.5,), drawn="data")
    assert interval_of(values, SHARE, one) is None
    assert interval_of(values, SHARE, Items(1)) is None
    for items in ((one, one), (None, Items(1)), (Items(1), None)):
        assert difference_interval(values, [0.1, 0.2], SHARE, items) is None
    assert difference_interval(values, [0.1, 0.2], SHARE, together=Items(1, 0.1)) is None
    assert interval_of(values, SHARE, Items(2)) is not None


def test_items_that_each_seed_draws_anew_count_only_where_seeds_agree():
    values, fresh = [0.8, 0.85, 0.9], Items(150, 0.0)
    assert interval_of(values, SHARE, fresh) == pytest.approx(interval_of(values, SHARE))
    exact = stats.binomtest(150, 150).proportion_ci(0.95, method="exact")
    assert interval_of([1.0] * 3, SHARE, fresh) == pytest.approx((exact.low, 1.0), abs=1e-9)


# Seeds and test items


def test_the_variance_of_a_mean_is_that_of_new_seeds_and_new_items():
    """Its estimate is right on average, against the closed form of the model that drew the data."""
    generator = np.random.default_rng(5)
    seeds, count, found = 4, 12, []
    for _ in range(3000):
        table = 0.3 * generator.standard_normal((seeds, 1)) + generator.standard_normal((1, count))
        table = table + 0.8 * generator.standard_normal((seeds, count))
        parts = over_seeds_and_items(seeds_in(table), REAL, items_in(table))
        found.append(math.fsum(variance for variance, _ in parts))
    exact = 0.3**2 / seeds + 1 / count + 0.8**2 / (seeds * count)
    assert np.mean(found) == pytest.approx(exact, rel=0.04)  # 0.03 too much were shared not removed


def test_paired_items_count_by_their_differences():
    generator = np.random.default_rng(3)
    difficulty = generator.standard_normal(40)
    a, b = (difficulty + 0.1 * generator.standard_normal((5, 40)) for _ in range(2))
    same = (items_in(a, "data"), items_in(b, "data"))
    paired = difference_interval(seeds_in(a), seeds_in(b), REAL, same)
    other = difference_interval(seeds_in(a), seeds_in(b), REAL, (same[0], items_in(b, "more")))
    unnamed = difference_interval(seeds_in(a), seeds_in(b), REAL, (items_in(a), items_in(b)))
    assert paired is not None
    assert other is not None
    assert other == unnamed  # what nobody named is not the same
    assert paired.high - paired.low < (other.high - other.low) / 5
    # By hand: seeds of both, and differences item by item, less what both parts hold.
    together = paired_items(*same)
    assert together is not None
    assert together.variance == pytest.approx(np.var(a.mean(0) - b.mean(0), ddof=1) / 40)
    known = difference_interval(seeds_in(a), seeds_in(b), REAL, together=together)
    assert known == pytest.approx(paired)


def test_two_shares_of_which_one_does_not_vary_are_put_together_by_their_ends():
    found = difference_interval([1.0] * 3, [0.5, 0.52, 0.54], SHARE, (Items(100), Items(100)))
    of_a = interval_of([1.0] * 3, SHARE, Items(100))
    of_b = interval_of([0.5, 0.52, 0.54], SHARE, Items(100))
    assert found is not None
    assert of_a is not None
    assert of_b is not None
    assert found.low == pytest.approx(0.48 - math.hypot(1 - of_a.low, of_b.high - 0.52))
    assert found.high == pytest.approx(0.48 + 0.52 - of_b.low)  # a is at the end of its range
    assert difference_interval([1.0] * 3, [0.5] * 3, SHARE) is None
    assert difference_interval([1.0] * 3, [0.5] * 3, LOSS) is None


# No interval leaves the range of its kind; every interval contains its mean

inside = {
    SHARE: st.floats(0, 1),
    CHANGE: st.floats(-1, 1),
    LOSS: st.floats(0, 1e6),
    ERROR: st.floats(0, 10),
    COUNT: st.integers(0, 10**6).map(float),
    REAL: numbers,
}
variances = st.none() | st.floats(0, 0.25)
some_items = st.none() | st.builds(
    Items, st.integers(1, 500), variances, st.floats(0, 0.3), drawn=st.just("data")
)
levels = st.sampled_from([0.5, 0.95, 0.9999])


def one_of(kind: Kind):
    ends = [end for end in (kind.low, kind.high) if math.isfinite(end)]
    number = inside[kind] | st.sampled_from(ends or [0.0])
    return st.lists(number, min_size=1, max_size=10) | st.lists(
        st.sampled_from(ends or [0.0, 1.0]), min_size=1, max_size=20
    )


@settings(max_examples=300)
@given(st.data(), st.sampled_from(sorted(KINDS)), levels)
def test_no_interval_leaves_its_range_or_its_mean(data, name, level):
    kind = KINDS[name]
    a, b = data.draw(one_of(kind)), data.draw(one_of(kind))
    of_a, of_b, together = (data.draw(some_items) for _ in range(3))
    found = interval_of(a, kind, of_a, level)
    if found is not None:
        slack = 1e-9 * max(1.0, abs(np.mean(a)))
        assert kind.low <= found.low <= np.mean(a) + slack
        assert np.mean(a) - slack <= found.high <= kind.high
        assert found.low < found.high
    found = difference_interval(a, b, kind, (of_a, of_b), level, together)
    if found is not None:
        widest, mean = kind.high - kind.low, np.mean(a) - np.mean(b)
        slack = 1e-9 * max(1.0, abs(np.mean(a)), abs(np.mean(b)))
        assert -widest <= found.low <= mean + slack
        assert mean - slack <= found.high <= widest


@settings(max_examples=100)
@given(st.data(), st.sampled_from(sorted(KINDS)))
def test_a_higher_level_is_a_wider_interval_and_swapping_turns_a_difference(data, name):
    kind = KINDS[name]
    a, b = data.draw(one_of(kind)), data.draw(one_of(kind))
    items = data.draw(some_items), data.draw(some_items)
    narrow, wide = (interval_of(a, kind, items[0], level) for level in (0.8, 0.95))
    assert (narrow is None) <= (wide is None)
    if narrow is not None and wide is not None:
        assert wide.low <= narrow.low + 1e-9 * abs(narrow.low)
        assert narrow.high <= wide.high + 1e-9 * abs(wide.high)
    there, back = (
        difference_interval(a, b, kind, items),
        difference_interval(b, a, kind, items[::-1]),
    )
    turned = None if back is None else (-back.high, -back.low)
    assert there is None if turned is None else there == pytest.approx(turned)


# Ranks

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


def test_a_kind_is_known_by_its_name():
    assert {name: kind.name for name, kind in KINDS.items()} == {name: name for name in KINDS}
    assert replace(SHARE, low=-1.0) != SHARE
