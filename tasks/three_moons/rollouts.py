"""Autoregressive predictions after every context length: of models and of the two astronomers.

A rollout maps sequences (batch, time, channels) and context lengths n to predictions (batch,
contexts, steps, channels), entry j being the prediction of sample n + j from the first n samples.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Rollout = Callable[[Tensor, Tensor, int], Tensor]

ROLLOUT_RULES = ("frozen", "write_back", "official")
"""What memory units may store while they generate; the models that have them say what each is."""

CHUNK = 16
"""Sequences in one pass of a batched rollout; bounds its memory, changes no result."""


def model_rollout(model: Any, rule: str) -> Rollout:
    """The rollout of a model: its own ``rollout(inputs, contexts, steps, rule)`` where it has one,
    else predictions fed back through ``step``, whatever the rule."""

    def rollout(sequences: Tensor, contexts: Tensor, steps: int) -> Tensor:
        observed = sequences[:, : int(contexts.max())]
        if not hasattr(model, "rollout"):
            return stepwise_rollout(model, observed, contexts, steps)
        parts = [model.rollout(part, contexts, steps, rule) for part in observed.split(CHUNK)]
        return torch.cat(parts)

    return rollout


def stepwise_rollout(model: Any, inputs: Tensor, contexts: Tensor, steps: int) -> Tensor:
    """Feeds predictions back through ``model.step``, from a fork of the state at every context.

    The prefix is read once; a full forward for each context would read it again every time.
    """
    places = {length: place for place, length in enumerate(contexts.tolist())}
    predictions = inputs.new_empty(len(inputs), len(contexts), steps, inputs.shape[-1])
    state = None
    for length in range(1, max(places) + 1):
        sample, state = model.step(inputs[:, length - 1], state)
        if length not in places:
            continue
        # A model may write its cache in place, so that a fork needs one of its own.
        fork = copy.deepcopy(state)
        predictions[:, places[length], 0] = sample
        for ahead in range(1, steps):
            sample, fork = model.step(sample, fork)
            predictions[:, places[length], ahead] = sample
    return predictions


def deviation(predictions: Tensor, sequences: Tensor, contexts: Tensor) -> Tensor:
    """Mean absolute deviation of a rollout from the samples that follow.

    Args:
        predictions: (batch, contexts, steps, channels).
        sequences: (batch, time, channels), at least steps samples longer than every context.
        contexts: int64 (contexts,).

    Returns:
        (batch, contexts, moons): the mean over steps and over the two channels of each moon.
    """
    parts = [
        (predicted - oracle(followed, contexts, predictions.shape[2])).abs().mean(dim=2)
        for predicted, followed in zip(
            predictions.split(CHUNK), sequences.split(CHUNK), strict=True
        )
    ]
    # Two channels for each moon: sine and cosine.
    return torch.cat(parts).unflatten(-1, (-1, 2)).mean(dim=-1)


def repeat_last(sequences: Tensor, contexts: Tensor, steps: int) -> Tensor:
    """The last observation, for ever."""
    return sequences[:, contexts - 1, None].expand(-1, -1, steps, -1)


def oracle(sequences: Tensor, contexts: Tensor, steps: int) -> Tensor:
    """What really follows."""
    return sequences[:, contexts[:, None] + torch.arange(steps, device=contexts.device)]


def table_of_all_moons(sequences: Tensor, contexts: Tensor, steps: int) -> Tensor:
    """The first astronomer (section 5): match all moons at once with an earlier record."""
    return _table(sequences, contexts, steps, groups=1)


def table_per_moon(sequences: Tensor, contexts: Tensor, steps: int) -> Tensor:
    """The second astronomer (section 5): match each moon with an earlier record of its own."""
    return _table(sequences, contexts, steps, groups=sequences.shape[-1] // 2)


def _table(sequences: Tensor, contexts: Tensor, steps: int, groups: int) -> Tensor:
    """Nearest earlier record, the β → ∞ limit of identity weights with a frozen memory.

    Let s be the record nearest to the last sample t. The prediction of t + 1 is s + 1, the record
    nearest to that is s + 1 itself, and so on up to t, whose match is s again. A table that is not
    extended therefore repeats the t - s samples after the match.
    """
    return torch.cat([_match(part, contexts, steps, groups) for part in sequences.split(CHUNK)])


def _match(sequences: Tensor, contexts: Tensor, steps: int, groups: int) -> Tensor:
    records = sequences.unflatten(-1, (groups, -1)).transpose(1, 2)
    last = contexts - 1
    # All records have the same norm, so that the nearest one has the largest product.
    closeness = records[:, :, last] @ records.mT
    later = torch.arange(records.shape[2], device=last.device) >= last[:, None]
    nearest = closeness.masked_fill(later, -torch.inf).argmax(dim=-1)
    # Without any record the last sample is repeated.
    nearest = torch.where(last > 0, nearest, -1)
    ahead = torch.arange(steps, device=last.device)
    follow = nearest[..., None] + 1 + ahead % (last[:, None] - nearest[..., None])
    continuations = records.gather(
        2, follow.flatten(2)[..., None].expand(-1, -1, -1, records.shape[-1])
    )
    return continuations.unflatten(2, (len(contexts), steps)).permute(0, 2, 3, 1, 4).flatten(3)
