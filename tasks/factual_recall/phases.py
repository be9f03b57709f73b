"""Facts learned one step after another: first which answers a relation has, then the facts."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from tasks.factual_recall.facts import Facts

LR = 0.1
CHECK_EVERY = 16
CURVES = ("loss", "relation_loss", "choice_loss", "accuracy", "relation_accuracy")


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
    """Plain SGD of step 0.1; what is logged on the batch of every 16th step, before it.

    Returns:
        "step" and, at each: "loss", the cross-entropy in nats; "relation_loss", minus the log of
        the probability of all answers of the relation; "choice_loss", the same for all answers
        with the right number within their relation; "accuracy"; and "relation_accuracy", whether
        the most probable answer is one of the relation's.
    """
    device = next(model.parameters()).device
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    logged: dict[str, list[float]] = {name: [] for name in ("step", *CURVES)}
    for step in range(steps + 1):
        counts, subject, relation = (x.to(device) for x in facts.sequences(batch_size, generator))
        labels = facts.answers.to(device)[subject, relation]
        logits = model(counts, facts.end)
        loss = F.cross_entropy(logits, labels)
        if step % CHECK_EVERY == 0 or step == steps:
            with torch.no_grad():
                blocks = logits.log_softmax(-1).unflatten(1, (facts.relations, facts.choices))
                rows = torch.arange(batch_size, device=device)
                best = logits.argmax(-1)
                of_relation = -blocks.logsumexp(2)[rows, relation].mean()
                of_choice = -blocks.logsumexp(1)[rows, labels % facts.choices].mean()
                hits = (best == labels).double().mean()
                near = (best // facts.choices == relation).double().mean()
            found = (float(step), loss, of_relation, of_choice, hits, near)
            for name, value in zip(logged, found, strict=True):
                logged[name].append(float(value))
            if step % (64 * CHECK_EVERY) == 0:
                report(step)
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return logged


def plateau(logged: dict[str, list[float]], choices: int) -> tuple[float, float]:
    """The longest stretch in which the relation is known (more than 0.99) and the fact is not (less
    than 0.2): its length in steps, and how far the median loss in it is from ln ``choices``."""
    longest: list[int] = []
    current: list[int] = []
    known = zip(logged["relation_accuracy"], logged["accuracy"], strict=True)
    for place, (relation, fact) in enumerate(known):
        current = [*current, place] if relation > 0.99 and fact < 0.2 else []
        longest = max(longest, current, key=len)
    if not longest:
        return 0.0, math.log(choices)
    steps = logged["step"][longest[-1]] - logged["step"][longest[0]]
    losses = sorted(logged["loss"][place] for place in longest)
    return steps, abs(losses[len(losses) // 2] - math.log(choices))
