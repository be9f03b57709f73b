"""The hash of the code behind a task or a model, found by reading files: nothing is imported."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import lru_cache
from pathlib import Path

from bench.records.provenance import COMPUTING_LIBRARIES
from ground.files import ROOT
from ground.sources import read_source
from settings.class_files import files_of, is_class_file

OWN = ("models", "tasks")  # the packages of this project that decide results


@lru_cache(maxsize=256)  # a file that is edited later is not what this process has imported
def code_hash(target: str, root: Path = ROOT) -> str:
    """SHA-256 of the source behind ``package.module.Class``: its module and every module that it
    imports, directly or not, from its own package, from beside it, or from this project's models
    and tasks. Of a class in a file that was named by its path, the path does not count. Comments, docstrings and layout do not count, so that a better explanation does not
    make results stale. A module that is chosen by name when the program runs does not count.

    Args:
        root: another checkout of this project, such as an older one.

    Raises:
        UserError: a file of them is no Python.
    """
    module = target.rpartition(".")[0]
    digest = hashlib.sha256()
    for name, path in sorted(imported_modules(module, root).items()):
        text, _ = read_source(path, _package(name, path))
        digest.update(f"{name}\n{text}\n".encode())
    return digest.hexdigest()


def is_own(target: str) -> bool:
    """Whether a class is one of this project's, not of a package of somebody else."""
    return target.partition(".")[0] in OWN


def imported_modules(module: str, root: Path = ROOT) -> dict[str, Path]:
    """The modules whose source counts for ``module``, by name; its own of a checkout at ``root``.

    Raises:
        UserError: a file of them is no Python.
    """
    if module.partition(".")[0] in COMPUTING_LIBRARIES:  # known by its version, and large
        return {}
    places = [(root, root / name) for name in OWN]
    if not is_own(module):
        places += home(module)
    found: dict[str, Path] = {}
    waiting = {module}
    if is_class_file(module):
        files = files_of(module)
        found = {name: file.path for name, file in files.items()}
        waiting = {name for file in files.values() for name in file.imports} - found.keys()
    while waiting:
        name = waiting.pop()
        path = next(filter(None, (_find(name, *place) for place in places)), None)
        if path is not None:
            found[name] = path
            waiting |= read_source(path, _package(name, path))[1] - found.keys()
    return found


def _find(name: str, root: Path, counts: Path) -> Path | None:
    """The file of a module below ``root``; of ``counts`` itself, not of an environment in it."""
    stem = root.joinpath(*name.split("."))
    for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
        real = path.resolve()
        try:
            inside = path.is_file() and real.is_relative_to(counts)
        except OSError:  # a record may name anything, such as what is too long for a file
            return None
        if inside and "site-packages" not in real.relative_to(counts).parts:
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
