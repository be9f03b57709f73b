"""Who made a number: hashes of code, data and libraries, the device, the commit, the command."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.ground.files import ROOT
from bench.records.schema import Provenance, make_run_id
from bench.settings.settings import Configuration


@dataclass(frozen=True)
class Identity:
    """What makes a run the same run; the seed is apart."""

    configuration: Configuration
    identity: str
    provenance: Provenance

    def run_id(self, seed: int) -> str:
        """The name of the run with ``seed``."""
        c = self.configuration
        return make_run_id(c.task, c.model, c.preset, self.identity, seed)


PLACES = ("store", "output")  # words of a command that name a place on this machine
# Raised whenever the engine's own behaviour changes a result (an optimiser rule, a schedule, the
# seeding of steps): it is part of a run's identity, so that no older result is served as current.
PROTOCOL_VERSION = 1
# The libraries that compute: another version of one of them is another identity.
COMPUTING_LIBRARIES = ("lightning", "numpy", "torch")


@lru_cache(maxsize=64)  # a file that is edited later is not what this process has imported
def code_hash(target: str) -> str:
    """SHA-256 of the source behind ``package.module.Class``: its module and every module that it
    imports, directly or not, from its own package, from beside it, or from this project's models
    and tasks. Comments, docstrings and layout do not count, so that a better explanation does not
    make results stale."""
    module = target.rpartition(".")[0]
    digest = hashlib.sha256()
    for name, path in sorted(_imported_modules(module).items()):
        digest.update(f"{name}\n{_essence(path)}\n".encode())
    return digest.hexdigest()


def _imported_modules(module: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    folders = [ROOT / "models", ROOT / "tasks"]
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            continue
        path = Path(spec.origin).resolve()
        if name == module:
            folders.append(_home(name, path))
        if not any(_belongs(path, folder) for folder in folders):
            continue
        found[name] = path
        is_package = spec.submodule_search_locations is not None
        waiting.extend(_names_imported(Path(spec.origin), name if is_package else _parent(name)))
    return found


def _belongs(path: Path, folder: Path) -> bool:
    """Whether a file is one of the folder's own, not of an environment that lies in it."""
    return path.is_relative_to(folder) and "site-packages" not in path.relative_to(folder).parts


def _home(module: str, path: Path) -> Path:
    """The folder of a module's top-level package, or the module's own folder if it is in none."""
    if "." not in module:
        return path.parent
    depth = module.count(".") - (path.name != "__init__.py")
    return path.parents[depth]


def _names_imported(path: Path, package: str) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # a relative import
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, base] if base else parts)
            names.append(base)
            names.extend(f"{base}.{alias.name}" for alias in node.names)
    return [name for name in names if _is_module(name)]


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


def _essence(path: Path) -> str:
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def library_versions() -> dict[str, str]:
    """Versions of the libraries that compute, and of Python (major and minor)."""
    versions = {name: importlib.metadata.version(name) for name in COMPUTING_LIBRARIES}
    versions["python"] = ".".join(platform.python_version_tuple()[:2])
    return versions


def sha256_of(value: Any) -> str:
    """SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1)
def commit_and_dirty() -> tuple[str | None, bool | None]:
    """The checked-out commit and whether code or settings differ from it; None outside of git."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # A new file that git does not know yet is not in the commit either.
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", "*.py", "*.yaml"))
    except (OSError, subprocess.CalledProcessError):
        return None, None


def processor() -> str:
    """The name of the processor, as far as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def collect(
    *,
    model_code: str,
    task_code: str,
    data: dict[str, str],
    precision: str,
    device_class: str,
    started: datetime,
    locations: Collection[str] = (),
) -> Provenance:
    """The provenance of a run on this machine.

    Args:
        locations: arguments of the task that name places on this machine; records are published,
            so the command that they keep says PATH instead.
    """
    libraries = library_versions()
    commit, dirty = commit_and_dirty()
    return Provenance(
        model_code=model_code,
        task_code=task_code,
        data=data,
        library_lock=sha256_of(libraries),
        libraries=libraries,
        precision=precision,
        device_class=device_class,
        protocol_version=PROTOCOL_VERSION,
        device=processor() if device_class == "cpu" else device_class,
        platform=platform.platform(),
        python=platform.python_version(),
        commit=commit,
        dirty=dirty,
        command=_command(locations),
        started_at=started.astimezone(UTC).isoformat(timespec="seconds"),
    )


def _command(locations: Collection[str] = ()) -> str:
    words = [*_program(), *(_without_place(word, locations) for word in sys.argv[1:])]
    # Records are published.
    return re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", shlex.join(words))


def _program() -> list[str]:
    """``python -m MODULE`` for a command of the project, in its worker processes too: these know
    the file of the command but run another module."""
    path = Path(sys.argv[0]).resolve()
    if path.suffix == ".py" and path.is_relative_to(ROOT):
        names = path.relative_to(ROOT).with_suffix("").parts
        if all(name.isidentifier() for name in names):  # no file of an environment that lies here
            return ["python", "-m", ".".join(names).removesuffix(".__main__")]
    return [path.name]


def _without_place(word: str, locations: Collection[str]) -> str:
    key, equals, _ = word.partition("=")
    place = key in PLACES or key.removeprefix("tasks.") in locations
    return f"{key}=PATH" if equals and place else word
