"""Whether sequences that a task of somebody else measures by also lie in its training.

Tasks of few sequences, such as the parity of four bits, show the same ones everywhere: two of one
split are then equal about as often as two of different splits. Draws that only seem to be apart,
such as those of a generator that is seeded with one of a few numbers, give a split without equals
that lies in the training.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bench.examination.scored import watched_calls
from core.errors import UserError
from core.escaping import terminal
from tasks.interface import Task

STEPS, SIZE = 32, 32  # of the training that are looked at
FEWEST_POSSIBLE = 2.0**20  # sequences, below which a task is one of few sequences
# More equal pairs than independent draws have: 4 standard deviations and 8 are a chance of 1e-4
# where none is expected, and the factor leaves room for sequences of unequal probability.
DEVIATIONS, CHANCE, MARGIN = 4.0, 8.0, 2.0

Sequences = Counter[bytes]  # the content of each -> how many are equal to it


def refuse_shared_sequences(
    task: Task, target: str, seed: int, validation: Sequences, test: Sequences
) -> None:
    """Refuse a task whose splits share more sequences than its draws let expect; print a note where
    they share fewer.

    Args:
        task: that trains.
        target: the class that measures, for the sentence.
        seed: of the training.
        validation, test: what it measures by, as :func:`watched_sequences` has it.

    Raises:
        UserError: they share more.
    """
    batches = [task.training_batch(seed, step, SIZE).inputs.cpu() for step in range(STEPS)]
    counted = [Counter(_rows(batch)) for batch in batches]
    training = sum(counted, Counter[bytes]())
    measured = validation + test
    between = [(training, validation), (training, test), (validation, test)]
    if not any(first.keys() & second.keys() for first, second in between):
        return
    parts = [*counted, validation, test]
    equal_within = sum(n * (n - 1) // 2 for part in parts for n in part.values())
    pairs_within = sum(math.comb(part.total(), 2) for part in parts)
    by_chance = equal_within + DEVIATIONS * math.sqrt(equal_within) + CHANCE
    # Each two by themselves: a test split that is of the training, beside a large validation split
    # that is not, has few equal pairs among all.
    share = MARGIN * by_chance / max(1, pairs_within)
    too_many = [
        _pairs(first, second) > share * first.total() * second.total()
        # One sequence that is likelier than others may give many pairs in small splits.
        and len(first.keys() & second.keys()) > CHANCE
        for first, second in between
    ]
    shared = sum(n for content, n in measured.items() if content in training)
    words = (
        f"{shared:,} of the {measured.total():,} sequences of validation and test are also among "
        f"the first {training.total():,} of the training"
    )
    harm = "scores would measure what was learned by heart"
    if not shared or (too_many[2] and not any(too_many[:2])):
        harm = "a model would be scored by what it was chosen by"
        common = sum(n for content, n in test.items() if content in validation)
        words = f"{common:,} of the {test.total():,} sequences of test are also in validation"
    if not any(too_many) or _possible(batches) < FEWEST_POSSIBLE:
        note = f"note: tasks ({target}): {words}, as in a task of few sequences"
        print(terminal(note), file=sys.stderr)
        return
    raise UserError(
        f"tasks ({target}): {words}, though hardly two within a split are equal: {harm}; draw "
        "each sequence by the generator itself (generator.integers, generator.random), and not by "
        "a few seeds or from a list that the splits share"
    )


@contextmanager
def watched_sequences(model: nn.Module) -> Iterator[Sequences]:
    """The sequences that a model is given in this block, by ``forward`` or by ``hidden``; one that
    calls the other is asked once."""
    sequences, calls = Sequences(), list[Tensor | None]()

    def before(inputs: Tensor | None) -> None:
        if not calls and inputs is not None:
            sequences.update(_rows(inputs.cpu()))
        calls.append(inputs)

    def after(outputs: Any, by_hidden: bool) -> None:
        calls.pop()

    with watched_calls(model, before, after):
        yield sequences


def _rows(inputs: Tensor) -> Iterable[bytes]:
    return (row.numpy().tobytes() for row in inputs.contiguous())


def _pairs(first: Sequences, second: Sequences) -> int:
    return sum(n * second[content] for content, n in first.items() if content in second)


def _possible(batches: list[Tensor]) -> float:
    """How many sequences the values at each position allow, at least; infinity if they are many."""
    length = min(batch.shape[1] for batch in batches)
    together = torch.cat([batch[:, :length] for batch in batches])
    by_position = together.reshape(len(together), length, -1)
    counts = (len(by_position[:, t].unique(dim=0)) for t in range(length))
    return math.exp(min(500.0, sum(map(math.log, counts))))
