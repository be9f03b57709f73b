"""The numbers of the code that judges all claims, which stand in none: levels, shares, counts.

A claim's hashes know the functions of this house by their names alone, so these numbers are kept
beside them, each by itself (:mod:`reproduce.claims.frozen`).
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

HOUSE = Path(__file__).parent
STATISTICS = ("core.statistics", "core.effects")


def numbers() -> dict[str, float]:
    """ "reproduce.claims.controls.LEANING" -> its value: every number that a module of this room,
    or of the statistics below it, gives a name of its own."""
    names = [f"reproduce.claims.{path.stem}" for path in sorted(HOUSE.glob("[!_]*.py"))]
    names += [f"reproduce.claims.rules.{path.stem}" for path in HOUSE.glob("rules/[!_]*.py")]
    names += STATISTICS
    value_by_name: dict[str, float] = {}
    for module in map(import_module, names):
        imported = _imported(module)
        for name, value in vars(module).items():
            if type(value) in (int, float) and name not in imported:
                value_by_name[f"{module.__name__}.{name}"] = value
    return dict(sorted(value_by_name.items()))


def _imported(module: ModuleType) -> set[str]:
    """The names that belong to another module."""
    tree = ast.walk(ast.parse(Path(str(module.__file__)).read_bytes()))
    imports = (node for node in tree if isinstance(node, ast.ImportFrom))
    return {alias.asname or alias.name for node in imports for alias in node.names}
