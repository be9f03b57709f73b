"""``python -m reproduce``: published figures and tables, and the verdicts on their claims."""

from __future__ import annotations

import importlib
import pkgutil

import reproduce
from ground.errors import command
from reproduce.command import main
from reproduce.reproduction import Reproduction


def reproductions() -> dict[str, Reproduction]:
    """Every module of these rooms with a ``REPRODUCTION``, under its own name."""
    found = {}
    for module in pkgutil.walk_packages(reproduce.__path__, "reproduce."):
        if not module.ispkg and not module.name.endswith("__main__"):
            content = importlib.import_module(module.name)
            if hasattr(content, "REPRODUCTION"):
                found[module.name.rpartition(".")[2]] = content.REPRODUCTION
    return found


if __name__ == "__main__":
    command(lambda words: main(words, reproductions()))
