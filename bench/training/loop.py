"""One training, from step 0 or from its last checkpoint to the last step, through Lightning.

The engine keeps the step counter, the schedule and the checkpoints itself: a Lightning checkpoint
holds no random state and a resumed run starts at the first batch again. Here batch, dropout and
learning rate of step n are functions of (seed, n), so going on needs model, optimiser and n alone.
"""

from __future__ import annotations

import copy
import io
import logging
import math
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from bench.config.settings import TrainingSettings
from bench.training.compiled import compiled, compiler_in_sentences, refuse_many_shapes
from bench.training.numerics import set_numerics
from bench.training.optimisation import build_optimizer, learning_rate_at, set_learning_rate
from bench.training.parallel import Ranks, leading
from bench.training.seeding import evaluation_seed, seed_generators
from bench.training.trainer import LightningEnvironment, LightningModule, SIGTERMException, Trainer
from bench.training.training import (
    Stopped,
    TrainingDiverged,
    TrainingReport,
    total_steps,
    training_loss_of,
    validating,
)
from core.amounts import amount
from core.errors import RUN_FAILED, UserError
from core.files import read_sealed, write_sealed
from core.processes import stops_taken
from core.progress import Report, silent
from core.seeding import derive_seed
from tasks.interface import Batch, Task

CURVE_POINTS = 200


class StepSeededBatches(IterableDataset[Batch]):
    """The batches of steps start .. stop - 1; nothing is skipped to get to the first."""

    def __init__(self, task: Task, seed: int, size: int, start: int, stop: int) -> None:
        self.task, self.seed, self.size, self.start, self.stop = task, seed, size, start, stop

    def __iter__(self) -> Iterator[Batch]:
        for step in range(self.start, self.stop):
            yield self.task.training_batch(self.seed, step, self.size)


class TrainingModule(LightningModule):
    """Glue between a plain model, a task's loss and Lightning's loop."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        settings: TrainingSettings,
        seed: int,
        checkpoint: Path,
        report: Callable[[int, int], None],
        stop_asked: Callable[[], bool],
        ranks: Ranks,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False  # a step may be several passes
        self.model, self.task, self.settings, self.seed = model, task, settings, seed
        self.checkpoint, self.report_progress, self.stop_asked = checkpoint, report, stop_asked
        self.ranks = ranks
        self.total = total_steps(task, settings)
        self.rate_at = learning_rate_at(settings, self.total)
        self.optimizer = build_optimizer(model, settings)
        self.loss = training_loss_of(task, model, seed, settings.batch_size)
        if settings.compile:
            self.loss = compiled(self.loss, next(model.parameters()).device)
        self.record = TrainingReport()
        self.best: tuple[float, int, dict[str, Tensor]] | None = None
        self.pending: list[Tensor] = []  # losses since the last point of the curve
        self.per_point = max(1, math.ceil(self.total / CURVE_POINTS))
        self.clock = time.perf_counter()
        self.sharing = 1  # trainings that this process makes steps of at once
        if checkpoint.exists():
            self._load()

    @property
    def step(self) -> int:
        """The step that comes next, from 0."""
        return self.record.steps

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.optimizer

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        set_learning_rate(self.optimizer, self.rate_at(self.step))
        seed_generators(self.draw_seed(), self.device)

    def draw_seed(self, part: int = 0) -> int:
        """The seed of whatever the model draws in this step, such as dropout, in one of its
        passes."""
        names = ("dropout", self.ranks.rank, self.step)
        return derive_seed(self.seed, *names, *([part] if part else []))

    def training_step(self, batch: Batch, batch_idx: int) -> None:
        self.optimizer.zero_grad()
        loss = self._backward(batch)
        # Sums, not means: each part was weighed by its share of the targets.
        self.ranks.add_up([loss, *(p.grad for p in self.model.parameters() if p.grad is not None)])
        self.pending.append(loss)
        # After the sum: the norm is that of the whole batch.
        if self.settings.gradient_clip:
            self.clip_gradients(
                self.optimizer,
                gradient_clip_val=self.settings.gradient_clip,
                gradient_clip_algorithm="norm",
            )
        optimizer = self.optimizers()
        assert not isinstance(optimizer, list)
        optimizer.step()

    def _backward(self, batch: Batch) -> Tensor:
        """Gradients of the loss over this process's part of the batch, in passes of
        ``micro_batch_size``; and that loss.

        Each pass counts by its share of the targets of the whole batch, so that the sum over
        passes and processes is the mean over the batch.
        """
        share = batch.rows(*self.ranks.share(len(batch.inputs)))
        if not len(share.inputs):  # the last batch of an epoch may have fewer sequences than ranks
            for parameter in self.model.parameters():
                # Every process takes part in every sum, also with nothing to add.
                parameter.grad = torch.zeros_like(parameter)
            return torch.zeros((), device=share.inputs.device)
        size = self.settings.micro_batch_size or len(share.inputs)
        if size >= len(batch.inputs) and self.ranks.size == 1:
            loss = self.loss(self.model, batch)
            self.manual_backward(loss)
            return loss.detach()
        parts = []
        for number, part in enumerate(share.split(size)):
            if number:
                seed_generators(self.draw_seed(number), share.inputs.device)
            loss = self.loss(self.model, part) * (part.asked / batch.asked)
            self.manual_backward(loss)
            parts.append(loss.detach())
        return torch.stack(parts).sum()

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        record = self.record
        record.steps += 1
        record.tokens += batch.tokens
        record.padded_positions += batch.inputs.shape[0] * batch.inputs.shape[1]
        if self.ranks.rank:
            self.pending.clear()
            return
        last = self.step == self.total
        if len(self.pending) >= self.per_point or last:
            self._add_curve_point()
        interval = self.settings.validate_every
        if last or (interval is not None and self.step % interval == 0):
            self._validate()
        stop = self.stop_asked()
        if last or self.step % self.settings.checkpoint_every == 0 or stop:
            self.save()
        self.report_progress(self.step, self.total)
        if stop and not last:
            raise Stopped

    def _add_curve_point(self) -> None:
        loss = float(torch.stack(self.pending).mean())
        self.pending.clear()
        self._go_on_if_finite("training", loss)
        self.record.loss_steps.append(self.step)
        self.record.losses.append(loss)

    def _validate(self) -> None:
        # As for the evaluation at the end: a model that draws in eval mode has one and the same
        # loss as the curve's last point and as the metric. The next step seeds its own draws.
        seed_generators(evaluation_seed(self.seed, "validation"), self.device)
        with validating(self.model):
            loss = self.task.validation_loss(self.model, self.device)
        self._go_on_if_finite("validation", loss)
        self.record.validation_steps.append(self.step)
        self.record.validation_losses.append(loss)
        keep = self.settings.select == "best_validation"
        if keep and (self.best is None or loss < self.best[0]):
            # A copy: later steps change weights in place.
            weights = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
            self.best = (loss, self.step, weights)

    def _go_on_if_finite(self, split: str, loss: float) -> None:
        """End a training whose loss is no number, with the time that it took until now."""
        if math.isfinite(loss):
            return
        self.count_seconds()
        raise TrainingDiverged(f"the {split} loss was {loss} at step {self.step}", self.record)

    def save(self) -> None:
        """Write everything that going on needs, atomically and sealed."""
        self.count_seconds()
        content = io.BytesIO()
        state = {
            "model": _without_neighbours(self.model.state_dict()),
            "optimizer": _without_neighbours(self.optimizer.state_dict()),
            "report": vars(self.record),
            "pending": [float(loss) for loss in self.pending],
            "best": self.best,
        }
        torch.save(state, content)
        write_sealed(self.checkpoint, content.getbuffer())

    def count_seconds(self) -> None:
        """Add this training's share of the time since the last call to its report."""
        now = time.perf_counter()
        self.record.seconds += (now - self.clock) / self.sharing
        self.clock = now

    def _load(self) -> None:
        device = next(self.model.parameters()).device
        try:
            content = io.BytesIO(read_sealed(self.checkpoint))
            # Numbers alone: nothing that a file holds is run.
            state = torch.load(content, map_location=device, weights_only=True)
        except (RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError):
            if not self.ranks.rank:
                print(
                    f"note: the checkpoint {self.checkpoint} is damaged, or of an earlier version: "
                    "the training starts again from its first step, to the same weights",
                    file=sys.stderr,
                )
            return
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.record = TypeAdapter(TrainingReport).validate_python(state["report"])
            self.pending = [torch.tensor(loss, device=device) for loss in state["pending"]]
            self.best = None if state["best"] is None else tuple(state["best"])
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            raise UserError(
                f"the checkpoint {self.checkpoint} is of another training: delete it", RUN_FAILED
            ) from None

    def selected_weights(self) -> dict[str, Tensor]:
        """The weights that the settings select: the last, or the best on validation."""
        return self.best[2] if self.best is not None else self.model.state_dict()


def _without_neighbours(state: Any) -> Any:
    """The same tree of tensors; one that is a part of another has memory of its own, because
    ``torch.save`` writes all of it."""
    if isinstance(state, Tensor):
        is_whole = state.untyped_storage().nbytes() == state.numel() * state.element_size()
        return state if is_whole else state.clone()
    if isinstance(state, dict):
        return {key: _without_neighbours(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_without_neighbours(value) for value in state]
    return state


def fit(
    model: nn.Module,
    task: Task,
    settings: TrainingSettings,
    *,
    seed: int,
    device: torch.device,
    checkpoint: Path,
    description: str = "training",
    report: Report = silent,
) -> TrainingReport:
    """Train ``model`` in place and leave the selected weights in it.

    Goes on from ``checkpoint`` if it is there and whole, and writes it every
    ``settings.checkpoint_every`` steps and at the end.

    Raises:
        TrainingDiverged: a loss is not finite.
        Stopped: SIGINT or one of STOPS came; the checkpoint is at the step reached.
        torch.OutOfMemoryError: the device has too little memory.
    """
    usable = torch.cuda.device_count() if device.type == "cuda" else settings.batch_size
    most = min(usable, settings.batch_size)
    if settings.devices > most:
        raise UserError(
            f"training.devices={settings.devices} cannot share this training, of batches of "
            f"{amount(settings.batch_size, 'sequence')}: {amount(most, 'device')} here can at "
            "most; lower it"
        )
    shared = (model, task, settings, seed, checkpoint)
    with (
        stop_on_signal() as stop_asked,
        leading(settings.devices, device, _follow, *shared) as ranks,
    ):
        show = partial(report, description)
        model.to(device).train()
        module = TrainingModule(*shared, show, stop_asked, ranks)
        _make_steps(module, device)
    model.load_state_dict(module.selected_weights())
    model.eval()
    return module.record


def _follow(
    ranks: Ranks,
    device: torch.device,
    model: nn.Module,
    task: Task,
    settings: TrainingSettings,
    seed: int,
    checkpoint: Path,
) -> None:
    """The part of another process in a training."""
    set_numerics(settings.threads)
    replica = copy.deepcopy(model)  # what PyTorch pickles shares its memory with the leader's
    shared = (replica.to(device).train(), task, settings, seed, checkpoint)
    _make_steps(TrainingModule(*shared, lambda done, total: None, lambda: False, ranks), device)


def _make_steps(module: TrainingModule, device: torch.device) -> None:
    if module.step == module.total:
        return
    size = module.settings.batch_size
    batches = StepSeededBatches(module.task, module.seed, size, module.step, module.total)
    if module.settings.compile:
        refuse_many_shapes(batches, module.settings.micro_batch_size)
    trainer = trainer_of(module.settings, device, module.total - module.step)
    module.clock = time.perf_counter()
    try:
        with compiler_in_sentences():
            trainer.fit(module, DataLoader(batches, batch_size=None))
    except SIGTERMException:  # Lightning looks too, after the hook in which we do
        if not module.ranks.rank:
            module.save()
        raise Stopped from None


def trainer_of(settings: TrainingSettings, device: torch.device, steps: int) -> Trainer:
    """Lightning's loop of so many steps, without anything of its own that the engine has."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # One process makes the batches on purpose: they are ready in microseconds to milliseconds.
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*GPU available but not used.*")
    warnings.filterwarnings("ignore", category=FutureWarning, module="lightning")
    return Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=[device.index] if device.index is not None else 1,
        # Or Lightning asks SLURM and MPI whether it is one of several processes, and where mpi4py
        # is installed that may start MPI, or wait for it. Ours are started by the engine.
        plugins=[LightningEnvironment()],
        precision="bf16-mixed" if settings.precision == "bfloat16" else "32-true",
        max_steps=steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        barebones=False,
        num_sanity_val_steps=0,
    )


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C and what else ends a job into a question that the loop asks after each step."""
    stop_requested = False

    def remember(signum: int, frame: Any) -> None:
        nonlocal stop_requested
        if stop_requested and signum == signal.SIGINT:
            raise Stopped  # the second Ctrl-C does not wait for the step to end
        stop_requested = True

    try:
        before = {s: signal.signal(s, remember) for s in (signal.SIGINT, *stops_taken())}
    except ValueError:  # not the main thread: whoever owns it handles signals
        yield lambda: False
        return
    try:
        yield lambda: stop_requested
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
