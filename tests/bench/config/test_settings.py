"""A configuration that is derived from another is the one that composing all its settings gives."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.config.command_line import read
from bench.config.groups import with_guests
from bench.config.settings import Configuration
from core.errors import UserError
from core.words import words_of
from tests.configurations import compose

BASE = {"tasks": "three_moons", "models": "gpt2", "preset": "smoke"}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**20),
    st.floats(),
    st.sampled_from([0, 0.0, 0.5, 1, 1e-3, 1.0, 64, "cosine", "linear", "float8", "x", [1], {}]),
)
KEYS = st.sampled_from(
    [
        *("seed", "device", "training.lr", "training.weight_decay", "training.bias_correction"),
        *("training.schedule", "training.steps", "training.epochs", "training.devices"),
        *("training.warmup_steps", "training.warmup_fraction", "training.validate_every"),
        *("training.rate", "models.width", "models.layers", "models.dropout", "models._target_"),
        *("models.positions", "models.new", "tasks.data_seed", "tasks.widths", "sweep.seeds"),
    ]
)


def outcome(configuration: Configuration | UserError) -> Any:
    """The settings, or the sentence that refuses them."""
    is_refused = isinstance(configuration, UserError)
    return str(configuration) if is_refused else repr(configuration.model_dump())


def tried(make: Any, settings: Mapping[str, Any]) -> Any:
    try:
        return outcome(make(settings))
    except UserError as error:
        return outcome(error)


@given(st.dictionaries(KEYS, VALUES, max_size=3), st.dictionaries(KEYS, VALUES, max_size=3))
@example({}, {"training.lr": 0.01})
@example({"training.bias_correction": False, "training.weight_decay": 0}, {"training.lr": 1})
@example({"training.validate_every": 5}, {"training.validate_every": 0.5})
@example({"models.width": 8}, {"models.width": 16, "seed": 3})
@example({"training.epochs": 2}, {"training.lr": 0.5})
@example({}, {"training.steps": 9})
@example({"training.epochs": 2}, {"training.steps": 9})
@example({}, {"training.lr": math.inf})
def test_a_derived_configuration_is_that_of_all_settings(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    try:
        base = Configuration.of({**BASE, **first})
    except UserError:
        return
    assert tried(base.with_, second) == tried(Configuration.of, {**BASE, **first, **second})


@pytest.mark.parametrize(
    "settings",
    [
        {"tasks": "regbench", "models": "lstm", "training.lr": 1e-05, "seed": 3},
        {"tasks": "capacity", "models": "ridge", "tasks.widths": [8, 16]},
        {"tasks": "multi_query_recall", "models": "mamba", "tasks.protocol": "easy"},
    ],
)
def test_values_and_words_ask_for_the_same(settings: dict[str, Any]) -> None:
    words = words_of(settings)
    assert read(words) == settings
    assert compose(words) == Configuration.of(settings)
    assert compose(words).overrides == settings


def test_named_settings_are_those_of_their_keys() -> None:
    base = Configuration.of(BASE)
    by_key = {"training.lr": 0.5, "models.width": 32, "tasks.data_seed": 4, "seed": 1}
    named = base.with_(training_lr=0.5, models_width=32, tasks_data_seed=4, seed=1)
    assert named == base.with_(by_key)
    assert named.overrides == {**BASE, **by_key}
    assert base == Configuration.of(BASE)  # which stays what it was


def test_what_trains_nothing_has_no_rate() -> None:
    base = Configuration.of({"tasks": "capacity", "models": "ridge"})
    with pytest.raises(UserError, match=r"'training\.lr' is about trainings by the engine"):
        base.with_(training_lr=0.1)


def test_final_runs_keep_what_they_were_asked_for() -> None:
    base = Configuration.of({**BASE, "sweep.seeds": 2, "sweep.data_seeds": 2})
    for run in base.final_runs():
        assert Configuration.of(run.overrides) == run


def test_no_configuration_shares_a_list_with_another() -> None:
    """What somebody does to the arguments of one task must not reach the next."""
    settings = {"tasks": "capacity", "models": "ridge"}
    Configuration.of(settings).tasks["widths"].append(-1)
    assert -1 not in Configuration.of(settings).tasks["widths"]


def test_a_guest_takes_part_in_what_is_composed_beside_it() -> None:
    base = Configuration.of({"tasks": "regbench", "models": "lstm"})
    with with_guests(["gla"]):
        assert Configuration.of(base.overrides) != base
