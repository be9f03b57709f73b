"""Which definitions of two trees of source are the same, wherever they lie. No code is run.

A statement at the top of a module is a function, a class or a value, without comments, docstrings
and layout. One of the older tree and one of the newer are *twins* if their text is equal and they
lie in the same module, or if no module kept that text and each tree has it once. Twins are the
*same* if every name in them leads to the same thing: through the imports of either tree to
statements that are the same, or to one name of another package. Whatever cannot be told counts as
not the same.

Example: ``rotate`` moves from ``models/gpt2.py`` to ``models/layers/rotary.py``, from where
``models/gpt2.py`` imports it. The text of ``Attention`` is what it was, and its name ``rotate``
leads to the twin of what it led to.
"""

from __future__ import annotations

import ast
import importlib.util
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.records.code import DOCUMENTED, OWN, imported_modules
from bench.records.source_text import source_text
from ground.errors import VERIFICATION_FAILED, UserError

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
        binds: names that it gives a value in its module.
        names: that it may look up there.
        imports: dotted names that it imports when it runs.
        stays: whether it may mean something else in another module.
    """

    module: str
    text: str
    binds: frozenset[str]
    names: frozenset[str]
    imports: frozenset[str]
    stays: bool

    @property
    def shown(self) -> str:
        """Its dotted name, or how it begins."""
        own = sorted(self.binds) or [f"{self.text.splitlines()[0]:.60}"]
        return f"{self.module}.{own[0]}" if self.binds else f"{self.module}: {own[0]}"


@dataclass(frozen=True)
class Module:
    """A file; ``imports`` has name -> the dotted names that it stands for."""

    statements: tuple[Statement, ...]
    imports: Mapping[str, tuple[str, ...]]
    future: frozenset[str]


Thing = Statement | str  # a statement, or the dotted name of a module or of something outside


class Source:
    """The models and tasks below a folder.

    Raises:
        UserError: a file of them is no Python, or imports everything of another.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = [path for name in OWN for path in sorted((root / name).rglob("*.py"))]
        self.modules = {_name(path, root): _module(path, root) for path in paths}

    def leads_to(self, module: str, name: str) -> tuple[Thing, ...]:
        """All that a name may stand for at the top of a module; nothing for a local or built-in
        one."""
        own = self.modules[module]
        found: list[Thing] = [one for one in own.statements if name in one.binds]
        for dotted in own.imports.get(name, ()):
            found += self.origin(dotted)
        return tuple(found)

    def origin(self, dotted: str) -> tuple[Thing, ...]:
        """What a dotted name stands for."""
        module, _, name = dotted.rpartition(".")
        if module in self.modules and (found := self.leads_to(module, name)):
            return found
        return (dotted,)

    def effects(self, target: str) -> list[Statement]:
        """Statements that only do something, in all modules that the module of a class imports."""
        every = sorted(imported_modules(target.rpartition(".")[0], self.root))
        return [one for name in every for one in self.modules[name].statements if not one.binds]


class Moves:
    """The definitions of two trees, matched.

    Attributes:
        twins: of the older tree -> of the newer.
        same: those of the older tree that are the same as their twins.
    """

    def __init__(self, old: Source, new: Source) -> None:
        self.old, self.new = old, new
        self.twins = _twins(old, new)
        self.same = set(self.twins)
        while doubtful := {one for one in self.same if self._difference(one)}:
            self.same -= doubtful

    def today(self, target: str) -> str | None:
        """What a class is called in the newer tree; None if it, or anything that it leads to, is
        not the same there."""
        found = self.old.origin(target)
        if len(found) != 1 or isinstance(found[0], str) or found[0] not in self.same:
            return None
        (twin,) = (self.twins[one] for one in found if isinstance(one, Statement))
        name = target.rpartition(".")[2]
        here = target if self.new.origin(target) == (twin,) else f"{twin.module}.{name}"
        effects = self.old.effects(target)
        known = all(one in self.same for one in effects)
        alike = known and [self.twins[one] for one in effects] == self.new.effects(here)
        return here if alike else None

    def moved_behind(self, target: str) -> dict[str, str]:
        """The definitions behind a class that lie in another module now: old name -> new name."""
        moved = [one for one in self._behind(target) if self.twins[one].module != one.module]
        return {one.shown: self.twins[one].shown for one in sorted(moved, key=lambda s: s.shown)}

    def why_not(self, target: str) -> str:
        """Why a class has no name in the newer tree."""
        for one in self._behind(target):
            if one not in self.twins:
                return f"{one.shown} of the older code is not here, or differs"
            if one not in self.same and all(found in self.same for found in self._reached(one)):
                return f"{one.shown}: {self._difference(one)}"
        return "what runs when its modules are imported is not the same"

    def _behind(self, target: str) -> list[Statement]:
        """The older tree's statements that a class leads to, itself first."""
        found = dict.fromkeys(s for s in self.old.origin(target) if isinstance(s, Statement))
        waiting = [*found]
        while waiting:
            more = [one for one in self._reached(waiting.pop()) if one not in found]
            found |= dict.fromkeys(more)
            waiting += more
        return [*found]

    def _reached(self, one: Statement) -> list[Statement]:
        """Other statements of the older tree that one leads to at once."""
        things = [x for name in one.names for x in self.old.leads_to(one.module, name)]
        things += [x for dotted in one.imports for x in self.old.origin(dotted)]
        return [x for x in things if isinstance(x, Statement) and x is not one]

    def _difference(self, one: Statement) -> str:
        """What a statement of the older tree and its twin lead to that is not the same; empty if
        nothing is."""
        twin = self.twins[one]
        here, there = self.old.modules[one.module], self.new.modules[twin.module]
        if here.future != there.future:
            return "its modules have other imports from __future__"
        for name in sorted(one.names):
            both = self.old.leads_to(one.module, name), self.new.leads_to(twin.module, name)
            if not self._equal(*both):
                return f"the name {name} is something else here"
        for dotted in sorted(one.imports):
            if not self._equal(self.old.origin(dotted), self.new.origin(dotted)):
                return f"its import of {dotted} gives something else here"
        return ""

    def _equal(self, before: tuple[Thing, ...], after: tuple[Thing, ...]) -> bool:
        if len(before) > 1 or len(before) != len(
            after
        ):  # which of several counts, is not looked at
            return False
        return all(self._is(*pair) for pair in zip(before, after, strict=True))

    def _is(self, before: Thing, after: Thing) -> bool:
        if isinstance(before, Statement):
            return before in self.same and self.twins[before] is after
        if before != after:
            return False
        if before.partition(".")[0] not in OWN:
            return True
        return before in self.old.modules and self._whole(before)

    def _whole(self, module: str) -> bool:
        """Whether a module that is passed about as a thing has all its names as they were."""
        if module not in self.new.modules:
            return False
        both = self.old.modules[module], self.new.modules[module]
        names = {n for one in both for s in one.statements for n in s.binds} | {
            *both[0].imports,
            *both[1].imports,
        }
        pairs = ((self.old.leads_to(module, n), self.new.leads_to(module, n)) for n in names)
        return all(self._equal(*pair) for pair in pairs)


def _twins(old: Source, new: Source) -> dict[Statement, Statement]:
    found: dict[Statement, Statement] = {}
    gone, come = defaultdict[str, list[Statement]](list), defaultdict[str, list[Statement]](list)
    empty = Module((), {}, frozenset())
    for name in {*old.modules, *new.modules}:
        before, after = (source.modules.get(name, empty).statements for source in (old, new))
        here = defaultdict[str, list[Statement]](list)
        for one in after:
            here[one.text].append(one)
        for one in before:
            if here[one.text]:
                found[one] = here[one.text].pop(0)
            else:
                gone[one.text].append(one)
        for text, ones in here.items():
            come[text] += ones
    for text, ones in gone.items():
        if len(ones) == len(come[text]) == 1 and ones[0].binds and not ones[0].stays:
            found[ones[0]] = come[text][0]
    return found


def _name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _module(path: Path, root: Path) -> Module:
    name = _name(path, root)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{path} is no Python ({error}): mend that file") from None
    imports: dict[str, tuple[str, ...]] = {}
    future, statements = frozenset[str](), []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            future |= {alias.name for alias in node.names}
        elif _only_for_types(node) or isinstance(node, ast.Import | ast.ImportFrom):
            for own, dotted in _imported(node, package, path):
                imports[own] = (*imports.get(own, ()), dotted)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            statements.append(node)
    made = (_statement(name, node, imports, package, path) for node in statements)
    return Module(tuple(made), imports, future)


def _only_for_types(node: ast.stmt) -> bool:
    """``if TYPE_CHECKING:`` over imports alone, which never run."""
    if not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING" or node.orelse:
        return False
    return all(isinstance(one, ast.Import | ast.ImportFrom) for one in node.body)


def _imported(node: ast.AST, package: str, path: Path) -> Iterator[tuple[str, str]]:
    """Names that the imports in a node bind, with the dotted names that they stand for."""
    for one in ast.walk(node):
        if isinstance(one, ast.Import):
            for alias in one.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname or top), (alias.name if alias.asname else top)
        elif isinstance(one, ast.ImportFrom):
            base = "." * one.level + (one.module or "")
            base = importlib.util.resolve_name(base, package)
            for alias in one.names:
                if alias.name == "*":
                    raise UserError(
                        f"{path} imports everything of {base}: name what it takes, so that a proof "
                        "can follow it",
                        VERIFICATION_FAILED,
                    )
                yield (alias.asname or alias.name), f"{base}.{alias.name}"


def _statement(
    module: str, node: ast.stmt, imports: Mapping[str, tuple[str, ...]], package: str, path: Path
) -> Statement:
    for one in ast.walk(node):
        if isinstance(one, DOCUMENTED) and ast.get_docstring(one, clean=False) is not None:
            one.body = one.body[1:] or [ast.Pass()]
    names = frozenset(one.id for one in ast.walk(node) if isinstance(one, ast.Name))
    attributes = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    decorated = any(
        _dotted(one, imports) not in DECORATORS for one in getattr(node, "decorator_list", ())
    )
    return Statement(
        module,
        source_text(node),
        frozenset(_bound(node)),
        names,
        frozenset(dotted for _, dotted in _imported(node, package, path)),
        stays=decorated or bool((names | attributes) & OF_A_PLACE),
    )


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that a statement gives a value outside of inner functions and classes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif not isinstance(node, ast.Lambda):
        for one in ast.iter_child_nodes(node):
            yield from _bound(one)


def _dotted(node: ast.expr, imports: Mapping[str, tuple[str, ...]]) -> str:
    """The name of a decorator as other modules know it: ``functools.cache``."""
    if isinstance(node, ast.Call):
        return _dotted(node.func, imports)
    first, _, rest = ast.unparse(node).partition(".")
    (known,) = imports.get(first, (first,))[:1]
    return f"{known}.{rest}" if rest else known
