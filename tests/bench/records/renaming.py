"""Renames local variables, and asks the compiler whether the code is still the same."""

import ast
import copy
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType

from bench.records.equality.local_names import MARK, LocalNames, is_number, keywords_of

Older = dict[str, str]  # new name of a variable -> its older one
PLACES = ("id", "arg", "name", "rest")


def files_of(*houses: str, root: Path) -> list[Path]:
    return [path for house in houses for path in sorted((root / house).rglob("*.py"))]


def normal_forms(source: str | ast.Module) -> list[str]:
    """Those of the statements of a module."""
    tree = ast.parse(source) if isinstance(source, str) else copy.deepcopy(source)
    local_names = LocalNames(tree, keywords_of(tree))
    return [local_names.text(statement) for statement in tree.body]


def names_in_order(tree: ast.Module) -> list[list[str]]:
    """For each statement all names in its normal form, which is all that renaming can change. The
    tree has them afterwards."""
    local_names = LocalNames(tree, keywords_of(tree))
    for statement in tree.body:
        local_names.number(statement)
    every = ([*ast.walk(statement)] for statement in tree.body)
    return [
        [str(getattr(node, place)) for node in nodes for place in PLACES if hasattr(node, place)]
        for nodes in every
    ]


def renamed(
    source: bytes, new_name: Callable[[str, int], str], keywords: Iterable[str] = ()
) -> tuple[ast.Module, Older]:
    """A module with other names of local variables.

    Args:
        new_name: a name, and the number of its variable in its statement -> the new name.
        keywords: names by which calls in other files may give a parameter.

    Returns:
        Its tree, and each new name with the one that it stands for.
    """
    tree = ast.parse(source)
    local_names = LocalNames(tree, {*keywords, *keywords_of(tree)})
    older: Older = {}
    for statement in tree.body:
        variables = local_names.number(statement)
        names = [new_name(one.name, number) for number, one in enumerate(variables)]
        older |= dict(zip(names, (one.name for one in variables), strict=True))
        for node in ast.walk(statement):
            for place in PLACES:
                name = getattr(node, place, None)
                if isinstance(name, str) and is_number(name):
                    setattr(node, place, names[int(name.removeprefix(MARK))])
    return tree, older


def at_random(seed: int, taken: frozenset[str]) -> Callable[[str, int], str]:
    """New names: no two are one, and some are those of built-in functions."""
    draws = random.Random(seed)
    builtin = ["list", "sum", "type", "open", "min", "input", "id", "filter"]
    given = [*{*builtin} - taken, *(f"name_{number}" for number in range(5000))]
    draws.shuffle(given)

    def new_name(name: str, number: int) -> str:
        return given[number]

    return new_name


def names_of(tree: ast.AST) -> frozenset[str]:
    nodes = [*ast.walk(tree)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return frozenset(names | {node.arg for node in nodes if isinstance(node, ast.arg)})


def in_place(tree: ast.Module) -> Callable[[str, int], str]:
    """New names that sort among others as the old ones do, as the compiler sorts closures; none for
    those of imports, of which the compiler calls methods by other instructions."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    imported = {alias.asname or alias.name for node in imports for alias in node.names}

    def new_name(name: str, number: int) -> str:
        return name if name in imported else f"{name}0{number}"

    return new_name


def assert_same_code(one: CodeType, other: CodeType, older: Older) -> None:
    """What the compiler made of both is equal, but for the names of local variables."""
    for part in ("co_code", "co_names", "co_name", "co_flags", "co_argcount", "co_exceptiontable"):
        assert getattr(one, part) == getattr(other, part), f"{one.co_qualname}: {part}"
    for part in ("co_varnames", "co_cellvars", "co_freevars"):
        before = tuple(older.get(name, name) for name in getattr(other, part))
        assert getattr(one, part) == before, f"{one.co_qualname}: {part}"
    assert len(one.co_consts) == len(other.co_consts)
    for first, second in zip(one.co_consts, other.co_consts, strict=True):
        if isinstance(first, CodeType):
            assert_same_code(first, second, older)
        else:
            assert (type(first), first) == (type(second), second)


def variables_of(code: CodeType) -> Iterator[str]:
    """Local variables of all functions, parameters left out, as the compiler knows them."""
    parameters = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)
    yield from code.co_varnames[parameters + bool(code.co_flags & 8) :]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from variables_of(constant)
