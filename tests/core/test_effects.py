"""Effect sizes and the share of false findings, against definitions and by simulation."""

import numpy as np
import pytest

from core.components import components
from core.effects import discoveries, hedges_g


@pytest.mark.parametrize("count", [3, 5])
def test_hedges_g_is_right_in_the_mean_over_many_studies(count: int) -> None:
    generator = np.random.default_rng(count)
    draws = generator.normal([1.5] * count + [0.0] * count, 1.0, (20_000, 2 * count))
    found = [hedges_g(row[:count], row[count:]) for row in draws.tolist()]
    assert np.mean(found) == pytest.approx(1.5, abs=0.04)


def test_no_spread_or_one_number_each_has_no_standardised_effect() -> None:
    assert hedges_g([1.0, 1.0, 1.0], [0.5]) is None
    assert hedges_g([1.0], [0.5]) is None
    assert hedges_g([1.0, 1.1], [0.5]) is None  # the correction needs two degrees of freedom


def test_discoveries_are_those_of_the_definition() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        ps = np.where(generator.random(20) < 0.4, generator.random(20) / 50, generator.random(20))
        # The largest k of which the k-th smallest is at most k/m of the level, and all below it.
        ordered = np.sort(ps)
        passing = [k for k in range(1, 21) if ordered[k - 1] <= 0.05 * k / 20]
        limit = ordered[max(passing) - 1] if passing else -1
        assert discoveries(ps.tolist()) == (ps <= limit).tolist()


def test_questions_that_were_left_open_count() -> None:
    assert discoveries([0.04, 0.01]) == [True, True]  # with decided ones alone nothing is corrected
    assert discoveries([0.04, 0.01, *[None] * 3]) == [False, True, *[False] * 3]
    assert discoveries([]) == []


def test_components_find_the_variances_that_the_data_were_drawn_with() -> None:
    generator = np.random.default_rng(5)
    found = []
    for _ in range(400):
        data = 0.3 * generator.standard_normal((4, 1, 1))
        training = 0.2 * generator.standard_normal((4, 3, 1))
        items = 1.0 * generator.standard_normal((4, 1, 40))
        chance = 0.5 * generator.standard_normal((4, 3, 40))
        found.append(components((data + training + items + chance).tolist()))
    data, training, items, chance = np.mean(found, axis=0)
    assert data == pytest.approx(0.09 / 4, rel=0.15)
    assert training == pytest.approx(0.04 / 12, rel=0.1)
    assert items == pytest.approx(1 / 160, rel=0.05)
    assert chance == pytest.approx(0.25 / 480, rel=0.05)
    one = components([[[0.0, 1.0], [0.0, 1.0]]])
    assert (one.data, one.training, one.share_of_items) == (None, 0.0, 1.0)
