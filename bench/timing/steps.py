"""What the engine adds to a training step: the same training by a plain loop beside it. And what a
fresh process spends until its first one: imports, data, building the model."""

from __future__ import annotations

import copy
import itertools
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import psutil
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.config.files import main_file
from bench.config.settings import Configuration, TrainingSettings
from bench.records.provenance import processor
from bench.timing.settings import SpeedSettings
from bench.training.building import build_model, build_task, prepare_data, resolve_device
from bench.training.loop import fit
from bench.training.numerics import set_numerics
from bench.training.optimisation import plain_steps
from core.children import Child
from core.errors import RUN_FAILED, UserError
from core.files import ROOT
from core.processes import module_command
from core.progress import Report, now_and_then, silent
from core.words import words_of
from models.specification import SequenceSpecification
from tasks.interface import Batch, Evaluation, Metric, Split, Task

LOOK_EVERY = 0.005  # seconds, at a process that is to make its first step
WARM_UP = 2  # steps that are not timed, at the start of a block; the last is not either
SHORTEST = 1e-9  # seconds: a clock that counts in ticks may see nothing of a small pass


class RandomTokens(Task):
    """Uniform tokens: nothing to learn and nothing to validate, only steps are timed."""

    headline: ClassVar[Metric] = Metric("loss", "minimise")

    def __init__(self, length: int, vocabulary: int) -> None:
        self.length, self.vocabulary = length, vocabulary

    def specification(self) -> SequenceSpecification:
        """One position more than is trained on: a step follows the whole sequence."""
        return SequenceSpecification(self.length + 1, vocabulary=self.vocabulary)

    def data_hashes(self) -> dict[str, str]:
        return {}

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        generator = torch.Generator().manual_seed(seed + step)
        shape = (size, self.length + 1)
        tokens = torch.randint(self.vocabulary, shape, generator=generator)
        return Batch(tokens[:, :-1], tokens[:, 1:], size * self.length)

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
    settings_of_run = {"batch_size": settings.batch, "threads": settings.threads}
    defaults = TrainingSettings(**{**main_file()["training"], **settings_of_run})
    training = timed(defaults, settings.engine_steps)
    task = RandomTokens(settings.length[0], vocabulary)
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
    training = timed(configuration.training, timed_steps)
    set_numerics(training.threads)
    prepare_data(configuration, report)
    task, device = build_task(configuration), resolve_device(configuration.device)
    seed, size = configuration.seed, training.batch_size

    def build() -> nn.Module:
        return build_model(configuration, task, seed)

    blocks = _blocks(build, without_validation(task), training, seed, rounds, device, report)
    now = clock(device, training.threads)
    begin = now()
    alive, tokens = now_and_then(partial(report, "making batches", 0, 1)), 0
    for step in range(timed_steps):
        tokens += task.training_batch(seed, step, size).tokens
        alive()
    making = (now() - begin) / timed_steps
    return {
        "task": configuration.task,
        "model": configuration.model,
        "preset": configuration.preset,
        "config": configuration.resolved(),
        **machine(device),
        **blocks,
        "tokens_per_second": tokens / timed_steps / blocks["engine_seconds"],
        "batch_share": making / blocks["engine_seconds"],
    }


def machine(device: torch.device) -> dict[str, str]:
    """What a speed holds for."""
    return {
        "device": processor() if device.type == "cpu" else torch.cuda.get_device_name(device),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def synchronize(device: torch.device) -> None:
    """Wait for the device, so that a clock tells the truth."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def clock(device: torch.device, threads: int | None) -> Callable[[], float]:
    """Seconds: those that this process spends where one thread of a CPU does it all, so that others
    on the machine do not count; else those of the wall."""
    alone = device.type == "cpu" and threads == 1
    return time.process_time if alone else time.perf_counter


def timed(training: TrainingSettings, steps: int) -> TrainingSettings:
    """A block with so many timed steps; the last, with checkpoint and validation, is not timed."""
    total = steps + WARM_UP + 1
    changes = {"steps": total, "checkpoint_every": total, "validate_every": None}
    return training.model_copy(update=changes)


def without_validation(task: Task) -> Task:
    """The same task, whose validation takes no time; the task itself may be shared."""
    unvalidated = copy.copy(task)
    unvalidated.validation_loss = lambda model, device: 0.0  # type: ignore[method-assign]
    return unvalidated


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
        blocks = [(engine, engine_block, by_engine), (plain, _plain_block, by_loop)]
        alive = now_and_then(partial(report, "engine against plain loop", number, rounds))
        for times, block, model in blocks if number % 2 == 0 else reversed(blocks):
            ends = block(model, task, training, seed, device, alive)[WARM_UP - 1 : -1]
            step = statistics.median(b - a for a, b in itertools.pairwise(ends))
            times.append(max(step, SHORTEST))
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
        "engine_over_plain_quartiles": np.quantile(ratios, [0.25, 0.75]).tolist(),
        "largest_weight_difference": difference,
    }


def engine_block(
    model: nn.Module,
    task: Task,
    training: TrainingSettings,
    seed: int,
    device: torch.device,
    alive: Callable[[], None],
) -> list[float]:
    """When each step ended."""
    ends: list[float] = []
    now = clock(device, training.threads)

    def note(description: str, done: int, total: int) -> None:
        synchronize(device)
        ends.append(now())
        alive()

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint.pt"
        fit(model, task, training, seed=seed, device=device, checkpoint=checkpoint, report=note)
    return ends


def prepared(settings: Mapping[str, Any]) -> Configuration:
    """The configuration of settings, whose data are there and whose threads are set."""
    configuration = Configuration.of(settings)
    set_numerics(configuration.training.threads)
    prepare_data(configuration, silent)
    return configuration


def seconds_of_a_step(configuration: Configuration, timed_steps: int) -> float:
    """Mean seconds of a training step under the engine, after those that warm up. Its data are
    there."""
    device, seed = resolve_device(configuration.device), configuration.seed
    task = without_validation(build_task(configuration))
    model = build_model(configuration, task, seed)
    training = timed(configuration.training, timed_steps)
    ends = engine_block(model, task, training, seed, device, lambda: None)[WARM_UP - 1 : -1]
    return max(ends[-1] - ends[0], SHORTEST) / (len(ends) - 1)


def _plain_block(
    model: nn.Module,
    task: Task,
    training: TrainingSettings,
    seed: int,
    device: torch.device,
    alive: Callable[[], None],
) -> list[float]:
    """The same without an engine, with all outputs at once."""

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return task.loss(model(batch.inputs), batch)

    assert training.steps is not None
    model.to(device).train()
    steps = plain_steps(model, task, training, training.steps, seed, loss)
    now, ends = clock(device, training.threads), []
    for _ in itertools.islice(steps, training.steps):
        ends.append(now())
        alive()
    return ends


SECONDS_TO_FIRST_STEP = 3600.0


def cpu_seconds_to_first_step(settings: Mapping[str, Any]) -> float:
    """CPU-seconds, user and system, of ``python -m bench.train`` with these settings when its first
    step is done and saved. The process is looked at from outside, and ended then.

    Raises:
        UserError: it ended before.
    """
    with tempfile.TemporaryDirectory() as folder:
        of_this_run = {"store": folder, "training.checkpoint_every": 1}
        command = module_command("bench.train", words_of({**settings, **of_this_run}))
        deadline = time.monotonic() + SECONDS_TO_FIRST_STEP
        with Child(command, ROOT) as child:
            while not any(Path(folder).glob("work/*/checkpoint-0.pt")):
                if child.process.poll() is not None:
                    ended = child.wait()
                    raise UserError(
                        f"bench.train made no step to time: {ended.sentence}", RUN_FAILED
                    )
                if time.monotonic() > deadline:
                    raise UserError(
                        f"bench.train made no step within {SECONDS_TO_FIRST_STEP:.0f} s: time a "
                        "smaller model, or one that ends",
                        RUN_FAILED,
                    )
                time.sleep(LOOK_EVERY)
            spent = psutil.Process(child.process.pid).cpu_times()
            child.process.kill()  # what it would save is of no use
    return float(spent.user + spent.system)
