"""Which classes and sizes are built, and which are refused with a sentence."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.config.command_line import read
from bench.config.groups import choices
from bench.config.settings import Configuration
from bench.records.code import imported_modules
from bench.search.plan import some_model
from bench.training import building, memory
from bench.training.building import (
    build_model,
    build_task,
    build_to_train,
    data_hashes,
    load_subclass,
    model_builder,
    prepare_data,
)
from bench.training.storage import load_weights
from core.errors import UserError
from core.progress import silent
from tasks.measurement import Refused
from tests.bench.training.drawing_guests import KeepsATable
from tests.configurations import compose
from tests.models.built import CHANNELS_ALONE

TINY = ["tasks=regbench", "device=cpu", "models=gpt2", "models.width=8", "models.layers=1"]


class NoModule:
    """A model that forgot to derive from torch.nn.Module."""

    def __init__(self, specification: object, width: int = 8) -> None: ...


class Demanding(torch.nn.Linear):
    """A model of somebody else, one of whose sizes has no default."""

    def __init__(self, specification: object, channels: int, slope: float = 1.0) -> None:
        super().__init__(channels, channels)


def test_an_argument_without_a_default_is_asked_for() -> None:
    words = ["tasks=regbench", "device=cpu", f"models={__name__}.Demanding"]
    with pytest.raises(UserError, match=r"no default for channels: add models\.channels=VALUE"):
        model(compose(words))
    model(compose([*words, "models.channels=4"]))


def test_a_sequence_model_for_a_task_of_memories_is_told_what_it_takes() -> None:
    words = ["tasks=test_time_memory", f"models={__name__}.Demanding", "models.channels=4"]
    build = model_builder(compose([*words, "device=cpu"]), torch.device("cpu"))
    with pytest.raises(Refused, match="'test_time_memory' takes models like those of models/mem"):
        build(4, 4)


def test_a_refused_size_that_a_preset_sets_is_told() -> None:
    words = ["tasks=multi_query_recall", "models=window_hybrid", "device=cpu"]
    with pytest.raises(UserError, match=r"models\.layers=1 is of preset smoke"):
        model(compose(words))
    model(compose([*words, "models.layers=2"]))


def test_every_task_and_model_here_is_one() -> None:
    lines = [[f"tasks={name}"] for name in choices("tasks")]
    lines = [[*words, f"models={some_model(read(words))}"] for words in lines]
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
        (f"models._target_={__name__}.NoModule", model, "derives from torch.nn.Mod"),
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


def test_a_model_beyond_the_memory_is_refused_before_it_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configuration = compose([*TINY, "models.layers=9", "models.width=100000"])
    monkeypatch.setattr(building, "build_model", None)
    with pytest.raises(UserError, match=r"GPT2 has .* GiB of weights, and training holds .* GiB"):
        build_to_train(configuration, build_task(configuration), seed=0)


@pytest.mark.parametrize("name", choices("models"))
def test_what_a_training_holds_is_counted_from_shapes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, gradients and two moments as they really are, to the byte; and that counting them
    changes no weight."""
    task_of = "three_moons" if name in CHANNELS_ALONE else "regbench"
    configuration = compose([f"tasks={task_of}", "device=cpu", f"models={name}"])
    task = build_task(configuration)
    model = build_model(configuration, task, seed=0)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    moments = [m for state in optimizer.state.values() for m in state.values() if m.ndim]
    moments += [state["exp_avg"] for p, state in optimizer.state.items() if not p.ndim]
    moments += [state["exp_avg_sq"] for p, state in optimizer.state.items() if not p.ndim]
    held = sum(2 * p.nbytes for p in parameters) + sum(m.nbytes for m in moments)
    monkeypatch.setattr(memory, "memory_here", lambda: held)
    before = torch.get_rng_state()
    again = build_to_train(configuration, task, seed=0)
    assert torch.equal(before, torch.get_rng_state())
    for parameter, other in zip(parameters, again.parameters(), strict=True):
        assert parameter.shape == other.shape
    monkeypatch.setattr(memory, "memory_here", lambda: held - 1)
    with pytest.raises(UserError, match=r"lower models\.layers or models\.width"):
        build_to_train(configuration, task, seed=0)


def test_a_stranger_s_model_is_counted_as_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its class keeps for the next model has content, and no weight is missed."""
    KeepsATable.table = None
    name = f"{KeepsATable.__module__}.KeepsATable"
    configuration = compose([*TINY[:2], f"models={name}", "models.width=8"])
    task = build_task(configuration)
    model = build_to_train(configuration, task, seed=0)
    assert KeepsATable.table is not None
    assert KeepsATable.table.device.type == "cpu"
    held = 4 * sum(parameter.nbytes for parameter in model.parameters())
    monkeypatch.setattr(memory, "memory_here", lambda: held)
    build_to_train(configuration, task, seed=0)
    monkeypatch.setattr(memory, "memory_here", lambda: held - 1)
    with pytest.raises(UserError, match=r"GiB of weights, and training holds .* lower models"):
        build_to_train(configuration, task, seed=0)
    assert not torch.nn.modules.module._global_parameter_registration_hooks


def test_data_beyond_the_memory_are_a_sentence() -> None:
    configuration = compose([*TINY, "tasks.test_size=10000000000"])
    with pytest.raises(UserError, match=r"tasks \(tasks.regbench.RegBench\): .* too little memory"):
        data_hashes(configuration)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("def __init__(self, _, width): nn.Linear(width)", r"in .*a_model.py, line 3: give each"),
        ("@abstractmethod\n    def mix(self): ...", "abstract class .*mix.*: add to that class"),
        ("import nonesuch", r"a_model.py, line 3, stops with ModuleNotFoundError .*mend that file"),
        ("x = (", r"a_model.py, line 3, stops with SyntaxError \('\(' was never closed\)"),
        ("nn.nonesuch", r"a_model.py, line 3, stops with AttributeError"),
    ],
)
def test_a_mistake_in_a_model_s_file_is_named_with_its_line(
    line: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = "from abc import *; from torch import nn\nclass AModel(ABC, nn.Module):\n"
    (tmp_path / "a_model.py").write_text(f"{begin}    {line}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "a_model", raising=False)
    words = ["tasks=regbench", "device=cpu", "models=a_model.AModel"]
    with pytest.raises(UserError, match=sentence) as error:
        model(compose([*words, "models.width=8"] if "width" in line else words))
    monkeypatch.delitem(sys.modules, "a_model", raising=False)
    assert "\n" not in str(error.value)


def test_a_library_s_class_is_refused_without_reading_the_library() -> None:
    """Its version is part of the identity; reading all of PyTorch takes half a minute."""
    assert imported_modules("torch.nn") == {}
    configuration = compose([*TINY, "models._target_=torch.nn.Linear"])
    with pytest.raises(UserError, match=r"unexpected keyword argument 'width': .*\(valid names"):
        model(configuration)


def test_tensors_of_a_model_s_module_are_no_shapes_without_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are counted by shapes alone first, and that may be when the module is imported."""
    (tmp_path / "with_a_table.py").write_text(
        "import torch\nTABLE = torch.linspace(0, 1, 8)\n"
        "class Model(torch.nn.Linear):\n"
        "    def __init__(self, specification):\n"
        "        super().__init__(8, 8)\n"
        "        self.register_buffer('table', TABLE)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    configuration = compose(["tasks=regbench", "device=cpu", "models=with_a_table.Model"])
    monkeypatch.delitem(sys.modules, "with_a_table")  # as where a record tells the settings
    built = build_to_train(configuration, build_task(configuration), 0)
    assert {tensor.device.type for tensor in built.state_dict().values()} == {"cpu"}


@pytest.mark.parametrize(
    ("edited", "sentence"),
    [(True, "of other code than the model has now.*or train again"), (False, "delete the folder")],
)
def test_weights_that_do_not_fit_say_whether_the_code_was_edited(
    edited: bool, sentence: str
) -> None:
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 3)
    with pytest.raises(UserError, match=sentence):
        load_weights(model, other.state_dict(), Path("w"), edited=edited)
    load_weights(model, torch.nn.Linear(2, 2).state_dict(), Path("w"), edited=edited)
