"""Words that ask for the size of a model in place of its width: ``models.parameters=100_000``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.config.settings import Configuration
from core.errors import UserError

BUDGETS = {
    "parameters": "parameters",
    "state_bytes": "bytes of state at the longest length of the task",
}
STATE_BYTES = "models.state_bytes"
STATE = "models.state"  # short for it, where no model has a setting of that name
TOLERANCE = 0.05  # of what was asked: heads allow few widths at small budgets
_NUMBER = re.compile(r"[0-9][0-9_]*")
LARGEST = 10**12


@dataclass(frozen=True)
class Asked:
    """A budget.

    Attributes:
        key: one of ``BUDGETS``.
        amount: parameters, or bytes.
        word: as it was given.
    """

    key: str
    amount: int
    word: str


def is_budget(key: str) -> bool:
    """Whether a setting such as "models.parameters" asks for a size."""
    return key.startswith("models.") and key.removeprefix("models.") in BUDGETS


def split(words: Sequence[str]) -> tuple[Asked | None, list[str]]:
    """The budget that some words ask for, and the others.

    Raises:
        UserError: two budgets, a width beside one, or what is no number.
    """
    budgets: dict[str, str] = {}  # the last of a key counts
    others = []
    for word in words:
        key = word.partition("=")[0]
        if is_budget(key):
            budgets[key] = word
        else:
            others.append(word)
    if not budgets:
        return None, list(words)
    if len(budgets) > 1:
        raise UserError(f"{' and '.join(budgets.values())} both set models.width: give one of them")
    width = next((w for w in others if w.startswith("models.width=")), None)
    ((key, word),) = budgets.items()
    if width is not None:
        raise UserError(f"{word} finds models.width, and {width} sets it: leave one of them out")
    value = word.partition("=")[2]
    if not _NUMBER.fullmatch(value) or not 0 < int(value) <= LARGEST:
        raise UserError(f"{word}: a budget is a whole number, such as {key}=100_000")
    return Asked(key.removeprefix("models."), int(value), word), others


Finder = Callable[[Configuration, Asked], int]
_finder: list[Finder] = []


def use_finder(finder: Finder) -> None:
    """Let a command count models. It builds them, which takes PyTorch: who only reads records or
    plans does without."""
    _finder[:] = [finder]


def width_for(configuration: Configuration, asked: Asked) -> int:
    """The width of a model that meets a budget.

    Raises:
        UserError: no width meets it, the model has none, or the command cannot count.
    """
    if not _finder:
        raise UserError(f"{asked.word} is for bench.train and bench.sweep: give models.width here")
    return _finder[0](configuration, asked)
