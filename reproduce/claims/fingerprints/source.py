"""The code of one function, without the names that only the code itself sees."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from bench.records.equality.local_names import MARK, LocalNames
from bench.records.equality.scopes import Scope
from bench.records.source_text import source_text

OF_MODULE = f"{MARK}g"  # before the number of a function or constant of the module
Function = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True)
class FunctionSource:
    """The code of a function, or of every lambda that begins in its line.

    Attributes:
        texts: with numbers in place of names.
        names: all in it, as they are.
        variables: name of a variable of the functions around it -> its number.
        numbers: name of a function or constant of the module -> its number.
    """

    texts: Sequence[str]
    names: frozenset[str]
    variables: Mapping[str, str]
    numbers: Mapping[str, str]


class SourceFile:
    """A file, and where each function of it begins."""

    def __init__(self, path: str) -> None:
        tree = ast.parse(Path(path).read_bytes())
        self._functions: dict[tuple[str, int], list[Function]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                self._functions.setdefault((node.name, first), []).append(node)
                _without_explanations(node)
            elif isinstance(node, ast.Lambda):
                self._functions.setdefault(("<lambda>", node.lineno), []).append(node)
        self._local_names = LocalNames(tree)
        self._sources: dict[tuple[object, ...], FunctionSource] = {}

    def source(self, code: CodeType, by_number: frozenset[str]) -> FunctionSource:
        """The code of a function.

        Args:
            by_number: names of its module that stand as numbers.
        """
        key = (code.co_name, code.co_firstlineno, code.co_freevars, by_number)
        if key not in self._sources:
            self._sources[key] = self._write(self._nodes(code), code.co_freevars, by_number)
        return self._sources[key]

    def _nodes(self, code: CodeType) -> list[Function]:
        return self._functions.get((code.co_name, code.co_firstlineno), [])

    def _write(
        self, nodes: list[Function], free_names: Sequence[str], by_number: frozenset[str]
    ) -> FunctionSource:
        together = ast.Tuple(list[ast.expr](nodes), ast.Load())  # type: ignore[arg-type]
        variables = self._local_names.number(together)
        of_module = self._local_names.global_places
        names: set[str] = set()
        numbers: dict[str, str] = {}
        for node in ast.walk(together):
            if isinstance(node, ast.Name):
                name = of_module.get(id(node), node.id)  # which may stand as a number already
                names.add(name)
                by_its_number = name in by_number and id(node) in of_module
                number = f"{OF_MODULE}{len(numbers)}"
                node.id = numbers.setdefault(name, number) if by_its_number else name
        number_of = {variable: f"{MARK}{number}" for number, variable in enumerate(variables)}
        around = {}
        for node in nodes:
            scope = self._local_names.enclosing.get(id(node))
            if scope is None:
                continue
            for name in free_names:
                variable = scope.resolve(name)
                if variable in number_of:
                    around[name] = number_of[variable]
        texts = [_text_without_name(node) for node in nodes]
        return FunctionSource(texts, frozenset(names), around, numbers)

    def places(self, code: CodeType) -> dict[str, str]:
        """Where the functions around a function give a value to each variable that it has of them:
        as which of their parameters, or as which of the others that it has."""
        for node in self._nodes(code):
            places = _places(code.co_freevars, self._local_names.enclosing.get(id(node)))
            if len(places) == len(code.co_freevars):
                return places
        return {name: name for name in code.co_freevars}


def _places(names: Sequence[str], scope: Scope | None) -> dict[str, str]:
    """``0 parameter 1`` is the second parameter of the next function around, ``1 variable 0`` the
    first of these names to which the one around that gives a value."""
    places: dict[str, str] = {}
    out = 0
    while scope is not None and scope.kind != "module":
        if scope.kind != "class":
            of_scope = [name for name in scope.variables if name in names and name not in places]
            variables = [name for name in of_scope if name not in scope.parameters]
            for name in of_scope:
                if name in scope.parameters:
                    places[name] = f"{out} parameter {scope.parameters.index(name)}"
                else:
                    places[name] = f"{out} variable {variables.index(name)}"
            out += 1
        scope = scope.parent
    return places


def _without_explanations(function: ast.FunctionDef) -> None:
    """Take its docstring and types from a function, which no judgement reads."""
    if ast.get_docstring(function, clean=False) is not None:
        function.body = function.body[1:] or [ast.Pass()]
    function.returns = None
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        if not isinstance(node, ast.ClassDef):  # whose annotations are fields
            waiting += ast.iter_child_nodes(node)


def _text_without_name(function: Function) -> str:
    if isinstance(function, ast.Lambda):
        return source_text(function)
    name, function.name = function.name, MARK
    text = source_text(function)
    function.name = name
    return text
