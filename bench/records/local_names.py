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
from dataclasses import dataclass, field

from bench.records.source_text import source_text

MARK = "·"  # before a number; it may stand within a name of Python, and begins none
# With these a function sees its own variables by their names; ``vars(x)`` and ``dir(x)`` do not.
_BY_NAME = {
    *("locals", "eval", "exec", "__import__", "__builtins__", "NameError", "UnboundLocalError"),
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
    *("models", "tasks", "mamba_ssm", "tqdm"),
}
Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(eq=False)
class Variable:
    """A name of one scope; ``kept`` if it stays in the normal form."""

    name: str
    kept: bool


@dataclass(eq=False)
class _Scope:
    """A module, class, function or comprehension, and the names that it gives a value."""

    parent: _Scope | None
    kind: str
    variables: dict[str, Variable] = field(default_factory=dict)

    def bind(self, name: str, kept: bool) -> None:
        kept = kept or self.kind in ("module", "class") or name.startswith("__")
        variable = self.variables.setdefault(name, Variable(name, kept))
        variable.kept |= kept

    def resolve(self, name: str) -> Variable | None:
        """The variable that a name means here, as Python looks it up: from within a function the
        names of the classes around it are not seen."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.variables and (scope is self or scope.kind != "class"):
                return scope.variables[name]
            scope = scope.parent
        return None


@dataclass(frozen=True)
class _Use:
    """A place in which a name stands, in ``attribute`` of ``node``."""

    node: ast.AST
    attribute: str
    scope: _Scope
    seen: bool  # by more than the code: an annotation

    @property
    def name(self) -> str:
        return str(getattr(self.node, self.attribute))


class LocalNames:
    """The local variables of a module, and the normal form of its parts.

    Args:
        module: its tree, whose names are replaced by :meth:`number`.
        keywords: names by which calls anywhere may give a parameter.
        several: whether lambdas with several parameters are called by position alone. Where the
            caller is not known, two parameters that changed places could not be told.
    """

    def __init__(self, module: ast.Module, keywords: Iterable[str], several: bool = False) -> None:
        self._variables: dict[tuple[int, str], Variable] = {}
        self._nodes = module  # which keeps the ids of its nodes
        for statement in module.body:
            if not _left_alone(statement):
                reader = Reader(frozenset(keywords), several)
                reader.visit(statement)
                self._variables |= reader.variables()

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
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
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
    with_arguments = {
        id(node.func)
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and (node.args or node.keywords)
    }
    for node in ast.walk(statement):
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


class Reader(ast.NodeVisitor):
    """Follows a statement of a module through its scopes."""

    def __init__(self, keywords: frozenset[str], several: bool) -> None:
        self.keywords, self.several = keywords, several
        self.scope = _Scope(None, "module")
        self.uses: list[_Use] = []
        self.declared: set[str] = set()  # global or nonlocal
        self.in_annotation = False

    def variables(self) -> dict[tuple[int, str], Variable]:
        """Place of a name -> the local variable that it means, of those that get a number."""
        meant = [(use, use.scope.resolve(use.name)) for use in self.uses]
        for use, variable in meant:
            if variable is not None:
                # A class body looks in a namespace that may hold anything before it looks outside.
                seen = use.seen or use.scope.kind == "class" or use.name in self.declared
                variable.kept |= seen
        return {
            (id(use.node), use.attribute): variable
            for use, variable in meant
            if variable is not None and not variable.kept
        }

    def use(self, node: ast.AST, attribute: str, scope: _Scope | None = None) -> None:
        self.uses.append(_Use(node, attribute, scope or self.scope, self.in_annotation))

    def bind(self, node: ast.AST, attribute: str, scope: _Scope | None = None) -> None:
        scope = scope or self.scope
        scope.bind(getattr(node, attribute), kept=self.in_annotation)
        self.use(node, attribute, scope)

    def visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def visit_annotations(self, nodes: Iterable[ast.AST | None]) -> None:
        before, self.in_annotation = self.in_annotation, True
        self.visit_all(nodes)
        self.in_annotation = before

    def within(self, kind: str, nodes: Iterable[ast.AST | None]) -> None:
        """Visit nodes in a scope of their own."""
        self.scope = _Scope(self.scope, kind)
        self.visit_all(nodes)
        assert self.scope.parent is not None
        self.scope = self.scope.parent

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.use(node, "id")
        else:
            self.bind(node, "id")

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        scope = self.scope
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        self.bind(node.target, "id", scope)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._bind_and_go_on(node, "name")

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._bind_and_go_on(node, "name")

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._bind_and_go_on(node, "name")

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._bind_and_go_on(node, "rest")

    def _bind_and_go_on(self, node: ast.AST, attribute: str) -> None:
        if getattr(node, attribute) is not None:
            self.bind(node, attribute)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.declared |= {*node.names}

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.declared |= {*node.names}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.scope.bind(alias.asname or alias.name.partition(".")[0], kept=True)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.scope.bind(alias.asname or alias.name, kept=True)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit_all([node.target, node.value])
        self.visit_annotations([node.annotation])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.bind(node.name, kept=True)
        self.visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self.within("class", node.body)

    def visit_FunctionDef(self, node: Function) -> None:
        self.scope.bind(node.name, kept=True)
        self.visit_all([*node.decorator_list, *node.args.defaults, *node.args.kw_defaults])
        parameters = _parameters(node.args)
        self.visit_annotations([*(one.annotation for one in parameters), node.returns])
        self.scope = _Scope(self.scope, "function")
        for parameter in parameters:
            self.scope.bind(parameter.arg, kept=True)
        self.visit_all(node.body)
        assert self.scope.parent is not None
        self.scope = self.scope.parent

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        arguments = node.args
        self.visit_all([*arguments.defaults, *arguments.kw_defaults])
        self.scope = _Scope(self.scope, "function")
        named = {id(one) for one in [*arguments.args, *arguments.kwonlyargs]}
        for parameter in _parameters(arguments):
            by_name = id(parameter) in named
            free = self.several or len(named) == 1
            kept = by_name and (not free or parameter.arg in self.keywords)
            kept = kept or parameter in arguments.kwonlyargs
            self.scope.bind(parameter.arg, kept)
            self.use(parameter, "arg")
        self.visit(node.body)
        assert self.scope.parent is not None
        self.scope = self.scope.parent

    def visit_ListComp(self, node: Comprehension) -> None:
        first, *others = node.generators
        self.visit(first.iter)  # which Python reads in the scope around the comprehension
        inner: list[ast.AST] = [first.target, *first.ifs, *others]
        values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.within("comprehension", [*inner, *values])

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    several = [arguments.vararg, arguments.kwarg]
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *several]
    return [one for one in every if one is not None]
