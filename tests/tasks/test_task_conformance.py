"""What every task promises, checked for every YAML file in tasks/ at its smoke preset."""

import functools
import importlib
import inspect
import json
import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bench.config.automatic import settle
from bench.config.files import group_file, models_of
from bench.config.groups import DESCRIPTIVE, card, choices
from bench.records.store import COMMITTED
from models.specification import SequenceSpecification
from tasks.interface import Batch, Task
from tests.closeness import assert_near
from tests.conftest import told_by_a_process
from tests.tasks.packages import lacking
from tests.tasks.predictors import refusals

# Those that take a group of models of their own are measurements, and have tests of their own.
NAMES = [name for name in choices("tasks") if models_of(name) == "models"]
NOT_ARGUMENTS = {"_target_", *DESCRIPTIVE}
SIZE = 3


class Trivial(nn.Module):
    """Causal and untrained: every output depends on the input at the same position alone."""

    def __init__(self, specification: SequenceSpecification, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        channels, vocabulary = specification.input_channels, specification.vocabulary
        self.read = nn.Linear(channels, width) if channels else nn.Embedding(vocabulary or 1, width)
        self.write = nn.Linear(width, specification.output_size)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.write(self.read(inputs))

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        return self(inputs), state

    def state_bytes(self, length: int) -> int:
        return 0


def settings(name: str) -> dict[str, Any]:
    return group_file("tasks", name)


def constructor(name: str) -> type[Task]:
    module, _, symbol = settings(name)["_target_"].rpartition(".")
    return getattr(importlib.import_module(module), symbol)


def arguments(name: str) -> dict[str, Any]:
    """Constructor arguments at the smoke preset."""
    tree = settings(name)
    plain = {key: value for key, value in tree.items() if key not in NOT_ARGUMENTS}
    return {**plain, **tree["presets"]["smoke"].get("tasks", {})}


def fresh(name: str) -> Task:
    return constructor(name)(**arguments(name))


@functools.cache
def shared(name: str) -> Task:
    return fresh(name)


def disturb(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the global state is what is disturbed
    torch.manual_seed(seed)


def tensors(batch: Batch) -> dict[str, Tensor]:
    return {"inputs": batch.inputs, "targets": batch.targets, **batch.extras}


def same(one: Batch, other: Batch) -> bool:
    a, b = tensors(one), tensors(other)
    return (
        a.keys() == b.keys()
        and one.tokens == other.tokens
        and all(a[key].dtype == b[key].dtype and torch.equal(a[key], b[key]) for key in a)
    )


def plain(value: Any) -> Any:
    """Lists for tuples, to compare defaults in Python with those in YAML."""
    return json.loads(json.dumps(value))


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    if reason := lacking(request.param):
        pytest.skip(reason)
    return request.param


def test_defaults_of_the_constructor_are_those_of_the_yaml(name: str) -> None:
    tree = settings(name)
    known: dict[str, inspect.Parameter] = {}
    for one in reversed(constructor(name).__mro__[:-1]):  # what is passed on has its default there
        known.update(inspect.signature(one).parameters if "__init__" in vars(one) else {})
    defaults = {
        key: plain(parameter.default)
        for key, parameter in known.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    listed = {key: value for key, value in tree.items() if key not in NOT_ARGUMENTS}
    assert listed.keys() == defaults.keys()
    places = tree.get("locations", [])  # on this machine
    assert all(listed[key] == defaults[key] for key in listed if key not in places)


def test_cards_state_the_headline_that_tasks_and_measurements_have() -> None:
    for task in choices("tasks"):
        module, _, cls = group_file("tasks", task)["_target_"].rpartition(".")
        headline = getattr(importlib.import_module(module), cls).headline
        has = {"name": headline.name, "direction": headline.direction, "unit": headline.unit}
        stated = card("tasks", task).get("headline")
        assert stated or not (COMMITTED / task).is_dir()  # its records are checked by it
        assert stated is None or {"unit": "", **stated} == has


def test_every_preset_and_protocol_names_known_arguments(name: str) -> None:
    tree = settings(name)
    assert set(tree["presets"]) == {"smoke", "laptop", "gpu", "paper"}
    for block in (*tree["presets"].values(), *tree.get("protocols", {}).values()):
        task = block.get("tasks", {})
        assert task.keys() <= tree.keys() - NOT_ARGUMENTS
        settled = {**tree, **task}
        settle(settled)
        made = constructor(name)(
            **{key: value for key, value in settled.items() if key not in NOT_ARGUMENTS}
        )
        # A board takes no other predictor's record, and all are served in this order.
        stated = card("tasks", name).get("predictors", ())
        labels = made.baselines()
        assert [label for label in stated if label in labels] == list(labels)


def test_unknown_values_are_refused_with_a_sentence(name: str) -> None:
    valid = arguments(name)
    wrong: dict[str, Any] = {}
    for key, value in valid.items():
        if key in settings(name).get("locations", []):
            continue
        if isinstance(value, str):
            wrong[key] = "no-such-choice"
        elif isinstance(value, int) and not isinstance(value, bool):
            wrong[key] = -1
    assert wrong
    answers = {}
    for key, value in wrong.items():
        try:
            constructor(name)(**{**valid, key: value}).data_hashes()
        except Exception as error:  # whatever is raised, all answers are compared below
            answers[key] = "ValueError" if isinstance(error, ValueError) else repr(error)
        else:
            answers[key] = "accepted"
    assert answers == dict.fromkeys(wrong, "ValueError")


SCRIPT = """
import json, sys
from tests.tasks.test_task_conformance import disturb, fresh
disturb(99)
print(json.dumps({name: fresh(name).data_hashes() for name in sys.argv[1:]}))
"""


@functools.cache
def hashes_elsewhere() -> dict[str, dict[str, str]]:
    """Of all tasks with a data_seed, in one other process; the last first, so that none is made
    after the same others as here."""
    made_here = [name for name in NAMES if not lacking(name)]
    seeded = [name for name in made_here if "data_seed" in arguments(name)]
    return told_by_a_process(SCRIPT, *reversed(seeded))


@pytest.mark.bitwise
def test_data_are_the_same_in_another_process(name: str) -> None:
    disturb(1)
    here = fresh(name).data_hashes()
    assert set(here) >= {"train", "validation", "test"}
    assert all(len(digest) == 64 and int(digest, 16) >= 0 for digest in here.values())
    assert len(set(here.values())) == len(here)
    if "data_seed" not in arguments(name):
        pytest.skip("the task has no data_seed")
    seeded = constructor(name)(**{**arguments(name), "data_seed": 1}).data_hashes()
    assert any(seeded[split] != here[split] for split in here)
    assert hashes_elsewhere()[name] == here


@pytest.mark.bitwise
def test_a_training_batch_is_a_function_of_seed_step_and_size(name: str) -> None:
    disturb(1)
    first, second = fresh(name), fresh(name)
    expected = first.training_batch(5, 2, SIZE)
    disturb(2)
    for earlier in ((7, 0, SIZE), (5, 40, 2), (5, 3, SIZE)):
        second.training_batch(*earlier)
    state = torch.get_rng_state(), str(np.random.get_state()), random.getstate()  # noqa: NPY002
    assert same(second.training_batch(5, 2, SIZE), expected)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert (str(np.random.get_state()), random.getstate()) == state[1:]  # noqa: NPY002
    assert not same(second.training_batch(5, 3, SIZE), expected)
    assert not same(second.training_batch(6, 2, SIZE), expected)
    steps = first.steps_per_epoch(SIZE)
    if steps is not None:
        assert not same(second.training_batch(5, 2 + steps, SIZE), expected)


def test_batches_have_the_shapes_of_the_specification(name: str) -> None:
    task = shared(name)
    specification = task.specification()
    batch = task.training_batch(0, 0, SIZE)
    assert batch.inputs.shape[0] == batch.targets.shape[0] == SIZE
    assert batch.inputs.shape[1] == batch.targets.shape[1] <= specification.maximum_length
    assert 0 < batch.tokens <= SIZE * batch.inputs.shape[1]
    if specification.vocabulary is not None:
        assert batch.inputs.dtype == batch.targets.dtype == torch.int64
        assert 0 <= int(batch.inputs.min()) <= int(batch.inputs.max()) < specification.vocabulary
        asked = batch.targets[batch.targets != -100]
        assert 0 <= int(asked.min()) <= int(asked.max()) < specification.vocabulary
    else:
        assert batch.inputs.dtype == batch.targets.dtype == torch.float32
        assert batch.inputs.shape[2] == specification.input_channels
        assert batch.targets.shape[2] == specification.output_channels


def test_loss_is_a_finite_scalar_with_a_gradient(name: str) -> None:
    task = shared(name)
    batch = task.training_batch(0, 0, SIZE)
    shape = (*batch.inputs.shape[:2], task.specification().output_size)
    outputs = torch.randn(shape, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = task.loss(outputs, batch)
    assert loss.shape == ()
    assert torch.isfinite(loss)
    loss.backward()
    gradient = outputs.grad
    assert gradient is not None
    assert torch.isfinite(gradient).all()
    assert gradient.abs().max() > 0


@pytest.mark.bitwise  # evaluated twice, they are equal
def test_an_untrained_model_is_evaluated_in_plain_numbers(name: str) -> None:
    task = shared(name)
    model = Trivial(task.specification()).eval()
    results = []
    for seed in (1, 2):
        disturb(seed)
        with torch.no_grad():
            results.append(task.evaluate(model, "validation", "cpu"))
    first, second = (json.dumps(vars(result), allow_nan=False) for result in results)
    assert first == second, "an evaluation repeated with other global random state differs"
    metrics = results[0].metrics
    assert {"loss", task.headline.name} <= metrics.keys()
    assert all(type(value) is float and math.isfinite(value) for value in metrics.values())
    for curve in results[0].curves.values():
        assert len(curve["x"]) == len(curve["y"]) > 0
    with torch.no_grad():
        loss = task.validation_loss(model, "cpu")
    # In other batches: sums over vocabularies of 1024 at most and some thousand positions.
    assert_near(loss, metrics["loss"], terms=10_000, dtype=torch.float32)


@pytest.mark.bitwise  # evaluated twice, they are equal
def test_a_trivial_predictor_is_below_an_oracle_and_a_board_takes_both(name: str) -> None:
    task = shared(name)
    predictors = task.baselines()
    trivial = [label for label in predictors if "oracle" not in label]
    assert trivial, "a task has at least one predictor without training"
    evaluations = {label: evaluate("test") for label, evaluate in predictors.items()}
    for label, evaluate in predictors.items():
        evaluation = json.dumps(vars(evaluations[label]), allow_nan=False)
        assert evaluation == json.dumps(vars(evaluate("test")))
    assert refusals(name, task, arguments(name), evaluations) == {}
    found = {label: one.metrics[task.headline.name] for label, one in evaluations.items()}
    sign = 1 if task.headline.direction == "maximise" else -1
    for oracle in found.keys() - set(trivial):
        assert all(sign * found[oracle] >= sign * found[label] for label in trivial)
