"""A batch in parts, in one process or several, makes the steps of the whole batch."""

import os
import signal
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from bench.config.settings import TrainingSettings
from bench.training.loop import TrainingModule, fit
from bench.training.parallel import Ranks
from bench.training.training import Stopped
from core.errors import UserError
from core.processes import STOPS
from core.progress import silent
from models.gpt2 import GPT2
from tasks.regbench import RegBench
from tests.closeness import assert_near

SETTINGS = {"steps": 6, "batch_size": 7, "checkpoint_every": 4, "lr": 1e-2}


def settings(**changes: object) -> TrainingSettings:
    defaults = OmegaConf.to_container(OmegaConf.load(Path("bench/config/config.yaml")).training)
    assert isinstance(defaults, dict)
    return TrainingSettings(**{**defaults, **SETTINGS, **changes})


@pytest.fixture(scope="module")
def task() -> RegBench:
    sizes = {"training_automata": 40, "validation_size": 5, "test_size": 5}
    return RegBench(**sizes, strings=(2, 5), string_length=(1, 9))


def train(
    task: RegBench,
    path: Path,
    dropout: float = 0.0,
    stop_after: int | None = None,
    stop: signal.Signals = signal.SIGTERM,
    stopped: list[signal.Signals] | None = None,
    **changes: object,
) -> GPT2:
    """A small model after all steps; ``stop_after`` interrupts the training there once, which
    ``stopped`` is told."""

    def interrupt(description: str, done: int, total: int) -> None:
        if done == stop_after:
            os.kill(os.getpid(), stop)

    for report in (interrupt, silent) if stop_after else (silent,):
        torch.manual_seed(0)
        model = GPT2(task.specification(), width=16, layers=1, heads=2, dropout=dropout)
        try:
            fit(
                model,
                task,
                settings(**changes),
                seed=3,
                device=torch.device("cpu"),
                checkpoint=path / "checkpoint.pt",
                report=report,
            )
        except Stopped:
            assert (path / "checkpoint.pt").exists()
            if stopped is not None:
                stopped.append(stop)
    return model


def same(one: GPT2, other: GPT2) -> None:
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        # Six steps, each of sums over widths, letters and positions; a step of Adam divides a
        # gradient by its size, which stretches the errors of the small ones.
        assert_near(a, b, terms=6 * 200, condition=10)


@pytest.mark.parametrize("size", [1, 3])
def test_micro_batches_add_up_to_the_batch(task: RegBench, tmp_path: Path, size: int) -> None:
    """The sequences differ in length, so parts must count by their targets."""
    whole = train(task, tmp_path / "whole")
    parts = train(task, tmp_path / "parts", micro_batch_size=size)
    same(whole, parts)
    initial = GPT2(task.specification(), width=16, layers=1, heads=2)
    assert not torch.allclose(whole.norm.weight, initial.norm.weight)  # it was trained at all


def test_processes_share_a_batch_and_resume_together(task: RegBench, tmp_path: Path) -> None:
    whole = train(task, tmp_path / "whole")
    shared = train(task, tmp_path / "shared", devices=2, micro_batch_size=7, stop_after=3)
    same(whole, shared)


@pytest.mark.parametrize("stop", STOPS)
def test_whatever_ends_a_job_keeps_a_checkpoint(
    task: RegBench, tmp_path: Path, stop: signal.Signals
) -> None:
    """A scheduler's end, a closed terminal, SLURM's warning; the handlers of before come back."""
    before = {s: signal.getsignal(s) for s in STOPS}
    stopped: list[signal.Signals] = []
    resumed = train(task, tmp_path / "stopped", stop_after=3, stop=stop, stopped=stopped)
    assert stopped == [stop]
    same(train(task, tmp_path / "whole"), resumed)
    assert {s: signal.getsignal(s) for s in STOPS} == before


def test_under_nohup_a_closed_terminal_stops_nothing(task: RegBench, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stopped: list[signal.Signals] = []
    try:
        train(task, tmp_path, stop_after=3, stop=signal.SIGHUP, stopped=stopped)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not stopped


def test_a_process_without_a_sequence_adds_nothing(task: RegBench) -> None:
    """The last batch of an epoch may have fewer sequences than there are processes."""
    torch.manual_seed(0)
    model = GPT2(task.specification(), width=16, layers=1, heads=2, dropout=0.0)
    batch = task.training_batch(0, 0, 1)
    parts = []
    for rank in range(2):
        module = TrainingModule(
            model,
            task,
            settings(),
            0,
            Path("no-checkpoint"),
            lambda done, total: None,
            lambda: False,
            Ranks(rank, 2),
        )
        module.manual_backward = lambda loss: loss.backward()  # type: ignore[method-assign]
        model.zero_grad()
        loss = module._backward(batch)
        parts.append((loss, [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    (empty, nothing), (loss, gradients) = parts
    assert empty == 0
    assert len(nothing) == len(gradients)
    assert all(not gradient.any() for gradient in nothing)
    expected = task.loss(model(batch.inputs), batch)
    assert_near(loss, expected, terms=200)


@pytest.mark.bitwise
def test_parts_of_a_batch_have_dropout_of_their_own(task: RegBench, tmp_path: Path) -> None:
    one = train(task, tmp_path / "one", dropout=0.5, micro_batch_size=3)
    two = train(task, tmp_path / "two", dropout=0.5, micro_batch_size=3)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    whole = train(task, tmp_path / "whole", dropout=0.5)
    assert not torch.allclose(one.norm.weight, whole.norm.weight)


def test_shares_cover_every_sequence_once() -> None:
    for size in (1, 2, 3, 5):
        for sequences in range(size, 12):
            shares = [Ranks(rank, size).share(sequences) for rank in range(size)]
            covered = [k for start, stop in shares for k in range(start, stop)]
            assert covered == list(range(sequences))
            assert all(start < stop for start, stop in shares)


def test_more_processes_than_sequences_are_refused(task: RegBench, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="lower it"):
        train(task, tmp_path, devices=8)
