"""What a public function says of a value of the wrong kind, and of a name that is none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import bench
from bench.records.schema import RunRecord
from bench.training.unfit import UnfitModel
from core.errors import UserError
from models.gpt2 import GPT2
from tasks.interface import Task
from tasks.regbench import RegBench

WRONG: Any = None  # what types forbid is given on purpose
LR = {"training.lr": 1e-3}
FEW = {"training.steps": 1, "training.batch_size": 2, "tasks.test_size": 2}


@pytest.fixture(scope="module")
def task() -> Task:
    return bench.load_task("regbench", test_size=2, validation_size=2)


@pytest.fixture(scope="module")
def model(task: Task) -> nn.Module:
    return bench.load_model("gpt2", task, width=16)


PRESET: Callable[..., Any] = bench.load_preset
SWEEP: Callable[..., Any] = bench.run_sweep
NAMES = [
    (lambda: PRESET("gpt2", "regbench"), "there is no task 'gpt2': that is a model, models=gpt2"),
    (lambda: PRESET(RegBench, "gpt2"), r"task is a name, such as .* and not the class RegBench"),
    (lambda: PRESET("regbench", GPT2), r"model is a name, such as .* and not the class GPT2"),
    (lambda: PRESET("regbench", "gpt2", None), "preset is a name, one of .*, and not None"),
    (lambda: PRESET("regbench", "gpt2", store=None), "store is the path of a folder, .* not None"),
    (lambda: PRESET("regbench", "gpt2", settings=["a=1"]), "settings is a dictionary .* a list"),
    (lambda: PRESET("regbench", "gpt2", settings="a=1"), "settings is a dictionary .* 'a=1'"),
    (lambda: PRESET("regbench", "gpt2", settings={1: 2}), "a key is a text, and not 1"),
    (lambda: bench.load_task("regbench", "gpt2"), "there is no preset 'gpt2': that is a model"),
    (lambda: bench.load_task("smoke"), "there is no task 'smoke': that is a preset"),
    (lambda: bench.load_task("regbench", settings=LR), "load_task takes settings .* lr=…"),
    (lambda: bench.load_task("test_time_memory"), "is made by bench.run"),
    (lambda: bench.run("regbench", WRONG), "model is a name, .* and not None"),
    (lambda: bench.run("regbench", "gpt2", store="/proc/none", settings=FEW), "at /proc/none"),
    (lambda: SWEEP("regbench", GPT2), "models is a list of names, .* and not the class GPT2"),
    (lambda: SWEEP("regbench", [GPT2]), "each of models is a name, .* and not the class GPT2"),
    (lambda: SWEEP("regbench", "gtp2"), "there is no model 'gtp2': did you mean 'gpt2'"),
    (lambda: SWEEP("regbench", "lstm,gtp2"), "there is no model 'gtp2'"),
    (lambda: bench.load_run(WRONG), "run_id is a name, that of a record, .* and not None"),
    (lambda: bench.load_run("a", WRONG), "store is the path of a folder"),
    (lambda: bench.read_records(5), "store is the path of a folder, .* and not 5"),  # type: ignore[arg-type]
    (lambda: bench.read_records(None, task="regbench", preset="laptp"), "mean 'laptop'"),
    (lambda: bench.read_records(None, task=["regbench"]), "task is a name"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "sentence"), NAMES)
def test_a_wrong_value_is_a_sentence(
    call: Callable[[], object], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir() if path.name != "runs"] == []


def test_a_model_needs_a_task_that_was_loaded_and_a_seed(task: Task, model: nn.Module) -> None:
    load: Callable[..., Any] = bench.load_model
    for other in ("regbench", None, RegBench, bench.load_preset("regbench", "gpt2")):
        with pytest.raises(UserError, match="load_model takes a task from load_task, and this is"):
            load("gpt2", other)
    with pytest.raises(UserError, match="the model comes before the task"):
        load(task, "gpt2")
    with pytest.raises(UserError, match=r"model is a name, .* and not a GPT2"):
        load(model, task)
    with pytest.raises(UserError, match=r"load_model takes settings one by one, .*: width=…"):
        load("gpt2", task, settings={"models.width": 64})
    for seed in ("a", -1, 1.5, None):
        with pytest.raises(UserError, match="seed="):
            load("gpt2", task, seed=seed)


def test_what_is_examined_is_a_model_and_stops_with_a_sentence(
    task: Task, model: nn.Module
) -> None:
    examine: Callable[..., Any] = bench.examine_model
    for call in (("gpt2", task), (GPT2, task), (task, model), (model, "regbench"), (model, None)):
        with pytest.raises(UserError, match=r"examine_model takes a model, a torch.nn.Module"):
            examine(*call)
    with pytest.raises(UserError, match="seed is a whole number from 0 on, and not '0'"):
        examine(model, task, seed="0")
    with pytest.raises(UnfitModel, match=r"Linear stops at sequences of RegBench, inputs int64"):
        examine(nn.Linear(3, 3), task)


def test_methods_of_a_loaded_task_refuse_in_a_sentence(task: Task, model: nn.Module) -> None:
    evaluate: Callable[..., Any] = task.evaluate
    with pytest.raises(UserError, match="there is no split 'tset': did you mean 'test'"):
        evaluate(model, "tset", "cpu")
    if not torch.cuda.is_available():
        for device in ("cuda", torch.device("cuda:0")):
            with pytest.raises(UserError, match=r"device=cuda.*, but PyTorch finds no GPU here"):
                evaluate(model, "validation", device)
            with pytest.raises(UserError, match="finds no GPU here"):
                task.validation_loss(model, device)
    for place in ("auto", None):
        with pytest.raises(UserError, match="device is 'cpu' or 'cuda', and not "):
            evaluate(model, "validation", place)
    with pytest.raises(UserError, match="the model is on meta, and device is cpu"):
        evaluate(nn.Linear(2, 2, device="meta"), "test", device="cpu")
    with pytest.raises(UserError, match=r"a model is a torch\.nn\.Module .*, and not 'gpt2'"):
        evaluate("gpt2", "test", "cpu")
    draw: Callable[..., Any] = task.training_batch
    for name, value in (("size", -3), ("size", 0), ("seed", -1), ("step", 1.5), ("step", "0")):
        with pytest.raises(UserError, match=f"{name} is a whole number from . on, and not "):
            draw(**{"seed": 0, "step": 0, "size": 2, name: value})
    assert draw(np.int64(0), 0, size=2).inputs.equal(draw(0, 0, 2).inputs)


def test_scalars_paths_and_records_are_taken_as_what_they_are(tmp_path: Path) -> None:
    configuration = bench.load_preset(
        "regbench", "gpt2", settings={"models.width": np.int64(32), "training.lr": np.float32(0.5)}
    )
    assert (configuration.models["width"], configuration.training.lr) == (32, 0.5)
    assert type(configuration.models["width"]) is int
    record = bench.run("regbench", "lstm", store=tmp_path, settings=FEW, quiet=True)
    assert isinstance(record, RunRecord)
    file = tmp_path / "records" / f"{record.run_id}.json"
    for run in (record, record.run_id, file, str(file)):
        assert bench.load_run(run, tmp_path).record == record


def test_a_known_name_of_which_there_is_nothing_is_no_mistake() -> None:
    """Whoever asks for each task in turn gets none of those that nobody ran."""
    assert bench.read_records(None, task="mad", preset="paper") == []
