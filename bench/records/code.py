"""The hash of the code behind a task or a model, found by reading files: nothing is imported."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bench.config.source_files import (
    class_name,
    file_and_class,
    modules_beside,
    names_file,
    path_of_file,
    place_of_source,
    source_name,
)
from bench.records.provenance import COMPUTING_LIBRARIES
from bench.records.source_text import source_text
from core.errors import UserError
from core.files import ROOT

if TYPE_CHECKING:
    from bench.records.schema import RunRecord

OWN = ("models", "tasks")  # the packages of this project that decide results
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_hash(target: str, root: Path = ROOT, *, by_later_python: bool = False) -> str:
    """SHA-256 of the source behind ``package.module.Class`` or ``net.py:Class``: its module and
    every module that it imports, directly or not, from its own package, from beside it, or from
    this project's models and tasks. Comments, docstrings and layout do not count, so that a better
    explanation does not make results stale; nor does the place of a file. A module that is chosen
    by name when the program runs does not count.

    Args:
        root: another checkout of this project, such as an older one.
        by_later_python: the hash that Python 3.12 and 3.13 gave the same code before texts were
            made equal (``source_text``).

    Raises:
        UserError: a file of them is no Python.
    """
    return _code_hash(target, root, place_of_source(target), by_later_python)


class ClassOfFile(str):
    """The name of a class that was named by its file: ``GRU``, and which records are of that file.

    Equal to the plain name, by which records call the class wherever its file lies, but not to a
    class of this name in another file.

    Attributes:
        target: ``net.py:GRU``, as settings in records have it.
        codes: hashes of the file and its modules as they are now.
    """

    target: str
    codes: frozenset[str]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ClassOfFile):
            return (self.target, self.codes) == (other.target, other.codes)
        return str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def named_class(place: str) -> str:
    """The class of ``./net.py:GRU`` or ``package.GRU`` as records call it; of a file a
    :class:`ClassOfFile`, which is also returned as it is.

    Raises:
        UserError: there is no such file, it is no Python, or no class is named.
    """
    if isinstance(place, ClassOfFile):
        return place
    parts = file_and_class(place)
    if parts is None:
        return class_name(place)
    path = path_of_file(parts[0])
    named = ClassOfFile(parts[1])
    named.target = f"{path.name}:{named}"
    versions = (False, True)  # of Python
    named.codes = frozenset(_hash_now(named.target, ROOT, path, later) for later in versions)
    return named


def is_of_file(names: Iterable[str], record: RunRecord, group: Literal["models", "tasks"]) -> bool:
    """Whether the model or task of a record, which one of some names may stand for, is of the file
    that this name was given by; of a plain name it always is."""
    of_models = group == "models"
    name = record.model if of_models else record.task
    code = record.provenance.model_code if of_models else record.provenance.task_code
    target = record.config.get(group, {}).get("_target_")
    of_files = [other for other in names if isinstance(other, ClassOfFile) and other == name]
    return not of_files or any(f.target == target and code in f.codes for f in of_files)


def _hash_now(target: str, root: Path, file: Path | None, by_later_python: bool) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(modules_behind(target, root, file).items()):
        text, _ = _source(name, path, by_later_python)
        digest.update(f"{name}\n{text}\n".encode())
    return digest.hexdigest()


# A file that is edited later is not what this process has imported.
_code_hash = lru_cache(maxsize=256)(_hash_now)


def forget_code() -> None:
    """Read files anew, for a process in which modules were replaced."""
    _code_hash.cache_clear()


def is_own(target: str) -> bool:
    """Whether a class is one of this project's, not of a package or a file of somebody else."""
    return source_name(target) in OWN


def modules_behind(target: str, root: Path = ROOT, file: Path | None = None) -> dict[str, Path]:
    """The modules whose source counts for a class, by name; none of a file that nobody named.

    Args:
        root: another checkout of this project.
        file: where the file lies, if not where it was noted.

    Raises:
        UserError: a file of them is no Python.
    """
    if not names_file(target):
        return imported_modules(target.rpartition(".")[0], root)
    file = file or place_of_source(target)
    if file is None:
        return {}
    try:
        beside = modules_beside(file)
    except SyntaxError as error:
        place = f"{error.filename}, line {error.lineno},"
        raise UserError(f"{place} is no Python ({error.msg}): mend that file") from None
    return _followed(beside, [*_own_places(root), (file.parent, file.parent)])


def imported_modules(module: str, root: Path = ROOT) -> dict[str, Path]:
    """The modules whose source counts for ``module``, by name; its own of a checkout at ``root``.

    Raises:
        UserError: a file of them is no Python.
    """
    if module.partition(".")[0] in COMPUTING_LIBRARIES:  # known by its version, and large
        return {}
    others = [] if module.partition(".")[0] in OWN else home(module)
    return _followed([module], [*_own_places(root), *others])


def _own_places(root: Path) -> list[tuple[Path, Path]]:
    return [(root, root / name) for name in OWN]


def _followed(modules: Iterable[str], places: list[tuple[Path, Path]]) -> dict[str, Path]:
    """Some modules and all that they import from some places: where a name is looked up, and below
    which folder its file counts."""
    paths: dict[str, Path] = {}
    waiting = {*modules}
    while waiting:
        name = waiting.pop()
        path = next(filter(None, (_find(name, *place) for place in places)), None)
        if path is not None:
            paths[name] = path
            waiting |= _source(name, path)[1] - paths.keys()
    return paths


def _find(name: str, root: Path, counts: Path) -> Path | None:
    """The file of a module below ``root``; of ``counts`` itself, not of an environment in it."""
    stem = root.joinpath(*name.split("."))
    for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
        try:
            if not path.is_file():  # as of most names: they are what a module holds
                continue
            real = path.resolve()
        except OSError:  # a record may name anything, such as what is too long for a file
            return None
        if real.is_relative_to(counts) and "site-packages" not in real.relative_to(counts).parts:
            return path
    return None


def home(module: str) -> list[tuple[Path, Path]]:
    """Where to look modules up, and whose files count: the folder of a module's top-level package,
    which the module may be itself, or the module's own folder if it is in none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return []
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return []
    path = Path(spec.origin).resolve()
    if "." not in module and path.name != "__init__.py":
        return [(path.parent, path.parent)]
    package = path.parents[module.count(".") - (path.name != "__init__.py")]
    return [(package.parent, package)]


def _package(module: str, path: Path) -> str:
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def _source(module: str, path: Path, by_later_python: bool = False) -> tuple[str, set[str]]:
    try:
        return _code_and_imports(path.read_bytes(), _package(module, path), by_later_python)
    except SyntaxError as error:
        place = f"{path}, line {error.lineno}," if error.lineno else f"{path}"
        raise UserError(f"{place} is no Python ({error.msg}): mend that file") from None
    except ValueError as error:  # a zero byte
        raise UserError(f"{path} is no Python ({error}): mend that file") from None


@lru_cache(maxsize=512)  # by content: most tasks share most of their modules
def _code_and_imports(content: bytes, package: str, by_later_python: bool) -> tuple[str, set[str]]:
    """The code of a file without its explanations, and the names of what it may import."""
    tree = ast.parse(content)
    names: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # a relative import that leaves its package finds nothing
                base = "." * node.level + (node.module or "")
                base = importlib.util.resolve_name(base, package)
                names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return source_text(tree, by_later_python=by_later_python), names


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """A module and every statement in it, without what statements are made of: nothing there
    imports, or has an explanation of its own."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, block, ())
