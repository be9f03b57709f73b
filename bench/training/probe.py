"""Two forward passes before any training: a model of the wrong shape, or one that sees the future,
gets no result. Conformance tests say more, but do not reach models of other packages."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench.training.unfit import UnfitModel
from tasks.interface import Batch, Task

# Relative to the largest output. A transform that mixes positions (FFT) moves the past by 1e-6.
TOLERANCE = 1e-3


def probe(model: nn.Module, task: Task, batch: Batch) -> None:
    """Check shape and causality of ``model`` on two sequences of a training batch.

    Raises:
        UnfitModel: the outputs have another shape, or change before the inputs do.
    """
    inputs = batch.inputs[:2]
    wanted = (*inputs.shape[:2], task.specification().output_size)
    training = model.training
    model.eval()
    with torch.no_grad():
        outputs = model(inputs)
        if not isinstance(outputs, Tensor) or tuple(outputs.shape) != wanted:
            got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise UnfitModel(
                f"forward gave {got} for inputs of shape {tuple(inputs.shape)}, but a sequence "
                f"model returns (batch, time, output_size) = {wanted}"
            )
        half = inputs.shape[1] // 2
        disturbed, vocabulary = inputs.clone(), task.specification().vocabulary
        disturbed[:, half:] += 1
        if vocabulary is not None:
            disturbed[:, half:] %= vocabulary
        past, again = outputs[:, :half], model(disturbed)[:, :half]
    model.train(training)
    if half and float((past - again).abs().max()) > TOLERANCE * float(outputs.abs().max()):
        raise UnfitModel(
            f"the model sees the future: other inputs from position {half} on change its outputs "
            "before that position; outputs at t may depend on inputs at positions <= t only"
        )
