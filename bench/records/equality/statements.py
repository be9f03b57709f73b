"""The statements of models and tasks, each with what the names in it lead to. No code is run."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.records.code import DOCUMENTED, OWN, imported_modules
from bench.records.equality.local_names import (
    LocalNames,
    is_number,
    keywords_of,
    known_packages,
    reads_frames,
)
from bench.records.equality.renames import NO_RENAMES, Renames
from bench.records.source_text import source_text
from core.errors import VERIFICATION_FAILED, UserError

# What these make of a function or class does not depend on where it lies.
DECORATORS = {
    "contextlib.contextmanager",
    "dataclasses.dataclass",
    "functools.cache",
    "functools.lru_cache",
    "torch.no_grad",
    "typing.runtime_checkable",
}
# Names by which code learns its own place, or reaches another without naming it.
OF_A_PLACE = {
    *("__file__", "__name__", "__module__", "__package__", "__spec__"),
    *("__import__", "eval", "exec", "globals"),
}


@dataclass(frozen=True, eq=False)
class Statement:
    """One at the top of a module that is no import.

    Attributes:
        text: without comments, docstrings and layout.
        normal_form: the text with numbers for names of local variables.
        binds: names that it gives a value in its module.
        names: that it may look up there.
        imports: dotted names that it imports when it runs.
        stays: whether it may mean something else in another module.
        reads_names: whether it may look at the name of a function or class.
    """

    module: str
    text: str
    normal_form: str
    binds: frozenset[str]
    names: frozenset[str]
    imports: frozenset[str]
    stays: bool
    reads_names: bool

    @property
    def shown(self) -> str:
        """How messages name the statement: by its dotted name, or by how it begins."""
        bound = sorted(self.binds) or [f"{self.text.splitlines()[0]:.60}"]
        return f"{self.module}.{bound[0]}" if self.binds else f"{self.module}: {bound[0]}"


@dataclass(frozen=True)
class Module:
    """A file; ``imports`` has name -> the dotted names that it stands for."""

    statements: tuple[Statement, ...]
    imports: Mapping[str, tuple[str, ...]]
    future: frozenset[str]


Thing = Statement | str  # a statement, or the dotted name of a module or of something outside


class Source:
    """The models and tasks below a folder.

    Args:
        renames: definitions and files that have other names in the tree that this one is compared
            with; here they have these already.

    Raises:
        UserError: a file of them is no Python, or imports everything of another; what is to be
            renamed is not there.
    """

    def __init__(self, root: Path, renames: Renames = NO_RENAMES) -> None:
        self.root = root
        paths: list[Path] = []
        for package in OWN:
            paths += sorted((root / package).rglob("*.py"))
        trees = {_name(path, root): (_tree(path), path) for path in paths}
        self.renames = renames.through(
            {name: (tree, _package(name, path)) for name, (tree, path) in trees.items()}
        )
        keywords = frozenset[str]().union(*(keywords_of(tree) for tree, _ in trees.values()))
        frames_are_read = any(reads_frames(tree) for tree, _ in trees.values())
        self.modules: dict[str, Module] = {}
        for name, (tree, path) in trees.items():
            self.renames.apply(tree, name, _package(name, path))
            by_position = not frames_are_read and known_packages(tree)
            local_names = LocalNames(tree, keywords) if by_position else None
            newer = self.renames.module(name)
            self.modules[newer] = _module(newer, _package(newer, path), tree, path, local_names)

    def leads_to(self, module: str, name: str) -> tuple[Thing, ...]:
        """All that a name may stand for at the top of a module; nothing for a local or built-in
        one."""
        entry = self.modules[module]
        things: list[Thing] = [
            statement for statement in entry.statements if name in statement.binds
        ]
        for dotted in entry.imports.get(name, ()):
            things += self.origin(dotted)
        return tuple(things)

    def origin(self, dotted: str) -> tuple[Thing, ...]:
        """What a dotted name stands for."""
        module, _, name = dotted.rpartition(".")
        if module in self.modules and (things := self.leads_to(module, name)):
            return things
        return (dotted,)

    def effects(self, target: str) -> list[Statement]:
        """Statements that only do something, in all modules that the module of a class imports."""
        imported = imported_modules(target.rpartition(".")[0], self.root)
        modules = sorted(map(self.renames.module, imported))
        effects = []
        for name in modules:
            effects += [each for each in self.modules[name].statements if not each.binds]
        return effects


def _name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _package(name: str, path: Path) -> str:
    return name if path.name == "__init__.py" else name.rpartition(".")[0]


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{path} is no Python ({error}): mend that file") from None


def _module(
    name: str, package: str, tree: ast.Module, path: Path, local_names: LocalNames | None
) -> Module:
    imports: dict[str, tuple[str, ...]] = {}
    future, statements = frozenset[str](), []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            future |= {alias.name for alias in node.names}
        elif _only_for_types(node) or isinstance(node, ast.Import | ast.ImportFrom):
            for bound, dotted in _imported(node, package, path):
                imports[bound] = (*imports.get(bound, ()), dotted)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            statements.append(node)
    parsed = (_statement(name, node, imports, package, path, local_names) for node in statements)
    return Module(tuple(parsed), imports, future)


def _only_for_types(node: ast.stmt) -> bool:
    """``if TYPE_CHECKING:`` over imports alone, which never run."""
    if not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING" or node.orelse:
        return False
    return all(isinstance(child, ast.Import | ast.ImportFrom) for child in node.body)


def _imported(node: ast.AST, package: str, path: Path) -> Iterator[tuple[str, str]]:
    """Names that the imports in a node bind, with the dotted names that they stand for."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                top = alias.name.partition(".")[0]
                # ``import models.net`` binds ``models``, but it is ``models.net`` that it is for.
                whole = alias.asname or top in OWN
                yield (alias.asname or top), (alias.name if whole else top)
        elif isinstance(child, ast.ImportFrom):
            base = "." * child.level + (child.module or "")
            base = importlib.util.resolve_name(base, package)
            for alias in child.names:
                if alias.name == "*":
                    raise UserError(
                        f"{path} imports everything of {base}: name what it takes, so that a proof "
                        "can follow it",
                        VERIFICATION_FAILED,
                    )
                yield (alias.asname or alias.name), f"{base}.{alias.name}"


def _statement(
    module: str,
    node: ast.stmt,
    imports: Mapping[str, tuple[str, ...]],
    package: str,
    path: Path,
    local_names: LocalNames | None,
) -> Statement:
    nodes = list(ast.walk(node))
    for child in nodes:
        if isinstance(child, DOCUMENTED) and ast.get_docstring(child, clean=False) is not None:
            child.body = child.body[1:] or [ast.Pass()]
    text = source_text(node)
    normal_form = local_names.text(node) if local_names else text
    used = {child.id for child in nodes if isinstance(child, ast.Name)}
    names = frozenset(name for name in used if not is_number(name))
    attributes = {child.attr for child in nodes if isinstance(child, ast.Attribute)}
    decorated = any(
        _dotted(child, imports) not in DECORATORS for child in getattr(node, "decorator_list", ())
    )
    return Statement(
        module,
        text,
        normal_form,
        frozenset(name for name in _bound(node) if not is_number(name)),
        names,
        frozenset(dotted for _, dotted in _imported(node, package, path)),
        stays=decorated or bool((names | attributes) & OF_A_PLACE),
        reads_names=_reads_names(node),
    )


def _reads_names(node: ast.AST) -> bool:
    """Whether it looks at the name of a function or class, but to say what it raises."""
    if isinstance(node, ast.Raise):
        return False
    if isinstance(node, ast.Attribute) and node.attr in ("__name__", "__qualname__"):
        return True
    return any(map(_reads_names, ast.iter_child_nodes(node)))


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that a statement gives a value outside of inner functions and classes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _bound(child)


def _dotted(node: ast.expr, imports: Mapping[str, tuple[str, ...]]) -> str:
    """The name of a decorator as other modules know it: ``functools.cache``."""
    if isinstance(node, ast.Call):
        return _dotted(node.func, imports)
    first, _, rest = ast.unparse(node).partition(".")
    (origin,) = imports.get(first, (first,))[:1]
    return f"{origin}.{rest}" if rest else origin
