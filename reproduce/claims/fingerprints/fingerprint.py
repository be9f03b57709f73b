"""What a test does, as plain data to be hashed: its code and every value that it has at hand.

A rule whose words stay while its code changes is another test. Source counts without comments,
docstrings, layout and names that only the code itself sees: those of local variables, and those of
functions and constants of its module, of which the hash has the code and the value. Functions of
the shared houses are known by their names: a change of the grammar or of the statistics is a change
of all verdicts, and is seen as one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from bench.records.equality.local_names import MARK
from reproduce.claims.fingerprints.source import FunctionSource, SourceFile

SHARED = ("core", "bench", "reproduce.claims", "reproduce.published", "reproduce.plotting")
PROJECT = (*SHARED, "reproduce")
PLAIN = (str, int, float, bool, type(None))
Known = tuple[int, ...]  # ids of functions, each a part of the one before it


def fingerprint(value: object, known: Known = ()) -> Any:
    """A value as nested lists of text.

    Args:
        known: the functions that this one is part of, which end a circle.
    """
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, Mapping):
        return sorted([repr(key), fingerprint(item, known)] for key, item in value.items())
    if isinstance(value, list | tuple):
        return [fingerprint(item, known) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, partial):
        return [fingerprint(part, known) for part in (value.func, value.args, value.keywords)]
    if isinstance(value, MethodType):
        return [fingerprint(value.__self__, known), value.__name__]
    if hasattr(value, "__wrapped__"):  # by a cache
        return fingerprint(value.__wrapped__, known)
    if isinstance(value, ModuleType):  # of this project it is known by what is taken from it
        return "module" if _house_of(value.__name__) in PROJECT else value.__name__
    if isinstance(value, FunctionType):
        if id(value) in known:
            return f"{MARK}{known.index(id(value))}"
        return _function(value, (*known, id(value)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed_fields = {}
        for entry in dataclasses.fields(value):
            content = getattr(value, entry.name)
            if content is not entry.default:  # a new field leaves what was there before as it was
                changed_fields[entry.name] = content
        return [type(value).__name__, fingerprint(changed_fields, known)]
    return getattr(value, "__qualname__", type(value).__name__)


def _function(function: FunctionType, known: Known) -> list[Any]:
    defaults = [
        fingerprint(values, known) for values in (function.__defaults__, function.__kwdefaults__)
    ]
    code, file = function.__code__, _read(function.__code__.co_filename)
    if _house(function) in SHARED:
        places = file.places(code)
        cells = [
            [places[name], fingerprint(value, known)]
            for name, value in _held(function).items()
            if value is not None  # a new choice leaves what was there before without it
        ]
        return [function.__qualname__, sorted(cells), *defaults]
    source = file.source(code, frozenset(_by_content(function)))
    held = {source.variables.get(name, name): value for name, value in _held(function).items()}
    cells = [[name, fingerprint(value, known)] for name, value in sorted(held.items())]
    at_hand = {source.numbers.get(n, n): value for n, value in _at_hand(function, source).items()}
    globals_ = [[name, fingerprint(value, known)] for name, value in sorted(at_hand.items())]
    return [list(source.texts), cells, *defaults, globals_]


def _house(function: FunctionType) -> str:
    return _house_of(str(function.__module__))


def _house_of(module: str) -> str:
    """The shared house that a module lies in, or else its top-level package."""
    parts = module.split(".")
    room = ".".join(parts[:2])
    return room if room in SHARED else parts[0]


def _held(function: FunctionType) -> dict[str, Any]:
    """What a function has of those around it, by the names of the variables there."""
    held = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            held[name] = cell.cell_contents
        except ValueError:  # of a function that names itself and is not made yet
            continue
    return held


def _by_content(function: FunctionType) -> Iterator[str]:
    """Names of the module that a fingerprint holds whole: constants, and functions of this project,
    of which it has the code."""
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        value = getattr(value, "__wrapped__", value)
        constant = name in function.__globals__ and isinstance(value, PLAIN)
        if constant or (isinstance(value, FunctionType) and _house(value) == _house(function)):
            yield name


def _at_hand(function: FunctionType, source: FunctionSource) -> dict[str, Any]:
    """Globals that a function names, and what it takes from modules that are not shared."""
    names = list(dict.fromkeys(_names(function.__code__)))
    module_names = function.__globals__
    value_by_name = {}
    for name in names:
        if name in module_names and name in source.names:
            value_by_name[name] = module_names[name]
    modules = [value for value in value_by_name.values() if isinstance(value, ModuleType)]
    for module in modules:
        if _house_of(module.__name__) == _house(function):
            value_by_name |= {
                f"{module.__name__.rpartition('.')[2]}.{name}": getattr(module, name)
                for name in names
                if hasattr(module, name)
            }
    return value_by_name


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


@cache
def _read(path: str) -> SourceFile:
    return SourceFile(path)
