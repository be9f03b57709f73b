"""Command lines are ``key=value`` words, and end where a command begins: it takes what they say.

This answers --help before anything heavy is imported.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast


def word(key: str, value: Any) -> str:
    """``key=value`` as Hydra's grammar reads it back, whatever characters the value has."""
    return f"{key}={_quoted(value)}"


def words_of(settings: Mapping[str, Any]) -> list[str]:
    """Settings, by dotted keys, as the words of a command line for another process."""
    return [word(key, value) for key, value in settings.items()]


def _quoted(value: Any) -> str:
    if isinstance(value, str):  # a backslash is one, except before a quotation mark
        escaped = re.sub(r'(\\*)("|\Z)', lambda m: 2 * m[1] + ("\\" + m[2] if m[2] else ""), value)
        return f'"{escaped}"'
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_quoted, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(k)}:{_quoted(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def with_home_quoted(argument: str) -> str:
    """A word of a command line for Hydra's grammar, which does not know a value such as ~/runs: it
    is plain text."""
    key, equals, value = argument.partition("=")
    return word(key, value) if equals and value.startswith("~") else argument


def wants_help(words: Sequence[str]) -> bool:
    """Whether the user asks what the command does."""
    return any(word in ("-h", "--help", "help") for word in words)


def texts(words: Sequence[str]) -> dict[str, str | None]:
    """The words ``key=value`` as texts, without quotes or escapes; None of one without ``=``."""
    values: dict[str, str | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        values[key] = value if equals else None
    return values


def by_name(name: str) -> Callable[..., Any]:
    """What "package.module:function" or "package.module:Class.method" names; the module is imported
    now."""
    module, _, function = name.partition(":")
    return cast(Callable[..., Any], attrgetter(function)(importlib.import_module(module)))


def command_line(
    help_text: str | Callable[[], str],
    read: Callable[[list[str]], Any],
    *steps: Callable[[Any], Any] | str,
) -> Callable[[list[str]], int]:
    """The ``main`` of a command: it answers --help, or reads its words and does its work.

    Args:
        help_text: what is printed where somebody asks for help.
        read: makes of the words what the first step takes.
        steps: each takes what the one before gave, and the last gives the exit code. A step that
            is named ("package.module:function") is imported when it is its turn: neither help nor
            a mistake waits for PyTorch.
    """

    def main(words: list[str]) -> int:
        if wants_help(words):
            print(help_text if isinstance(help_text, str) else help_text())
            return 0
        value = read(words)
        for step in steps:
            value = (by_name(step) if isinstance(step, str) else step)(value)
        return int(value)

    return main


SETTINGS_HELP = """\
settings (key=value, in any order):
  tasks=NAME             the task; `python -m bench` lists them; or package.Task, FILE.py:Task
  models=NAME            the model; or package.Class or ./FILE.py:Class for one of your own;
                         models.parameters=N: the width with about so many parameters
  preset=NAME            smoke (default), laptop, gpu, paper; only equal presets are compared
  seed=N                 weights, order of the data and dropout (default 0)
  device=auto|cpu|cuda   store=FOLDER (default runs)   tracking=none|mlflow
  committed=true         serve the project's own records (leaderboards/records) too; default false
  tasks.KEY=… models.KEY=… training.KEY=…
                         any key of the task's and the model's YAML files and of
                         bench/config/config.yaml; a key that does not exist is an error"""
