"""Definitions and files that got other names: the older tree under the newer ones.

``models/net.py:rotate=turn`` says that ``rotate`` of that file is ``turn`` in the newer tree, and
``models/net.py=models/web.py`` that the file is. The older tree is rewritten in memory, where the
name is defined and wherever an import leads to it, and is then compared like any other. The word
alone proves nothing: what the name means in the newer tree has to be the same.

Attributes and texts stay as they are. So ``net.rotate``, of a module that was imported as a whole,
cannot be proven.
"""

from __future__ import annotations

import ast
import importlib.util
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.records.equality.scopes import ScopeReader, Variable
from core.errors import UserError, nearest

_RENAME = re.compile(r"(?P<file>[^=:]+\.py)(:(?P<name>\w+))?=(?P<new>[^=:]+)")
HOW = "write models/net.py:Name=New for a definition, models/net.py=models/web.py for a file"


@dataclass(frozen=True)
class Renames:
    """Which names of an older tree are others in a newer one.

    Attributes:
        modules: older dotted name of a module -> its newer one.
        names: older module and name -> the newer name.
    """

    modules: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def read(cls, texts: Iterable[str]) -> Renames:
        """The renames that texts such as ``FILE:NAME=NEW`` and ``FILE=NEW_FILE`` tell.

        Raises:
            UserError: a text is neither, or two rename the same.
        """
        modules: dict[str, str] = {}
        names: dict[tuple[str, str], str] = {}
        for text in texts:
            match = _RENAME.fullmatch(text)
            if match is None:
                raise UserError(f"renamed={text} is no new name: {HOW}")
            module, name, new = _dotted(match["file"]), match["name"], match["new"]
            if name is None:
                if not new.endswith(".py") or new.endswith("__init__.py"):
                    raise UserError(f"renamed={text}: {new} is no file of Python: {HOW}")
                twice = modules.setdefault(module, _dotted(new)) != _dotted(new)
            else:
                if not new.isidentifier() or keyword.iskeyword(new) or new.startswith("__"):
                    raise UserError(f"renamed={text}: {new} is no name for a definition")
                twice = names.setdefault((module, name), new) != new
            if twice:
                raise UserError(f"renamed={text}: another word gives it another name")
        return cls(modules, names)

    def module(self, name: str) -> str:
        """What a module of the older tree is called in the newer one."""
        return self.modules.get(name, name)

    def target(self, dotted: str) -> str:
        """What ``module.Name`` of the older tree is called in the newer one."""
        module, _, name = dotted.rpartition(".")
        return f"{self.module(module)}.{self.names.get((module, name), name)}"

    def before(self, dotted: str) -> str:
        """What ``module.Name`` of the newer tree was called in the older one."""
        module, _, name = dotted.rpartition(".")
        older = next((old for old, new in self.modules.items() if new == module), module)
        same = ((o, n) for (o, n), new in self.names.items() if (o, new) == (older, name))
        return ".".join(next(same, (older, name)))

    def within(self, newer_module: str) -> bool:
        """Whether a name at the top of a module is another one."""
        return any(self.module(module) == newer_module for module, _ in self.names)

    def through(self, trees: Mapping[str, tuple[ast.Module, str]]) -> Renames:
        """With the names by which other modules import what is renamed, and pass it on.

        Args:
            trees: module -> its tree and its package.

        Raises:
            UserError: a file or a name that is renamed is not there.
        """
        for module in [*self.modules, *(module for module, _ in self.names)]:
            if module not in trees:
                raise UserError(f"the older code has no {module}: {nearest(module, trees)}")
        for module, name in self.names:
            top_names = set(_names_at_the_top(trees[module][0]))
            if name not in top_names:
                raise UserError(
                    f"{module} of the older code has no {name}: {nearest(name, top_names)}"
                )
        names = dict(self.names)
        size = -1
        while len(names) > size:
            size = len(names)
            for module, (tree, package) in trees.items():
                for node in _always_run(tree):
                    for alias, origin in _imports_of_names(node, package):
                        if origin in names and alias.asname is None:
                            names[module, alias.name] = names[origin]
        return Renames(self.modules, names)

    def apply(self, tree: ast.Module, module: str, package: str) -> None:
        """Give a module of the older tree the newer names.

        Raises:
            UserError: a newer name already means something in the module.
        """
        if not self.modules and not self.names:
            return
        renamed = {name: new for (place, name), new in self.names.items() if place == module}
        come = set(renamed.values())
        for node in ast.walk(tree):
            for alias, origin in _imports_of_names(node, package):
                if origin in self.names and alias.asname is None:
                    come.add(self.names[origin])
        if taken := come & {name for node in ast.walk(tree) for name in _all_names(node)}:
            raise UserError(f"{module} of the older code already has a name {min(taken)}")
        for statement in tree.body:
            _Renamer(self, module, package, renamed).rename(statement)


NO_RENAMES = Renames()


class _Renamer(ScopeReader):
    """Gives a statement the newer names of what its module and its functions import."""

    def __init__(self, renames: Renames, module: str, package: str, own: Mapping[str, str]) -> None:
        super().__init__()
        self.renames, self.module, self.package, self.own = renames, module, package, own
        self.imported: dict[Variable, str] = {}  # by a function -> newer name

    def rename(self, statement: ast.stmt) -> None:
        self.visit(statement)
        if names := self.declared & set(self.own):
            raise UserError(f"{self.module} declares {min(names)} global: rename it by hand")
        for use in self.uses:
            variable = use.scope.resolve(use.name)
            if variable is None or self.is_global(use):
                new = self.own.get(use.name)
            else:
                new = self.imported.get(variable)
            if new is not None:
                setattr(use.node, use.attribute, new)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            statement.name = self.own.get(statement.name, statement.name)

    def visit_Import(self, node: ast.Import) -> None:
        super().visit_Import(node)
        for alias in node.names:
            alias.name = self.renames.module(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        super().visit_ImportFrom(node)
        base = _base(node, self.package)
        for alias in node.names:
            bound = alias.asname or alias.name
            new = self.renames.names.get((base, alias.name))
            whole = self.renames.modules.get(f"{base}.{alias.name}")
            if whole is not None and whole.rpartition(".")[0] == base:
                new = whole.rpartition(".")[2]
            if new is not None:
                alias.name = new
                if alias.asname is None and self.scope.parent is not None:
                    self.imported[self.scope.variables[bound]] = new
        if base in self.renames.modules or (node.level and self.module in self.renames.modules):
            node.module, node.level = self.renames.module(base), 0


def _dotted(file: str) -> str:
    path = Path(file)
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _always_run(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements at the top, and those under ``if TYPE_CHECKING:`` there."""
    for node in tree.body:
        yield from [node, *(node.body if isinstance(node, ast.If) else [])]


def _base(node: ast.ImportFrom, package: str) -> str:
    base = "." * node.level + (node.module or "")
    return importlib.util.resolve_name(base, package) if node.level else base


def _imports_of_names(node: ast.AST, package: str) -> Iterator[tuple[ast.alias, tuple[str, str]]]:
    """The names that an import takes, each with its module and its name there."""
    if isinstance(node, ast.ImportFrom):
        base = _base(node, package)
        for alias in node.names:
            yield alias, (base, alias.name)


def _names_at_the_top(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _all_names(node: ast.AST) -> Iterator[str]:
    """Names that a node gives a meaning, or looks up."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        yield node.name or ""
