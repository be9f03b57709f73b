"""The engine: configuration, training, evaluation, sweeps, records. It names no model or task.

``from bench import run, load_task, …`` is the project from Python (``docs/python.md``). The names
are found when they are asked for, so that ``import bench`` and its commands load nothing more.
"""

import sys
from importlib import import_module
from pathlib import Path

if sys.argv[:1] == ["-m"]:  # `python -m` is looking for a command of this package
    # It has put the working directory first on the path: a settings.py or a folder models/ that
    # lies there must not stand in for the project's own packages.
    sys.path[: 0 if getattr(sys.flags, "safe_path", False) else 1] = [
        str(Path(__file__).resolve().parents[1])
    ]

import core as core  # says which Python is needed

# Name -> the module that has it. Some lie in houses above this one, and are entered by name only.
_PUBLIC = {
    **dict.fromkeys(("load_preset", "load_task", "load_model", "load_run"), "bench.surface"),
    **dict.fromkeys(("examine_model", "run", "run_sweep", "read_records"), "bench.surface"),
    "read_board": "leaderboards.surface",
    "judge": "reproduce.claims.surface",
    **dict.fromkeys(("Runs", "Number", "within", "above"), "reproduce.claims.grammar"),
    "UnfitModel": "bench.training.unfit",
    "UserError": "core.errors",
}
__all__ = [*_PUBLIC]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'bench' has no attribute '{name}'")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
