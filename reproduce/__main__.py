"""``python -m reproduce``: published figures and tables, and the verdicts on their claims."""

from __future__ import annotations

import importlib
import pkgutil

import reproduce
from bench.errors import command
from bench.reproduction import Reproduction, main


def reproductions() -> dict[str, Reproduction]:
    """Every module of this folder with a ``REPRODUCTION``, under its own name."""
    found = {}
    for module in pkgutil.iter_modules(reproduce.__path__):
        if module.name != "__main__":
            content = importlib.import_module(f"reproduce.{module.name}")
            if hasattr(content, "REPRODUCTION"):
                found[module.name] = content.REPRODUCTION
    return found


if __name__ == "__main__":
    command(lambda words: main(words, reproductions()))
