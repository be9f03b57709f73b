"""Short trainings of a package's model and of this project's model of the same kind."""

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bench.config.settings import Configuration
from bench.training.building import build_model, build_task
from bench.training.optimisation import plain_steps
from bench.training.training import training_loss_of
from core.statistics import mean_interval
from tasks.interface import Task
from tests.configurations import compose
from tests.public_packages.contender import HEADS, LAYERS, WIDTH

SEEDS = (0, 1, 2)
# One rate for all models, which nobody tuned; sizes of preset smoke, so that it takes seconds.
COMMON = ("preset=smoke", "device=cpu", "training.lr=5e-3", "training.gradient_clip=1.0")
COMMON += ("training.schedule=cosine_after_warmup", "training.weight_decay=0.01")
TASKS: dict[str, tuple[str, ...]] = {
    "regbench": ("training.steps=100", "training.batch_size=8"),
    "multi_query_recall": (  # two pairs: chance between the values that were seen has 0.5
        "training.steps=400",
        "training.batch_size=32",
        "training.lr=1e-2",
        "tasks.vocabulary=16",
        "tasks.length=12",
        "tasks.pairs=[2]",
    ),
    "state_tracking": ("training.steps=200", "training.batch_size=16"),
}
# What the model that is examined after training was trained on: short, since it need not be good.
BEFORE_EXAMINATION = ("training.steps=100", "training.batch_size=4")
BLOCKS = 5  # of either model, in turn
STEPS_OF_A_BLOCK = 3

Builder = Callable[[int], nn.Module]  # seed -> a model


def configuration(task: str, rival: str, *words: str) -> Configuration:
    """The settings of a training; the rival is of the widths that packages are built with."""
    sizes = [f"models.width={WIDTH}", f"models.layers={LAYERS}"]
    base = compose([f"tasks={task}", f"models={rival}", *COMMON, *TASKS[task], *sizes])
    more = list(words)
    if "heads" in base.models:
        more.append(f"models.heads={HEADS}")
    if "dropout" in base.models:
        more.append("models.dropout=0.0")
    return compose([f"tasks={task}", f"models={rival}", *COMMON, *TASKS[task], *sizes, *more])


def vocabulary_of(task: str) -> int:
    size = build_task(configuration(task, "lstm")).specification().vocabulary
    assert size is not None
    return size


def rival_builder(settings: Configuration) -> Builder:
    """Builds this project's model for the task of ``settings``."""
    return lambda seed: build_model(settings, build_task(settings), seed)


def train(model: nn.Module, settings: Configuration, seed: int) -> float:
    """The mean loss of the last ten steps of a whole training; the model is trained in place."""
    task, steps = build_task(settings), settings.training.steps
    assert steps is not None
    losses: list[float] = []
    loss_of_batch = training_loss_of(task, model.train(), seed, settings.training.batch_size)

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        value: torch.Tensor = loss_of_batch(model, batch)
        losses.append(float(value.detach()))
        return value

    torch.manual_seed(seed)
    for _ in itertools.islice(
        plain_steps(model, task, settings.training, steps, seed, loss), steps
    ):
        pass
    return statistics.fmean(losses[-10:])


def accuracy(model: nn.Module, task: Task) -> float:
    """The headline on test."""
    model.eval()
    with torch.no_grad():
        return float(task.evaluate(model, "test", "cpu").metrics[task.headline.name])


def scores(builder: Builder, settings: Configuration) -> dict[str, Any]:
    """Accuracy of three seeds and their mean, over those that are numbers."""
    task = build_task(settings)
    values = []
    for seed in SEEDS:
        model = builder(seed)
        train(model, settings, seed)
        values.append(accuracy(model, task))
    return {"values": values, "mean": mean_interval(values).mean}


def ratio_of_steps(package: Builder, rival: Builder, settings: Configuration) -> dict[str, Any]:
    """Seconds of a training step of either, in turn, and the median ratio of neighbours."""
    task, training = build_task(settings), settings.training
    assert training.steps is not None
    loops = []
    for build in (package, rival):
        model = build(0).train()
        loss = training_loss_of(task, model, 0, training.batch_size)
        loop = plain_steps(model, task, training, training.steps, 0, loss)
        next(loop)  # what is made once is not timed
        loops.append(loop)
    seconds: list[list[float]] = [[], []]
    for _ in range(BLOCKS):
        for loop, times in zip(loops, seconds, strict=True):
            start = time.process_time()
            for _ in range(STEPS_OF_A_BLOCK):
                next(loop)
            times.append((time.process_time() - start) / STEPS_OF_A_BLOCK)
    ratios = [a / b for a, b in zip(*seconds, strict=True)]
    return {
        "package_seconds": statistics.median(seconds[0]),
        "rival_seconds": statistics.median(seconds[1]),
        "ratio": statistics.median(ratios),
        "ratios": [min(ratios), max(ratios)],
    }
