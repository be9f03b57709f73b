"""How many runs are made at a time."""

from __future__ import annotations

import os
from pathlib import Path

import joblib
import pytest

from bench.config.config import compose
from bench.search.placement import _cluster, _packages, workers_at_once
from core.errors import UserError
from core.progress import silent
from tests.conftest import Command

LAPTOP = ["tasks=three_moons", "models=memory_mosaic", "preset=laptop", "device=cpu"]


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblib, "cpu_count", lambda: 4)


@pytest.mark.parametrize(
    ("words", "at_most", "workers"),
    [
        ([], None, 4),
        ([], 3, 3),
        ([], 1, 0),
        (["training.threads=2"], None, 2),
        (["training.threads=4"], None, 0),
        (["training.threads=8"], None, 0),
        (["sweep.sampler=tpe"], None, 0),
        (["training.devices=2"], None, 0),
        (["sweep.executor=ray"], None, 0),
        (["sweep.workers=3"], None, 3),
        (["sweep.workers=3", "sweep.executor=ray"], None, 3),
        (["sweep.workers=3"], 1, 1),
        (["sweep.workers=0"], None, 0),
        (["preset=smoke"], None, 0),
        (["preset=smoke", "sweep.workers=null"], None, 4),
    ],
)
def test_runs_are_made_by_all_cores_unless_that_would_change_them(
    four_cores: None, words: list[str], at_most: int | None, workers: int
) -> None:
    assert workers_at_once(compose([*LAPTOP, *words]), at_most) == workers


def test_a_process_that_may_use_one_core_starts_no_workers(run_command: Command) -> None:
    """By the real count, which knows what the process is bound to."""
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from bench.search.placement import workers_at_once\n"
        "from bench.config.config import compose\n"
        f"print(workers_at_once(compose({LAPTOP})))"
    )
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system binds no process to a core")
    shown = run_command("-c", code)
    assert shown.stdout == "0\n", shown.stderr


@pytest.mark.parametrize("word", ["sweep.workers=many", "sweep.workers=-1", "sweep.workers=1.5"])
def test_another_number_of_workers_is_one_sentence(word: str) -> None:
    with pytest.raises(UserError, match=r"workers") as error:
        compose([*LAPTOP, word])
    assert "\n" not in str(error.value)


def test_processes_that_share_a_training_exclude_workers_that_were_asked_for() -> None:
    with pytest.raises(UserError, match="workers=2 gives each training one: leave one of them out"):
        compose([*LAPTOP, "training.devices=2", "sweep.workers=2"])


def test_a_run_on_a_cluster_asks_for_something() -> None:
    words = ["sweep.executor=ray", "sweep.ray.num_cpus=0", "sweep.ray.num_gpus=0"]
    with (
        pytest.raises(UserError, match=r"asks for nothing.*ray\.num_cpus=1"),
        _cluster([compose([*LAPTOP, *words])], 2, silent),
    ):
        pass


def test_nodes_get_the_files_of_a_model_that_is_in_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what it imports from beside it, and nothing else of that folder."""
    (tmp_path / "alone.py").write_text("from beside import Beside\nclass Alone(Beside): ...\n")
    (tmp_path / "beside.py").write_text("from torch import nn\nclass Beside(nn.Module): ...\n")
    (tmp_path / "other.py").write_text("")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "__init__.py").write_text("")
    (tmp_path / "kept" / "inside.py").write_text("from torch import nn\nModel = nn.Linear\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for target, sent in [
        ("alone.Alone", ["alone.py", "beside.py"]),
        ("kept.inside.Model", ["kept"]),
        ("models.gpt2.GPT2", []),
    ]:
        configuration = compose([*LAPTOP[:1], "models=gpt2"])
        models = {**configuration.models, "_target_": target}
        found = _packages([configuration.model_copy(update={"models": models})])
        assert sorted(found) == [str(tmp_path / name) for name in sent]
