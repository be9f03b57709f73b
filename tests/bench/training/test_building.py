"""Which classes and sizes are built, and which are refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bench.search.plan import some_model
from bench.settings.config import choices, compose
from bench.settings.limits import LARGEST_LAYERS, check_memory
from bench.settings.settings import Configuration
from bench.training.building import build_model, build_task, load_subclass, prepare_data
from ground.errors import UserError
from ground.progress import silent

TINY = ["tasks=regbench", "device=cpu", "models=gpt2", "models.width=8", "models.layers=1"]


class NoModule:
    """A model that forgot to derive from torch.nn.Module."""

    def __init__(self, specification: object, width: int = 8) -> None: ...


def test_every_task_and_model_here_is_one() -> None:
    lines = [[f"tasks={name}"] for name in choices("tasks")]
    lines = [[*words, f"models={some_model(words)}"] for words in lines]
    lines += [["tasks=regbench", f"models={name}"] for name in choices("models")]
    for words in lines:
        configuration = compose(words)
        for group in ("tasks", "models"):
            node: Mapping[str, Any] = getattr(configuration, group)
            assert load_subclass(node["_target_"], group)


def model(configuration: Configuration) -> None:
    build_model(configuration, build_task(configuration), seed=0)


def task(configuration: Configuration) -> None:
    prepare_data(configuration, silent)


@pytest.mark.parametrize(
    ("word", "build", "sentence"),
    [
        (
            f"models._target_={__name__}.NoModule",
            model,
            "derives from torch.nn.Mod",
        ),
        ("models._target_=collections.UserDict", model, "is no model"),
        ("tasks._target_=builtins.dict", task, "is no task: a task derives from tasks.interface.T"),
        ("tasks._target_=torch.nn.Linear", task, "is no task"),
    ],
)
def test_other_classes_are_refused(
    word: str, build: Callable[[Configuration], None], sentence: str
) -> None:
    configuration = compose([*TINY, word])
    with pytest.raises(UserError, match=sentence):
        build(configuration)


def test_a_model_beyond_the_memory_is_refused_before_it_is_built() -> None:
    configuration = compose([*TINY, f"models.layers={LARGEST_LAYERS}", "models.width=10000000"])
    with pytest.raises(UserError, match=r"have at least .* GiB of weights, and this machine has"):
        model(configuration)


@pytest.mark.parametrize("name", [n for n in choices("models") if n != "memory_unit"])
def test_the_bound_on_memory_is_below_the_truth(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one byte less than the weights have still holds the bound's w × w matrices."""
    words = ["tasks=regbench", "device=cpu", f"models={name}", "models.width=16"]
    configuration = compose([*words, "models.layers=3"])
    built = build_model(configuration, build_task(configuration), seed=0)
    size = sum(parameter.nbytes for parameter in built.parameters())
    monkeypatch.setattr("os.sysconf", lambda what: 1 if what == "SC_PAGE_SIZE" else size - 1)
    check_memory(configuration.models)
