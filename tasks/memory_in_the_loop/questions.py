"""What a language model is asked, and how its answer is read.

Source: README of suyash144/titans, where the recalled number is put into the prompt of a language
model, which may answer that it does not know. The wording is our own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tasks.interface import Report

UNKNOWN = "I don't know"
NOUNS = {"numbers": "number", "words": "word"}  # material -> what one item is called
THOUGHT = re.compile(r"<think>.*?(</think>|$)", re.DOTALL)
SAYS_UNKNOWN = re.compile(
    r"\b(don'?t|do not|cannot|can'?t) (know|say|tell|recall|remember|determine)\b"
    r"|\bunknown\b|\bnot (known|sure|certain)\b"
)
WORD = re.compile(r"-?[a-z0-9]+(?:[.,'][a-z0-9]+)*")


@dataclass(frozen=True)
class Question:
    """One sequence without its last item.

    Attributes:
        stem: the items that are given.
        note: what a memory recalls; None where nothing was memorised.
        confidence: the chance, in percent, that the note is right; None where it is not shown.
    """

    stem: tuple[str, ...]
    note: str | None = None
    confidence: int | None = None

    def text(self, noun: str) -> str:
        """What stands in the prompt; ``noun`` is what an item is called."""
        lines = [f"Sequence: {' '.join(self.stem)} ?"]
        if self.note is not None:
            lines.append(f"Note: {self.note}")
        if self.confidence is not None:
            lines.append(f"Confidence: {self.confidence} %")
        return "\n".join([*lines, f"Last {noun}:"])


def instruction(noun: str) -> str:
    """What a model that was not trained on these questions is told first, always the same."""
    return (
        f"You are asked for the last {noun} of a sequence, which stands where the question mark "
        "is. A note, if there is one, is what a memory recalls; it may be wrong. A confidence, if "
        f"there is one, is the chance that the note is right. Answer with the {noun} alone, or "
        f"with: {UNKNOWN}"
    )


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        text: the answer as it was given; empty where there is none.
        model: the name that the answering model goes by.
        failure: why there is no answer, one word of the answerer's; empty if there is one.
    """

    text: str
    model: str
    failure: str = ""


class Answerer(Protocol):
    """A language model."""

    @property
    def failures(self) -> Sequence[str]:
        """All words that an answer's ``failure`` may be."""
        ...

    def answers(self, questions: Sequence[Question], report: Report) -> list[Answer]:
        """One answer for each question, in their order."""
        ...


@dataclass(frozen=True)
class Read:
    """An answer as it is counted; ``item`` is there for kind "item" alone."""

    kind: Literal["item", "unknown", "unreadable"]
    item: str | None = None


def read_answer(text: str, stem: Sequence[str], items: Collection[str]) -> Read:
    """The one item that an answer names.

    What is thought aloud between <think> and </think> does not count, nor does the stem where it is
    repeated in front. An answer that says so does not know, whatever else it says; one that names
    no item or several different ones cannot be read.
    """
    # Whatever is thought aloud, also where the end of the thought was cut off.
    statement = THOUGHT.sub(" ", text).lower().replace("’", "'")
    if SAYS_UNKNOWN.search(statement):
        return Read("unknown")
    named = [word for word in WORD.findall(statement) if word in items]
    # A stem that is repeated in front is no answer.
    if len(named) > len(stem) and named[: len(stem)] == list(stem):
        named = named[len(stem) :]
    # The same item twice is one answer.
    if len(set(named)) != 1:
        return Read("unreadable")
    return Read("item", named[0])
