"""How many runs are made at a time."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import joblib
import pytest
import torch

from bench.config.limits import GPU_SHARE
from bench.executors.processes import Pool
from bench.search.jobs import Job, described
from bench.search.placement import _cluster, _packages, _shares, workers_at_once
from bench.training.memory import check_fits
from bench.training.numerics import set_numerics
from core.errors import UserError
from core.progress import silent
from tests import commands
from tests.bench.search.gpu_jobs import DIES, visible_device
from tests.configurations import compose

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
        (["preset=smoke"], 9, 0),
        (["preset=smoke"], 10, 4),
        (["preset=smoke", "sweep.workers=0"], 10, 0),
        (["preset=smoke", "sweep.workers=2"], 3, 2),
    ],
)
def test_runs_are_made_by_all_cores_unless_that_would_change_them(
    four_cores: None, words: list[str], at_most: int | None, workers: int
) -> None:
    assert workers_at_once(compose([*LAPTOP, *words]), at_most) == workers


def test_a_process_that_may_use_one_core_starts_no_workers() -> None:
    """By the real count, which knows what the process is bound to."""
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from bench.search.placement import workers_at_once\n"
        "from tests.configurations import compose\n"
        f"print(workers_at_once(compose({LAPTOP})))"
    )
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system binds no process to a core")
    shown = commands.run("-c", code)
    assert shown.stdout == "0\n", shown.stderr


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A machine with so many GPUs, as PyTorch would tell."""

    def put_in(count: int, visible: str | None = None) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return put_in


@pytest.mark.parametrize(
    ("count", "visible", "names"),
    [
        (2, None, ["0", "1"]),
        (4, None, ["0", "1", "2", "3"]),
        (2, "3, 5", ["3", "5"]),
        (2, "GPU-a,GPU-b", ["GPU-a", "GPU-b"]),
        (1, "1,7,0", ["1"]),  # there is no GPU 7, at which CUDA ends the list
    ],
)
def test_every_gpu_that_this_process_may_use_gets_a_worker(
    gpus: Callable[..., None], count: int, visible: str | None, names: list[str]
) -> None:
    gpus(count, visible)
    workers = workers_at_once(compose([*LAPTOP[:-1], "device=auto"]))
    assert workers == (count if count > 1 else 0)
    shares = _shares(count, "auto")
    assert [share["CUDA_VISIBLE_DEVICES"] for share in shares] == names
    assert {float(share[GPU_SHARE]) for share in shares} == {1.0}
    assert "CUDA_VISIBLE_DEVICES" not in _shares(count, "cpu")[0]


@pytest.mark.parametrize(("count", "workers"), [(2, 4), (2, 5), (4, 6), (4, 3)])
def test_workers_take_turns_and_share_the_memory_of_a_gpu(
    gpus: Callable[..., None], count: int, workers: int
) -> None:
    gpus(count)
    memory_by_gpu: dict[str, float] = defaultdict(float)
    workers_by_gpu: Counter[str] = Counter()
    for share in _shares(workers, "cuda"):
        memory_by_gpu[share["CUDA_VISIBLE_DEVICES"]] += float(share[GPU_SHARE])
        workers_by_gpu[share["CUDA_VISIBLE_DEVICES"]] += 1
    assert max(workers_by_gpu.values()) - min(workers_by_gpu.values()) <= 1
    assert len(workers_by_gpu) == min(count, workers)
    assert all(memory == pytest.approx(1) for memory in memory_by_gpu.values())


@pytest.mark.processes
def test_children_see_their_own_gpu_and_the_one_after_a_dead_worker_sees_the_same(
    gpus: Callable[..., None],
) -> None:
    gpus(2)
    with Pool(visible_device, _shares(4, "cuda")) as pool:
        for ticket in range(4):
            pool.submit(ticket, 1.0)
        seen = [pool.wait().value for _ in range(4)]
        assert Counter(gpu for gpu, _, _ in seen) == {"0": 2, "1": 2}
        assert {share for _, share, _ in seen} == {"0.5"}
        assert len({process for _, _, process in seen}) == 4
        pool.submit(4, DIES)
        assert pool.wait().death is not None
        for ticket in range(5, 9):
            pool.submit(ticket, 1.0)
        again = [pool.wait().value for _ in range(4)]
        assert Counter(gpu for gpu, _, _ in again) == {"0": 2, "1": 2}


@pytest.mark.parametrize(("share", "expected"), [("0.25", [0.25]), ("1.0", []), (None, [])])
def test_a_process_takes_no_more_of_the_memory_than_its_part(
    gpus: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    share: str | None,
    expected: list[float],
) -> None:
    gpus(1)
    if share is not None:
        monkeypatch.setenv(GPU_SHARE, share)
    limits: list[float] = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", limits.append)
    set_numerics(torch.get_num_threads())
    assert limits == expected


@pytest.mark.parametrize(("share", "fits"), [("1", True), ("0.5", False)])
def test_a_model_that_fits_on_a_gpu_alone_may_not_fit_beside_another(
    gpus: Callable[..., None], monkeypatch: pytest.MonkeyPatch, share: str, fits: bool
) -> None:
    gpus(1)
    monkeypatch.setenv(GPU_SHARE, share)
    weights = 4 * 100 * 100  # bytes; with gradients and moments four times that
    properties = SimpleNamespace(total_memory=5 * weights)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    arguments = (lambda: torch.nn.Linear(100, 100, bias=False), "Linear", torch.device("cuda"))
    with nullcontext() if fits else pytest.raises(UserError, match="of memory here: lower"):
        check_fits(*arguments)


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


def test_a_run_is_described_with_its_job_and_its_seed_once() -> None:
    configuration = compose(LAPTOP)
    for name, description, expected in (
        ("seed 1", "Memory units seed 1, start 1 of 3", "Memory units seed 1, start 1 of 3"),
        ("control, seed 1", "LSTM seed 1", "LSTM seed 1, control"),
        ("seed 1", "LSTM seed 12", "LSTM seed 12, seed 1"),
        (
            "trial 3",
            "LSTM seed 0: examining the model",
            "LSTM seed 0, trial 3: examining the model",
        ),
    ):
        assert described(description, Job(name, configuration, "single")) == expected
