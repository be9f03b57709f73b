"""Settings that ask for a model's size in place of its width: ``models.parameters=100_000``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.config.command_line import shown
from core.errors import UserError

BUDGETS = {
    "models.parameters": "parameters",
    "models.state_bytes": "bytes of state at the longest length of the task",
}
STATE_BYTES = "models.state_bytes"
STATE = "models.state"  # short for it, where no model has a setting of that name
WIDTH = "models.width"
TOLERANCE = 0.05  # of what was asked: heads allow few widths at small budgets
LARGEST = 10**12


@dataclass(frozen=True)
class SizeBudget:
    """A budget.

    Attributes:
        key: one of ``BUDGETS``.
        amount: parameters, or bytes.
    """

    key: str
    amount: int

    @property
    def word(self) -> str:
        """As a command line has it."""
        return f"{self.key}={self.amount:_}"


def split(settings: Mapping[str, Any]) -> tuple[SizeBudget | None, dict[str, Any]]:
    """The budget that some settings ask for, and the others.

    Raises:
        UserError: two budgets, a width beside one, or what is no number.
    """
    budgets = {key: value for key, value in settings.items() if key in BUDGETS}
    others = {key: value for key, value in settings.items() if key not in BUDGETS}
    if not budgets:
        return None, others
    named = [shown(key, value) for key, value in budgets.items()]
    if len(budgets) > 1:
        raise UserError(f"{' and '.join(named)} both set models.width: give one of them")
    if WIDTH in others:
        width = shown(WIDTH, others[WIDTH])
        raise UserError(
            f"{named[0]} finds models.width, and {width} sets it: leave one of them out"
        )
    ((key, amount),) = budgets.items()
    if type(amount) is not int or not 0 < amount <= LARGEST:
        raise UserError(f"{named[0]}: a budget is a whole number, such as {key}=100_000")
    return SizeBudget(key, amount), others


Finder = Callable[[Any, SizeBudget], int]
_finder: list[Finder] = []


def use_finder(finder: Finder) -> None:
    """Let a command count models. It builds them, which takes PyTorch: who only reads records or
    plans does without.

    Args:
        finder: of a ``Configuration`` with any width and a budget to the width that meets it.
    """
    _finder[:] = [finder]


def width_for(configuration: Any, budget: SizeBudget) -> int:
    """The width of the model of a ``Configuration`` that meets a budget.

    Raises:
        UserError: no width meets it, the model has none, or the command cannot count.
    """
    if not _finder:
        raise UserError(f"{budget.word} is for bench.train and bench.sweep: give models.width here")
    return _finder[0](configuration, budget)
