"""Plans of figures as text, to be counted and compared."""

from collections.abc import Iterable, Mapping
from typing import Any

from bench.config.command_line import shown


def in_words(plan: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, ...], ...]:
    """The settings of each run or sweep as words of a command line."""
    return tuple(tuple(shown(k, v) for k, v in settings.items()) for settings in plan)
