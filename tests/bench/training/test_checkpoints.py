"""Checkpoints: a training ends alike, at whatever step it was stopped and damaged or not."""

import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from bench.training import loop
from bench.training.building import build_model, build_task
from bench.training.training import TrainingReport
from core.errors import UserError
from core.files import read_sealed, write_sealed
from tests.bench.damage import FLIPS, flips
from tests.configurations import compose
from tests.models.built import CHANNELS_ALONE, hyperparameters, one_of_each_class

pytestmark = pytest.mark.bitwise  # a training that was stopped ends with the same bits

STEPS, PER_POINT = 9, 3
GPT2 = ["tasks=multi_query_recall", "models=gpt2", "models.width=8", "models.layers=1"]
SETTINGS = [
    "training.batch_size=2",
    f"training.steps={STEPS}",
    "training.checkpoint_every=1",
    "training.validate_every=3",
    "training.select=best_validation",
    "training.lr=10",  # rises in every step, and so high that the first validation is the best
    f"training.warmup_steps={STEPS}",
]


class Killed(BaseException):
    """Ends a training as SIGKILL would: nothing in it handles this."""


@pytest.fixture(autouse=True)
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CURVE_POINTS", STEPS // PER_POINT)


def train(
    checkpoint: Path,
    killed_after: int = STEPS,
    words: Sequence[str] = (*GPT2, "models.dropout=0.1"),
) -> tuple[TrainingReport, bytes]:
    """What a training says and its weights; it goes on from ``checkpoint`` as a process would."""
    configuration = compose([*SETTINGS, *words])
    task = build_task(configuration)
    model = build_model(configuration, task, 0)

    def kill(description: str, done: int, total: int) -> None:
        if done == killed_after < total:
            raise Killed

    report = loop.fit(
        model,
        task,
        configuration.training,
        seed=0,
        device=torch.device("cpu"),
        checkpoint=checkpoint,
        report=kill,
    )
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    return dataclasses.replace(report, seconds=0.0), weights


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainingReport, bytes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "CURVE_POINTS", STEPS // PER_POINT)
        return train(tmp_path_factory.mktemp("whole") / "checkpoint-0.pt")


def test_a_kill_at_every_step_of_a_cycle_changes_no_curve_and_no_weight(
    whole: tuple[TrainingReport, bytes], tmp_path: Path
) -> None:
    assert whole[0].loss_steps == [3, 6, 9]
    assert min(whole[0].validation_losses) == whole[0].validation_losses[0]
    for step in range(PER_POINT, 2 * PER_POINT):
        checkpoint = tmp_path / f"{step}.pt"
        with pytest.raises(Killed):
            train(checkpoint, killed_after=step)
        assert train(checkpoint) == whole, f"killed after step {step}"


@pytest.mark.parametrize("name", sorted({*one_of_each_class()} - CHANNELS_ALONE))
def test_every_model_goes_on_as_if_it_had_not_stopped(name: str, tmp_path: Path) -> None:
    words = ["tasks=multi_query_recall", f"models={name}", "models.width=16", "training.lr=1e-3"]
    words += [f"models.{key}=2" for key in ("heads", "layers") if key in hyperparameters(name)]
    with pytest.raises(Killed):
        train(tmp_path / "stopped.pt", killed_after=4, words=words)
    assert train(tmp_path / "stopped.pt", words=words) == train(tmp_path / "whole.pt", words=words)


@pytest.fixture(scope="module")
def halfway(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    checkpoint = tmp_path_factory.mktemp("halfway") / "checkpoint-0.pt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "CURVE_POINTS", STEPS // PER_POINT)
        with pytest.raises(Killed):
            train(checkpoint, killed_after=5)
    return checkpoint.read_bytes()


def test_a_flipped_bit_of_a_checkpoint_is_said_and_costs_nothing_but_time(
    whole: tuple[TrainingReport, bytes],
    halfway: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkpoint = tmp_path / "checkpoint-0.pt"
    for damaged in (*flips(halfway, FLIPS), halfway[:1000], b""):
        checkpoint.write_bytes(damaged)
        assert train(checkpoint) == whole
        said = capsys.readouterr().err
        assert f"the checkpoint {checkpoint} is damaged" in said
        assert "starts again from its first step" in said


class Evil:
    """Leaves a file where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.trace,)


def test_a_sealed_checkpoint_runs_nothing(
    whole: tuple[TrainingReport, bytes], tmp_path: Path
) -> None:
    checkpoint, trace = tmp_path / "checkpoint-0.pt", tmp_path / "trace"
    torch.save(Evil(trace), tmp_path / "evil.pt")
    write_sealed(checkpoint, (tmp_path / "evil.pt").read_bytes())
    assert train(checkpoint) == whole
    assert not trace.exists()


@pytest.mark.parametrize("changed", [{}, {"model": {}}, {"report": 3}, {"pending": 4}])
def test_a_sealed_checkpoint_of_something_else_is_one_sentence(
    changed: dict[str, object], halfway: bytes, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint-0.pt"
    checkpoint.write_bytes(halfway)
    state = torch.load(io.BytesIO(read_sealed(checkpoint)), weights_only=True)
    torch.save({**state, **changed} if changed else {}, tmp_path / "forged.pt")
    write_sealed(checkpoint, (tmp_path / "forged.pt").read_bytes())
    with pytest.raises(UserError, match="is of another training: delete it"):
        train(checkpoint)
