"""The work of a training: one step of it counted, and how many there are."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bench.config.settings import Configuration
from bench.roofline.seconds import STACKED_UPDATE_LAUNCHES
from bench.roofline.work import Operation, Work, count_here, count_meta
from bench.training.building import build_model, build_task, resolve_device
from bench.training.numerics import set_numerics
from bench.training.optimisation import build_optimizer
from bench.training.storage import count_numbers, on_meta
from bench.training.training import total_steps, training_loss_of
from core.errors import UserError, first_line
from tasks.interface import Batch, Task

LOOKED_AT = 8  # batches, of which the middle one is counted and the mean size is taken
NEAR = 0.1  # a batch of so nearly the size of a counted one is not counted again
LARGEST_LISTENED = 1024  # channels of an output; a validation over more is not listened to
BYTES = 4  # of a weight
UPDATE_PASSES = 7  # AdamW reads weight, gradient and moments, and writes all but the gradient
MULTI_TENSOR = 36  # tensors that a kernel over many of them takes, about
COPIES = 4  # weights, gradients and two moments


@dataclass(frozen=True)
class CountedTraining:
    """A training in numbers that no device has a part in.

    Attributes:
        step: forward and backward pass over a batch of middle size, scaled to the mean size.
        update: clipping and the optimiser.
        check: one pass over the validation split; None where it could not be listened to.
        tensors: parameters by their number of tensors.
        saved_bytes: bytes of a step that live from its forward to its backward pass, at most.
        batch_seconds: of this machine's CPU, to make a batch.
        tokens: of a step.
    """

    step: Work
    update: Work
    check: Work | None
    steps: int
    checks: int
    parameters: int
    tensors: int
    saved_bytes: float
    batch_seconds: float
    tokens: float

    @property
    def memory(self) -> float:
        """Bytes of tensors at the peak of a step."""
        return COPIES * BYTES * self.parameters + self.saved_bytes

    def stacked_update(self) -> Work:
        """The optimiser of a stack, tensor by tensor."""
        launches = STACKED_UPDATE_LAUNCHES * max(1, self.tensors)
        return Work({Operation(0.0, self.update.moved / launches): launches})


@dataclass(frozen=True)
class _Shape:
    """What is counted of a model on a batch of one size, whatever the data."""

    rows: int
    length: int
    step: Work
    update: Work
    forward: Work
    parameters: int
    tensors: int
    saved_bytes: float


class _Typical(NamedTuple):
    """A batch of middle size; means over a few batches: positions with padding, tokens, and
    CPU-seconds of this machine to make one."""

    batch: Batch
    positions: float
    tokens: float
    seconds: float


class Counter:
    """Counts trainings; shapes that are nearly the same are counted once.

    Args:
        here: on this machine, with real tensors; else for a GPU, by shapes alone.
        make_data: whether data that a task keeps on disk are made where they are missing.
    """

    def __init__(self, local: bool = False, make_data: bool = True) -> None:
        self.here, self.make_data = local, make_data
        self._known: dict[str, list[_Shape]] = {}
        self._counted: dict[str, CountedTraining] = {}
        self._batches: dict[str, _Typical] = {}
        self._checks: dict[str, list[tuple[int, int]] | None] = {}

    def count(self, configuration: Configuration) -> CountedTraining:
        """The work of a configuration's training.

        Raises:
            UserError: it has none, or its data or its model cannot be had or be counted.
        """
        if configuration.takes is not None:
            raise UserError(f"{configuration.task} has no training steps to count")
        key = json.dumps([configuration.resolved(), configuration.device], sort_keys=True)
        if key not in self._counted:
            self._counted[key] = self._count(configuration)
        return self._counted[key]

    def _count(self, configuration: Configuration) -> CountedTraining:
        task, training = build_task(configuration), configuration.training
        if not self.make_data and type(task).prepare is not Task.prepare:
            raise UserError(f"the data of {configuration.task} lie on disk, and none are made here")
        total = total_steps(task, training)
        typical = self._typical(configuration, task, total)
        shape = self._shape(configuration, task, typical.batch)
        scale = typical.positions / (shape.rows * shape.length)
        interval = training.validate_every
        return CountedTraining(
            step=shape.step.on(scale),
            update=shape.update,
            check=self._check(configuration, task, shape),
            steps=total * training.restarts,
            checks=(1 if interval is None else -(-total // interval)) * training.restarts,
            parameters=shape.parameters,
            tensors=shape.tensors,
            saved_bytes=shape.saved_bytes * max(1.0, scale),
            batch_seconds=typical.seconds,
            tokens=typical.tokens,
        )

    def _typical(self, configuration: Configuration, task: Task, total: int) -> _Typical:
        """The middle of the task's first batches, drawn once for all models that share them."""
        key = json.dumps([configuration.tasks, configuration.training.batch_size], sort_keys=True)
        if key not in self._batches:
            seed, size = configuration.seed, configuration.training.batch_size
            self._batches[key] = _typical(task, seed, size, min(total, LOOKED_AT))
        return self._batches[key]

    def _shape(self, configuration: Configuration, task: Task, batch: Batch) -> _Shape:
        specification = task.specification()
        key = (configuration.models, str(specification), configuration.tasks["_target_"])
        shapes = self._known.setdefault(json.dumps(key, sort_keys=True), [])
        rows, length = batch.inputs.shape[:2]
        for shape in shapes:
            if _is_near(rows, shape.rows) and _is_near(length, shape.length):
                return shape
        shapes.append(_count_shape(configuration, task, batch, self.here))
        return shapes[-1]

    def _check(self, configuration: Configuration, task: Task, shape: _Shape) -> Work | None:
        """A pass over the validation split, by the number of batches that a model is given there
        and their mean size."""
        key = json.dumps(configuration.tasks, sort_keys=True)
        if key not in self._checks:
            self._checks[key] = _listen(task)
        sizes = self._checks[key]
        if not sizes:
            return None
        mean = sum(rows * length for rows, length in sizes) / len(sizes)
        forward = shape.forward.on(mean / (shape.rows * shape.length))
        calls = {operation: often * len(sizes) for operation, often in forward.calls.items()}
        return Work(calls, shape.forward.views * len(sizes))


def _is_near(size: int, other: int) -> bool:
    return abs(size / other - 1) <= NEAR


def _typical(task: Task, seed: int, size: int, number: int) -> _Typical:
    task.training_batch(seed, 0, size)  # makes the data
    begin = time.process_time()
    batches = [task.training_batch(seed, step, size) for step in range(number)]
    each = (time.process_time() - begin) / number
    sizes = [batch.inputs.shape[:2].numel() for batch in batches]
    middle = sorted(range(number), key=lambda place: sizes[place])[number // 2]
    tokens = statistics.fmean(batch.tokens for batch in batches)
    return _Typical(batches[middle], statistics.fmean(sizes), tokens, each)


def _count_shape(configuration: Configuration, task: Task, batch: Batch, local: bool) -> _Shape:
    """The work of one training step on a batch: counted on this device, else by shapes alone."""
    training = configuration.training
    if local:
        set_numerics(training.threads)
        device, count = resolve_device(configuration.device), count_here
        model = build_model(configuration, task, configuration.seed).to(device).train()
        loss = training_loss_of(task, model, configuration.seed, training.batch_size)
    else:
        device, count = torch.device("meta"), count_meta
        model, loss = _on_meta(configuration, task).train(), task.training_loss
    batch = batch.to(device)
    optimizer = build_optimizer(model, training)

    def update() -> None:
        if training.gradient_clip:
            nn.utils.clip_grad_norm_(model.parameters(), training.gradient_clip)
        optimizer.step()

    try:
        if local:  # the first step makes the optimiser's state
            loss(model, batch.rows(0, 1)).backward()
            update()
            optimizer.zero_grad()
        saved = SavedForBackward(model)
        with saved:
            step = count(lambda: loss(model, batch).backward())
        update_work = count(update) if local else _fused_update(model)
        with torch.no_grad():
            forward = count(lambda: model.eval()(batch.inputs))
    except (RuntimeError, NotImplementedError) as error:
        cause = first_line(error)
        raise UserError(f"{configuration.label} cannot be counted by shapes: {cause}") from error
    rows, length = batch.inputs.shape[:2]
    trained = [p for p in model.parameters() if p.requires_grad]
    numbers = count_numbers(trained)
    return _Shape(rows, length, step, update_work, forward, numbers, len(trained), saved.size)


def _on_meta(configuration: Configuration, task: Task) -> nn.Module:
    try:
        with torch.device("meta"):
            model = build_model(configuration, task, configuration.seed)
    except (RuntimeError, NotImplementedError):  # its initial values depend on one another
        model = build_model(configuration, task, configuration.seed)
    return on_meta(model)


def _fused_update(model: nn.Module) -> Work:
    """Clipping and PyTorch's fused AdamW, by kernels over many tensors."""
    trained = [p for p in model.parameters() if p.requires_grad]
    kernels = max(1, -(-len(trained) // MULTI_TENSOR))
    moved = float(count_numbers(trained) * BYTES) / kernels
    passes = (1, 2, UPDATE_PASSES)  # the norm, the factor of the clip, AdamW
    return Work({Operation(0.0, n * moved): kernels for n in passes})


class SavedForBackward(torch.autograd.graph.saved_tensors_hooks):
    """Bytes of what autograd keeps between the passes, parameters left out, as ``size``."""

    def __init__(self, model: nn.Module) -> None:
        of_parameters = {p.untyped_storage()._cdata for p in model.parameters()}
        storages: dict[int, Any] = {}  # they live until the end, so that no two have one place
        self.size = 0.0

        def pack(x: Tensor) -> Tensor:
            storage = x.untyped_storage()
            if storage._cdata not in of_parameters and storage._cdata not in storages:
                storages[storage._cdata] = storage
                self.size += storage.nbytes()
            return x

        super().__init__(pack, lambda x: x)


class _Listener(nn.Module):
    """A model without weights that notes what it is given."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels, self.sizes = channels, list[tuple[int, int]]()

    def forward(self, inputs: Tensor) -> Tensor:
        rows, length = inputs.shape[:2]
        self.sizes.append((rows, length))
        return torch.zeros((), dtype=torch.float32).expand(rows, length, self.channels)


def _listen(task: Task) -> list[tuple[int, int]] | None:
    """(sequences, positions) of each pass of a validation; None of one that asks for more than
    outputs, or for very many."""
    channels = task.specification().output_size
    if channels > LARGEST_LISTENED:
        return None
    listener = _Listener(channels)
    try:
        with torch.no_grad():
            task.validation_loss(listener.eval(), "cpu")
    except Exception:  # it asks for what only a real model has
        return None
    return listener.sizes
