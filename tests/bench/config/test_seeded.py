"""Configurations of many runs are those that composing each of them gives."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.config.config import compose
from bench.config.groups import taking_part
from bench.config.seeded import compose_seeded
from core.errors import UserError
from core.words import word

BASE = ["tasks=three_moons", "models=gpt2", "preset=smoke"]


def outcome(composing, words):
    """The settings, or the sentence that refuses them."""
    try:
        return composing(words).model_dump()
    except UserError as error:
        return str(error)


NUMBERS = st.one_of(
    st.floats().map(str),
    st.floats(min_value=1e-12, max_value=10).map(lambda rate: word("", rate)[1:]),
    st.integers(-5, 10**20).map(str),
    st.sampled_from(["1_0", "01", "1.", ".5", "+1", "1E-3", "1e999", "null", "true", "x", "[1]"]),
)


@given(st.dictionaries(st.sampled_from(["lr", "weight_decay"]), NUMBERS), st.booleans())
@example({"lr": "0.01"}, True)
@example({"lr": "1e-05", "weight_decay": "0"}, False)
def test_numbers_of_a_training_are_what_composing_them_gives(numbers, correction):
    given = [f"training.{key}={number}" for key, number in numbers.items()]
    words = [*BASE, *given, f"training.bias_correction={str(correction).lower()}", "seed=3"]
    assert outcome(compose_seeded, words) == outcome(compose, words)


@pytest.mark.parametrize("order", [(0.02, 0.5), (0.5, 0.02)])
def test_the_last_of_two_rates_counts(order):
    words = [*BASE, *(word("training.lr", rate) for rate in order)]
    assert compose_seeded(words) == compose(words)
    assert compose_seeded(words).training.lr == order[1]


def test_a_rate_of_what_trains_nothing_is_refused():
    words = ["tasks=capacity", "models=ridge", "training.lr=0.1"]
    assert outcome(compose_seeded, words) == outcome(compose, words)
    assert isinstance(outcome(compose_seeded, words), str)


def test_numbers_that_the_rest_cannot_do_without_are_composed():
    rest = ["tasks=regbench", "models=lstm", "training.bias_correction=false"]
    words = [*rest, "training.weight_decay=0.0", "training.lr=0.01"]
    assert compose_seeded(words) == compose(words)
    assert outcome(compose_seeded, rest) == outcome(compose, rest)


def test_a_guest_takes_part_in_what_is_composed_beside_it():
    words = ["tasks=regbench", "models=lstm", "training.lr=0.01"]
    alone = compose_seeded(words)
    with taking_part(["gla"]):
        assert compose_seeded(words) == compose(words) != alone
