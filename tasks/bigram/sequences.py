"""Sequences of ordinary bigrams in which some tokens, the triggers, have one output each.

Source: Bietti et al., "Birth of a Transformer" (2023, arXiv 2306.00802), section 3: z_1 ~ π_u, then
z_{t+1} = o_k after a trigger z_t = q_k, and z_{t+1} ~ π_b(· | z_t) after any other token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tasks.bigram.table import Floats, Integers, Table

Triggers = Literal["fixed", "random"]
Outputs = Literal["uniform", "bigram"]


@dataclass(frozen=True)
class Sequences:
    """Sequences with what a predictor must find out.

    Attributes:
        tokens: int64 (sequences, time + 1); inputs are all but the last, targets all but the first.
        triggers: int64 (sequences, number), different within a sequence.
        outputs: int64 (sequences, number), what follows each trigger.
    """

    tokens: Integers
    triggers: Integers
    outputs: Integers

    @property
    def inputs(self) -> Integers:
        """int64 (sequences, time)"""
        return self.tokens[:, :-1]

    @property
    def targets(self) -> Integers:
        """int64 (sequences, time)"""
        return self.tokens[:, 1:]

    def occurrences(self) -> Integers:
        """c_t, (sequences, time): how often the trigger at t has occurred up to t; 0 where the
        input is no trigger. The target is known from the past where c_t is 2 or more."""
        occurrences = np.zeros(self.inputs.shape, dtype=np.int64)
        for trigger in self.triggers.T:
            hits = self.inputs == trigger[:, None]
            # The number of hits so far, where there is one.
            occurrences += hits * np.cumsum(hits, axis=1)
        return occurrences

    def rows(self, start: int, stop: int) -> Sequences:
        """The sequences from ``start`` up to ``stop``."""
        return Sequences(
            self.tokens[start:stop], self.triggers[start:stop], self.outputs[start:stop]
        )


class Sampler:
    """Draws sequences; everything that does not change between draws is made once.

    Args:
        table: of the ordinary bigrams.
        length: inputs of a sequence.
        number: triggers of a sequence, K.
        triggers: "fixed": the most frequent tokens; "random": drawn from π_u without replacement.
        skipped: most frequent tokens that are left out of the fixed triggers.
        outputs: "uniform" over the vocabulary, or "bigram": o_k ~ π_b(· | q_k).
        no_repeat: an output is never its own trigger, which would be repeated for ever.

    Raises:
        ValueError: fewer tokens than triggers, or a trigger that nothing but itself follows.
    """

    def __init__(
        self,
        table: Table,
        *,
        length: int,
        number: int,
        triggers: Triggers,
        skipped: int,
        outputs: Outputs,
        no_repeat: bool,
    ) -> None:
        self.table, self.length, self.number, self.triggers = table, length, number, triggers
        # A stable sort: equal counts in the order of tokens, on every machine.
        frequent = np.argsort(-table.unigrams, kind="stable")[: int((table.unigrams > 0).sum())]
        enough = len(frequent) - (skipped if triggers == "fixed" else 0)
        if enough < number:
            raise ValueError(
                f"number_of_triggers={number}, but only {enough} tokens can be triggers: ask for "
                "fewer triggers"
            )
        self.fixed = frequent[skipped : skipped + number]
        of_output = (
            np.ones((table.vocabulary, table.vocabulary)) if outputs == "uniform" else table.of_next
        )
        # Row: the trigger. An output may be its own trigger in the released code.
        if no_repeat:
            of_output = of_output * (1 - np.eye(table.vocabulary))
        if not of_output.any(1).all():
            raise ValueError(
                "no_repeat=true leaves no output to a token that is only followed by itself: use "
                "outputs=uniform or another table"
            )
        self.of_output: Floats = of_output / of_output.sum(1, keepdims=True)
        self._first = _Inverse(table.of_token[None])
        self._next = _Inverse(table.of_next)
        self._output = _Inverse(self.of_output)

    def draw(self, generator: np.random.Generator, count: int) -> Sequences:
        """``count`` sequences, all positions of a time step at once."""
        if self.triggers == "fixed":
            triggers = np.broadcast_to(self.fixed, (count, self.number))
        else:
            # The K smallest of E_i / π_i with exponential E_i are a draw without replacement.
            waits = generator.standard_exponential((count, self.table.vocabulary))
            with np.errstate(divide="ignore"):
                waits = waits / self.table.of_token
            triggers = np.argsort(waits, axis=1, kind="stable")[:, : self.number]
        outputs = self._output(triggers, generator.random((count, self.number)))
        # Flat look-up table: what must follow each token of each sequence, −1 for what is free.
        forced = np.full((count, self.table.vocabulary), -1)
        forced[np.arange(count)[:, None], triggers] = outputs
        forced_flat, starts = forced.ravel(), np.arange(count) * self.table.vocabulary
        # All uniform numbers beforehand: the draw is the same whichever branch a position takes.
        uniform = generator.random((self.length + 1, count))
        tokens = np.empty((self.length + 1, count), dtype=np.int64)
        tokens[0] = self._first(np.zeros(count, dtype=np.int64), uniform[0])
        for t in range(self.length):
            follows = forced_flat[starts + tokens[t]]
            free = self._next(tokens[t], uniform[t + 1])
            tokens[t + 1] = np.where(follows < 0, free, follows)
        return Sequences(np.ascontiguousarray(tokens.T), triggers, outputs)


class _Inverse:
    """Draws from the rows of a matrix of probabilities by one search in their joined sums."""

    def __init__(self, probabilities: Floats) -> None:
        sums = probabilities.cumsum(1)
        rows = np.arange(len(sums))[:, None]
        # Row r occupies (r, r + 1], so that one sorted search serves all rows.
        self.joined = (sums / sums[:, -1:] + rows).ravel()
        self.width = sums.shape[1]

    def __call__(self, rows: NDArray[np.int64], uniform: Floats) -> Integers:
        # Below 1 by more than a sum with a row number could lose.
        indices = np.searchsorted(self.joined, rows + np.minimum(uniform, 1 - 2**-32), side="right")
        return indices - rows * self.width
