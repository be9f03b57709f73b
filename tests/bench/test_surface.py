"""What ``from bench import …`` gives: the page names it, the notebook runs, mistakes are told."""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import bench
from bench.training.unfit import UnfitModel
from core.errors import UserError
from tests.conftest import ROOT, Command

PAGE = (ROOT / "docs" / "python.md").read_text()
SMALL = {"training.steps": 2, "training.batch_size": 2, "tasks.test_size": 4}


def test_the_page_names_all_that_is_public_and_each_says_what_it_does() -> None:
    names_of_page, _, _ = PAGE.partition("## Columns of a board")
    cells = "\n".join(re.findall(r"^\| (.*?) \|", names_of_page, re.M))
    named = set(re.findall(r"`(\w+)[(`]", cells))
    assert named == set(bench.__all__)
    for name in bench.__all__:
        public = getattr(bench, name)
        assert inspect.getdoc(public), name
        if inspect.isfunction(public):
            hints = inspect.get_annotations(public)
            assert {*inspect.signature(public).parameters, "return"} == {*hints}, name


def test_the_types_of_the_names_are_written_down() -> None:
    """``bench/__init__.pyi`` is what type checkers read of names that are found late."""
    stub = (ROOT / "bench" / "__init__.pyi").read_text()
    found = re.findall(r"^from ([\w.]+) import (\w+) as \2$", stub, re.MULTILINE)
    assert {name: module for module, name in found} == bench._PUBLIC


def test_importing_the_package_loads_nothing_that_computes(run_command: Command) -> None:
    heavy = "{'torch', 'numpy', 'hydra', 'lightning', 'pandas', 'optuna', 'pydantic'}"
    code = f"import sys, bench; print(sorted({heavy} & set(sys.modules)))"
    assert run_command("-c", code).stdout.strip() == "[]"


def test_the_examples_of_the_page_run() -> None:
    names: dict[str, Any] = {}
    for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(text, "python.md", "exec"), names)
    assert torch.isfinite(names["loss"])
    assert 0 <= names["accuracy"] <= 1


@pytest.mark.bitwise  # a measurement is the same when it is made again
@pytest.mark.parametrize("name", ["regbench", "multi_query_recall"])
def test_a_task_measures_a_model_in_the_midst_of_its_training(name: str) -> None:
    """As the engine measures it: in eval mode, without gradients; the modes stay as they were."""
    task = bench.load_task(name, "smoke", test_size=8)
    model = bench.load_model("gpt2", task, dropout=0.5)
    frozen = next(module for module in model.modules() if isinstance(module, nn.LayerNorm)).eval()
    first = task.evaluate(model, "test", "cpu").metrics
    assert task.evaluate(model, "test", device="cpu").metrics == first  # no dropout
    assert task.validation_loss(model, "cpu") > 0
    assert model.training
    assert not frozen.training
    assert torch.is_grad_enabled()


@pytest.mark.long
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "docs" / "python.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "python.ipynb", "exec"), names)
    plain = next("".join(c["source"]) for c in cells if "load_task" in "".join(c["source"]))
    assert len([line for line in plain.splitlines() if line]) <= 13  # with imports and a print
    assert names["own"].set_index("label").loc["LSTM", "seeds"] == 2
    assert names["finding"].verdict == "reproduced"  # as the committed verdicts have it
    assert names["table"]["variant"].nunique() == names["table"]["group"].nunique() == 1
    # Its stored outputs are of these cells, and say nothing of a machine.
    shown = json.dumps([cell["outputs"] for cell in cells if cell["cell_type"] == "code"])
    assert json.dumps(names["finding"].evidence)[1:-1] in shown
    assert json.dumps(names["variant"])[1:-1] in shown
    assert all(cell["outputs"] for cell in cells[2:] if cell["cell_type"] == "code")
    assert not re.search(r"stderr|site-packages|/home/|/tmp/|/work|/root|python3\.", shown)


def test_a_run_from_python_is_the_run_of_the_command(tmp_path: Path) -> None:
    from tests.configurations import compose

    store = tmp_path / "runs"
    record = bench.run("regbench", "lstm", seed=3, store=store, settings=SMALL, quiet=True)
    words = [f"{key}={value}" for key, value in SMALL.items()]
    asked = compose(["tasks=regbench", "models=lstm", "preset=smoke", "seed=3", *words])
    assert record.config == asked.resolved()
    assert record.seed == 3
    assert bench.read_records(store) == [record]
    again = bench.run("regbench", "lstm", seed=3, store=store, settings=SMALL, quiet=True)
    assert again == record
    saved = bench.load_run(record.run_id, store)
    with torch.no_grad():
        measured = saved.task.evaluate(saved.model, "test", "cpu").metrics
    assert measured["accuracy"] == pytest.approx(record.metrics["test"]["accuracy"], abs=1e-6)
    fresh = bench.load_model("lstm", bench.load_task("regbench"), seed=3)
    assert [p.shape for p in fresh.parameters()] == [p.shape for p in saved.model.parameters()]


FILE = """
from tasks.generated import GeneratedTask

class Echo(GeneratedTask):
    vocabulary, length = 4, 6

    def draw(self, generator, count):
        tokens = generator.integers(0, 4, (count, self.length))
        return tokens, tokens
"""


def test_a_task_of_a_file_keeps_its_preset_and_is_read_anew_when_it_is_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "echo_task.py"
    file.write_text(FILE)
    word = "./echo_task.py:Echo"
    small, large = bench.load_task(word, "smoke"), bench.load_task(word, "laptop")
    for task, preset in ((small, "smoke"), (large, "laptop")):  # of equal settings but the model's
        count = sum(p.numel() for p in bench.load_model("gpt2", task).parameters())
        width = bench.load_preset(word, "gpt2", preset).models["width"]
        again = sum(p.numel() for p in bench.load_model("gpt2", task, width=width).parameters())
        assert count == again
    assert bench.load_preset(word, "gpt2", "smoke").models["width"] == 32
    assert bench.load_preset(word, "gpt2", "laptop").models["width"] == 64
    first = bench.run(word, "lstm", settings={"training.steps": 1}, quiet=True)
    file.write_text(FILE.replace("return tokens, tokens", "return tokens, 3 - tokens"))
    other = bench.run(word, "lstm", settings={"training.steps": 1}, quiet=True)
    assert first.run_id != other.run_id
    batch = bench.load_task(word).training_batch(0, 0, 2)
    assert batch.targets.equal(3 - batch.inputs)
    sys.modules.pop("echo_task", None)


class Peeks(nn.Module):
    """Tells the next token."""

    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.one_hot(inputs.roll(-1, 1), 20).float()


PEEK = """
from torch import nn, ones

class Peek(nn.Module):
    def __init__(self, specification):
        super().__init__()
        self.gain = nn.Parameter(ones(1))

    def forward(self, inputs):
        return self.gain * nn.functional.one_hot(inputs.roll(-1, 1), 20).float()
"""


def test_a_model_is_built_unseen_and_examined_where_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page says of both names."""
    assert "It builds the model and never calls it" in PAGE
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "peek_net.py").write_text(PEEK)
    task = bench.load_task("regbench")
    model = bench.load_model(f"{tmp_path}/peek_net.py:Peek", task)
    with pytest.raises(bench.UnfitModel):
        bench.examine_model(model, task)
    sys.modules.pop("peek_net", None)


def test_mistakes_are_sentences() -> None:
    with pytest.raises(UserError, match="did you mean 'regbench'"):
        bench.load_task("regbnch")
    with pytest.raises(UserError, match=r"there is no setting 'training.lrr'"):
        bench.load_preset("regbench", "gpt2", settings={"training.lrr": 1})
    with pytest.raises(UserError, match="load_model takes a task from load_task"):
        bench.load_model("gpt2", type(bench.load_task("regbench"))())
    with pytest.raises(UserError, match="a board has no column 'metrics': did you mean 'metric'"):
        bench.read_board(metrics="accuracy")
    with pytest.raises(UserError, match="no committed records of 'regbnch': did you mean"):
        bench.read_records(None, task="regbnch")
    with pytest.raises(UserError, match="there is no store at nowhere"):
        bench.read_records("nowhere")
    with pytest.raises(UserError, match="neither a store with records nor the folder of a board"):
        bench.read_board("nowhere")
    with pytest.raises(AttributeError, match="module 'bench' has no attribute 'nothing'"):
        bench.nothing  # noqa: B018
    task = bench.load_task("regbench")
    bench.examine_model(bench.load_model("gpt2", task), task)
    for kind in (UnfitModel, UserError, bench.UnfitModel):  # by whichever of them it is caught
        with pytest.raises(kind, match="sees the future"):
            bench.examine_model(Peeks(), task)


def test_the_board_is_the_committed_one() -> None:
    from leaderboards.build import COMMITTED
    from leaderboards.contents import OpenBoard

    frame = bench.read_board(task="regbench", preset="laptop", metric="accuracy")
    rows = OpenBoard(COMMITTED).rows("regbench", preset="laptop", metric="accuracy")
    assert list(frame["model"]) == [row.model for row in rows]
    assert frame["mean"].dropna().tolist() == [row.mean for row in rows if row.mean is not None]
