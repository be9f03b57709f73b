"""What every measurement promises, checked at its smoke preset for every YAML file in tasks/ that
``takes`` a group of models."""

import functools
import inspect
import json
import math
import random
from typing import Any

import pytest
import torch

from bench.config.files import group_file, models_of
from bench.config.groups import DESCRIPTIVE, card, choices
from bench.training.building import build_measurement, model_builder
from core.errors import UserError
from core.progress import silent
from tasks.interface import Evaluation
from tasks.measurement import Measurement
from tests.configurations import compose
from tests.conftest import told_by_a_process
from tests.tasks.predictors import refusals
from tests.tasks.test_task_conformance import disturb

NAMES = [name for name in choices("tasks") if models_of(name) != "models"]
pytestmark = pytest.mark.parametrize("name", NAMES)


def first_model(name: str) -> str:
    listed = group_file("tasks", name)["sweep"]["models"]
    return str(listed[0])


SMALLER = {  # than the smoke preset, which takes seconds
    "training_dynamics": [
        "tasks.margin_steps=100",
        "tasks.horizon=40",
        "tasks.lrs=[1.0]",
        "tasks.overlaps=[0.0]",
        "tasks.map_points=2",
        "tasks.trials=3",
        "tasks.stream_trials=4",
        "tasks.draws=20",
    ],
    "memory_in_the_loop": ["tasks.training_steps=40"],
}


def measured(name: str, model: str, seed: int = 0) -> Evaluation:
    words = [f"tasks={name}", f"models={model}", "preset=smoke", "device=cpu"]
    configuration = compose([*words, *SMALLER.get(name, [])])
    measurement = build_measurement(configuration)
    build = model_builder(configuration, torch.device("cpu"))
    return measurement.measure(build, "validation", seed, "cpu", silent)


def as_json(evaluation: Evaluation) -> str:
    return json.dumps(vars(evaluation), allow_nan=False, sort_keys=True)


def test_the_models_it_lists_are_of_its_group(name: str) -> None:
    listed = group_file("tasks", name)["sweep"]["models"]
    assert listed
    assert set(listed) <= set(choices(models_of(name)))
    assert card("tasks", name).keys() >= {"label", "source", "note"}


def test_defaults_of_the_constructor_are_those_of_the_yaml(name: str) -> None:
    tree = group_file("tasks", name)
    kind = type(build_measurement(compose([f"tasks={name}", f"models={first_model(name)}"])))
    defaults = {
        key: json.loads(json.dumps(parameter.default))
        for key, parameter in inspect.signature(kind).parameters.items()
    }
    arguments = {k: v for k, v in tree.items() if k not in {"_target_", *DESCRIPTIVE}}
    places = tree.get("locations", [])  # on this machine
    assert arguments.keys() == defaults.keys()
    assert all(arguments[key] == defaults[key] for key in arguments if key not in places)


def test_every_preset_can_be_built(name: str) -> None:
    assert set(group_file("tasks", name)["presets"]) == {"smoke", "laptop", "gpu", "paper"}
    for preset in choices("preset"):
        words = [f"tasks={name}", f"models={first_model(name)}", f"preset={preset}"]
        assert isinstance(build_measurement(compose(words)), Measurement)


def test_unknown_values_are_refused_with_a_sentence(name: str) -> None:
    words = [f"tasks={name}", f"models={first_model(name)}", "preset=smoke"]
    valid = compose(words)
    wrong = [
        f"tasks.{key}={'no-such-choice' if isinstance(value, str) else -1}"
        for key, value in valid.tasks.items()
        if key not in ("_target_", *valid.locations)
        and isinstance(value, str | int)
        and not isinstance(value, bool)
    ]
    assert wrong
    for word in wrong:
        with pytest.raises(UserError):
            build_measurement(compose([*words, word]))


SCRIPT = """
import json, sys
from bench.training.building import build_measurement
from tests.configurations import compose
from tests.tasks.test_measurement_conformance import first_model
from tests.tasks.test_task_conformance import disturb
disturb(99)
hashes = {}
for name in sys.argv[1:]:
    words = [f"tasks={name}", f"models={first_model(name)}", "preset=smoke"]
    hashes[name] = build_measurement(compose(words)).data_hashes()
print(json.dumps(hashes))
"""


@functools.cache
def hashes_elsewhere() -> dict[str, dict[str, str]]:
    """Of all measurements, in one other process; the last first, so that none is made after the
    same others as here."""
    return told_by_a_process(SCRIPT, *reversed(NAMES))


@pytest.mark.bitwise
def test_data_are_the_same_in_another_process(name: str) -> None:
    disturb(1)
    words = [f"tasks={name}", f"models={first_model(name)}", "preset=smoke"]
    here = build_measurement(compose(words)).data_hashes()
    assert set(here) >= {"validation", "test"}
    assert all(len(digest) == 64 and int(digest, 16) >= 0 for digest in here.values())
    assert hashes_elsewhere()[name] == here


@pytest.mark.bitwise
def test_a_measurement_is_a_function_of_settings_split_and_seed(name: str) -> None:
    model = first_model(name)
    disturb(1)
    here = measured(name, model)
    disturb(2)
    state: tuple[Any, ...] = (torch.get_rng_state(), random.getstate())
    assert as_json(measured(name, model)) == as_json(here)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert random.getstate() == state[1]
    metrics = here.metrics
    assert all(type(value) is float and math.isfinite(value) for value in metrics.values())
    configuration = compose([f"tasks={name}", f"models={model}", "preset=smoke"])
    measurement = build_measurement(configuration)
    assert measurement.headline.name in metrics
    # Before hours of runs are made that no board takes, such as for a letter in a name.
    assert refusals(name, measurement, configuration.tasks, {model: here}) == {}
    for curve in here.curves.values():
        assert len(curve["x"]) == len(curve["y"]) > 0


def test_a_board_takes_the_numbers_of_every_predictor(name: str) -> None:
    configuration = compose([f"tasks={name}", f"models={first_model(name)}", "preset=smoke"])
    measurement = build_measurement(configuration)
    found = {label: predict("test") for label, predict in measurement.baselines().items()}
    assert refusals(name, measurement, configuration.tasks, found) == {}
