"""Trainings that are computed as one are what each is alone."""

import itertools
import math
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.training.building import build_model
from bench.training.loop import fit
from bench.training.stack import Member, fit_together
from bench.training.training import Stopped, TrainingDiverged, TrainingReport
from models.specification import SequenceSpecification
from tasks.interface import Batch, Evaluation, Metric, Split, Task
from tests.configurations import compose

CPU = torch.device("cpu")
LENGTH, VOCABULARY, STEPS = 19, 11, 12
LONG = 50  # steps after which docs/running.md tells how far weights lie apart
CONTENDERS = ["memory_mosaic", "gpt2", "lstm", "mamba", "s4d", "titans"]
HEADS = ("memory_mosaic", "gpt2", "titans")
# Two that learn, each with its own rate and decay, and one that cannot.
RATES = (3e-3, 1e-3, 1e30)


class Letters(Task):
    """Random tokens, with the loss in the precision of the model."""

    headline = Metric("loss", "minimise")

    def specification(self) -> SequenceSpecification:
        return SequenceSpecification(LENGTH, vocabulary=VOCABULARY)

    def data_hashes(self) -> dict[str, str]:
        return {}

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        generator = torch.Generator().manual_seed(1000 * seed + step)
        tokens = torch.randint(VOCABULARY, (size, LENGTH + 1), generator=generator)
        return Batch(tokens[:, :-1], tokens[:, 1:], size * LENGTH)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten())

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        batch = self.training_batch(10**6, 0, 4)
        return Evaluation({"loss": self.loss(model(batch.inputs), batch).item()})


def members(
    name: str,
    folder: Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    dtype: torch.dtype = torch.float64,
    task: Task | None = None,
    steps: int = STEPS,
    rates: Sequence[float] = RATES,
    **models: Any,
) -> list[Member]:
    heads = {"heads": 2} if name in HEADS else {}
    own = {"width": 8, "layers": 1, "dropout": 0.2, **heads, **models}
    words = [f"models.{key}={value}" for key, value in own.items()]
    settings = {"steps": steps, "batch_size": 3, "validate_every": 5, "gradient_clip": 1.0}
    words += [f"training.{key}={value}" for key, value in settings.items()]
    words += ["training.checkpoint_every=5", "training.select=best_validation"]
    configuration = compose(["tasks=multi_query_recall", f"models={name}", *words])
    task, found = task or Letters(), []
    for place, (seed, lr) in enumerate(zip(seeds, rates, strict=False)):
        changes = {"lr": lr, "weight_decay": 0.1 * place}
        training = configuration.training.model_copy(update=changes)
        model = build_model(configuration, task, seed).to(dtype)
        found.append(Member(model, task, training, seed, folder / f"{place}.pt"))
    return found


def alone(member: Member) -> TrainingReport:
    arguments = (member.model, member.task, member.settings)
    return fit(*arguments, seed=member.seed, device=CPU, checkpoint=member.checkpoint)


def distance(one: nn.Module, other: nn.Module) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


@pytest.mark.parametrize("name", CONTENDERS)
def test_stacked_trainings_are_those_alone_and_one_diverges_alone(
    name: str, tmp_path: Path
) -> None:
    expected = members(name, tmp_path / "alone")
    with pytest.raises(TrainingDiverged) as diverged:
        alone(expected[2])
    stacked = members(name, tmp_path / "stacked")
    failures = fit_together(stacked, CPU)
    assert list(failures) == [2]
    assert str(failures[2]) == str(diverged.value)
    assert failures[2].report.steps == diverged.value.report.steps
    assert all(failure.report.seconds > 0 for failure in (failures[2], diverged.value))
    for one, other in zip(stacked[:2], expected, strict=False):
        report, plain = alone(one), alone(other)
        assert (report.together, plain.together) == (3, 1)
        assert report.steps == plain.steps == STEPS
        assert report.loss_steps == plain.loss_steps
        assert report.losses == pytest.approx(plain.losses, rel=1e-9)
        assert report.validation_losses == pytest.approx(plain.validation_losses, rel=1e-9)
        assert distance(one.model, other.model) < 1e-9


@pytest.mark.parametrize(("name", "steps"), [("memory_mosaic", LONG), ("lstm", STEPS)])
def test_one_batch_for_all_in_single_precision(name: str, steps: int, tmp_path: Path) -> None:
    """Members of one seed share batches and masks. The tolerance is the one that docs state."""
    kind: dict[str, Any] = {"seeds": (0, 0), "dtype": torch.float32, "steps": steps}
    expected = members(name, tmp_path / "alone", **kind)
    stacked = members(name, tmp_path / "stacked", **kind)
    assert not fit_together(stacked, CPU)
    for one, other in zip(stacked, expected, strict=True):
        assert alone(one).together == 2
        alone(other)
        assert distance(one.model, other.model) < 1e-3


def test_parameters_that_are_not_trained_stay_as_they_are(tmp_path: Path) -> None:
    expected, stacked = (
        members("gpt2", tmp_path / name, seeds=(0, 1), rates=RATES[:2])
        for name in ("alone", "stacked")
    )
    frozen = []
    for member in (*expected, *stacked):
        first = next(member.model.parameters()).requires_grad_(False)
        frozen.append(first.clone())
    assert not fit_together(stacked, CPU)
    for one, other in zip(stacked, expected, strict=True):
        assert alone(one).together == 2
        alone(other)
        assert distance(one.model, other.model) < 1e-9
    for member, before in zip((*expected, *stacked), frozen, strict=True):
        assert torch.equal(next(member.model.parameters()), before)


def test_a_stack_is_as_near_as_the_last_bit_of_the_initial_weights(tmp_path: Path) -> None:
    """Where a rate is so high that the training itself magnifies rounding, nothing is nearer."""
    kind: dict[str, Any] = {"steps": LONG, "rates": (8e-3, 2e-3), "width": 16}
    expected, moved, stacked = (
        members("memory_mosaic", tmp_path / name, seeds=(0, 1), **kind)
        for name in ("alone", "moved", "stacked")
    )
    with torch.no_grad():
        for parameter in moved[0].model.parameters():
            parameter *= 1 + torch.finfo(parameter.dtype).eps
    assert not fit_together(stacked, CPU)
    for one in (expected[0], moved[0], stacked[0]):
        alone(one)
    magnified = distance(moved[0].model, expected[0].model)
    assert magnified > 1e-12  # from 1e-16
    assert distance(stacked[0].model, expected[0].model) < 100 * magnified


def test_whoever_finds_a_checkpoint_of_a_stack_goes_on_alone(tmp_path: Path) -> None:
    expected = members("gpt2", tmp_path / "alone", seeds=(0, 1))
    stacked = members("gpt2", tmp_path / "stacked", seeds=(0, 1))

    def stop(description: str, done: int, total: int) -> None:
        if done == 8:
            raise Stopped

    with pytest.raises(Stopped):
        fit_together(stacked, CPU, report=stop)
    again = members("gpt2", tmp_path / "stacked", seeds=(0, 1))
    sizes = []
    for one, other in zip(again, expected, strict=True):
        sizes.append(one.checkpoint.stat().st_size)  # at step 5
        assert alone(one).steps == STEPS
        alone(other)
        assert distance(one.model, other.model) < 1e-9
        assert (
            sizes[-1] < 1.1 * other.checkpoint.stat().st_size
        )  # it holds one model, not the stack


def test_a_bound_on_gradients_inside_a_model_holds_in_a_stack(tmp_path: Path) -> None:
    """Titans bounds them by hooks, which vmap does not see."""
    sizes: dict[str, Any] = {"steps": 5, "chunk": 4, "segment": 4}
    bound = sizes | {"largest_gradient": 1e-4}
    expected = members("titans", tmp_path / "alone", seeds=(0, 1), **bound)
    stacked = members("titans", tmp_path / "stacked", seeds=(0, 1), **bound)
    (unbound,) = members("titans", tmp_path, seeds=(0,), **sizes, largest_gradient="null")
    assert not fit_together(stacked, CPU)
    for one, other in zip(stacked, expected, strict=True):
        assert alone(one).together == 2
        alone(other)
        assert distance(one.model, other.model) < 1e-9
    alone(unbound)
    assert distance(stacked[0].model, unbound.model) > 1e-6


class Uneven(Letters):
    """Batches whose length depends on the seed in step 7."""

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        batch = super().training_batch(seed, step, size)
        end = LENGTH - seed if step == 7 else LENGTH
        return Batch(batch.inputs[:, :end], batch.targets[:, :end], size * end)


def test_what_cannot_be_stacked_goes_on_alone(tmp_path: Path) -> None:
    kind: dict[str, Any] = {"task": Uneven(), "seeds": (0, 1), "steps": 10}
    expected = members("gpt2", tmp_path / "alone", **kind)
    stacked = members("gpt2", tmp_path / "stacked", **kind)
    assert not fit_together(stacked, CPU)
    for one, other in zip(stacked, expected, strict=True):
        report = alone(one)
        assert (report.steps, report.together) == (10, 2)
        assert report.tokens == alone(other).tokens
        assert distance(one.model, other.model) < 1e-9


class Noisy(nn.Module):
    """Draws that no rule of a stack knows."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, VOCABULARY)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.table(inputs)
        return outputs + 0.1 * torch.randn_like(outputs)


def test_other_draws_than_dropout_are_refused(tmp_path: Path) -> None:
    made = members("gpt2", tmp_path, seeds=(0, 1))
    noisy = [Member(Noisy(), one.task, one.settings, one.seed, one.checkpoint) for one in made]
    assert not fit_together(noisy, CPU)
    assert not any(one.checkpoint.exists() for one in noisy)  # not one step was made


def test_a_step_formats_no_stack_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.manual_seed does, three times, where accelerators are not in use: milliseconds."""
    (one,) = members("gpt2", tmp_path, seeds=(0,), steps=6)
    count, formatted = itertools.count(), traceback.format_stack

    def counted(*words: Any) -> list[str]:
        next(count)
        return formatted(*words)

    monkeypatch.setattr(traceback, "format_stack", counted)
    assert math.isfinite(alone(one).final_loss())
    assert next(count) < 6
