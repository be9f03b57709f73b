"""Capacity: the search against its definition, and recall against a direct computation."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from core.progress import silent
from models.memories.outer_product import OuterProduct
from models.memories.tables.nearest_neighbour import NearestNeighbour
from models.memories.trained_linear import TrainedLinear
from tasks.capacity import Capacity
from tasks.capacity.search import largest
from tests.closeness import assert_near


def build_of(kind: type, **settings: object):
    def build(*sizes: int, seed: int = 0) -> nn.Module:
        return kind(*sizes, **settings)

    return build


@given(
    limits=st.lists(st.integers(0, 3000), min_size=1, max_size=5),
    start=st.integers(1, 50),
    most=st.integers(50, 2500),
)
def test_bisection_finds_the_limit_of_each_trial(limits: list[int], start: int, most: int) -> None:
    def recall(trials: list[int], number: int) -> list[float]:
        return [1.0 if number <= limits[trial] else 0.0 for trial in trials]

    for limit, bracket in zip(limits, largest(recall, len(limits), 0.99, start, most), strict=True):
        if limit >= most:
            assert (bracket.low, bracket.high) == (most, None)
        else:
            assert bracket.low <= limit < bracket.high
            assert bracket.high - bracket.low <= max(1, 0.01 * bracket.low)


def test_one_failure_on_the_way_is_bad_luck_and_two_are_not() -> None:
    def unlucky(*failures: int) -> int:
        def recall(trials: list[int], number: int) -> list[float]:
            return [0.0 if number in failures or number > 100 else 1.0]

        return largest(recall, 1, 0.99, start=8, most=1000)[0].low

    assert unlucky(8) == 100
    assert unlucky(16) == 100
    assert unlucky(8, 16) < 8


def test_recall_of_outer_products_is_that_of_the_formula() -> None:
    task = Capacity(widths=[16], wide=[], trials=3, thresholds=[0.5])
    keys, values = task.draw(16, "test", 4)
    evaluation = task.measure(build_of(OuterProduct), "test", 4, "cpu", silent)
    for trial, number in enumerate(evaluation.arrays["associations/0.5"][0]):
        shares = []
        for n in (number, math.ceil(1.01 * number) + 1):
            k, v = keys[trial, :n], values[trial, :n]
            best = ((k @ k.T) @ (v @ v.T)).argmax(1)  # Σ_i (k · k_i)(v_i · v_j)
            shares.append((best == torch.arange(n)).double().mean())
        assert shares[0] >= 0.5
        assert shares[1] < 0.53  # it failed at most 1 % further on


def test_a_memory_of_everything_is_limited_by_the_search_alone() -> None:
    task = Capacity(widths=[8], wide=[11], headline_width=8, trials=2, largest=0.5)
    evaluation = task.measure(build_of(NearestNeighbour), "test", 0, "cpu", silent)
    assert evaluation.arrays["associations/0.99"] == [[32, 32], [60, 60]]
    assert evaluation.arrays["filled/0.99"] == [[False, False], [False, False]]
    assert evaluation.metrics["n_log_n_over_d2/0.99/8"] == pytest.approx(32 * math.log(32) / 64)


def test_a_trained_matrix_holds_about_what_is_published() -> None:
    """d = 8: 23 to 26 associations; and it is not measured at the wide widths."""
    task = Capacity(widths=[8], wide=[64], headline_width=8, trials=3, thresholds=[0.99])
    build = build_of(TrainedLinear, patience=16)
    evaluation = task.measure(build, "test", 0, "cpu", silent)
    assert evaluation.arrays["widths"] == [8]
    assert 19 <= evaluation.metrics["associations"] <= 30
    assert evaluation.metrics["parameters"] == 64


def test_few_classes_share_values() -> None:
    task = Capacity(widths=[8], wide=[], headline_width=8, trials=1, classes=4, thresholds=[0.5])
    few = task.measure(build_of(OuterProduct), "test", 0, "cpu", silent).metrics["associations"]
    one = Capacity(widths=[8], wide=[], headline_width=8, trials=1, thresholds=[0.5])
    many = one.measure(build_of(OuterProduct), "test", 0, "cpu", silent).metrics["associations"]
    assert few > many


def test_fewer_associations_than_classes_are_told_apart_by_the_values_they_use() -> None:
    """A trained memory cannot know values that were never written, and is not asked about them."""
    task = Capacity(widths=[4], wide=[], headline_width=4, trials=4, classes=16, thresholds=[0.99])
    build = build_of(TrainedLinear, steps=256, patience=4)
    found = task.measure(build, "test", 0, "cpu", silent).arrays["associations/0.99"][0]
    assert min(found) >= 4


def test_a_search_may_go_past_the_published_end() -> None:
    """m d associations for a perceptron of width m: here m = d."""
    found = [
        Capacity(widths=[4], wide=[], headline_width=4, trials=1, classes=2, largest=most)
        .measure(build_of(NearestNeighbour), "test", 0, "cpu", silent)
        .metrics["associations"]
        for most in (1.0, 1.5)
    ]
    assert found == [16, 24]


def test_embeddings_are_as_they_are_called() -> None:
    unit, _ = Capacity(widths=[32], headline_width=32, trials=1).draw(32, "test", 0)
    gaussian, _ = Capacity(widths=[32], headline_width=32, trials=1, embeddings="gaussian").draw(
        32, "test", 0
    )
    assert_near(unit.norm(dim=-1), torch.ones(1, 1024), terms=32)
    norms = gaussian.norm(dim=-1)
    assert norms.mean() == pytest.approx(1, abs=0.02)
    assert norms.std() == pytest.approx((1 / 64) ** 0.5, rel=0.1)  # of a χ over 32: 1/√(2 d)


@pytest.mark.parametrize(
    "wrong", [{"widths": []}, {"headline_width": 7}, {"trials": 0}, {"classes": 1}, {"largest": 0}]
)
def test_settings_outside_their_range_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match="give"):
        Capacity(**wrong)
