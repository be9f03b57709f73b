"""Command lines are ``key=value`` words; this answers --help before anything heavy is imported."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any


def word(key: str, value: Any) -> str:
    """``key=value`` as Hydra's grammar reads it back, whatever characters the value has."""
    return f"{key}={_quoted(value)}"


def _quoted(value: Any) -> str:
    if isinstance(value, str):  # a backslash is one, except before a quotation mark
        escaped = re.sub(r'(\\*)("|\Z)', lambda m: 2 * m[1] + ("\\" + m[2] if m[2] else ""), value)
        return f'"{escaped}"'
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_quoted, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(k)}:{_quoted(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def with_home_quoted(given: str) -> str:
    """A word of a command line for Hydra's grammar, which does not know a value such as ~/runs: it
    is plain text."""
    key, equals, value = given.partition("=")
    return word(key, value) if equals and value.startswith("~") else given


def wants_help(words: Sequence[str]) -> bool:
    """Whether the user asks what the command does."""
    return any(word in ("-h", "--help", "help") for word in words)


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
