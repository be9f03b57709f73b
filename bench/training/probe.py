"""Three forward passes before any training: a model of the wrong shape, one that gives no answer
twice, or one that sees the future, gets no result. Conformance tests say more, but do not reach
models of other packages."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bench.training.unfit import UnfitModel
from tasks.interface import Batch, Task

# Relative to the largest output. A transform that mixes positions (FFT) moves the past by 1e-6.
TOLERANCE = 1e-3


def probe(model: nn.Module, task: Task, batch: Batch) -> None:
    """Check shape, repetition and causality of ``model`` on two sequences of a training batch.

    Raises:
        UnfitModel: the outputs have another shape, are others for the same inputs, or change before
            the inputs do.
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
        repeated = model(inputs)  # first: what differs by itself says nothing of the future
        half = inputs.shape[1] // 2
        disturbed, vocabulary = inputs.clone(), task.specification().vocabulary
        disturbed[:, half:] += 1
        if vocabulary is not None:
            disturbed[:, half:] %= vocabulary
        past, again = outputs[:, :half], model(disturbed)[:, :half]
    model.train(training)
    size = float(outputs.abs().max())
    if float((outputs - repeated).abs().max()) > TOLERANCE * size:
        raise UnfitModel(
            "the model in eval mode gives other outputs when it is given the same inputs again: "
            "either it draws at random (such as dropout without training=self.training), or it "
            "keeps something from one call to the next; outputs may depend on inputs and weights "
            "only"
        )
    if half and float((past - again).abs().max()) > TOLERANCE * size:
        raise UnfitModel(
            f"the model sees the future: other inputs from position {half} on change its outputs "
            "before that position; outputs at t may depend on inputs at positions <= t only"
        )
