"""What the doctor says of this machine and of the data of each task."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from bench.config.files import group_file
from bench.config.groups import choices
from bench.doctor import GENERATED, NO_GPU, SIGNS_OF_A_GPU, _data
from core.files import ROOT

LINES = {line.partition(":")[0]: line for _, line in _data()}


@pytest.mark.parametrize("task", choices("tasks"))
def test_a_task_that_can_read_something_of_yours_says_so(task: str) -> None:
    tree = group_file("tasks", task)
    asked = [name for name in tree.get("locations", ()) if tree[name] is None]
    for name in asked:
        assert f"tasks.{name}=" in LINES[task]
    assert (GENERATED in LINES[task]) == (not asked)


def test_a_corpus_that_is_downloaded_is_named() -> None:
    for task, corpus in {"babistories": "tinystories", "wikipedia": "simple_wikipedia"}.items():
        assert re.search(rf"\b{corpus}\b[^;]* (is|are) downloaded", LINES[task])


def test_without_a_gpu_no_torch_is_imported(run_command) -> None:
    if any(Path(sign).exists() for sign in SIGNS_OF_A_GPU):
        pytest.skip("this machine has the driver of a GPU")
    script = (
        "import sys; from bench.doctor import examine; examine(); "
        "assert not {'torch', 'lightning', 'mlflow', 'scipy'} & set(sys.modules)"
    )
    done = run_command("-c", script)
    assert done.returncode == 0, done.stderr
    assert NO_GPU in done.stdout


@pytest.mark.parametrize("module", [("bench", "doctor"), ("bench.doctor",)])
def test_extras_are_told_wherever_they_are(module: tuple[str, ...], run_command) -> None:
    done = run_command("-m", *module)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for extra in extras:
        (line,) = (line for line in done.stdout.splitlines() if f" [{extra}] " in line)
        there = [has(Requirement(one).name) for one in extras[extra]]
        assert ("is left out" in line) == (not any(there))
        assert ("lacks " in line) == (any(there) and not all(there))


def has(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
