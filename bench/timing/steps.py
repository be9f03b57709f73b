"""What the engine adds to a training step: the same training by a plain loop beside it."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.nn import functional

from bench.records.provenance import processor
from bench.settings.settings import Configuration, TrainingSettings
from bench.timing.settings import SpeedSettings
from bench.training.building import build_model, build_task, prepare_data, resolve_device
from bench.training.loop import fit
from bench.training.optimisation import build_optimizer, learning_rate_at, set_learning_rate
from bench.training.training import set_numerics
from ground.errors import UserError
from ground.files import ROOT
from ground.progress import Report
from models.specification import SequenceSpecification
from tasks.interface import Batch, Evaluation, Metric, Split, Task

WARM_UP = 2  # steps that are not timed, at the start of a block; the last is not either


class _RandomTokens(Task):
    """Nothing to learn and nothing to validate: only training steps are timed."""

    headline: ClassVar[Metric] = Metric("loss", "minimise")

    def __init__(self, settings: SpeedSettings, vocabulary: int) -> None:
        self.settings, self.vocabulary = settings, vocabulary

    def specification(self) -> SequenceSpecification:
        return SequenceSpecification(self.settings.length, vocabulary=self.vocabulary)

    def data_hashes(self) -> dict[str, str]:
        return {}

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        return random_batch(self.settings, self.vocabulary, step)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten())

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        return Evaluation({"loss": 0.0})


def measure_engine(
    settings: SpeedSettings,
    build: Callable[[], nn.Module],
    vocabulary: int,
    device: torch.device,
    report: Report,
) -> dict[str, Any]:
    """Seconds of a training step under the engine and in a plain loop, from blocks that alternate.

    The ratio is the median over pairs of neighbouring blocks, with its quartiles: a machine whose
    speed changes meets both of a pair, while medians of either side alone may come from different
    times. Also how far apart the trained weights are.
    """
    defaults = OmegaConf.to_container(OmegaConf.load(ROOT / "bench" / "config.yaml").training)
    assert isinstance(defaults, dict)
    steps = settings.engine_steps + WARM_UP + 1
    own = {"steps": steps, "batch_size": settings.batch, "checkpoint_every": steps}
    training = TrainingSettings(**{**defaults, **own, "threads": settings.threads})
    task = _RandomTokens(settings, vocabulary)
    blocks = _blocks(build, task, training, settings.seed, settings.rounds, device, report)
    return {"model": settings.reference, "vocabulary": vocabulary, **blocks}


def compare(
    configuration: Configuration, rounds: int, timed_steps: int, report: Report
) -> dict[str, Any]:
    """The same for the model and the task of a configuration; the plain loop takes all outputs at
    once. Also tokens per second, and the share of a step in which its batch is made."""
    if configuration.training.micro_batch_size is not None or configuration.training.devices != 1:
        raise UserError(
            "a plain loop makes each step in one pass on one device: compare with "
            "training.micro_batch_size=null and training.devices=1"
        )
    training = configuration.training.model_copy(
        update={
            "steps": timed_steps + WARM_UP + 1,
            "checkpoint_every": timed_steps + WARM_UP + 1,
            "validate_every": None,
        }
    )
    set_numerics(training.threads)
    prepare_data(configuration, report)
    task, device = build_task(configuration), resolve_device(configuration.device)
    seed, size = configuration.seed, training.batch_size

    def build() -> nn.Module:
        return build_model(configuration, task, seed)

    found = _blocks(build, _StepsOnly(task), training, seed, rounds, device, report)
    begin = time.perf_counter()
    tokens = sum(task.training_batch(seed, step, size).tokens for step in range(timed_steps))
    making = (time.perf_counter() - begin) / timed_steps
    return {
        "task": configuration.task,
        "model": configuration.model,
        "preset": configuration.preset,
        "config": configuration.resolved(),
        "device": processor() if device.type == "cpu" else torch.cuda.get_device_name(device),
        "torch": torch.__version__,
        **found,
        "tokens_per_second": tokens / timed_steps / found["engine_seconds"],
        "batch_share": making / found["engine_seconds"],
    }


class _StepsOnly(Task):
    """A task whose training is timed: nothing is validated."""

    headline: ClassVar[Metric] = Metric("loss", "minimise")

    def __init__(self, task: Task) -> None:
        self.task = task

    def specification(self) -> SequenceSpecification:
        return self.task.specification()

    def data_hashes(self) -> dict[str, str]:
        return self.task.data_hashes()

    def steps_per_epoch(self, size: int) -> int | None:
        return self.task.steps_per_epoch(size)

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        return self.task.training_batch(seed, step, size)

    def training_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.task.training_loss(model, batch)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return self.task.loss(outputs, batch)

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        return Evaluation({"loss": 0.0})


def random_batch(settings: SpeedSettings, vocabulary: int, step: int) -> Batch:
    """Uniform tokens; int64 (batch, length) each."""
    generator = torch.Generator().manual_seed(settings.seed + step)
    shape = (settings.batch, settings.length + 1)
    tokens = torch.randint(vocabulary, shape, generator=generator)
    return Batch(tokens[:, :-1], tokens[:, 1:], settings.batch * settings.length)


def synchronize(device: torch.device) -> None:
    """Wait for the device, so that a clock tells the truth."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _blocks(
    build: Callable[[], nn.Module],
    task: Task,
    training: TrainingSettings,
    seed: int,
    rounds: int,
    device: torch.device,
    report: Report,
) -> dict[str, Any]:
    engine: list[float] = []
    plain: list[float] = []
    difference = 0.0
    for number in range(rounds):
        by_engine, by_loop = build(), build()
        blocks = [(engine, _engine_block, by_engine), (plain, _plain_block, by_loop)]
        for times, block, model in blocks if number % 2 == 0 else reversed(blocks):
            times.append(block(model, task, training, seed, device))
        pairs = zip(by_engine.parameters(), by_loop.parameters(), strict=True)
        difference = max(difference, *(float((a - b).detach().abs().max()) for a, b in pairs))
        report("engine against plain loop", number + 1, rounds)
    ratios = [ours / theirs for ours, theirs in zip(engine, plain, strict=True)]
    return {
        "engine_blocks": engine,
        "plain_blocks": plain,
        "engine_seconds": statistics.median(engine),
        "plain_seconds": statistics.median(plain),
        "engine_over_plain": statistics.median(ratios),
        "engine_over_plain_quartiles": _quartiles(ratios),
        "largest_weight_difference": difference,
    }


def _quartiles(values: list[float]) -> list[float]:
    """The first and the third, between which the middle half of the values lies."""
    if len(values) == 1:
        return values * 2
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return [first, third]


def _engine_block(
    model: nn.Module, task: Task, training: TrainingSettings, seed: int, device: torch.device
) -> float:
    ends: list[float] = []

    def note(description: str, done: int, total: int) -> None:
        synchronize(device)
        ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint.pt"
        fit(model, task, training, seed=seed, device=device, checkpoint=checkpoint, report=note)
    return _median_step(ends)


def _plain_block(
    model: nn.Module, task: Task, training: TrainingSettings, seed: int, device: torch.device
) -> float:
    model.to(device).train()
    optimizer = build_optimizer(model, training)
    assert training.steps is not None
    rate_at = learning_rate_at(training, training.steps)
    bfloat16 = training.precision == "bfloat16"
    ends: list[float] = []
    for step in range(training.steps):
        batch = task.training_batch(seed, step, training.batch_size).to(device)
        set_learning_rate(optimizer, rate_at(step))
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            loss = task.loss(model(batch.inputs), batch)
        optimizer.zero_grad()
        loss.backward()
        if training.gradient_clip:
            nn.utils.clip_grad_norm_(model.parameters(), training.gradient_clip)
        optimizer.step()
        loss.item()  # a loop that does not look at its loss is no training
        synchronize(device)
        ends.append(time.perf_counter())
    return _median_step(ends)


def _median_step(ends: list[float]) -> float:
    """The last step is left out: the engine writes its checkpoint in it."""
    timed = ends[WARM_UP - 1 : -1]
    return statistics.median(b - a for a, b in itertools.pairwise(timed))
