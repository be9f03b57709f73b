"""Command lines are ``key=value`` words; this answers --help before anything heavy is imported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def word(key: str, value: Any) -> str:
    """``key=value`` as Hydra's grammar reads it back, whatever characters the value has."""
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def wants_help(words: Sequence[str]) -> bool:
    """Whether the user asks what the command does."""
    return any(word in ("-h", "--help", "help") for word in words)


SETTINGS_HELP = """\
settings (key=value, in any order):
  tasks=NAME             the task; `python -m bench` lists them
  models=NAME            the model; or models._target_=package.Class for one of your own
  preset=NAME            smoke (default), laptop, gpu, paper; only equal presets are compared
  seed=N                 weights, order of the data and dropout (default 0)
  device=auto|cpu|cuda   store=FOLDER (default runs)   tracking=none|mlflow
  committed=true         serve the project's own records (leaderboards/records) too; default false
  tasks.KEY=… models.KEY=… training.KEY=…
                         any key of the task's and the model's YAML files and of
                         bench/config.yaml; a key that does not exist is an error"""
