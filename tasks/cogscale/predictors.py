"""Answers of CogScale's tasks that need no training: shortcuts, and the best causal answer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tasks.cogscale.package import Sequences, parameters

PATTERNS = ("discrete_pattern_completion", "continuous_pattern_completion")
BLANK = -1.0  # a masked number of the continuous patterns


def shortcuts(task_name: str) -> dict[str, Callable[[Sequences], Tensor]]:
    """Simple rules that answer some of a task, by label; each maps sequences to answers (count,
    time, outputs), as large as a model's where one is right."""
    if task_name == "bracket_matching":
        return {"equal counts": _equal_counts}
    if task_name == "associative_recall":
        return {"latest occurrence": _latest_occurrence}
    return {}


def causal_oracle(task_name: str, difficulty: str, sequences: Sequences) -> Tensor:
    """The answers of whoever knows the rule of a task and has read up to the position that asks:
    the targets, but for a masked element of a pattern that no earlier position has shown.
    """
    if task_name not in PATTERNS:
        return sequences.targets
    period = parameters(task_name, difficulty)["base_length"]
    answers = torch.zeros_like(sequences.targets)
    if task_name == "continuous_pattern_completion":
        answers += 0.5  # the mean of a number from 0 to 1
        values, is_shown = sequences.inputs, sequences.inputs[..., 0] != BLANK
    else:
        # All symbols are as likely: the first is as good as any.
        answers[..., 0] = 0.5
        values, is_shown = sequences.inputs[..., :-1], sequences.inputs[..., -1] == 0
    time = sequences.inputs.shape[1]
    for position in range(time):
        for earlier in range(position % period, position, period):
            rows = is_shown[:, earlier]
            answers[rows, position] = values[rows, earlier]
    return answers


def _equal_counts(sequences: Sequences) -> Tensor:
    """A sequence is valid where it has as many closing as opening brackets."""
    opening, closing = sequences.inputs[..., 0].cumsum(1), sequences.inputs[..., 1].cumsum(1)
    equal = (opening == closing).float()
    return torch.stack((1 - equal, equal), -1)


def _latest_occurrence(sequences: Sequences) -> Tensor:
    """What followed the key where it stood last: an induction head's answer."""
    answers = torch.zeros_like(sequences.targets)
    tokens = sequences.inputs.argmax(-1)
    for row, key in enumerate(tokens[:, -1].tolist()):
        earlier = (tokens[row, :-1] == key).nonzero()[-1].item()
        answers[row, -1, tokens[row, int(earlier) + 1]] = 1
    return answers
