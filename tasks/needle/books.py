"""Phone books with questions after them.

Sources: Jelassi et al. 2024, "Repeat After Me: Transformers are Better than State Space Models at
Copying" (arXiv 2402.01032), phone-book lookup; Arora et al. 2024, "Just read twice: closing the
recall gap for recurrent language models" (arXiv 2407.05483), where the context and its questions
come twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.interface import IGNORED

Integers = NDArray[np.int64]
FILLER, QUESTION, FIRST_DIGIT = 0, 1, 2
DIGITS = 10
FIRST_LETTER = FIRST_DIGIT + DIGITS


@dataclass(frozen=True)
class Book:
    """How a phone book is written.

    Attributes:
        letters: tokens that names are made of.
        name_length, digits: tokens of a name and of a number.
        questions: numbers that are asked for after the book.
        readings: how often the book is written. All names that will be asked for stand between two
            readings, so that the later one can be read for them.
    """

    letters: int
    name_length: int
    digits: int
    questions: int
    readings: int

    @property
    def entry(self) -> int:
        """Tokens of a name with its number."""
        return self.name_length + self.digits

    @property
    def asking(self) -> int:
        """Tokens of all questions, with their answers at the end and without them before it."""
        before = (self.readings - 1) * (1 + self.name_length)
        return self.questions * (before + 1 + self.entry)

    def entries(self, length: int) -> int:
        """How many a sequence of ``length`` inputs has room for; its last answer's last digit is
        asked and not read."""
        return (length + 1 - self.asking) // (self.readings * self.entry)


@dataclass(frozen=True)
class Lookups:
    """Sequences of one length.

    Attributes:
        inputs: int64 (sequences, length), filled from the left.
        targets: int64 (sequences, length): the next digit of an answer, -100 elsewhere.
        asked: int64 (sequences, questions): places in the book of the entries that are asked for.
        places: int64 (questions, digits): positions of the targets, the same in all sequences.
    """

    inputs: Integers
    targets: Integers
    asked: Integers
    places: Integers


def draw(generator: np.random.Generator, count: int, length: int, book: Book) -> Lookups:
    """``count`` books of different names with random numbers, each asked for different entries."""
    entries = book.entries(length)
    # Names are numbers in base ``letters``, drawn without repetition and written digit by digit.
    codes = _distinct(generator, count, book.letters**book.name_length, entries)
    powers = book.letters ** np.arange(book.name_length)
    names = FIRST_LETTER + codes[:, :, None] // powers % book.letters
    numbers = FIRST_DIGIT + generator.integers(0, DIGITS, (count, entries, book.digits))
    questioned = _distinct(generator, count, entries, book.questions)
    pages = np.concatenate([names, numbers], axis=2)
    chosen = np.take_along_axis(pages, questioned[:, :, None], axis=1)
    mark = np.full((count, book.questions, 1), QUESTION)
    answered = np.concatenate([mark, chosen], axis=2)
    unanswered = answered[:, :, : 1 + book.name_length]
    # Before the last reading the questions stand without their answers.
    parts = [pages, *[unanswered, pages] * (book.readings - 1), answered]
    written = np.concatenate([part.reshape(count, -1) for part in parts], axis=1)
    whole = np.full((count, length + 1), FILLER)
    # Filled from the left, so that all answers end at the same positions.
    whole[:, length + 1 - written.shape[1] :] = written
    # Where each answer ends: questions are of equal length, and the last one ends the sequence.
    ends = length + 1 - np.arange(book.questions)[::-1] * (1 + book.entry)
    # A digit is predicted one position before it stands.
    places = ends[:, None] - book.digits + np.arange(book.digits) - 1
    targets = np.full((count, length), IGNORED)
    targets[:, places] = whole[:, places + 1]
    return Lookups(whole[:, :-1], targets, questioned, places)


def _distinct(generator: np.random.Generator, count: int, size: int, number: int) -> Integers:
    """Ordered draws without replacement from 0..size-1: (count, number)."""
    marks = generator.random((count, size))
    return marks.argsort(axis=1, kind="stable")[:, :number]
