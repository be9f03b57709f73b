"""Pages for those whose code lies elsewhere: files and commands are executed as they stand."""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import sweep, train
from bench.config import groups, source_files
from bench.records.schema import read_records
from core.errors import OK
from tests.test_docs import ROOT, examples

PAGE = (ROOT / "docs" / "add_a_task.md").read_text()
SHORTEST, FULL = "first_again.py", "clicks.py"
FEW = ["training.steps=3", "tasks.evaluation_sequences=8"]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the two tasks of the page, where commands are given."""
    for name in (SHORTEST, FULL):
        (tmp_path / name).write_text(examples("add_a_task.md")[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(groups, "_tasks_from_outside", {})
    monkeypatch.setattr(source_files, "_places", {})
    yield tmp_path
    for name in (SHORTEST, FULL):
        sys.modules.pop(Path(name).stem, None)


def commands(name: str) -> list[list[str]]:
    """The words of the page's commands of one program, ``bench.train``."""
    return [
        shlex.split(line) for line in re.findall(rf"^python -m {name} (.*)$", PAGE, re.MULTILINE)
    ]


def test_the_shortest_task_is_short_and_its_commands_work(elsewhere: Path) -> None:
    assert len((elsewhere / SHORTEST).read_text().splitlines()) < 25
    (words,) = [words for words in commands("bench.train") if SHORTEST in words[0]]
    assert train.main([*words, *FEW]) == OK
    (words,) = [words for words in commands("bench.sweep") if SHORTEST in words[0]]
    assert sweep.main([*words, *FEW, "n_trials=1", "seeds=1", "workers=0"]) == OK
    made = list(read_records([elsewhere / "runs" / "records"]))
    assert {record.model for record in made} == {"lstm", "memory_mosaic", "gpt2", "most_frequent"}
    assert {record.task for record in made} == {"FirstAgain"}


def test_the_task_with_everything_has_its_metrics_and_predictors(elsewhere: Path) -> None:
    assert train.main([f"tasks=./{FULL}:Clicks", "models=gla", "tasks.length=9", *FEW]) == OK
    assert train.main([f"tasks=./{FULL}:Clicks", "predictors=true", *FEW]) == OK
    made = {record.label: record for record in read_records([elsewhere / "runs" / "records"])}
    assert set(made) == {"GLA", "most_frequent", "counter"}
    assert all(set(r.metrics["test"]) == {"accuracy", "at_end", "loss"} for r in made.values())
    assert made["GLA"].config["tasks"]["length"] == 9
    assert made["GLA"].config["models"]["width"] == 16  # of the preset in the class
    assert made["counter"].headline.name == "at_end"
    assert made["counter"].headline.value == 1
    assert made["counter"].metrics["test"]["loss"] < 1e-6  # its answers are logits
