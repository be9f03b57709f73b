"""Steps on one matrix from given shares of the tokens, and what they would do to each weight."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from models.associative.embedded import EmbeddedMemory

Rule = Callable[[Tensor], Tensor]
# What is subtracted from W, of a gradient (trials, d, d): all with the same learning rate.
RULES: dict[str, Rule] = {
    "sgd": lambda gradient: gradient,
    "sign": torch.sign,
    "normalised": lambda gradient: functional.normalize(gradient.flatten(1), dim=1).view_as(
        gradient
    ),
}


class Walk(NamedTuple):
    """Steps at which was looked, and what was found there, on the CPU.

    Attributes:
        steps: number of steps taken.
        errors: float64 (looks, trials), probability of the tokens that are answered wrongly.
        losses: float64 (looks, trials), cross-entropy over the population, in nats.
    """

    steps: list[int]
    errors: Tensor
    losses: Tensor


def walk(
    model: EmbeddedMemory,
    classes: Tensor,
    probabilities: Tensor,
    shares: Iterable[Tensor],
    lr: float,
    rule: str,
    looks: Collection[int],
) -> Walk:
    """One step for each batch.

    Args:
        model: scores (trials, tokens, classes); one matrix is trained.
        classes: int64 (tokens,); on the model's device, as the other tensors.
        probabilities: (tokens,), the population.
        shares: of each batch, (trials, tokens) or (tokens,), how much of it is each token.
        lr: step size.
        rule: a name in ``RULES``.
        looks: numbers of steps after which errors are wanted.
    """
    (weight,) = model.parameters()
    trials = len(weight)
    tokens = torch.arange(len(classes), device=classes.device).expand(trials, -1)
    targets = classes.expand(trials, -1)
    steps: list[int] = []
    errors, losses = [], []

    def look(done: int) -> None:
        if done not in looks:
            return
        with torch.no_grad():
            scores = model(tokens)
            # In double: rare tokens are a small share of the error.
            wrong = (scores.argmax(-1) != targets).double()
            token_losses = functional.cross_entropy(scores.mT, targets, reduction="none")
        steps.append(done)
        errors.append((wrong @ probabilities.double()).cpu())
        losses.append((token_losses.double() @ probabilities.double()).cpu())

    look(0)
    for done, share in enumerate(shares, start=1):
        token_losses = functional.cross_entropy(model(tokens).mT, targets, reduction="none")
        (gradient,) = torch.autograd.grad((token_losses * share).sum(), [weight])
        with torch.no_grad():
            weight.sub_(lr * RULES[rule](gradient))
        look(done)
    return Walk(steps, torch.stack(errors), torch.stack(losses))


def approximate_weights(shares: Iterable[Tensor], lr: float, classes: int) -> Tensor:
    """q after each step, where every token is stored as if it were alone: with one score q against
    classes - 1 scores of 0, the softmax leaves a doubt of 1 / (1 + e^q / (classes - 1)).

    Args:
        shares: of each batch, (trials, tokens).

    Returns:
        (steps + 1, trials, tokens), from 0 on.
    """
    weights: list[Tensor] = []
    for share in shares:
        before = weights[-1] if weights else torch.zeros_like(share)
        if not weights:
            weights.append(before)
        # One step of q for a token alone: lr · share · (1 − p).
        weights.append(before + lr * share / (1 + before.exp() / (classes - 1)))
    return torch.stack(weights)


def stored(weights: Tensor, embedding: Tensor, readout: Tensor, classes: Tensor) -> Tensor:
    """Scores of W = Σ_z q(z) u_z v_f(z)^T.

    Args:
        weights: q, (trials, tokens).
        embedding: (trials, tokens, d).
        readout: (trials, d, classes).
        classes: int64 (tokens,), f.

    Returns:
        (trials, tokens, classes).
    """
    matrix = (embedding.mT * weights[:, None]) @ readout[..., classes].mT
    return embedding @ matrix @ readout
