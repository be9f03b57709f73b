"""``python -m reproduce``: published figures and tables, and the verdicts on their claims."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

import reproduce
from ground.errors import OK, command
from ground.words import wants_help
from reproduce import usage

if TYPE_CHECKING:
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


def main(words: Sequence[str]) -> int:
    """What is said of the command, or what it does; its exit code."""
    if wants_help(words):
        own = {"verdicts": usage.VERDICTS, "untrained": usage.UNTRAINED}
        print(own.get(words[0], usage.HELP))
        return OK
    from reproduce.command import main

    return main(words, reproductions())


if __name__ == "__main__":
    command(main)
