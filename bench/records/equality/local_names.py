"""Code in which the names of local variables do not count: its normal form.

A local variable is a name that a function, a lambda or a comprehension gives a value. Each becomes
a number, in the order of first appearance: ``total = a + b`` and ``result = a + b`` are both
``·0 = a + b``. Two pieces of code with one normal form compute the same, since a normal form is
itself the code with other names: each variable of each scope has a number of its own, every place
that means the variable has that number, and ``·`` begins no name of Python, so that no number hides
a name that was there.

A name that anything but the code around it may see is kept, and so counts as before:

- names of parameters, attributes, globals, imports, functions and classes; of lambdas only those
  parameters that no call can name;
- names that are declared ``global`` or ``nonlocal`` anywhere in the same definition, that a class
  body or an annotation reads, and that begin with two underscores;
- all names of a definition with ``locals``, ``eval`` and their kin, or with parameters for types.

Code that reads the variables of its caller (``sys._getframe``) reads them by name. Whoever compares
two trees asks ``reads_frames`` and ``known_packages`` first.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from bench.records.equality.scopes import Scope, ScopeReader, Variable
from bench.records.source_text import source_text

MARK = "·"  # before a number; it may stand within a name of Python, and begins none
# With these a function sees its own variables by their names; ``vars(x)`` and ``dir(x)`` do not.
_BY_NAME = {
    *("locals", "eval", "exec", "__import__", "__builtins__", "NameError", "UnboundLocalError")
}
_BY_NAME_WITHOUT_ARGUMENTS = {"vars", "dir"}
# With these it sees those of its caller, or in which order a function holds them.
_OF_FRAMES = {
    *("_getframe", "_current_frames", "currentframe", "f_locals", "f_back", "tb_frame"),
    *("gi_frame", "cr_frame", "ag_frame", "__code__", "__closure__", "bmat"),
    *("co_varnames", "co_freevars", "co_cellvars", "gi_code", "cr_code", "f_code"),
}
_STANDARD_THAT_LOOK = {
    *("bdb", "builtins", "cgitb", "code", "codeop", "ctypes", "dis", "doctest", "gc", "inspect"),
    *("pdb", "profile", "cProfile", "trace", "traceback", "tracemalloc", "unittest"),
}
# Packages that look up no variable of their caller by its name. DataFrame.query of pandas does.
_PACKAGES = {
    *("torch", "numpy", "scipy", "einops", "fla", "triton", "yaml", "rich", "pydantic"),
    *("tiktoken", "tokenizers", "pyarrow", "datasets", "openai", "transformers", "safetensors"),
    *("models", "tasks", "mamba_ssm", "tqdm", "cogscale"),
}


class LocalNames:
    """The local variables of a module, and the normal form of its parts.

    Args:
        module: its tree, whose names are replaced by :meth:`number`.
        keywords: names by which calls anywhere may give a parameter.

    Attributes:
        enclosing: id of a function or lambda of the tree -> the scope that it lies in. None of a
            definition that is left as it is.
        global_places: where a name of the module or a built-in one stands, by the id of its node.
    """

    def __init__(self, module: ast.Module, keywords: Iterable[str] = ()) -> None:
        self.module = module  # which keeps the ids of its nodes
        self.enclosing: dict[int, Scope] = {}
        self.global_places: dict[int, str] = {}
        self._variables: dict[tuple[int, str], Variable] = {}
        for statement in module.body:
            if not _left_alone(statement):
                reader = ScopeReader(frozenset(keywords))
                reader.visit(statement)
                self._variables |= reader.variables()
                self.enclosing |= reader.enclosing
                self.global_places |= reader.global_places()

    def number(self, part: ast.AST) -> list[Variable]:
        """Replace the names of local variables in a part of the module by their numbers.

        Returns:
            The variables, in the order of their numbers.
        """
        numbers: dict[Variable, int] = {}
        for node, attribute in _names_in(part):
            variable = self._variables.get((id(node), attribute))
            if variable is not None:
                number = numbers.setdefault(variable, len(numbers))
                setattr(node, attribute, f"{MARK}{number}")
        return list(numbers)

    def text(self, part: ast.AST) -> str:
        """The normal form of a part of the module."""
        self.number(part)
        return source_text(part)


def is_number(name: str) -> bool:
    """Whether a name is the number of a local variable."""
    return name.startswith(MARK)


def keywords_of(tree: ast.AST) -> set[str]:
    """Names by which code may give a parameter: keywords of calls, and texts, which may be keys of
    ``**arguments``."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg is not None:
            names.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def reads_frames(tree: ast.AST) -> bool:
    """Whether code may look at the variables of its caller, or of a function, by their names."""
    nodes = list(ast.walk(tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if _names(node) & _OF_FRAMES:
            return True
        if isinstance(node, ast.Attribute) and node.attr in ("locals", "exec"):
            return True
        # Under another name, ``locals`` shows the variables of whoever calls it.
        by_name = isinstance(node, ast.Name) and node.id in _BY_NAME | _BY_NAME_WITHOUT_ARGUMENTS
        if by_name and id(node) not in called:
            return True
    return False


def known_packages(tree: ast.AST) -> bool:
    """Whether all that a module imports is known to look at no variable by its name."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [str(node.module)]
        for package in (name.partition(".")[0] for name in names):
            standard = package in sys.stdlib_module_names and package not in _STANDARD_THAT_LOOK
            if not standard and package not in _PACKAGES:
                return False
    return True


def _names(node: ast.AST) -> set[str]:
    """Words in a node that may name a thing, texts for ``getattr`` among them."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute):
        return {node.attr}
    if isinstance(node, ast.alias):
        return {*node.name.split("."), node.asname or ""}
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return set(node.value.replace(".", " ").split())
    return set()


def _left_alone(statement: ast.stmt) -> bool:
    """Whether a definition may see its own variables by their names, or has a scope for types."""
    nodes = list(ast.walk(statement))
    with_arguments = set()
    for node in nodes:
        if isinstance(node, ast.Call) and (node.args or node.keywords):
            with_arguments.add(id(node.func))
    for node in nodes:
        if getattr(node, "type_params", None) or type(node).__name__ == "TypeAlias":
            return True
        if isinstance(node, ast.Name):
            if node.id in _BY_NAME:
                return True
            if node.id in _BY_NAME_WITHOUT_ARGUMENTS and id(node) not in with_arguments:
                return True
    return False


def _names_in(part: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Every place in which the name of a variable may stand, in the order of the text: a node, and
    its attribute that holds the name."""
    if isinstance(part, ast.Name):
        yield part, "id"
    elif isinstance(part, ast.arg):
        yield part, "arg"
    elif isinstance(part, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        yield part, "name"
    elif isinstance(part, ast.MatchMapping):
        yield part, "rest"
    for child in ast.iter_child_nodes(part):
        yield from _names_in(child)
