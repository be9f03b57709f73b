"""Facts learned one step after another: first which answers a relation has, then the facts."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks.factual_recall.facts import Facts

LR = 0.1
CHECK_EVERY = 16
CURVES = (
    "loss",
    "relation_loss",
    "choice_loss",
    "accuracy",
    "relation_accuracy",
    "choice_accuracy",
)


def published_facts() -> Facts:
    """16 subjects, 4 relations of 8 answers, 20 tokens of noise, length 32."""
    return Facts.structured(subjects=16, relations=4, choices=8, noise=20, length=32)


def learn(
    model: nn.Module,
    facts: Facts,
    generator: torch.Generator,
    batch_size: int,
    steps: int,
    report: Callable[[int], None],
) -> dict[str, list[float]]:
    """Plain SGD of step 0.1, looked at every 16 steps on 1024 fresh sequences.

    Returns:
        "step" and, at each: "loss", the cross-entropy in nats; "relation_loss", minus the log of
        the probability of all answers of the relation; "choice_loss", the same for all answers
        with the right number within their relation, which here is a matter of the subject alone;
        "accuracy"; "relation_accuracy", whether the most probable answer is one of the relation's;
        and "choice_accuracy", whether it has the right number.
    """
    device = next(model.parameters()).device
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    logged: dict[str, list[float]] = {name: [] for name in ("step", *CURVES)}
    # Drawn first, so that the test does not depend on how long was trained.
    test = _drawn(facts, 1024, generator, device)
    for step in range(steps + 1):
        # Also after the last step, which no training follows.
        if step % CHECK_EVERY == 0 or step == steps:
            row = (float(step), *_losses(model, facts, *test))
            for name, value in zip(logged, row, strict=True):
                logged[name].append(value)
            if step % (64 * CHECK_EVERY) == 0:
                report(step)
        if step < steps:
            counts, labels, _ = _drawn(facts, batch_size, generator, device)
            optimizer.zero_grad()
            F.cross_entropy(model(counts, facts.end), labels).backward()
            optimizer.step()
    return logged


def _drawn(
    facts: Facts, size: int, generator: torch.Generator, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    counts, subject, relation = facts.sequences(size, generator)
    labels = facts.answers[subject, relation]
    return counts.to(device), labels.to(device), relation.to(device)


@torch.no_grad()
def _losses(
    model: nn.Module, facts: Facts, counts: Tensor, labels: Tensor, relation: Tensor
) -> list[float]:
    logits = model(counts, facts.end)
    # (batch, relations, choices): blocks of answers by relation.
    blocks = logits.log_softmax(-1).unflatten(1, (facts.relations, facts.choices))
    rows = torch.arange(len(labels), device=labels.device)
    best = logits.argmax(-1)
    # Answer a of relation r has the number r · choices + a: the quotient is the relation.
    values = (
        F.cross_entropy(logits, labels),
        # logsumexp over a block: the log-probability that the answer is any of that relation's.
        -blocks.logsumexp(2)[rows, relation].mean(),
        -blocks.logsumexp(1)[rows, labels % facts.choices].mean(),
        (best == labels).double().mean(),
        (best // facts.choices == relation).double().mean(),
        (best % facts.choices == labels % facts.choices).double().mean(),
    )
    return [float(value) for value in values]


def plateau(logged: dict[str, list[float]], choices: int) -> float:
    """Steps of the longest stretch in which the relation is known (accuracy above 0.99), the fact
    is not (below 0.2) and the loss is that of guessing among its answers, ln ``choices`` ± 0.05."""
    longest, start = 0.0, None
    names = ("step", "relation_accuracy", "accuracy", "loss")
    for step, relation, fact, loss in zip(*(logged[name] for name in names), strict=True):
        if relation > 0.99 and fact < 0.2 and abs(loss - math.log(choices)) < 0.05:
            start = step if start is None else start
            longest = max(longest, step - start)
        else:
            start = None
    return longest
