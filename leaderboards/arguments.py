"""The commands' words: ``key=value`` settings, ``--flags`` and names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from core.errors import UserError, nearest
from core.places import absolute

BOARD = "board.parquet"  # of a store
OF_TASKS = "tasks."  # before the name of a task's setting


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


def board_place(arguments: Arguments, default: Path) -> Path:
    """The board that ``board=`` names, or that of the store that ``store=`` does.

    Raises:
        UserError: both are given, or one of them twice.
    """
    if "store" not in arguments.settings:
        return arguments.place("board", default)
    if "board" in arguments.settings:
        raise UserError("board= and store= both name a board: give one of them")
    return arguments.place("store", "") / BOARD


def _sets(word: str) -> bool:
    """Whether a word is meant as a setting, and is not the name of a file."""
    key, equals, _ = word.partition("=")
    return bool(equals) and key.isidentifier() and not os.path.lexists(word)


def read(
    words: Sequence[str],
    settings: Sequence[str] = (),
    flags: Sequence[str] = (),
    takes_names: bool = False,
    of_tasks: bool = False,
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> Arguments:
    """Sort the words of a command line.

    Args:
        settings: the keys of ``key=value`` that the command has.
        flags: words without a value that it has.
        takes_names: whether it takes names of files, folders or runs.
        of_tasks: whether it takes ``tasks.KEY=value`` too, of any key.
        elsewhere: settings that other commands have -> what stands for them in this one.

    Raises:
        UserError: a word that the command does not know.
    """
    arguments = Arguments({}, set(), [])
    valid = [*(f"{key}=" for key in settings), *flags]
    for word in words:
        key, equals, value = word.partition("=")
        if word in flags:
            arguments.flags.add(word)
        elif (equals and key in settings) or (of_tasks and key.startswith(OF_TASKS)):
            if not value:
                raise UserError(f"{key}= has no value")
            arguments.settings.setdefault(key, []).append(value)
        elif takes_names and not word.startswith("-") and not _sets(word):
            arguments.names.append(word)
        else:
            word_begun = f"{key}=" if equals else word
            way_on = elsewhere.get(key) or nearest(word_begun, valid)
            raise UserError(f"there is no setting '{word_begun}': {way_on}")
    return arguments
