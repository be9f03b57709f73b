"""Whole runs of a stranger's model with tied weights, shared blocks and draws of every kind: it is
killed, taken up again, saved and evaluated, and fails with one sentence where that cannot be."""

import os
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bench import evaluate, train
from bench.records.schema import RunRecord, read_record
from bench.runs.saved import load_run
from core.errors import OK, RUN_FAILED
from tests.commands import start
from tests.conftest import ROOT

PACKAGE = """
import random
import numpy
import torch
from torch import nn

class Plain(nn.Module):
    def __init__(self, specification, *, width: int = 8, depth: int = 3):
        super().__init__()
        self.embed = nn.Embedding(specification.vocabulary, width)
        self.blocks = nn.ModuleList([nn.Linear(width, width)] * depth)
        self.out = nn.Linear(width, specification.output_size, bias=False)

    def forward(self, x):
        h = self.embed(x)
        h = h.cumsum(1) / torch.arange(1, h.shape[1] + 1)[:, None]
        for block in self.blocks:
            h = h + torch.tanh(block(self.change(h)))
        return self.out(h)

    def change(self, h):
        return h

class Counted(nn.Module):  # shrinks with its calls in training, which it counts in a buffer
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, h):
        shrunk = h / (1 + 0.01 * self.calls)
        if self.training:
            self.calls += 1
        return shrunk

class TiedAndNoisy(Plain):
    def __init__(self, specification, *, width: int = 8, depth: int = 3):
        super().__init__(specification, width=width, depth=depth)
        self.out.weight = self.embed.weight
        self.norm = Counted()
        self.register_buffer("features", torch.from_numpy(numpy.random.randn(width)).float(),
                             persistent=False)

    def change(self, h):
        h = self.norm(h) * self.features
        noise = random.random() + numpy.random.rand() if self.training else 1.0
        return nn.functional.dropout(h * noise, 0.1, self.training)

class Overlapping(Plain):
    def __init__(self, specification, *, width: int = 8, depth: int = 3):
        super().__init__(specification, width=width, depth=depth)
        self.out.weight = nn.Parameter(self.embed.weight.data)
"""
UNSEEDED = """
import numpy
from shared_and_drawn import Plain

class Unseeded(Plain):
    def change(self, h):
        return h + numpy.random.default_rng().normal() if self.training else h
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "shared_and_drawn.py").write_text(PACKAGE)
    (folder / "unseeded.py").write_text(UNSEEDED)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in ("shared_and_drawn", "unseeded"):
        sys.modules.pop(name, None)


TIED = "shared_and_drawn.TiedAndNoisy"


def words(store: Path, model: str, *more: str) -> list[str]:
    return [
        *("tasks=multi_query_recall", f"models={model}", "preset=smoke"),
        *("training.warmup_steps=1", "training.batch_size=4", f"store={store}", *more),
    ]


def only_record(store: Path) -> RunRecord:
    (path,) = (store / "records").glob("*.json")
    return read_record(path)


@pytest.mark.processes
@pytest.mark.bitwise
def test_a_tied_model_that_is_killed_goes_on_to_the_same_file(
    package: Path, tmp_path: Path
) -> None:
    long = ["training.steps=80", "training.checkpoint_every=5", "training.validate_every=50"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert train.main(words(whole, TIED, *long)) == OK
    environment = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(package)))}
    process = start("-m", "bench.train", *words(killed, TIED, *long), env=environment)
    deadline = time.monotonic() + 120
    while not list(killed.glob("work/*/checkpoint-0.pt")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert not (killed / "records").exists(), "killed too late to test anything"
    assert train.main(words(killed, TIED, *long)) == OK
    record, again = only_record(whole), only_record(killed)
    assert again.weights_sha256 == record.weights_sha256
    assert again.metrics == record.metrics
    assert again.curves == record.curves


def test_a_tied_model_is_saved_once_counted_once_and_evaluated_alike(
    package: Path, tmp_path: Path
) -> None:
    steps = ["training.steps=8", "training.select=best_validation", "training.validate_every=2"]
    assert train.main(words(tmp_path, TIED, *steps)) == OK
    record = only_record(tmp_path)
    (path,) = tmp_path.glob("work/*/weights.safetensors")
    weights = load_file(path)
    trained = {name for name in weights if not name.startswith("norm.")}
    assert trained == {"embed.weight", "blocks.0.weight", "blocks.0.bias"}
    numbers = sum(weights[name].numel() for name in trained)
    assert record.cost.parameters == numbers
    run, trust = record.run_id, "trust=shared_and_drawn"
    assert evaluate.main([f"run={run}", f"store={tmp_path}", trust]) == OK
    model = load_run(run, tmp_path, trust="shared_and_drawn").model
    assert model.out.weight is model.embed.weight
    assert model.blocks[2] is model.blocks[0]
    for name in weights:
        assert torch.equal(model.state_dict()[name], weights[name])


@pytest.mark.bitwise
def test_the_start_that_was_kept_has_its_own_draws(package: Path, tmp_path: Path) -> None:
    """A buffer that no file keeps is drawn again from the seed of the start, not of the run."""
    for seed in range(8):
        store = tmp_path / str(seed)
        restarts = ["training.restarts=3", "training.steps=6", f"seed={seed}"]
        assert train.main(words(store, TIED, *restarts)) == OK
        record = only_record(store)
        if record.restarts[0].kept:  # of three starts mostly another one is
            continue
        run = [f"run={record.run_id}", f"store={store}", "trust=shared_and_drawn"]
        assert evaluate.main(run) == OK
        (work,) = (store / "work").iterdir()
        (store / "records" / f"{record.run_id}.json").unlink()
        assert (work / "trained.json").exists()
        assert train.main(words(store, TIED, *restarts)) == OK  # evaluates the kept weights alone
        assert only_record(store).metrics == record.metrics
        return
    raise AssertionError("the first of three starts was the best one eight times")


@pytest.mark.parametrize(
    ("model", "cause"),
    [
        (
            "shared_and_drawn.Overlapping",
            "parameters embed.weight and out.weight are two parameters",
        ),
        ("unseeded.Unseeded", "gives two outputs in training for the same inputs and seeds"),
    ],
)
def test_what_cannot_be_trained_or_repeated_is_a_failed_row(
    package: Path, tmp_path: Path, model: str, cause: str
) -> None:
    assert train.main(words(tmp_path, model, "training.steps=100000")) == RUN_FAILED
    record = only_record(tmp_path)
    assert record.outcome == "failed"
    assert cause in (record.cause or "")
    assert record.weights_sha256 is None
    assert not list(tmp_path.glob("work/*/checkpoint*"))
