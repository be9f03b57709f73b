"""The commands' words: ``key=value`` settings, ``--flags`` and names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from core.errors import UserError, nearest
from core.places import absolute


class Arguments(NamedTuple):
    """What was given; a setting may be given several times."""

    settings: dict[str, list[str]]
    flags: set[str]
    names: list[str]

    def one(self, key: str, default: str) -> str:
        """The value of a setting that may be given once.

        Raises:
            UserError: it was given twice.
        """
        values = self.settings.get(key, [default])
        if len(values) > 1:
            raise UserError(f"{key}= was given {len(values)} times: give it once")
        return values[0]

    def place(self, key: str, default: str | Path) -> Path:
        """The absolute path that a setting names, once.

        Raises:
            UserError: it was given twice, or names a home folder that there is not.
        """
        return absolute(self.one(key, str(default)))

    def true(self, key: str) -> bool:
        """Whether ``key=true`` was given."""
        value = self.one(key, "false").lower()
        if value not in ("true", "false"):
            raise UserError(f"{key}={value} is neither true nor false")
        return value == "true"


def read(
    words: Sequence[str],
    settings: Sequence[str] = (),
    flags: Sequence[str] = (),
    takes_names: bool = False,
) -> Arguments:
    """Sort the words of a command line.

    Raises:
        UserError: a word that the command does not know.
    """
    arguments = Arguments({}, set(), [])
    valid = [*(f"{key}=" for key in settings), *flags]
    for word in words:
        key, equals, value = word.partition("=")
        if word in flags:
            arguments.flags.add(word)
        elif equals and key in settings:
            if not value:
                raise UserError(f"{key}= has no value")
            arguments.settings.setdefault(key, []).append(value)
        elif takes_names and not word.startswith("-"):
            arguments.names.append(word)
        else:
            word_begun = f"{key}=" if equals else word
            raise UserError(f"there is no setting '{word_begun}': {nearest(word_begun, valid)}")
    return arguments
