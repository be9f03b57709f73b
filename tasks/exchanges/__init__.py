"""Who holds what after exchanges: recall and the tracking of a state in one question.

Source: FactWorld's composition of recall and state, by its idea and not by its protocol: this one
is of this project, and short enough for two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tasks.generated import Array, GeneratedTask
from tasks.interface import IGNORED, Batch, Metric

FILLER, QUESTION, FIRST_NAME = 0, 1, 2
CERTAIN = 30.0  # logit of a predictor that gives one token nearly all probability


class Exchanges(GeneratedTask):
    """Name the object that each person holds in the end.

    A sequence first gives each of ``people`` an object, (name, object); then exchanges of objects
    are written, (name, name); then each person is asked for, (question, name). Names and objects
    are drawn anew for each sequence, whose number of exchanges is one of ``exchanges``, drawn
    evenly. ``accuracy`` is over all questions.

    Example: ``people=3, names=4, exchanges=[2]``, the first training sequence of seed 0: capitals
    are names, small letters objects, and ? asks:

        input   A b C a B c B A A C ? C ? B ? A
        target  . . . . . . . . . . . c . b . a

    Without the exchanges it is recall; with ``fixed`` it is the tracking of a state alone. A model
    must join both: who recalls and tracks nothing is right about those who took part in no
    exchange, and who tracks and recalls nothing guesses among the objects.

    Args:
        people: n, persons of a sequence.
        names: N, of which those of a sequence are drawn; there are as many objects.
        exchanges: numbers of exchanges, of which each sequence has one.
        fixed: everybody's first object follows from the name, so that nothing must be recalled.
        evaluation_sequences: how many sequences validation and test have, each.
        data_seed: seed of all data; the run's seed is mixed into the training batches.

    Raises:
        ValueError: fewer than two people, fewer names than people, or no or a negative number of
            exchanges.
    """

    headline = Metric("accuracy", "maximise")

    def __init__(
        self,
        people: int = 4,
        names: int = 16,
        exchanges: Sequence[int] = (1, 2, 4, 8),
        fixed: bool = False,
        evaluation_sequences: int = 256,
        data_seed: int = 0,
    ) -> None:
        super().__init__(evaluation_sequences, data_seed)
        if people < 2:
            raise ValueError(f"people={people} exchange nothing: give 2 or more")
        if names < people:
            raise ValueError(f"names={names} are fewer than people={people}: give as many or more")
        if not exchanges or min(exchanges) < 0:
            raise ValueError(f"exchanges={list(exchanges)}: give one or more numbers from 0 on")
        self.people, self.names, self.exchanges = people, names, sorted(exchanges)
        self.fixed = fixed
        self.vocabulary: int = FIRST_NAME + 2 * names
        self.length = 4 * people + 2 * self.exchanges[-1]

    def draw(self, generator: np.random.Generator, count: int) -> tuple[Array, ...]:
        """Tokens, with filler before the exchanges, and the objects that are asked for, int64
        (count, time)."""
        names = _distinct(generator, count, self.names, self.people)
        # Drawn anew for each sequence, so that weights alone cannot know who holds what.
        objects = names if self.fixed else _distinct(generator, count, self.names, self.people)
        people, held = FIRST_NAME + names, FIRST_NAME + self.names + objects
        first_pairs = np.stack([people, held], axis=2)
        most, rows = self.exchanges[-1], np.arange(count)
        giver = generator.integers(0, self.people, (count, most))
        # Another person: so many further on, and never as many as there are.
        taker = (giver + generator.integers(1, self.people, (count, most))) % self.people
        written = np.stack([people[rows[:, None], x] for x in (giver, taker)], axis=2)
        # The last of ``most`` places, so that exchanges are always right before the questions.
        takes_place = np.arange(most) >= most - generator.choice(self.exchanges, count)[:, None]
        written[~takes_place] = FILLER
        # One after the other: an exchange moves what an earlier one has brought.
        for step in range(most):
            ready = rows[takes_place[:, step]]
            pair = np.stack([giver[ready, step], taker[ready, step]])
            # Both at once: numpy reads the right side before it writes.
            held[ready, pair] = held[ready, pair[::-1]]
        # In random order, so that the place of a question tells nothing of its answer.
        order = _distinct(generator, count, self.people, self.people)
        questioned = np.take_along_axis(people, order, axis=1)
        questions = np.stack([np.full_like(questioned, QUESTION), questioned], axis=2)
        parts = [part.reshape(count, -1) for part in (first_pairs, written, questions)]
        targets = np.full((count, self.length), IGNORED)
        # The object is asked for at the person's name, as in recall.
        targets[:, self._asked] = np.take_along_axis(held, order, axis=1)
        return np.concatenate(parts, axis=1), targets

    @property
    def _asked(self) -> slice:
        """Where the names stand that are asked for: each second one of the last positions."""
        return slice(self.length - 2 * self.people + 1, self.length, 2)

    def predictors(self) -> Mapping[str, Callable[[Batch], Array]]:
        """Three predictors: one guesses among the objects of the sequence, one recalls and tracks
        nothing, and one does both."""
        return {
            "uniform over seen objects": self._seen,
            "first object": lambda batch: self._holder(batch, tracks=False),
            "tracked object (oracle)": lambda batch: self._holder(batch, tracks=True),
        }

    def _seen(self, batch: Batch) -> Array:
        inputs = batch.inputs.numpy()
        logits = np.zeros((*inputs.shape, self.vocabulary), np.float32)
        for row, tokens in enumerate(inputs):
            # Objects are the tokens above the names.
            logits[row][:, tokens[tokens >= FIRST_NAME + self.names]] = CERTAIN
        return logits

    def _holder(self, batch: Batch, *, tracks: bool) -> Array:
        """Logits of what each person holds, by the sequence alone."""
        inputs = batch.inputs.numpy()
        logits = np.zeros((*inputs.shape, self.vocabulary), np.float32)
        for row, tokens in enumerate(inputs):
            written = tokens[tokens != FILLER].tolist()
            pairs = list(zip(written[::2], written[1::2], strict=True))
            # The first pairs say who holds what before any exchange.
            held = dict(pairs[: self.people])
            for giver, taker in pairs[self.people : -self.people]:
                if tracks:
                    held[giver], held[taker] = held[taker], held[giver]
            answers = [held[name] for _, name in pairs[-self.people :]]
            logits[row, np.arange(self.length)[self._asked], answers] = CERTAIN
        return logits


def _distinct(generator: np.random.Generator, count: int, size: int, number: int) -> Array:
    """Ordered draws without replacement from 0..size-1, int64 (count, number)."""
    marks = generator.random((count, size))
    # The places of the smallest marks: a permutation without a loop over rows.
    return marks.argsort(axis=1, kind="stable")[:, :number]
