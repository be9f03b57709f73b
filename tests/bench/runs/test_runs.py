"""Promises 2, 3, 10 and 11, with real processes and real SIGKILL on the real tasks and models."""

import random
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from bench import evaluate, train
from bench.records.schema import RunRecord, read_record
from tests import commands
from tests.conftest import Command

pytestmark = [pytest.mark.processes, pytest.mark.bitwise]

TINY = [
    "tasks=regbench",
    "tasks.training_automata=64",
    "models=lstm",
    "models.width=16",
    "models.layers=1",
    "training.batch_size=8",
]


# A training leaves the same in a process of its own, by ``commands`` or from its very start by
# ``run_command``, as in this one, by ``run_here``: a test takes what its promise is about.
def words(store: Path, *more: str) -> list[str]:
    return [*TINY, f"store={store}", *more]


def only_record(store: Path) -> RunRecord:
    (path,) = (store / "records").glob("*.json")
    return read_record(path)


def weights(store: Path) -> bytes:
    (path,) = store.glob("work/*/weights.safetensors")
    return path.read_bytes()


LONG = ["training.steps=120", "training.checkpoint_every=7", "training.validate_every=50"]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a training that was killed at a random step leaves."""
    store = tmp_path_factory.mktemp("killed")
    process = commands.start("-m", "bench.train", *words(store, *LONG))
    deadline = time.monotonic() + 120
    while not list(store.glob("work/*/checkpoint-0.pt")):
        assert process.poll() is None, process.printed()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.3))
    process.kill()
    process.wait()
    assert not (store / "records").exists(), "killed too late to test anything"
    return store


def test_kill_9_at_a_random_step_and_going_on_gives_identical_weights(
    run_here: Command, killed: Path, tmp_path: Path
) -> None:
    whole = run_here(train.main, *words(tmp_path / "whole", *LONG))
    assert whole.returncode == 0, whole.stderr
    store = tmp_path / "killed"
    shutil.copytree(killed, store)
    again = commands.run("-m", "bench.train", *words(store, *LONG))
    assert again.returncode == 0, again.stderr
    assert "is damaged" not in again.stderr
    assert weights(store) == weights(tmp_path / "whole")
    first, second = only_record(tmp_path / "whole"), only_record(store)
    assert first.run_id == second.run_id
    assert first.metrics == second.metrics
    assert first.curves == second.curves


def test_interrupt_ends_with_130_and_goes_on(tmp_path: Path) -> None:
    long = ["training.steps=2000", "training.checkpoint_every=10"]
    process = commands.start("-m", "bench.train", *words(tmp_path, *long))
    while not list(tmp_path.glob("work/*/checkpoint-0.pt")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "goes on from where it stopped" in errors
    assert "Traceback" not in errors


def test_cache_tampering_missing_weights_and_evaluation(
    run_command: Command, run_here: Command, tmp_path: Path
) -> None:
    """One training, then everything that may happen to its files."""
    steps = "training.steps=15"
    again = words(tmp_path, steps)
    assert run_here(train.main, *again).returncode == 0
    record = only_record(tmp_path)
    path = tmp_path / "records" / f"{record.run_id}.json"
    work = tmp_path / "work" / record.run_id

    # Promise 2: the same again elsewhere, whatever the hash seed, gives the same bytes.
    elsewhere = words(tmp_path / "twice", steps)
    twice = run_command("-m", "bench.train", *elsewhere, env={"PYTHONHASHSEED": "77"})
    assert twice.returncode == 0, twice.stderr
    assert weights(tmp_path / "twice") == weights(tmp_path)
    assert only_record(tmp_path / "twice").metrics == record.metrics

    # Promise 11: an identical run is served, another one is not.
    before = path.stat().st_mtime_ns
    assert run_here(train.main, *again).returncode == 0
    assert path.stat().st_mtime_ns == before

    evaluated = run_here(evaluate.main, f"run={record.run_id}", f"store={tmp_path}")
    assert evaluated.returncode == 0, evaluated.stdout + evaluated.stderr
    assert "every metric is that of the record" in evaluated.stdout

    # An edited record is refused, by training as by evaluation, and is not overwritten.
    good = path.read_text()
    path.write_text(good.replace('"seed": 0', '"seed": 1'))
    for done in (
        run_here(train.main, *again),
        run_here(evaluate.main, f"run={path}", f"store={tmp_path}"),
    ):
        assert done.returncode == 1
        assert "was edited after it was written" in done.stderr
    path.write_text(good)

    # Weights that were changed, then weights that are gone.
    kept = (work / "weights.safetensors").read_bytes()
    (work / "weights.safetensors").write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    changed = run_here(evaluate.main, f"run={record.run_id}", f"store={tmp_path}")
    assert changed.returncode == 1
    assert "SHA-256 differs" in changed.stderr
    shutil.rmtree(work)
    missing = run_here(evaluate.main, f"run={record.run_id}", f"store={tmp_path}")
    assert missing.returncode == 1
    assert "are missing" in missing.stderr
    unknown = run_here(evaluate.main, "run=nothing", f"store={tmp_path}")
    assert unknown.returncode == 2


def test_divergence_is_a_row_with_its_cause(run_here: Command, tmp_path: Path) -> None:
    wild = ["training.steps=30", "training.lr=1e30", "training.gradient_clip=0"]
    done = run_here(train.main, *words(tmp_path, *wild, "training.warmup_steps=0"))
    assert done.returncode == 1, done.stdout + done.stderr
    record = only_record(tmp_path)
    assert record.outcome == "diverged"
    assert "loss was" in (record.cause or "")
    assert record.headline.value is None
    assert record.cost.parameters > 0
    assert 0 < record.cost.training_steps < 30  # what it had cost until then
    assert record.cost.wall_seconds > 0
    assert record.curves["training_loss"].y


FOREIGN = '''
import torch
from torch import nn


class Mine(nn.Module):
    """Predicts from the current token alone."""

    def __init__(self, specification, width=8, trouble=""):
        super().__init__()
        self.trouble = trouble
        self.embedding = nn.Embedding(specification.vocabulary, width)
        self.output = nn.Linear(width, specification.vocabulary)

    def forward(self, inputs):
        if self.trouble == "memory":
            torch.empty(10**15)
        if self.trouble == "bug":
            raise RuntimeError("no such thing")
        return self.output(self.embedding(inputs))
'''


def test_a_model_of_another_package_and_its_failures(
    run_here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "elsewhere"
    package.mkdir()
    (package / "my_package.py").write_text(FOREIGN)
    store = tmp_path / "runs"
    settings = ["tasks=regbench", "models._target_=my_package.Mine", f"store={store}"]
    settings.append("training.steps=5")
    monkeypatch.syspath_prepend(str(package))

    good = run_here(train.main, *settings)
    assert good.returncode == 0, good.stderr
    record = only_record(store)
    assert (record.label, record.outcome, record.cost.state_bytes) == ("Mine", "ok", None)

    memory = run_here(train.main, *settings, "models.trouble=memory")
    bug = run_here(train.main, *settings, "models.trouble=bug")
    assert (memory.returncode, bug.returncode) == (1, 1)
    assert "Traceback" not in memory.stderr + bug.stderr
    records = {
        r.config["models"]["trouble"]: r
        for r in map(read_record, (store / "records").glob("*.json"))
    }
    assert records["memory"].outcome == "out_of_memory"
    assert records["bug"].outcome == "failed"
    bug_record = records["bug"]  # words of another package may be private: they stay in the store
    assert (bug_record.cause or "").startswith("RuntimeError: ")
    told = (store / "work" / bug_record.run_id / "traceback.txt").read_text()
    assert "no such thing" in told
    assert "no such thing" not in str(bug_record.cause)
    line = 1 + next(n for n, text in enumerate(FOREIGN.splitlines()) if "no such thing" in text)
    place = f"in {package / 'my_package.py'}, line {line} (details in work/"
    assert f"failed: RuntimeError: no such thing {place}" in bug.stdout
    assert bug.stdout.count("RuntimeError") == 1

    # Identity is by source: another body, another run. Started in its folder, a process finds it.
    (package / "my_package.py").write_text(FOREIGN.replace("width=8", "width=8, unused=0"))
    assert commands.run("-m", "bench.train", *settings, cwd=package).returncode == 0
    assert len(list((store / "records").glob("*.json"))) == 4


def test_a_full_disk_is_one_sentence_and_loses_nothing(
    run_command: Command, tmp_path: Path
) -> None:
    """A file-size limit stands in for the disk: the kernel refuses the write in the same place."""
    command = [sys.executable, "-m", "bench.train", *words(tmp_path, "training.steps=20")]
    limited = (
        "import resource, signal, subprocess, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        f"sys.exit(subprocess.call({command!r}, restore_signals=False))\n"
    )
    done = run_command("-c", limited, env={"PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 1, done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("error: File too large")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("**/*.partial"))
    assert not (tmp_path / "records").exists()
