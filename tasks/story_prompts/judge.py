"""Prompts, where their continuations are cut, and a crude check of what they say.

The paper's authors read the continuations and cut them by hand after the shortest answer. Here
both are rules, so that anybody gets the same numbers; the rules are this project's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

PROMPTS = Path(__file__).with_name("prompts.yaml")
GROUPS = ("factual", "reasoning", "consistency")

# Marks, then whatever closes the quotation; "Mr. Fox" goes on.
_END = re.compile(r"(?<!\bMr)(?<!\bMrs)(?<!\bDr)[.!?…]+[\"”'’]*(?=\s|$)|\n")
_WORD = re.compile(r"\w")
_QUOTES = ('"', "“", "”")


@dataclass(frozen=True)
class StoryPrompt:
    """The beginning of a story.

    Attributes:
        group: "factual", "reasoning" or "consistency".
        sensible: words, phrases and beginnings of words ("colo*"), in lower case; a continuation
            passes if it holds one of them.
    """

    text: str
    group: str
    sensible: tuple[str, ...]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # A star keeps the beginning open: "colo*" is in "color" and "colours".
        stems = [re.escape(w[:-1]) if w[-1] == "*" else rf"{re.escape(w)}\b" for w in self.sensible]
        return re.compile(rf"\b(?:{'|'.join(stems)})")

    def is_sensible(self, text: str) -> bool:
        """Whether a continuation, cut already, holds an acceptable word."""
        plain = " ".join(text.lower().replace("’", "'").split())
        return self._pattern.search(plain) is not None


def read_prompts(path: Path = PROMPTS) -> list[StoryPrompt]:
    """The prompts of a file that has, for each group, a list of ``prompt`` and ``sensible``."""
    groups = yaml.safe_load(path.read_bytes())
    return [
        StoryPrompt(entry["prompt"], group, tuple(entry["sensible"]))
        for group in GROUPS
        for entry in groups[group]
    ]


def first_sentence(text: str) -> str:
    """A continuation up to where it is judged.

    It ends with the first full stop, question or exclamation mark after a word, and the quotation
    marks that follow, or with its line. Where nothing was said until there and a quotation comes
    next (as in 'Jane shook her head. "No, I have not."'), the first sentence of the quotation is
    kept too. A text without an end is kept as it is.
    """
    text = text.strip()
    ends = _end(text, 0)
    sentence, follows = text[:ends], text[ends:].lstrip()
    if follows.startswith(_QUOTES) and not any(mark in sentence for mark in _QUOTES):
        ends = _end(text, len(text) - len(follows))
    return text[:ends].rstrip()


def _end(text: str, start: int) -> int:
    word = _WORD.search(text, start)  # a mark before it completes the prompt's own sentence
    match = _END.search(text, word.start() if word else start)
    return match.end() if match else len(text)


def shares(passed: Sequence[float], prompts: Sequence[StoryPrompt]) -> dict[str, float]:
    """``sensible``, the mean over all prompts, and ``sensible_GROUP`` of each group."""
    metrics = {"sensible": sum(passed) / len(passed)}
    for group in GROUPS:
        of = [p for p, prompt in zip(passed, prompts, strict=True) if prompt.group == group]
        metrics[f"sensible_{group}"] = sum(of) / len(of)
    return metrics
