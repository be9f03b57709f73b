"""``python -m reproduce``: published figures and tables, and the verdicts on their claims."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

import reproduce
import reproduce.planning.usage
from bench.config.command_line import read
from core.errors import OK, command
from core.words import by_name, wants_help
from reproduce import planning, usage

if TYPE_CHECKING:
    from reproduce.experiment import Experiment


# Rooms that experiments share; none of them has a figure of its own.
SHARED_ROOMS = ("claims", "drawing", "planning", "plotting", "published")


def reproductions(only: str = "") -> dict[str, Experiment]:
    """Every module of an experiment's room with a ``EXPERIMENT``, under its own name.

    Args:
        only: the name of one, which is then imported alone; where none is called so, all are.
    """
    modules: list[tuple[str, str]] = []
    for module in pkgutil.walk_packages(reproduce.__path__, "reproduce."):
        _, room, *within = module.name.split(".")
        if within and room not in SHARED_ROOMS and not module.ispkg:
            modules.append((within[-1], module.name))
    by_name = {}
    for name, place in [pair for pair in modules if pair[0] == only] or modules:
        content = importlib.import_module(place)
        if hasattr(content, "EXPERIMENT"):
            by_name[name] = content.EXPERIMENT
    # A module that figures share is called by a name, and has none of its own.
    return by_name if by_name or not only else reproductions()


def main(words: Sequence[str]) -> int:
    """What is said of the command, or what it does; its exit code."""
    if wants_help(words):
        pages = {
            "verdicts": usage.VERDICTS,
            "untrained": usage.UNTRAINED,
            "same": usage.SAME,
            "evidence": planning.usage.HELP,
        }
        print(pages.get(words[0], usage.HELP))
        return OK
    if words[:1] == ["evidence"]:
        make_evidence = by_name("reproduce.planning.command:main")
        return int(make_evidence(read(words[1:]), reproductions()))
    return int(by_name("reproduce.command:main")(words, reproductions(words[0] if words else "")))


if __name__ == "__main__":
    command(main)
