"""One pass over a stream by SGD or by Adam without memory, all trials at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.associative.embedded import EmbeddedMemory

OPTIMISERS = ("sgd", "adam")


def make_optimiser(model: EmbeddedMemory, name: str, lr: float) -> torch.optim.Optimizer:
    """SGD without momentum; or Adam with both betas 0, whose steps are signs times ``lr`` and the
    scales of the model."""
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=lr)
    groups = [{"params": [p], "lr": lr * scale} for p, scale in model.step_scales()]
    # Floats: PyTorch refuses betas of integers. Without memory a step is g/|g|, the sign.
    return torch.optim.Adam(groups, betas=(0.0, 0.0))


def cross_entropy(scores: Tensor, classes: Tensor) -> Tensor:
    """Sum over trials of the mean over items, so that no trial feels the others.

    Args:
        scores: (trials, items, classes).
        classes: int64 (trials, items).
    """
    items = scores.shape[1]
    return (
        functional.cross_entropy(scores.flatten(0, 1), classes.flatten(), reduction="sum") / items
    )


def train(
    model: nn.Module,
    tokens: Tensor,
    classes: Tensor,
    optimiser: str,
    lr: float,
    batch: int,
    after_step: Callable[[], None],
) -> None:
    """One step for each batch of consecutive samples.

    Args:
        model: an ``EmbeddedMemory`` with as many trials as there are streams.
        tokens: int64 (trials, samples).
        classes: int64 (trials, samples), what is to be predicted.
        batch: divides the number of samples.
        after_step: is called after every step.
    """
    steps = make_optimiser(cast(EmbeddedMemory, model), optimiser, lr)
    for inputs, targets in zip(tokens.split(batch, 1), classes.split(batch, 1), strict=True):
        steps.zero_grad()
        cross_entropy(model(inputs), targets).backward()
        steps.step()
        after_step()
