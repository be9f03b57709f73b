"""Commands among files that have our names, and with models that do as they like."""

import json
import os
from pathlib import Path

import pytest

from bench import train
from bench.records.schema import read_record
from leaderboards.verification import rerun as again
from tests import commands
from tests.conftest import ROOT, Command

MODEL = """
import os, torch
from torch import nn


class Base(nn.Module):
    def __init__(self, specification, *, width=8):
        super().__init__()
        self.embed = nn.Embedding(specification.vocabulary, width)
        self.out = nn.Linear(width, specification.output_size)

    def forward(self, inputs):
        hidden = self.embed(inputs)
        counts = torch.arange(1, hidden.shape[1] + 1, dtype=hidden.dtype)
        return self.out(hidden.cumsum(1) / counts[:, None])

    def state_bytes(self, length):
        return 4 * (self.out.in_features + 1)


class Wanders(Base):
    def __init__(self, specification, **sizes):
        super().__init__(specification, **sizes)
        os.chdir(os.environ["ELSEWHERE"])
        print("record: /nowhere.json")
        print('{"run_id": "x"}', end="", flush=True)


class Dies(Base):
    def __init__(self, specification, **sizes):
        super().__init__(specification, **sizes)
        if "DIE" in os.environ:
            os._exit(3)
"""
RUN = ("tasks=state_tracking", "preset=smoke", "training.steps=2", "training.warmup_steps=1")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    (folder / "wandering.py").write_text(MODEL)
    (folder / "elsewhere").mkdir()
    return folder


@pytest.fixture
def surroundings(package: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Variables with which the package is found, here and in children."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), str(package))))
    monkeypatch.setenv("ELSEWHERE", str(package / "elsewhere"))
    return {name: os.environ[name] for name in ("PYTHONPATH", "ELSEWHERE")}


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A folder with files of the names of ours, none of which may be imported."""
    (tmp_path / "core.py").write_text("raise SystemExit('imported from where one stands')")
    for name in ("models", "tasks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported too')")
    (tmp_path / "torch.py").write_text("raise SystemExit('a library of that name')")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("-m", "bench"),
        ("-P", "-m", "bench.train", "--help"),
        ("-m", "leaderboards.add", "--help"),
        ("-m", "reproduce", "--help"),
        ("-m", "reproduce", "evidence", "--help"),
        ("-m", "evidence", "--help"),
    ],
)
def test_files_where_one_stands_stand_in_for_none_of_ours(
    run_command: Command, crowded: Path, words: tuple[str, ...]
) -> None:
    done = run_command(*words, cwd=crowded)
    assert done.returncode == 0, done.stderr
    assert "python -m" in done.stdout


def test_a_class_in_a_folder_of_our_name_is_said_to_be_that(
    run_command: Command, crowded: Path
) -> None:
    words = ("-m", "bench.train", *RUN, "store=own")
    for target, name in (("models.mine.Net", "models/FILE.py"), ("core.Net", "core.py")):
        done = commands.run(*words, f"models={target}", cwd=crowded)
        assert done.returncode == 2
        (sentence,) = done.stderr.splitlines()
        top, *_ = target.split(".")
        assert f"'{top}' is the name of a package of this project" in sentence
        assert f"name the file, models=./{name}:{target.rpartition('.')[2]}" in sentence
    done = run_command(*words, "models=modles.mine.Net", cwd=crowded)
    assert "of a package that is installed, in the working directory" in done.stderr


@pytest.mark.long
def test_a_model_that_does_as_it_likes_is_counted_and_run_again(
    run_here: Command,
    crowded: Path,
    package: Path,
    surroundings: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that changes the folder and prints has its record where it belongs, and one at which the
    counting dies stops no other."""
    words = (*RUN, "models=wandering.Wanders", "store=own", "output=answer.json")
    done = commands.run("-m", "bench.train", *words, cwd=crowded, env=surroundings)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()[-1].removeprefix("record: ")
    (wanders,) = (crowded / "own" / "records").glob("*.json")
    assert crowded / said == wanders
    assert json.loads((crowded / "answer.json").read_text()) == [str(wanders)]
    assert not list((package / "elsewhere").iterdir())

    monkeypatch.syspath_prepend(package)
    done = run_here(train.main, *RUN, "models=wandering.Dies", f"store={crowded / 'other'}")
    assert done.returncode == 0, done.stderr
    (dies,) = (crowded / "other" / "records").glob("*.json")
    monkeypatch.setenv("DIE", "1")
    bench = again.Bench(crowded / "verify", "wandering")
    first, lost, last = bench.count([wanders, dies, wanders])
    record = read_record(wanders)
    assert first.cost == last.cost is not None
    assert first.cost.parameters == record.cost.parameters
    assert (lost.run_id, lost.cost) == (dies.stem, None)
    assert "its counting came to no end" in lost.refused
    made = bench.run(record)
    assert not isinstance(made, str), made
    assert made.weights_sha256 == record.weights_sha256
