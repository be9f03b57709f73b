"""Gradient descent on few tokens, watched at every step; many runs at once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Trajectory(NamedTuple):
    """What descent went through, float64, on the CPU; step 0 is before the first step.

    Attributes:
        losses: (steps + 1, trials), cross-entropy over the population.
        margins: (steps + 1, trials, tokens), score of the right class minus the best wrong one.
    """

    losses: Tensor
    margins: Tensor

    def errors(self, probabilities: Tensor) -> Tensor:
        """(steps + 1, trials): probability of the tokens whose margin is not positive."""
        return ((self.margins <= 0) * probabilities).sum(-1)

    def increases(self) -> Tensor:
        """(trials,) how often the loss rose."""
        return (self.losses[1:] > self.losses[:-1]).sum(0)

    def first_perfect(self) -> list[int | None]:
        """The first step with only positive margins, of each trial."""
        perfect = (self.margins > 0).all(-1)
        return [_first(row) for row in perfect.T]

    def perfect_from(self) -> list[int | None]:
        """The first step from which on all margins stay positive, of each trial."""
        perfect = (self.margins > 0).all(-1)
        # All steps from here on: a cumulative product from the end.
        return [_first(row) for row in perfect.flip(0).cumprod(0).flip(0).bool().T]


def _first(flags: Tensor) -> int | None:
    return int(flags.int().argmax()) if flags.any() else None


def descend(
    model: nn.Module,
    classes: Tensor,
    probabilities: Tensor,
    steps: Tensor,
    sampled: Tensor | None = None,
) -> Trajectory:
    """Plain gradient descent on all parameters.

    Args:
        model: scores (trials, tokens, classes) of int64 tokens (trials, tokens).
        classes: int64 (tokens,).
        probabilities: (tokens,) or (trials, tokens), the population; on the model's device, as the
            other arguments.
        steps: (number of steps, trials), the learning rate of each.
        sampled: (number of steps, trials, tokens), share of each token in a step's batch; without
            it every step sees the population.
    """
    number, trials = steps.shape
    tokens = torch.arange(len(classes), device=classes.device).expand(trials, -1)
    # 0 marks the right class, which is masked below: a margin is against the best other one.
    others = 1 - functional.one_hot(classes, int(classes.max()) + 1)
    parameters = list(model.parameters())
    losses, margins = [], []
    # One look more than steps: before the first and after the last.
    for step in range(number + 1):
        scores = model(tokens)
        right = scores.gather(-1, classes.expand(trials, -1)[..., None])[..., 0]
        token_losses = scores.logsumexp(-1) - right
        with torch.no_grad():
            wrong = scores.masked_fill(others == 0, -torch.inf).amax(-1)
            margins.append((right - wrong).cpu())
            losses.append((token_losses * probabilities).sum(-1).cpu())
        if step == number:
            break
        weights = probabilities if sampled is None else sampled[step]
        gradients = torch.autograd.grad((token_losses * weights).sum(), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                # A learning rate of its own for each trial.
                rate = steps[step].reshape(-1, *[1] * (gradient.ndim - 1))
                parameter.sub_(rate * gradient)
    return Trajectory(torch.stack(losses), torch.stack(margins))
