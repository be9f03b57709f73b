"""Tasks of files and packages elsewhere: trained, swept, measured again, and on the local board."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import bench
from bench import evaluate, sweep, train
from bench.config import groups, source_files
from bench.config.source_files import forget_edited, use_named
from bench.records import numbers
from bench.records.code import code_hash, forget_code
from bench.records.command import words_of
from bench.records.equivalence import code_status
from bench.records.schema import RunRecord, read_record, read_records
from bench.training.building import build_task
from core.errors import OK, VERIFICATION_FAILED, UserError
from leaderboards import build, verify
from leaderboards.checks.admission import check
from leaderboards.contents import OpenBoard
from leaderboards.render import task_label
from tasks.interface import Batch
from tests.configurations import compose

TASK = '''
"""A task of somebody else."""
import numpy as np

from tasks.generated import GeneratedTask
from helper import largest


class LoudestChannel(GeneratedTask):
    """Which channel is the loudest now."""

    channels, classes, length = 3, 3, 8
    card = {"label": "The loudest of three"}
    presets = {"smoke": {"training": {"steps": 4, "batch_size": 4}, "models": {"width": 8}}}

    def __init__(self, loudness: float = 1.0, evaluation_sequences: int = 16) -> None:
        super().__init__(evaluation_sequences)
        self.loudness = loudness

    def draw(self, generator, count):
        values = self.loudness * generator.normal(size=(count, self.length, 3))
        return values, largest(values)

    def metrics(self, answers, targets, asked):
        at_end = (answers[:, -1].argmax(-1) == targets[:, -1]).float()
        return {**super().metrics(answers, targets, asked), "at_end": at_end}
'''
HELPER = "def largest(values):\n    return values.argmax(-1)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a task, beside the one where commands are given."""
    monkeypatch.setattr(source_files, "_places", {})
    monkeypatch.setattr(source_files, "_imported", {})
    monkeypatch.setattr(groups, "_tasks_from_outside", {})
    monkeypatch.setattr(sys, "path", [*sys.path])
    own = tmp_path / "elsewhere"
    own.mkdir()
    (own / "task.py").write_text(TASK)
    (own / "helper.py").write_text(HELPER)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    yield own
    for name in ("task", "helper", "my_package.mine", "my_package.helper", "my_package"):
        sys.modules.pop(name, None)
    forget_code()


def made(role: str = "single") -> list[RunRecord]:
    return [r for r in read_records([Path("runs/records")]) if r.role == role]


def test_a_task_in_a_file_has_runs_a_sweep_a_table_and_its_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    word = f"tasks={folder}/task.py:LoudestChannel"
    assert train.main([word, "models=lstm", "preset=smoke", "tasks.loudness=2"]) == OK
    (record,) = made()
    assert record.task == "LoudestChannel"
    assert record.config["tasks"]["loudness"] == 2.0
    assert record.config["training"]["steps"] == 4
    assert set(record.metrics["test"]) == {"accuracy", "at_end", "loss"}
    assert str(folder) not in json.dumps(record.model_dump(mode="json"))  # no path of this machine
    words = [word, "models=[lstm,gla]", "seeds=2", "n_trials=1", "workers=0", "preset=smoke"]
    assert sweep.main(words) == OK
    assert {r.model for r in made("final")} == {"lstm", "gla"}
    assert [r.label for r in made("baseline")] == ["most_frequent"]

    (Path() / "none").mkdir()
    assert build.main(["records=none", "local=true"]) == OK
    groups._tasks_from_outside.clear()  # as in a process that only reads
    board = OpenBoard(Path("runs/board.parquet"))
    assert "LoudestChannel" in board.tasks()  # beside published numbers
    assert task_label("LoudestChannel") == "The loudest of three"
    rows = board.rows("LoudestChannel", metric="accuracy")
    assert {row.model for row in rows} == {"lstm", "gla", "most_frequent"}
    assert {row.metric for row in board.rows("LoudestChannel")} == {"accuracy", "at_end", "loss"}
    assert all(row.low >= 0 and row.high <= 1 for row in rows if row.low is not None)  # shares


def test_the_page_of_a_task_from_outside_is_drawn(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        train.main([f"tasks={folder}/task.py:LoudestChannel", "models=lstm", "preset=smoke"]) == OK
    )
    (Path() / "none").mkdir()
    assert build.main(["records=none", "local=true"]) == OK
    groups._tasks_from_outside.clear()
    monkeypatch.setenv("BOARD", "runs/board.parquet")
    monkeypatch.setattr(sys, "argv", ["app.py"])
    script = "from leaderboards.app import show\nshow('task')"
    page = AppTest.from_string(script, default_timeout=60)
    page.query_params["task"] = "LoudestChannel"
    page.run()
    assert not page.exception, page.exception
    assert list(page.dataframe[0].value["model"]) == ["LSTM (yours)"]
    html = "\n".join(part.proto.body for part in page.get("html"))
    assert "The loudest of three" in html
    assert "Which channel is the loudest now." in html


def test_a_task_that_the_store_keeps_no_card_of_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a submission: what a stranger's task measures is not known here."""
    assert (
        train.main([f"tasks={folder}/task.py:LoudestChannel", "models=lstm", "preset=smoke"]) == OK
    )
    (record,) = made()
    assert check(record) is record
    Path("runs/tasks/LoudestChannel.json").write_text('{"label": 5}')
    groups._tasks_from_outside.clear()
    with pytest.raises(UserError, match="its task 'LoudestChannel' is unknown here"):
        check(record)
    (Path() / "none").mkdir()
    assert build.main(["records=none", "local=true", "skip_refused=true"]) == OK
    told = capsys.readouterr().err
    assert "LoudestChannel.json" in told
    assert "its task 'LoudestChannel' is unknown here" in told


def test_a_run_is_measured_again_by_the_file_that_made_it_and_no_other(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    word = f"tasks={folder}/task.py:LoudestChannel"
    assert train.main([word, "models=lstm", "preset=smoke"]) == OK
    (record,) = made()
    groups._tasks_from_outside.clear()
    with pytest.raises(
        UserError, match=r"trust=PATH/FILE.py .* imports classes of a package, or of a file"
    ):
        evaluate.main([f"run={record.run_id}"])
    moved = shutil.copytree(folder, folder.parent / "moved")
    assert evaluate.main([f"run={record.run_id}", f"trust={moved}/task.py"]) == OK
    assert "every metric is that of the record" in capsys.readouterr().out
    (moved / "helper.py").write_text(HELPER.replace("argmax", "argmin"))
    assert forget_edited()
    forget_code()
    with pytest.raises(UserError, match="are not those that it was made with"):
        evaluate.main([f"run={record.run_id}", f"trust={moved}/task.py"])


NET = """
from torch import nn

class Plain(nn.Module):
    def __init__(self, specification, width=4):
        super().__init__()
        self.layer = nn.Linear(specification.input_channels, specification.output_size)

    def forward(self, inputs):
        return self.layer(inputs)
"""


@pytest.mark.long
def test_task_and_model_may_both_be_from_outside(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "net.py").write_text(NET)
    words = [f"tasks={folder}/task.py:LoudestChannel", f"models={folder}/net.py:Plain"]
    assert train.main([*words, "preset=smoke"]) == OK
    (record,) = made()
    assert code_status(record.config, record.provenance) == "current"  # none of it is ours
    assert check(record) is record
    with pytest.raises(UserError, match="task 'LoudestChannel' is unknown here"):
        evaluate.main([f"run={record.run_id}", f"trust={folder}/net.py"])
    both = f"trust=[{folder}/net.py,{folder}/task.py]"
    assert evaluate.main([f"run={record.run_id}", both]) == OK
    assert "its code is current" in capsys.readouterr().out
    saved = bench.load_run(record, "runs", trust=[f"{folder}/net.py", folder / "task.py"])
    assert type(saved.model).__name__ == "Plain"
    assert bench.read_records("runs", task=f"{folder}/task.py:LoudestChannel") == [record]
    with pytest.raises(UserError, match="trust is a name or a list of names, and not 3"):
        bench.load_run(record, "runs", trust=3)  # type: ignore[arg-type]

    groups._tasks_from_outside.clear()
    assert verify.main(["level=consistent"]) == VERIFICATION_FAILED  # nobody named the files
    told = capsys.readouterr().out
    assert "its task is of the file 'task.py', which is imported only if it is named" in told
    assert "refused" not in told
    one_each = [f"package={folder}/net.py", f"package={folder}/task.py"]
    assert verify.main(["runs", "level=consistent", *one_each]) == OK
    assert "consistent: what was counted is as recorded" in capsys.readouterr().out
    both = f"package=[{folder}/net.py,{folder}/task.py]"
    assert verify.main([record.run_id, both, "store=again"]) == OK
    assert "1 re-run" in capsys.readouterr().out
    again = compose([*words, "preset=smoke", *words_of(record)[2:]])
    assert again.resolved() == record.config
    sys.modules.pop("net", None)


def test_identity_is_what_the_files_say_and_not_where_they_are(folder: Path) -> None:
    def code(place: Path) -> str:
        forget_code()
        return code_hash(use_named(f"{place}/task.py:LoudestChannel"))

    first = code(folder)
    moved = shutil.copytree(folder, folder.parent / "moved")
    text = (moved / "task.py").read_text().replace("A task of", "By")
    (moved / "task.py").write_text(f"# a comment\n{text}")
    assert code(moved) == first
    (moved / "unrelated.py").write_text("x = 1\n")
    assert code(moved) == first
    (moved / "helper.py").write_text(HELPER.replace("argmax", "argmin"))
    assert code(moved) != first


def test_two_files_of_one_name_and_an_edited_one_are_never_taken_for_each_other(
    folder: Path,
) -> None:
    """In one process, as a notebook is; also where the file beside it is the one that differs."""

    def drawn(place: Path) -> Batch:
        words = [f"tasks={place}/task.py:LoudestChannel", "models=lstm", "preset=smoke"]
        return build_task(compose(words)).training_batch(0, 0, 4)

    right = drawn(folder)
    moved = shutil.copytree(folder, folder.parent / "moved")
    (moved / "helper.py").write_text(HELPER.replace("argmax", "argmin"))
    other = drawn(moved)
    assert right.inputs.equal(other.inputs)
    assert right.targets.equal(right.inputs.argmax(-1))
    assert other.targets.equal(other.inputs.argmin(-1))
    (moved / "helper.py").write_text(HELPER)
    assert forget_edited()
    forget_code()
    assert drawn(moved).targets.equal(right.targets)
    assert not forget_edited()


def test_a_file_beside_the_class_wins_over_its_attributes(folder: Path) -> None:
    (folder / "task.yaml").write_text(
        "card: {label: Another name}\nloudness: 3.0\npresets: {smoke: {training: {steps: 5}}}\n"
    )
    word = f"tasks={folder}/task.py:LoudestChannel"
    found = compose([word, "models=lstm", "preset=smoke"])
    assert found.tasks["loudness"] == 3.0
    assert found.training.steps == 5
    assert task_label("LoudestChannel") == "Another name"
    (folder / "task.yaml").write_text("loudnes: 3.0\n")
    with pytest.raises(UserError, match=r"has the key 'loudnes'.*did you mean 'loudness'"):
        compose([word, "models=lstm", "preset=smoke"])


OTHER_LOSS = """
    def loss(self, outputs, batch):
        return -super().loss(outputs, batch)
"""


@pytest.mark.parametrize(
    ("card", "more", "kind"),
    [
        ("", "", "loss"),
        ("card = {'numbers': {'share': ['accuracy']}}", "", "loss"),
        ("card = {'numbers': {'real': ['*'], 'loss': ['at_end']}}", "", "loss"),
        ("card = {'numbers': {'share': ['accuracy'], 'real': ['loss']}}", "", "real"),
        ("", OTHER_LOSS, "real"),  # nobody knows its range
    ],
)
def test_the_usual_loss_is_none_below_0_where_its_class_says_nothing_else(
    folder: Path, card: str, more: str, kind: str
) -> None:
    text = TASK.replace('card = {"label": "The loudest of three"}', card)
    (folder / "task.py").write_text(text + more)
    compose([f"tasks={folder}/task.py:LoudestChannel", "models=lstm", "preset=smoke"])
    numbers.kind_of.cache_clear()
    numbers._numbers_of_card.cache_clear()
    assert numbers.kind_of("LoudestChannel", "loss").name == kind
    numbers.kind_of.cache_clear()
    numbers._numbers_of_card.cache_clear()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("presets: {smok: {training: {steps: 5}}}", "has the preset 'smok': did you mean 'smoke'"),
        ("presets: {smoke: {trainig: {steps: 5}}}", "has the unknown key 'trainig': did you mean"),
        ("presets: {smoke: {training: {stepps: 5}}}", "'training.stepps': did you mean"),
        ("presets: {smoke: {training: 5}}", "is 5, and should hold keys with values"),
        ("presets: {smoke: }", "is None, and should hold keys with values"),
        ("presets: [smoke]", "presets of .*task.yaml is"),
        ("presets: {smoke: {models: {width: 8}}}", "has no training.steps: a preset that is given"),
        ("sweep: {n_trial: 3}", "the unknown key 'sweep.n_trial': did you mean 'n_trials'"),
        ("sweep: {n_trials: 3 seeds: 2}", "line 1, column 26: expected ',' or '}'"),
    ],
)
def test_a_mistake_in_the_file_beside_a_class_names_the_file(
    content: str, said: str, folder: Path
) -> None:
    (folder / "task.yaml").write_text(content)
    with pytest.raises(UserError, match=said) as refusal:
        compose([f"tasks={folder}/task.py:LoudestChannel", "models=lstm", "preset=smoke"])
    assert f"{folder}/task.yaml" in str(refusal.value)
    assert "training.steps" not in said or "the preset 'smoke'" in str(refusal.value)


def test_a_task_of_a_package_is_named_by_its_place(folder: Path) -> None:
    package = Path("my_package")
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "mine.py").write_text(TASK.replace("from helper", "from my_package.helper"))
    (package / "helper.py").write_text(HELPER)
    words = ["tasks=my_package.mine.LoudestChannel", "models=gla", "preset=smoke"]
    assert train.main(words) == OK
    (record,) = made()
    assert record.config["tasks"]["_target_"] == "my_package.mine.LoudestChannel"
    assert evaluate.main([f"run={record.run_id}", "trust=my_package"]) == OK


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("{}/none.py:Task", "there is no file {}/none.py"),
        ("{}/task.py", "names a file, and no class in it: give {}/task.py:CLASS"),
        ("{}/task.py:Loudest", "task.py has no class 'Loudest': the nearest is 'LoudestChannel'"),
        ("{}/broken.py:Task", "broken.py, line 1, stops with SyntaxError"),
        ("{}/stops.py:Task", "stops.py, line 1, stops with ZeroDivisionError"),
        ("{}/ours.py:Task", "imports 'models', which is the name of a package of this project"),
        ("{}/lacking.py:Task", "No module named 'not_there'.*install what it lacks"),
        ("{}/taken.py:RegBench", "could not be told from those of the task RegBench"),
        ("{}/missing.py:Missing", "Missing has no default for size: add tasks.size=VALUE"),
        ("{}/plain.py:Plain", "is no task: a task derives from tasks.interface.Task"),
        ("[a.py:B,regbench]", "is a list, but one task is run here"),
        ("no_such_package.Task", "cannot import 'no_such_package.Task'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(folder: Path, word: str, said: str) -> None:
    base = "from tasks.generated import GeneratedTask\n"
    texts = {
        "broken": "class Task(:\n",
        "stops": "x = 1 / 0\nclass Task: pass\n",
        "ours": "import models.mine\nclass Task: pass\n",
        "lacking": "import not_there\nclass Task: pass\n",
        "taken": f"{base}class RegBench(GeneratedTask): pass\n",
        "missing": f"{base}class Missing(GeneratedTask):\n    def __init__(self, size): pass\n",
        "plain": "class Plain:\n    def __init__(self): pass\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "models").mkdir()
    (folder / "models" / "mine.py").touch()
    with pytest.raises(UserError, match=said.format(folder)):
        train.main([f"tasks={word.format(folder)}", "models=lstm", "preset=smoke"])


def test_a_card_that_nothing_can_be_made_of_is_told_before_the_run(folder: Path) -> None:
    text = TASK.replace('{"label": "The loudest of three"}', '{"numbers": {"part": ["accuracy"]}}')
    (folder / "task.py").write_text(text)
    with pytest.raises(UserError, match=r"card.numbers.part.* of the task LoudestChannel cannot"):
        train.main([f"tasks={folder}/task.py:LoudestChannel", "models=lstm", "preset=smoke"])
    assert not list(Path().rglob("records/*.json"))


def test_a_record_says_nothing_that_imports_its_task(folder: Path) -> None:
    """The local board reads a store without the file of its task."""
    word = f"tasks={folder}/task.py:LoudestChannel"
    assert train.main([word, "models=lstm", "preset=smoke"]) == OK
    shutil.rmtree(folder)
    sys.modules.pop("helper", None)
    (Path() / "none").mkdir()
    groups._tasks_from_outside.clear()
    assert build.main(["records=none", "local=true"]) == OK
    assert "LoudestChannel" in OpenBoard(Path("runs/board.parquet")).tasks()
    (path,) = Path("runs/records").glob("*-lstm-*.json")
    assert read_record(path).outcome == "ok"
