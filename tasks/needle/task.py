"""Needles in a phone book: which numbers a model still knows at the end of a long book.

Sources: Jelassi et al. 2024 (arXiv 2402.01032), phone-book lookup; Arora et al. 2024, "Just read
twice" (arXiv 2407.05483). Both ask pretrained models; here models are trained on such books.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tasks.interface import IGNORED, Batch, Evaluation, Metric, Split, Task
from tasks.needle.books import DIGITS, FIRST_LETTER, Book, Lookups, draw

Protocol = Literal["as_set", "phonebook", "just_read_twice"]
TRAIN, VALIDATION, TEST = range(3)
POSITIONS_AT_ONCE = 2**13
MOST_NAMES = 2**16
DEPTHS = 10  # parts of a book for accuracy_by_depth


class Needle(Task):
    """Name the number of each name that is asked for after a phone book.

    Metrics, each a mean over the lengths: ``loss`` (cross-entropy of a digit in nats),
    ``accuracy`` (numbers of which every digit is right: read with the true digits before, which is
    the same as writing the number greedily) and ``digit_accuracy``; ``accuracy/<T>`` where there
    are several lengths. Curves: ``accuracy_by_length``, and ``accuracy_by_depth`` (where in the
    book the entry stood, 0 is its start).

    Example: ``lengths=[24], letters=4, name_length=2, digits=2, questions=2``, the first training
    sequence of seed 0: A to D are letters, _ fills, ? asks, and the loss counts at digits of
    answers:

        input   _ _ _ A A 7 7 A C 0 2 B C 0 1 ? A A 7 7 ? B C 0
        target  . . . . . . . . . . . . . . . . . 7 7 . . . 0 1

    The book has three entries, AA 77, AC 02 and BC 01. A model must hold numbers by name until
    they are asked for; without memory a number of d digits is right with probability 10^−d.

    Args:
        lengths: inputs T of the sequences; each training batch has one of them, drawn at random.
        evaluated_lengths: those that are evaluated; null for those of training.
        letters, name_length: tokens that names are made of, and how many a name has.
        digits: of a number.
        questions: numbers that are asked for after the book.
        readings: how often the book is written; the questions stand between two readings as well.
        validation_size, test_size: sequences for each length; the same for every model.
        data_seed: seed of all data; the run's seed is mixed into the training batches.
        protocol: names a block of the YAML file, which sets the readings.

    Raises:
        ValueError: an unknown protocol, a number out of range, or a book that has no room.
    """

    headline: ClassVar[Metric] = Metric("accuracy", "maximise")

    def __init__(
        self,
        *,
        lengths: Sequence[int] = (512,),
        evaluated_lengths: Sequence[int] | None = (512, 1024, 2048, 4096, 8192),
        letters: int = 64,
        name_length: int = 2,
        digits: int = 4,
        questions: int = 4,
        readings: int = 1,
        validation_size: int = 32,
        test_size: int = 256,
        data_seed: int = 0,
        protocol: Protocol = "as_set",
    ) -> None:
        if protocol not in get_args(Protocol):
            names = ", ".join(get_args(Protocol))
            raise ValueError(f"protocol must be one of {names}, got {protocol!r}")
        for name, value, least in (
            ("letters", letters, 1),
            ("name_length", name_length, 1),
            ("digits", digits, 1),
            ("questions", questions, 1),
            ("readings", readings, 1),
            ("validation_size", validation_size, 1),
            ("test_size", test_size, 1),
            ("data_seed", data_seed, 0),
        ):
            if value < least:
                raise ValueError(f"{name}={value} is too small: give at least {least}")
        self.book = Book(letters, name_length, digits, questions, readings)
        self.lengths = _numbers("lengths", lengths)
        self.evaluated_lengths = (
            self.lengths
            if evaluated_lengths is None
            else _numbers("evaluated_lengths", evaluated_lengths)
        )
        for length in {*self.lengths, *self.evaluated_lengths}:
            _check_room(self.book, length)
        self.sizes = {"validation": validation_size, "test": test_size}
        self.data_seed = data_seed

    @cached_property
    def splits(self) -> dict[str, dict[int, Lookups]]:
        """The fixed sequences of "validation" and "test", by length."""
        streams = {"validation": VALIDATION, "test": TEST}
        return {
            name: {
                length: draw(self._generator(streams[name], length), size, length, self.book)
                for length in self.evaluated_lengths
            }
            for name, size in self.sizes.items()
        }

    def specification(self) -> SequenceSpecification:
        """Room for the longest of all lengths; filler, question, ten digits and the letters."""
        longest = max(*self.lengths, *self.evaluated_lengths)
        return SequenceSpecification(longest, vocabulary=FIRST_LETTER + self.book.letters)

    def data_hashes(self) -> dict[str, str]:
        """ "train" is what seed 0 draws first."""
        drawn = {"train": [self._training(0, step, 8) for step in range(4)]}
        drawn |= {name: list(split.values()) for name, split in self.splits.items()}
        return {name: _hash(parts) for name, parts in drawn.items()}

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """int64 (batch, time); the next digit of each answer is asked for, -100 elsewhere."""
        drawn = self._training(seed, step, size)
        inputs, targets = torch.from_numpy(drawn.inputs), torch.from_numpy(drawn.targets)
        return Batch(inputs, targets, tokens=inputs.numel())

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy of the digits of answers, in nats."""
        return functional.cross_entropy(
            outputs.flatten(0, 1).float(), batch.targets.flatten(), ignore_index=IGNORED
        )

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """All metrics, each a mean over the lengths."""
        results = {T: _answers(model, lookups, device) for T, lookups in self.splits[split].items()}
        losses = [loss for _, loss in results.values()]
        return self._measured(
            {T: a for T, (a, _) in results.items()}, split, float(np.mean(losses))
        )

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """Guesses of each digit and of a number of the book, and the right answers."""

        def oracle(split: Split) -> Evaluation:
            splits = self.splits[split].items()
            return self._measured(
                {T: lookups.targets[:, lookups.places] for T, lookups in splits}, split, 0.0
            )

        return {
            # Of infinitely many numbers the right one is drawn with probability 0: digits alone are
            # left.
            "uniform over digits": lambda split: self._guessed(lambda length: math.inf),
            "uniform over seen numbers": lambda split: self._guessed(self.book.entries),
            "oracle": oracle,
        }

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self.data_seed, *key])))

    def _training(self, seed: int, step: int, size: int) -> Lookups:
        generator = self._generator(TRAIN, seed, step)
        length = self.lengths[int(generator.integers(len(self.lengths)))]
        return draw(generator, size, length, self.book)

    def _measured(self, answers: Mapping[int, np.ndarray], split: Split, loss: float) -> Evaluation:
        """All metrics of answers int64 (sequences, questions, digits) for each length."""
        splits = self.splits[split]
        digits = {
            T: answers[T] == lookups.targets[:, lookups.places] for T, lookups in splits.items()
        }
        # A number is right only with all its digits.
        numbers = {T: right.all(2) for T, right in digits.items()}
        by_length = {T: float(right.mean()) for T, right in numbers.items()}
        # In tenths of the book: books of different length are averaged.
        depths = [lookups.asked * DEPTHS // self.book.entries(T) for T, lookups in splits.items()]
        depth, right = np.concatenate(depths).ravel(), np.concatenate([*numbers.values()]).ravel()
        tenths = np.unique(depth)
        return Evaluation(
            metrics={
                "loss": loss,
                "digit_accuracy": float(np.mean([rights.mean() for rights in digits.values()])),
                **_by_length(by_length),
            },
            per_sequence={
                "accuracy": [
                    share for rights in numbers.values() for share in rights.mean(1).tolist()
                ]
            },
            curves={
                "accuracy_by_length": _curve(by_length),
                "accuracy_by_depth": {
                    "x": ((tenths + 0.5) / DEPTHS).tolist(),
                    "y": [float(right[depth == part].mean()) for part in tenths],
                },
            },
        )

    def _guessed(self, choices: Callable[[int], float]) -> Evaluation:
        """What a draw of one among so many numbers of the book is expected to give; of infinitely
        many: a draw of every digit."""
        chances = {T: 1 / choices(T) for T in self.evaluated_lengths}  # the right entry is drawn
        # A wrong entry may still have the right number by chance, 10^−digits.
        by_length = {T: p + (1 - p) * DIGITS**-self.book.digits for T, p in chances.items()}
        share = float(np.mean(list(chances.values())))
        metrics = {"digit_accuracy": share + (1 - share) / DIGITS, **_by_length(by_length)}
        return Evaluation(metrics, curves={"accuracy_by_length": _curve(by_length)})


def _by_length(shares: Mapping[int, float]) -> dict[str, float]:
    each = {f"accuracy/{length}": share for length, share in shares.items()}
    return {"accuracy": float(np.mean(list(shares.values()))), **(each if len(each) > 1 else {})}


def _curve(shares: Mapping[int, float]) -> dict[str, list[float]]:
    return {"x": [float(length) for length in shares], "y": list(shares.values())}


def _answers(
    model: nn.Module, lookups: Lookups, device: torch.device | str
) -> tuple[np.ndarray, float]:
    """Most probable digits int64 (sequences, questions, digits), and their mean cross-entropy."""
    total, answers = 0.0, []
    for inputs, targets in _parts(lookups):
        # Only outputs at targets: scores of all positions of a long book would not fit.
        scores = model(inputs.to(device))[:, lookups.places.ravel()].float().cpu()
        total += functional.cross_entropy(
            scores.flatten(0, 1), targets[:, lookups.places.ravel()].flatten(), reduction="sum"
        ).item()
        answers.append(scores.argmax(-1).numpy())
    digits = np.concatenate(answers)
    return digits.reshape(len(digits), *lookups.places.shape), total / digits.size


def _parts(lookups: Lookups) -> Iterator[tuple[Tensor, Tensor]]:
    size = max(1, POSITIONS_AT_ONCE // lookups.inputs.shape[1])
    chunks = (torch.from_numpy(part).split(size) for part in (lookups.inputs, lookups.targets))
    yield from zip(*chunks, strict=True)


def _hash(parts: Sequence[Lookups]) -> str:
    sha256 = hashlib.sha256()
    for part in parts:
        sha256.update(part.inputs.astype("<i8").tobytes())
        sha256.update(part.targets.astype("<i8").tobytes())
    return sha256.hexdigest()


def _numbers(name: str, values: Sequence[int]) -> list[int]:
    numbers = list(values) if isinstance(values, Sequence) else []
    if not numbers or any(not isinstance(n, int) or n < 1 for n in numbers):
        raise ValueError(f"{name}={values!r} is no list of numbers from 1 on, such as [512]")
    return sorted(set(numbers))


def _check_room(book: Book, length: int) -> None:
    entries, names = book.entries(length), book.letters**book.name_length
    if entries < book.questions:
        # The shortest book that has an entry for each question.
        least = book.asking + book.readings * book.entry * book.questions - 1
        raise ValueError(
            f"length={length} has no room for a book of {book.questions} entries, read "
            f"{book.readings} times, and as many questions: give at least {least}"
        )
    if not entries <= names <= MOST_NAMES:
        raise ValueError(
            f"letters={book.letters} and name_length={book.name_length} make {names} names: give "
            f"from {entries}, which a book of {length} tokens holds, to {MOST_NAMES}"
        )
