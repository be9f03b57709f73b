"""What a test does, as plain data to be hashed: its code and every value that it has at hand.

A rule whose words stay while its code changes is another test. Source counts without comments,
docstrings and layout. Functions of the shared houses are known by their names: a change of the
grammar or of the statistics is a change of all verdicts, and is seen as one.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from bench.records.source_text import source_text

SHARED = ("judging", "ground", "bench", "published", "pictures", "settings")
PLAIN = (str, int, float, bool, type(None))


def meaning(value: object, known: frozenset[int] = frozenset()) -> Any:
    """A value as nested lists of text.

    Args:
        known: ids of the functions that this one is part of, which end a circle.
    """
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, Mapping):
        return sorted([repr(key), meaning(one, known)] for key, one in value.items())
    if isinstance(value, list | tuple):
        return [meaning(one, known) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, partial):
        return [meaning(one, known) for one in (value.func, value.args, value.keywords)]
    if isinstance(value, MethodType):
        return [meaning(value.__self__, known), value.__name__]
    if hasattr(value, "__wrapped__"):  # by a cache
        return meaning(value.__wrapped__, known)
    if isinstance(value, FunctionType):
        return value.__name__ if id(value) in known else _function(value, known | {id(value)})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: (getattr(value, one.name), one) for one in dataclasses.fields(value)}
        # A new field leaves what was there before as its default.
        given = {name: own for name, (own, one) in fields.items() if own is not one.default}
        return [type(value).__name__, meaning(given, known)]
    return getattr(value, "__qualname__", type(value).__name__)


def _function(function: FunctionType, known: frozenset[int]) -> list[Any]:
    cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    held = [meaning(one, known) for one in (cells, function.__defaults__, function.__kwdefaults__)]
    if function.__module__.partition(".")[0] in SHARED:
        return [function.__qualname__, held]
    names = dict.fromkeys(_names(function.__code__))
    return [_source(function.__code__), held, _at_hand(function, list(names), known)]


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # of a function that names itself and is not made yet
        return False


def _at_hand(function: FunctionType, names: list[str], known: frozenset[int]) -> list[Any]:
    """Globals that a function names, and what it takes from modules that are not shared."""
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for module in [one for one in found.values() if isinstance(one, ModuleType)]:
        if module.__name__.partition(".")[0] == function.__module__.partition(".")[0]:
            found |= {
                f"{module.__name__.rpartition('.')[2]}.{name}": getattr(module, name)
                for name in names
                if hasattr(module, name)
            }
    return [[name, meaning(one, known)] for name, one in sorted(found.items())]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _source(code: CodeType) -> list[str]:
    """The code of a function, or of every lambda that begins in its line."""
    return _sources(code.co_filename).get((code.co_name, code.co_firstlineno), [])


@cache
def _sources(file: str) -> dict[tuple[str, int], list[str]]:
    found: dict[tuple[str, int], list[str]] = {}
    for node in ast.walk(ast.parse(Path(file).read_bytes())):
        if isinstance(node, ast.FunctionDef):
            key = node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.Lambda):
            key = "<lambda>", node.lineno
        else:
            continue
        found.setdefault(key, []).append(source_text(node))
    return found
