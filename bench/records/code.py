"""The hash of the code behind a task or a model, found by reading files: nothing is imported."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bench.records.provenance import COMPUTING_LIBRARIES
from ground.files import ROOT

OWN = ("models", "tasks")  # the packages of this project that decide results


@lru_cache(maxsize=256)  # a file that is edited later is not what this process has imported
def code_hash(target: str) -> str:
    """SHA-256 of the source behind ``package.module.Class``: its module and every module that it
    imports, directly or not, from its own package, from beside it, or from this project's models
    and tasks. Comments, docstrings and layout do not count, so that a better explanation does not
    make results stale. A module that is chosen by name when the program runs does not count."""
    module = target.rpartition(".")[0]
    digest = hashlib.sha256()
    for name, path in sorted(imported_modules(module).items()):
        digest.update(f"{name}\n{_read(path.read_bytes()).code}\n".encode())
    return digest.hexdigest()


def is_own(target: str) -> bool:
    """Whether a class is one of this project's, not of a package of somebody else."""
    return target.partition(".")[0] in OWN


@dataclass(frozen=True)
class _Place:
    """A folder that modules are looked up in, and which of the files there count."""

    root: Path
    counts: Path

    def find(self, name: str) -> Path | None:
        stem = self.root.joinpath(*name.split("."))
        for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
            if path.is_file() and self._has(path.resolve()):
                return path
        return None

    def _has(self, path: Path) -> bool:
        """Whether a file is one of the folder's own, not of an environment that lies in it."""
        inside = path.is_relative_to(self.counts)
        return inside and "site-packages" not in path.relative_to(self.counts).parts


def imported_modules(module: str) -> dict[str, Path]:
    """The modules whose source counts for ``module``, by name."""
    places = [_Place(ROOT, ROOT / name) for name in OWN]
    if module.partition(".")[0] in COMPUTING_LIBRARIES:  # known by its version, and large
        return {}
    if not is_own(module):
        places += _home(module)
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = next(filter(None, (place.find(name) for place in places)), None)
        if name in found or path is None:
            continue
        found[name] = path
        waiting.extend(_names_imported(path, name))
    return found


def _home(module: str) -> list[_Place]:
    """The folder of a module's top-level package, or the module's own folder if it is in none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return []
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return []
    path = Path(spec.origin).resolve()
    if "." not in module:
        return [_Place(path.parent, path.parent)]
    package = path.parents[module.count(".") - (path.name != "__init__.py")]
    return [_Place(package.parent, package)]


def _names_imported(path: Path, module: str) -> Iterator[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for level, base, names in _read(path.read_bytes()).imports:
        if level:  # a relative import
            parts = package.split(".")[: len(package.split(".")) - level + 1]
            base = ".".join([*parts, base] if base else parts)
        yield base
        yield from (f"{base}.{name}" for name in names)


@dataclass(frozen=True)
class _Source:
    """What a file says, without its explanations: its code, and (level, module, names) of each
    import."""

    code: str
    imports: list[tuple[int, str, list[str]]]


@lru_cache(maxsize=512)  # by content: most tasks share most of their modules
def _read(content: bytes) -> _Source:
    tree = ast.parse(content)
    imports: list[tuple[int, str, list[str]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(0, alias.name, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports.append((node.level, node.module or "", [alias.name for alias in node.names]))
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            _drop_docstring(node)
    return _Source(ast.unparse(tree), imports)


def _drop_docstring(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> None:
    first = node.body[0] if node.body else None
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        node.body = node.body[1:] or [ast.Pass()]
