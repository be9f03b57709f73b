"""Which variable a name means, by the scopes of Python."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(eq=False)
class Variable:
    """A name of one scope; ``kept`` if it stays in the normal form."""

    name: str
    kept: bool


@dataclass(eq=False)
class Scope:
    """A module, class, function or comprehension, and the names that it gives a value, in the order
    in which it does."""

    parent: Scope | None
    kind: str
    variables: dict[str, Variable] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)

    def bind(self, name: str, kept: bool) -> None:
        kept = kept or self.kind in ("module", "class") or name.startswith("__")
        variable = self.variables.setdefault(name, Variable(name, kept))
        variable.kept |= kept

    def resolve(self, name: str) -> Variable | None:
        """The variable that a name means here, as Python looks it up: from within a function the
        names of the classes around it are not seen."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables and (scope is self or scope.kind != "class"):
                return scope.variables[name]
            scope = scope.parent
        return None


@dataclass(frozen=True)
class Use:
    """A place in which a name stands, in ``attribute`` of ``node``."""

    node: ast.AST
    attribute: str
    scope: Scope
    seen: bool  # by more than the code: an annotation

    @property
    def name(self) -> str:
        return str(getattr(self.node, self.attribute))


class ScopeReader(ast.NodeVisitor):
    """Follows a statement of a module through its scopes."""

    def __init__(self, keywords: frozenset[str] = frozenset()) -> None:
        self.keywords = keywords
        self.scope = self.top = Scope(None, "module")
        self.enclosing: dict[int, Scope] = {}
        self.uses: list[Use] = []
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
        variable_by_place = {}
        for use, variable in meant:
            if variable is not None and not variable.kept:
                variable_by_place[id(use.node), use.attribute] = variable
        return variable_by_place

    def global_places(self) -> dict[int, str]:
        """Id of a node -> the name in it, where that is of the module or a built-in one, and only
        the code sees it."""
        name_by_node = {}
        for use in self.uses:
            if not use.seen and use.name not in self.declared and self.is_global(use):
                name_by_node[id(use.node)] = use.name
        return name_by_node

    def is_global(self, use: Use) -> bool:
        """Whether a name is looked up at the top of the module."""
        variable = use.scope.resolve(use.name)
        return variable is None or variable is self.top.variables.get(use.name)

    def use(self, node: ast.AST, attribute: str, scope: Scope | None = None) -> None:
        self.uses.append(Use(node, attribute, scope or self.scope, self.in_annotation))

    def bind(self, node: ast.AST, attribute: str, scope: Scope | None = None) -> None:
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
        self.scope = Scope(self.scope, kind)
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
        self.enclosing[id(node)] = self.scope
        parameters = _parameters(node.args)
        self.visit_annotations([*(parameter.annotation for parameter in parameters), node.returns])
        self.scope = Scope(self.scope, "function")
        for parameter in parameters:
            self.scope.bind(parameter.arg, kept=True)
            self.scope.parameters.append(parameter.arg)
        self.visit_all(node.body)
        assert self.scope.parent is not None
        self.scope = self.scope.parent

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.enclosing[id(node)] = self.scope
        arguments = node.args
        self.visit_all([*arguments.defaults, *arguments.kw_defaults])
        self.scope = Scope(self.scope, "function")
        named = {id(argument) for argument in [*arguments.args, *arguments.kwonlyargs]}
        for parameter in _parameters(arguments):
            by_name = id(parameter) in named
            # Of two, nobody could tell whether they changed places.
            is_kept = by_name and (len(named) > 1 or parameter.arg in self.keywords)
            self.scope.bind(parameter.arg, is_kept or parameter in arguments.kwonlyargs)
            self.scope.parameters.append(parameter.arg)
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
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *several]
    return [parameter for parameter in parameters if parameter is not None]
