"""Every global generator is seeded, and PyTorch's draws are what they were without the others."""

import copy
import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from bench.config.settings import Configuration
from bench.runs.making import evaluate
from bench.training.building import build_model, build_task
from bench.training.draws import NotStackable, no_python_draws, unchanged_buffers
from bench.training.loop import fit
from bench.training.seeding import kept_random_state, seed_generators
from bench.training.stack import Member, fit_together
from bench.training.training import TrainingReport
from core.seeding import derive_seed
from models.specification import SequenceSpecification
from tasks.interface import Task
from tests.bench.training import drawing_guests as guests
from tests.configurations import compose
from tests.models.built import CHANNELS_ALONE, GUESTS, NAMES, SMALL, hyperparameters

CPU = torch.device("cpu")
STEPS = 6


def state_of_python_generators() -> tuple[object, str]:
    return random.getstate(), str(np.random.get_state())  # noqa: NPY002


def draw() -> list[float]:
    return [random.random(), float(np.random.rand()), torch.rand(()).item()]  # noqa: NPY002


def test_all_are_seeded_and_left_as_they_were() -> None:
    before = state_of_python_generators(), torch.get_rng_state()
    with kept_random_state(CPU):
        seed_generators(2**63 - 1, CPU)
        first = draw()
        seed_generators(2**63 - 1, CPU)
        assert draw() == first
        seed_generators(2**62, CPU)
        assert not {*draw()} & {*first}
    assert state_of_python_generators() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    random.random()
    assert state_of_python_generators() != before[0]


@pytest.mark.parametrize("name", sorted({*NAMES} - {*GUESTS}))
@pytest.mark.bitwise
def test_weights_and_dropout_are_those_of_seeding_pytorch_alone(name: str) -> None:
    """What the engine drew before it seeded NumPy and ``random`` is what it draws now."""
    task = "three_moons" if name in CHANNELS_ALONE else "multi_query_recall"
    own = hyperparameters(name)
    words = [f"models.{key}={value}" for key, value in SMALL.items() if key in own]
    configuration = compose([f"tasks={task}", f"models={name}", "preset=smoke", *words])
    made = build_task(configuration)
    model = build_model(configuration, made, 3)
    kind = type(model)
    state = random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(3, "initial weights"))
        arguments = {k: v for k, v in configuration.models.items() if k != "_target_"}
        alone = kind(made.specification(), **arguments).state_dict()
        of_engine = model.state_dict()
        assert all(torch.equal(alone[key], of_engine[key]) for key in alone)
        batch = made.training_batch(0, 0, 2)
        outputs = []
        for seed_all in (torch.manual_seed, lambda seed: seed_generators(seed, CPU)):
            seed_all(11)
            outputs.append(copy.deepcopy(model).train()(batch.inputs))
            outputs.append(torch.get_rng_state())
    assert torch.equal(outputs[0], outputs[2])
    assert torch.equal(outputs[1], outputs[3])
    random.setstate(state)


class Killed(BaseException):
    """Ends a training as SIGKILL would: nothing in it handles this."""


def of(kind: type[nn.Module], *words: str) -> Configuration:
    return compose(
        [
            *("tasks=state_tracking", f"models={kind.__module__}.{kind.__qualname__}"),
            *("preset=smoke", f"training.steps={STEPS}", "training.warmup_steps=1"),
            *("training.checkpoint_every=1", "training.validate_every=2", "training.batch_size=4"),
            *words,
        ]
    )


def train(
    configuration: Configuration, checkpoint: Path, killed_after: int | None = None
) -> tuple[TrainingReport, dict[str, torch.Tensor], nn.Module]:
    def kill(description: str, done: int, total: int) -> None:
        if done == killed_after:
            raise Killed

    task = build_task(configuration)
    model = build_model(configuration, task, 0)
    settings = configuration.training
    report = fit(model, task, settings, seed=0, device=CPU, checkpoint=checkpoint, report=kill)
    return dataclasses.replace(report, seconds=0.0), model.state_dict(), model


@pytest.mark.parametrize("kind", [guests.SeededNoise, guests.Statistics, guests.Running])
@pytest.mark.parametrize("select", ["last", "best_validation"])
@pytest.mark.bitwise
def test_a_killed_training_goes_on_to_the_same_weights_and_buffers(
    kind: type[guests.Guest], select: str, tmp_path: Path
) -> None:
    configuration = of(kind, f"training.select={select}")
    seed_generators(1, CPU)
    report, weights, model = train(configuration, tmp_path / "whole.pt")
    seed_generators(2, CPU)  # a process has its generators where they happen to be
    with pytest.raises(Killed):
        train(configuration, tmp_path / "killed.pt", killed_after=3)
    random.random(), np.random.rand()  # noqa: NPY002
    again, resumed, _ = train(configuration, tmp_path / "killed.pt")
    assert again == report
    assert weights.keys() == resumed.keys()
    assert all(torch.equal(weights[name], resumed[name]) for name in weights)
    fresh = build_model(configuration, build_task(configuration), 0).state_dict()
    changed = {name for name in weights if not torch.equal(weights[name], fresh[name])}
    assert changed == {*weights}  # buffers too
    assert torch.equal(model.state_dict()["embed.weight"], weights["embed.weight"])


def test_each_step_draws_anew_from_all() -> None:
    """Nothing is drawn once and for all steps: the seeds of steps differ."""
    seeds = [derive_seed(0, "dropout", 0, step) for step in range(100)]
    drawn = []
    with kept_random_state(CPU):
        for seed in seeds:
            seed_generators(seed, CPU)
            drawn.append(tuple(draw()))
    for numbers in zip(*drawn, strict=True):
        assert len({*numbers}) == 100


class DrawsToAnswer(guests.Guest):
    """Draws when it is evaluated, too."""

    def change(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden * sum(draw())


@pytest.mark.bitwise
def test_an_evaluation_that_draws_is_the_same_each_time() -> None:
    configuration = of(guests.Guest)
    task = build_task(configuration)
    model = DrawsToAnswer(task.specification())
    state = state_of_python_generators()
    first = evaluate(task, model, "validation", CPU, 0).metrics
    assert state_of_python_generators() == state
    draw()
    assert evaluate(task, model, "validation", CPU, 0).metrics == first
    assert evaluate(task, model, "validation", CPU, 1).metrics != first


@pytest.mark.parametrize(
    ("kind", "together"), [(guests.SeededNoise, 1), (guests.Running, 1), (guests.Tied, 2)]
)
@pytest.mark.bitwise
def test_stacked_trainings_are_those_alone(
    kind: type[guests.Guest], together: int, tmp_path: Path
) -> None:
    """What is one number for all of a stack, or a buffer of one of them, is left to each alone."""
    configuration = of(kind)
    task = build_task(configuration)

    def members(name: str) -> list[Member]:
        models = [build_model(configuration, task, seed) for seed in (0, 1)]
        paths = [tmp_path / f"{name}-{seed}.pt" for seed in (0, 1)]
        settings = configuration.training
        return [
            Member(model, task, settings, seed, path)
            for seed, (model, path) in enumerate(zip(models, paths, strict=True))
        ]

    def finish(member: Member) -> TrainingReport:
        arguments = {"seed": member.seed, "device": CPU, "checkpoint": member.checkpoint}
        return fit(member.model, task, member.settings, **arguments)

    stacked, alone = members("stacked"), members("alone")
    fit_together(stacked, CPU)
    for one, other in zip(stacked, alone, strict=True):
        assert finish(one).together == together
        finish(other)
        for name, value in one.model.state_dict().items():
            # Six steps; a product of two models at once adds in another order.
            expected = other.model.state_dict()[name]
            assert torch.allclose(value, expected, rtol=1e-3, atol=1e-5), name
            assert together > 1 or torch.equal(value, expected), name


def test_a_stack_sees_draws_and_changed_buffers() -> None:
    for drawn in (random.random, np.random.rand):
        with pytest.raises(NotStackable, match=r"numpy\.random or random"), no_python_draws():
            drawn()
    with no_python_draws():
        torch.rand(2)
    model = nn.BatchNorm1d(2)
    for change in (
        lambda: model.running_mean.add_(1),
        lambda: setattr(model, "running_mean", model.running_mean + 1),
    ):
        with pytest.raises(NotStackable, match="changes running_mean"), unchanged_buffers(model):
            change()
        assert torch.equal(model.running_mean, torch.zeros(2))
    with unchanged_buffers(model):
        model.weight.data.add_(1)


class Noisy(guests.Guest):
    """Draws as it is evaluated, too."""

    def change(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + torch.randn_like(hidden)


@pytest.mark.bitwise
def test_the_curve_of_validation_ends_at_the_metric_of_a_model_that_draws(tmp_path: Path) -> None:
    configuration = compose(["tasks=regbench", "models=lstm", "preset=smoke"])
    settings = configuration.training.model_copy(update={"steps": 4, "validate_every": 2})
    task = build_task(configuration)
    model = Noisy(task.specification())
    checkpoint = tmp_path / "checkpoint.pt"
    report = fit(model, task, settings, seed=3, device=CPU, checkpoint=checkpoint)
    assert report.validation_losses[-1] == task_loss(task, model, 3)
    assert report.validation_losses[-1] != task_loss(task, model, 4)  # that it does draw


def task_loss(task: Task, model: nn.Module, seed: int) -> float:
    """The validation loss, drawn as for a record's metrics."""
    with torch.no_grad(), kept_random_state(CPU):
        seed_generators(derive_seed(seed, "evaluation", "validation"), CPU)
        model.eval()
        return task.validation_loss(model, CPU)


class Clips(guests.Guest):
    """Limits its weights, and counts its calls, in eval mode."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.calls: torch.Tensor
        self.register_buffer("calls", torch.zeros(()))

    def change(self, hidden: torch.Tensor) -> torch.Tensor:
        if not self.training:
            self.calls += 1
            for parameter in self.parameters():
                parameter.data.clamp_(-0.1, 0.1)
        return hidden


@pytest.mark.parametrize("name", ["lstm", "gpt2", f"{__name__}.{Clips.__name__}"])
@pytest.mark.bitwise
def test_validation_moves_no_draw_and_no_number_of_the_training(name: str, tmp_path: Path) -> None:
    words = ["models.dropout=0.1"] if name == "gpt2" else []
    configuration = compose(["tasks=regbench", f"models={name}", "preset=smoke", *words])
    task, found = build_task(configuration), []
    for interval in (1, None):
        update = {"steps": 4, "validate_every": interval}
        settings = configuration.training.model_copy(update=update)
        model = build_model(configuration, task, 0)
        checkpoint = tmp_path / f"{interval}.pt"
        report = fit(model, task, settings, seed=0, device=CPU, checkpoint=checkpoint)
        found.append((report, model.state_dict()))
    (often, first), (once, second) = found
    assert (len(often.validation_losses), often.losses) == (4, once.losses)
    assert often.validation_losses[-1] == once.validation_losses[-1]
    assert all(torch.equal(first[key], second[key]) for key in first)
