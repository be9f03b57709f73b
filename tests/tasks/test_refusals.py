"""Every measurement of associative models with every such model: numbers, or one sentence."""

from typing import Any

import pytest
import torch
from torch import nn

from bench.config.files import group_file, models_of
from bench.config.groups import choices
from bench.training.building import build_measurement, model_builder
from core.errors import UserError
from core.progress import silent
from tasks.measurement import Refused
from tasks.refusals import check_numbers, check_whole_numbers, fitting_model
from tests.configurations import compose

# What each takes beside the models that its YAML file lists.
ALSO = {
    "attention_descent": {"disentangled_attention"},
    "bigram_probes": {"disentangled_attention"},
    "three_gradient_steps": {"two_layer_attention"},
}
TASKS = [name for name in choices("tasks") if models_of(name) == "associative"]
WRONG = [
    (task, model)
    for task in TASKS
    for model in choices("associative")
    if model not in {*group_file("tasks", task)["sweep"]["models"], *ALSO.get(task, ())}
]


def refusal(*words: str) -> str:
    configuration = compose([*words, "preset=smoke", "device=cpu"])
    measurement = build_measurement(configuration)
    build = model_builder(configuration, torch.device("cpu"))
    with pytest.raises(Refused) as caught:
        measurement.measure(build, "test", 0, "cpu", silent)
    return str(caught.value)


@pytest.mark.parametrize(("task", "model"), WRONG)
def test_a_model_of_another_shape_is_refused_by_the_names_of_those_that_fit(
    task: str, model: str
) -> None:
    sentence = refusal(f"tasks={task}", f"models={model}")
    assert "choose models=" in sentence
    assert "__init__" not in sentence


@pytest.mark.parametrize("words", [("factual_recall", "fact_transformer", "tasks.part=phases")])
def test_a_part_refuses_the_model_of_another_part(words: tuple[str, str, str]) -> None:
    task, model, part = words
    assert "models=one_hot_attention" in refusal(f"tasks={task}", f"models={model}", part)


@pytest.mark.parametrize("task", ["attention_descent", "bigram_probes"])
def test_sequences_too_short_for_a_second_trigger_are_refused(task: str) -> None:
    sentence = refusal(f"tasks={task}", "models=two_layer_attention", "tasks.length=2")
    assert "raise tasks.length" in sentence


def test_a_model_that_refuses_its_own_settings_is_not_called_wrong() -> None:
    words = ("tasks=three_gradient_steps", "models=disentangled_attention", "models.width=3")
    assert "orthonormal" in refusal(*words)


def test_a_model_without_what_is_needed_does_not_fit() -> None:
    def build(*sizes: int, seed: int = 0) -> nn.Module:
        return nn.Linear(sizes[0], sizes[1])

    assert isinstance(fitting_model(build, 2, 3, offers=["weight"], choose="x"), nn.Linear)
    with pytest.raises(Refused, match="choose a square"):
        fitting_model(build, 2, 3, offers=["weight", "square"], choose="choose a square")

    line: Any = lambda size, seed=0: nn.Linear(size, size)  # noqa: E731
    with pytest.raises(Refused, match="choose a line"):
        fitting_model(line, 2, 3, choose="choose a line")


@pytest.mark.parametrize("values", [[], [0], [2.0], ["a"], [True], [None], [3, -1]])
def test_lists_of_other_things_than_whole_numbers_are_refused(values: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"tasks\.d is .*whole numbers from 1 on"):
        check_whole_numbers("d", values)


@pytest.mark.parametrize("values", [[], [0], ["a"], [1.0], [float("nan")]])
def test_numbers_outside_their_bounds_are_refused(values: list[Any]) -> None:
    check_numbers("a", [0.5, 1e-9], 0, 1)
    with pytest.raises(ValueError, match=r"tasks\.a is .*between 0 and 1"):
        check_numbers("a", values, 0, 1)


@pytest.mark.parametrize(
    "words",
    [
        ("scaling_laws", "outer_product", "tasks.fit_dimensions=[8]"),
        ("scaling_laws", "outer_product", "tasks.fit_samples=[64,8]"),
        ("scaling_laws", "outer_product", "tasks.dimensions=[2.5]"),
        ("optimisation", "matrix", "tasks.lr=1e300"),
        ("learned_embeddings", "learnable", "tasks.lr=1e300"),
        ("attention_descent", "two_layer_attention", "tasks.lrs=[1e300]"),
        ("bigram_probes", "two_layer_attention", "tasks.lr=0"),
        ("optimisation", "matrix", "tasks.first_seed=99999999999999999999"),
        ("factual_recall", "fact_transformer", "tasks.learning_rates=[]"),
    ],
)
def test_absurd_settings_are_a_sentence(words: tuple[str, str, str]) -> None:
    task, model, setting = words
    with pytest.raises(UserError, match=r"tasks\.\w+ is"):
        build_measurement(compose([f"tasks={task}", f"models={model}", setting, "preset=smoke"]))
