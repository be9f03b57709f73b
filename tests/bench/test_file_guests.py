"""A model in a file, from the command line to its record and back: a folder with one file."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench import evaluate, sweep, train
from bench.config import source_files
from bench.executors.ray_worker import WatchedFolder
from bench.records import provenance
from bench.records.code import code_hash, modules_behind
from bench.records.schema import RunRecord, read_records
from bench.runs.serving import identify
from bench.search.jobs import Job, execute
from bench.search.payload import JobPayload
from core.errors import OK, USAGE, UserError
from core.progress import silent
from leaderboards.checks.admission import check
from tests.configurations import compose, make_plan

NET = """
import torch
from torch import nn

from parts_of_the_net.mixing import Mean


class Average(nn.Module):
    label = "Mean, of a file"

    def __init__(self, specification, width=8):
        super().__init__()
        self.embedding = nn.Embedding(specification.vocabulary, width)
        self.mean = Mean()
        self.read_out = nn.Linear(width, specification.output_size)

    def forward(self, inputs):
        return self.read_out(self.mean(self.embedding(inputs)))
"""
MIXING = """
import torch
from torch import nn

from .counting import positions


class Mean(nn.Module):
    def forward(self, hidden):
        return hidden.cumsum(1) / positions(hidden)
"""
COUNTING = """
import torch


def positions(hidden):
    return torch.arange(1, hidden.shape[1] + 1)[:, None]
"""
WORDS = ["tasks=state_tracking", "preset=smoke", "training.steps=3", "device=cpu"]
Here = Callable[..., subprocess.CompletedProcess[str]]


def write_files(folder: Path) -> Path:
    (folder / "parts_of_the_net").mkdir(parents=True)
    (folder / "mean_net.py").write_text(NET)
    (folder / "parts_of_the_net" / "__init__.py").touch()
    (folder / "parts_of_the_net" / "mixing.py").write_text(MIXING)
    (folder / "parts_of_the_net" / "counting.py").write_text(COUNTING)
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the user stands."""
    monkeypatch.setattr(source_files, "_places", {})
    monkeypatch.setattr(source_files, "_imported", {})
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    monkeypatch.chdir(write_files(tmp_path / "here"))
    yield tmp_path / "here"
    for name in {*sys.modules} - before:
        if name.startswith(("mean_net", "parts_of_the_net")):
            del sys.modules[name]


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that nobody has told of a file."""
    for path in source_files._places.values():
        source_files._forget(path)
    monkeypatch.setattr(source_files, "_places", {})


def test_a_run_is_recorded_by_name_and_evaluated_where_the_file_is_named(
    folder: Path, run_here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_here(train.main, *WORDS, "models=./mean_net.py:Average")
    assert done.returncode == OK, done.stderr
    (record,) = read_records([folder / "runs" / "records"])
    assert (record.model, record.label) == ("Average", "Mean, of a file")
    assert record.config["models"]["_target_"] == "mean_net.py:Average"
    assert str(folder) not in record.model_dump_json()
    check(record)
    forget(monkeypatch)
    refused = run_here(evaluate.main, f"run={record.run_id}")
    assert refused.returncode == USAGE
    assert "of the file 'mean_net.py'" in refused.stderr
    assert "trust=PATH/FILE.py" in refused.stderr
    of_a_package = run_here(evaluate.main, f"run={record.run_id}", "trust=mean_net")
    assert of_a_package.returncode == USAGE
    elsewhere = write_files(folder.parent / "moved")
    again = run_here(evaluate.main, f"run={record.run_id}", f"trust={elsewhere}/mean_net.py")
    assert again.returncode == OK, again.stderr
    served = run_here(train.main, *WORDS, f"models={elsewhere}/mean_net.py:Average")
    assert "nothing to do" in served.stdout


def test_the_identity_is_that_of_the_content(folder: Path) -> None:
    def identity(place: Path) -> str:
        return identify(compose([*WORDS, f"models={place}/mean_net.py:Average"])).identity

    first = identity(folder)
    assert set(modules_behind("mean_net.py:Average")) == {
        "mean_net",
        "parts_of_the_net",
        "parts_of_the_net.mixing",
        "parts_of_the_net.counting",
    }
    commented = write_files(folder.parent / "commented")
    (commented / "mean_net.py").write_text(f"# why\n{NET}")
    (commented / "unrelated.py").write_text("1 / 0\n")
    assert identity(commented) == first
    edited = write_files(folder.parent / "edited")
    counting = edited / "parts_of_the_net" / "counting.py"
    counting.write_text(COUNTING.replace("(1, hidden.shape[1] + 1)", "(2, hidden.shape[1] + 2)"))
    assert identity(edited) != first
    assert identity(folder) == first
    assert code_hash("never_named.py:Average") == code_hash("nor_this.py:Average")


def test_worker_processes_and_budgets_take_a_file(folder: Path, run_here: Here) -> None:
    space = "sweep.search_space={models.parameters:[1_000,2_000]}"
    words = [*WORDS, "models=./mean_net.py:Average", space, "seeds=1", "workers=2"]
    done = run_here(sweep.main, *words)
    assert done.returncode == OK, done.stderr
    records = [*read_records([folder / "runs" / "records"])]
    (final,) = [record for record in records if record.role == "final"]
    assert final.study is not None
    chosen = min(
        (t for t in final.study.trials if t.value is not None), key=lambda t: -(t.value or 0)
    )
    asked = chosen.parameters["models.parameters"]
    assert abs((final.cost.parameters or 0) - asked) <= 0.05 * asked
    assert "models.parameters" not in json.dumps(final.config)
    check(final)


def test_a_node_gets_the_file_with_the_modules_beside_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "_adopted", [])
    words = [*WORDS, "models=./mean_net.py:Average", f"store={folder.parent / 'driver'}"]
    job = Job("trial 0", compose(words), "trial")
    payload = JobPayload.of_this_process("cpu", [job.configuration])
    run_id = identify(job.configuration).run_id(0)
    node = WatchedFolder(folder.parent / "node" / "job")
    node.path.mkdir(parents=True)
    forget(monkeypatch)
    there = payload.unpack(job, node.path, {})
    (place,) = there.configuration.source_files.values()
    assert place.is_relative_to(folder.parent / "node")
    assert not (folder.parent / "node" / "sources" / "here").exists()
    record = execute(there, silent)
    assert isinstance(record, RunRecord)
    assert (record.run_id, record.outcome) == (run_id, "ok")


def test_processes_that_share_a_training_take_a_file(folder: Path, run_here: Here) -> None:
    words = [*WORDS, "models=./mean_net.py:Average", "training.devices=2", "store=shared"]
    done = run_here(train.main, *words)
    assert done.returncode == OK, done.stderr


def test_a_file_beside_the_contenders_is_one_guest(folder: Path) -> None:
    words = ["tasks=regbench", "preset=smoke", "n_trials=2", "models=+./mean_net.py:Average"]
    guests = [entry for entry in make_plan(words).entries if entry.guest]
    assert [entry.configuration.model for entry in guests] == ["Average"]


def test_a_class_for_tokens_is_told_of_a_task_of_vectors(folder: Path) -> None:
    words = ["tasks=in_context_regression", "models=./mean_net.py:Average", "preset=smoke"]
    with pytest.raises(UserError, match=r"the task has real vectors.* sequences = \"tokens\""):
        train.main([*words, "device=cpu", f"store={folder / 'runs'}"])


def test_only_settings_that_a_model_has_are_advised_for_a_budget(folder: Path) -> None:
    words = [*WORDS, "models=./mean_net.py:Average", "models.parameters=7"]
    with pytest.raises(UserError, match=r"give one of these widths or another budget$"):
        train.main([*words, f"store={folder / 'runs'}"])


def test_a_size_of_the_class_that_a_preset_replaces_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tasks=state_tracking", "models=./mean_net.py:Average", "dry_run=true", "device=cpu"]
    space = "sweep.search_space={training.lr:[1e-3]}"
    note = "note: preset smoke gives Mean, of a file models.width="
    for word, is_told in (
        (space, True),
        ("models.width=8", False),
        ("models.parameters=900", False),
    ):
        assert sweep.main([*words, word]) == OK
        assert (note in capsys.readouterr().err) == is_told, word
    assert train.main([*WORDS, "models=./mean_net.py:Average"]) == OK
    assert "; the class's own is models.width=8" in capsys.readouterr().err
    demanding = Path("mean_net.py").read_text().replace("width=8", "width")
    Path("asking_net.py").write_text(demanding.replace("Average", "Asking"))
    words = [word for word in words if not word.startswith("models=")]
    assert sweep.main([*words, "models=./asking_net.py:Asking", space]) == OK
    assert "the class's own" not in capsys.readouterr().err  # it has none


REFUSES = """
from torch import nn


class Misfit(Exception):
    pass


class Refuses(nn.Module):
    def __init__(self, specification, width=8):
        super().__init__()
        try:
            raise ValueError(f"{width} is no multiple of 3.")
        except ValueError as error:
            raise Misfit("validation failed") from error
"""


def test_a_refusal_that_a_library_puts_into_its_own_exception_is_a_sentence(folder: Path) -> None:
    (folder / "refusing_net.py").write_text(REFUSES)
    with pytest.raises(UserError, match=r"8 is no multiple of 3; it was built with width=8"):
        train.main([*WORDS, "models=./refusing_net.py:Refuses", "models.width=8"])
