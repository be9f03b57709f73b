"""What intervals and numbers of seeds promise, by simulation.

95 % intervals contain the truth in 93 % of the cases or more, and in no more than 99.5 %: they are
not so wide that they say nothing.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bench.records.numbers import over_seeds as over_seeds_of
from core.statistics import (
    REAL,
    SHARE,
    difference_interval,
    half_width,
    interval_of,
    over_seeds,
    seeds_needed,
)
from tests.bench.records import make_record
from tests.bench.tables import answers, chances, items_in, seeds_in


def record(seed, value, rows, data):
    config = {"tasks": {"data_seed": data}}
    given = {"metrics": {"test": {"accuracy": value}}, "per_sequence": {"accuracy": list(rows)}}
    return make_record(seed=seed, run_id=f"r{seed}", task="none", config=config, **given)


def covered(truth, found):
    """Nothing known is the whole range, which contains the truth."""
    return found is None or found.low <= truth <= found.high


def assert_coverage(hits):
    assert 0.93 <= np.mean(hits) <= 0.995


@pytest.mark.parametrize("low", [0.01, 0.45, 0.9])
@pytest.mark.parametrize("count", [10, 20])
def test_coverage_of_yes_and_no(low, count):
    # True shares from a small range: at a single one the few possible counts decide the coverage.
    generator = np.random.default_rng(round(100 * low) + count)
    truths = generator.uniform(low, low + 0.09, 4000)
    draws = generator.random((4000, count)) < truths[:, None]
    known = {k: interval_of([1.0] * k + [0.0] * (count - k), SHARE) for k in range(count + 1)}
    assert_coverage([covered(p, known[k]) for p, k in zip(truths, draws.sum(1), strict=True)])


# Every setting at small shares, where an interval is the least like a normal one, else a quarter.
SETTINGS = [
    (low, seeds, count, common)
    for low, seeds, count, common in itertools.product(
        (0.05, 0.45, 0.85), (3, 10), (50, 200), (False, True)
    )
    if low == 0.05 or (common, seeds) == (count == 50, 3 if low == 0.45 else 10)
]


@pytest.mark.parametrize(("low", "seeds", "count", "common"), SETTINGS)
def test_coverage_of_shares_over_seeds_and_items(low, seeds, count, common):
    generator = np.random.default_rng([round(100 * low), seeds, count, common])
    means, apart, paired = [], [], []
    for p in generator.uniform(low, low + 0.1, 2500):  # few of them stray from the truth by 0.0015
        table = answers(generator, chances(generator, p, count, common), seeds)
        means.append(covered(p, interval_of(seeds_in(table), SHARE, items_in(table))))
    for p in generator.uniform(low, low + 0.1, 700):
        same, new = (chances(generator, p, count, common) for _ in range(2))
        a, b = answers(generator, same, seeds), answers(generator, new, seeds)
        c = answers(generator, 0.9 * same, seeds)  # fails in one tenth of what a answers
        of_a, of_b, of_c = items_in(a, "one"), items_in(b, "other"), items_in(c, "one")
        found = difference_interval(seeds_in(a), seeds_in(b), SHARE, (of_a, of_b))
        apart.append(covered(0.0, found))
        found = difference_interval(seeds_in(a), seeds_in(c), SHARE, (of_a, of_c))
        paired.append(covered(p / 10, found))
    assert_coverage(means)
    assert_coverage(apart)
    assert_coverage(paired)


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("seeds", [3, 5])
def test_coverage_of_shares_where_seeds_differ_too(common, seeds):
    generator = np.random.default_rng(11)
    hits = []
    for _ in range(1500):
        table = answers(generator, chances(generator, 0.5, 100, common), seeds, spread=0.1)
        hits.append(covered(0.5, interval_of(seeds_in(table), SHARE, items_in(table))))
    assert_coverage(hits)


@pytest.mark.parametrize("count", [3, 10])
def test_coverage_of_normal_numbers(count):
    draws = np.random.default_rng(7).normal(1.0, 2.0, size=(4000, 2 * count)).tolist()
    assert_coverage([covered(1.0, interval_of(row[:count])) for row in draws])
    found = [difference_interval(row[:count], row[count:]) for row in draws]
    assert_coverage([covered(0.0, interval) for interval in found])


@pytest.mark.parametrize("count", [3, 10])
def test_coverage_of_normal_numbers_over_items(count):
    generator = np.random.default_rng(count)
    hits = []
    for _ in range(1500):
        of_seeds = 0.2 * generator.standard_normal((count, 1))
        table = of_seeds + generator.standard_normal(30) + generator.standard_normal((count, 30))
        hits.append(covered(0.0, interval_of(seeds_in(table), REAL, items_in(table))))
    assert_coverage(hits)


@pytest.mark.parametrize(("of_data", "seeds"), [(0.0, 3), (0.3, 3), (0.3, 1)])
def test_coverage_over_data_seeds_with_training_seeds_and_items_in_them(of_data, seeds):
    """Each data seed has its own level, training seeds and test items."""
    generator = np.random.default_rng([seeds, round(100 * of_data)])
    hits, alone = [], []
    for _ in range(600):
        data = of_data * generator.standard_normal((3, 1, 1))
        training = 0.1 * generator.standard_normal((3, seeds, 1))
        items = 0.5 * generator.standard_normal((3, 1, 30))
        table = data + training + items + 0.5 * generator.standard_normal((3, seeds, 30))
        runs = [
            record(k * seeds + n, row.mean(), rows=row, data=k)
            for k, part in enumerate(table)
            for n, row in enumerate(part)
        ]
        values = [run.metrics["test"]["accuracy"] for run in runs]
        hits.append(covered(0.0, over_seeds_of(runs, values, "accuracy").interval))
        if seeds > 1:
            alone.append(covered(0.0, interval_of(seeds_in(table[0]), REAL, items_in(table[0]))))
    assert_coverage(hits)
    if of_data and alone:
        assert np.mean(alone) < 0.7  # one data seed tells nothing of others


# Seeds needed


@settings(max_examples=40)
@given(st.floats(0.01, 10), st.floats(0.3, 20))
def test_seeds_needed_is_the_smallest_number_with_the_power(deviation, gap):
    found = seeds_needed(deviation, gap=gap, maximum=10_000)
    assert found is not None

    def power(n):
        return stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, gap / deviation * math.sqrt(n))

    if gap / deviation < 10:  # scipy's own function fails far out
        assert power(found) > 0.8 - 0.005
        assert found == 2 or power(found - 1) < 0.8 + 0.005


@pytest.mark.parametrize(
    ("deviations", "gap", "fixed", "opposite"),
    [
        ((1.0,), 0.9, 0.0, math.inf),
        ((1.0,), 0.4, 0.0, math.inf),
        ((1.0, 0.5), 0.8, 0.0, math.inf),
        ((0.3, 0.3), 0.3, 0.0, math.inf),
        ((1.0,), 0.9, 0.05, math.inf),
        ((1.0, 0.7), 0.9, 0.02, math.inf),
        ((1.0,), 0.7, 0.0, 0.7),  # between two values, in the middle
        ((1.0,), 0.7, 0.0, 0.8),
    ],
)
def test_so_many_seeds_settle_four_of_five_studies(deviations, gap, fixed, opposite):
    beside = [(fixed, 39)] if fixed else []
    n = seeds_needed(*deviations, gap=gap, fixed=beside, opposite=opposite)
    assert n is not None
    generator = np.random.default_rng(2)
    settled = 0
    for _ in range(3000):
        drawn = [deviation * generator.standard_normal(n) for deviation in deviations]
        # Away from the edge by the gap, and beside seeds an estimate with a variance of its own.
        estimate = gap + sum(values.mean() for values in drawn)
        parts = [over_seeds(float(values.std(ddof=1)), n) for values in drawn]
        if fixed:
            estimate += math.sqrt(fixed) * generator.standard_normal()
            parts.append((fixed * generator.chisquare(39) / 39, 39))
        half = half_width(parts)
        settled += estimate - half > 0 and estimate + half < gap + opposite
    assert 0.75 <= settled / 3000 <= 0.85


def test_seeds_needed_at_its_limits():
    assert seeds_needed(1.0, gap=0.0) is None
    assert seeds_needed(1.0, 1.0, gap=1e-6) is None
    assert seeds_needed(0.0, 0.0, gap=0.1) == 2
    assert seeds_needed(1.0, gap=-1.0) == seeds_needed(1.0, gap=1.0) == 10  # as in tables of power
    assert seeds_needed(1.0, gap=1.0, maximum=9) is None
    assert seeds_needed(1e-9, gap=1e3) == 2  # however far
    assert seeds_needed(1.0, gap=1.0, opposite=1.0) > seeds_needed(1.0, gap=1.0)
    assert seeds_needed(1.0, gap=1.0, opposite=1e3) == seeds_needed(1.0, gap=1.0)


@settings(max_examples=40)
@given(st.floats(0.1, 3), st.floats(0.5, 3), st.floats(0, 0.05))
def test_more_gap_and_less_spread_never_need_more_seeds(deviation, gap, fixed):
    beside = [(fixed, 39)] if fixed else []

    def needed(spread, distance):
        return seeds_needed(spread, gap=distance, fixed=beside) or math.inf

    assert needed(deviation, 1.5 * gap) <= needed(deviation, gap) <= needed(1.5 * deviation, gap)


def test_what_no_seed_makes_smaller_may_be_too_much():
    alone = seeds_needed(1.0, gap=1.0)
    beside = seeds_needed(1.0, gap=1.0, fixed=[(0.05, 39)])
    assert alone is not None
    assert beside is not None
    assert beside > alone
    assert seeds_needed(1.0, gap=1.0, fixed=[(0.3, 39)]) is None
