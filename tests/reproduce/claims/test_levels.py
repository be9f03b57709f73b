"""At which level a verdict stands, against the p-values of textbooks."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from core.statistics import SHARE
from reproduce.claims.levels import SMALLEST, smallest_p
from reproduce.claims.power_laws import RESAMPLES, fit_power_law, slope_between
from reproduce.claims.trials import fact, settled
from reproduce.claims.verdicts import (
    CONTRADICTED,
    REPRODUCED,
    UNDECIDED,
    Finding,
    difference_above,
    every,
    mean_within,
    share_of_seeds,
)
from tests.reproduce.claims.samples import sample

OURS, THEIRS = (0.61, 0.66, 0.63, 0.70), (0.50, 0.56, 0.53)
Test = Callable[[float], Finding]


def p_of(test: Test) -> float | None:
    return smallest_p(test(0.95), test)


def above(a: tuple[float, ...], b: tuple[float, ...]) -> Test:
    return lambda level: difference_above(sample(*a), sample(*b), level=level)


def forgetful(test: Test) -> Test:
    """A test that only says what it found at one level."""
    return lambda level: replace(test(level), at=None)


@pytest.mark.parametrize("kept", [lambda test: test, forgetful])
def test_p_is_welchs_either_way(kept: Callable[[Test], Test]) -> None:
    truth = stats.ttest_ind(OURS, THEIRS, equal_var=False).pvalue
    for test in (above(OURS, THEIRS), above(THEIRS, OURS)):
        found = p_of(kept(test))
        assert found is not None
        assert truth <= found <= 1.2 * truth  # two digits, rounded up


def test_p_of_several_tests() -> None:
    weak = (0.57, 0.60, 0.58)
    ps = [stats.ttest_ind(OURS, other, equal_var=False).pvalue for other in (THEIRS, weak)]
    both = p_of(lambda level: every([above(OURS, THEIRS), above(OURS, weak)], level))
    assert both == pytest.approx(max(ps), rel=0.2)  # all have to hold
    one = p_of(lambda level: every([above(THEIRS, OURS), above(OURS, weak)], level))
    assert one == pytest.approx(2 * ps[0], rel=0.2)  # any may fail: Bonferroni


def test_p_of_a_share_is_that_of_the_exact_interval() -> None:
    found = p_of(lambda level: share_of_seeds(sample(*[1.0] * 6), 0.8, level=level))
    assert found == pytest.approx(2 * 0.5**6, rel=0.03)


def test_what_no_chance_enters_has_none_and_what_is_open_is_unknown() -> None:
    fixed = sample(0.9, deterministic=True)
    assert p_of(lambda level: mean_within(fixed, low=0.8, level=level)) == 0
    rule = fact("it holds", "thing", lambda records: [1], lambda found: settled(True, "so it is"))
    assert p_of(lambda level: rule.judge([], level)) == 0
    assert p_of(lambda level: mean_within(sample(0.7, 0.8, 0.9), low=0.8, level=level)) is None
    surely = sample(*np.linspace(1, 1.001, 20).tolist())
    assert p_of(lambda level: mean_within(surely, low=0.5, level=level)) == SMALLEST


def test_a_bootstrap_knows_no_smaller_p_than_its_samples_can_tell() -> None:
    values = np.random.default_rng(0).normal(1, 0.01, (20, 3)) * [1, 2, 4]
    rule = slope_between("slope", fit_power_law([1, 2, 4], values), low=0.5)
    assert rule.judge([], 0.95).verdict == REPRODUCED
    found = p_of(lambda level: rule.judge([], level))
    assert found is not None
    assert 2 / RESAMPLES <= found <= 2.2 / RESAMPLES


def test_a_verdict_that_was_taken_back_stays_so_among_others() -> None:
    def doubted(level: float) -> Finding:
        return replace(above(OURS, THEIRS)(level), verdict=UNDECIDED)

    assert every([above(OURS, THEIRS), doubted]).verdict == UNDECIDED
    assert p_of(doubted) is None
    against = lambda level: replace(above(OURS, THEIRS)(level), verdict=CONTRADICTED)  # noqa: E731
    assert every([above(OURS, THEIRS), against]).verdict == CONTRADICTED


def test_the_effect_of_several_parts_is_that_of_the_weakest() -> None:
    strong, weak = sample(0.9, 0.91, 0.92), sample(0.70, 0.72, 0.74)
    finding = every([lambda v, s=s: mean_within(s, low=0.6, level=v) for s in (strong, weak)])
    assert finding.effect is not None
    assert finding.effect.difference == pytest.approx(0.12)


def test_the_effect_is_measured_from_an_end_that_a_claim_set() -> None:
    """At least 0.5 of a share: 0.9 is 0.4 above that, and not 0.1 below what no share can pass."""
    for low, high, from_it in ((0.5, 1.0, 0.4), (-math.inf, 1.0, -0.1), (0.0, 0.95, -0.05)):
        effect = mean_within(sample(0.89, 0.90, 0.91, kind=SHARE), low, high).effect
        assert effect is not None
        assert effect.difference == pytest.approx(from_it)
