"""How the loss of a training batch is computed: as the task does, or from one call of the model.

A task may call a model several times for one loss, so that padding is not computed (RegBench on a
CPU). The loss is the same, unless a call changes the model: one that draws its random projections
anew, limits its weights, iterates a norm or moves a codebook would do so several times in a step,
and PyTorch refuses gradients through numbers that a later call has written over.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from bench.records.code import is_own
from bench.training.compiled import Loss
from bench.training.saved_tensors import SavedTensors
from bench.training.seeding import kept_random_state
from tasks.interface import Batch, Task


def training_loss_of(task: Task, model: nn.Module, seed: int, size: int) -> Loss:
    """The loss of ``model`` on batches of ``task``, a function of both.

    Args:
        model: in training mode. It may be called, and is afterwards as it was.
        seed, size: of the batches of its training, the first of which may be made.

    Returns:
        ``task.training_loss``. Where that calls the model, once or several times as lengths differ
        in a batch, and a call changes parameters or buffers of the model, ``task.loss`` of the
        outputs of one call instead.
    """
    method = type(task).training_loss
    # What a task of somebody else does with several calls may be no way to save padding; models of
    # this project change nothing when they are called.
    saves_padding = method is not Task.training_loss and is_own(method.__module__)
    if not saves_padding or is_own(type(model).__module__):
        return task.training_loss
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    batch = task.training_batch(seed, 0, size).to(device)
    if _changed_by_calls(model, task, batch):
        return partial(Task.training_loss, task)
    return task.training_loss


def _changed_by_calls(model: nn.Module, task: Task, batch: Batch) -> bool:
    """Whether the model is another one after a loss for which ``forward`` was called; ``hidden``,
    which saves the scores of a large vocabulary, is called once for a batch."""
    calls = 0

    def count(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        nonlocal calls
        calls += 1

    saved = SavedTensors(model)
    hook = model.register_forward_pre_hook(count)
    try:
        with kept_random_state(batch.inputs.device):
            task.training_loss(model, batch)
        return calls > 0 and bool(saved.changed())
    finally:
        hook.remove()
        saved.restore()
