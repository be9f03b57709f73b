"""Classes in a file of somebody's own, in any folder: ``./task.py:Task``.

Such a class is called ``file_0f3a6a3c1d2e.Task`` wherever a class is called ``package.module.Task``.
The digits are of what the file, and the files beside it that it imports, say without comments and
docstrings: the name stays when they are moved, and changes when they are edited, so that neither a
process nor a record ever takes one for the other. Only what is named on a command line, or by a
call from Python, is imported; processes that such a command starts find it by the environment.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from ground.errors import UserError, nearest, place_of
from ground.files import ROOT
from ground.sources import parse_source

# Module -> path of every file that was named, as JSON: processes that this one starts inherit it.
VARIABLE = "MEMORY_BENCH_CLASS_FILES"
ITSELF = "file"  # what the file is called in hashes, whatever its name
_MODULE = re.compile(r"file_[0-9a-f]{12}")
_WORD = re.compile(r"(?P<path>.*\.py)(:(?P<name>.*))?", re.DOTALL)


@dataclass(frozen=True)
class SourceFile:
    """A file that decides what a class does.

    Attributes:
        text: its code without comments, docstrings and layout.
        imports: names of modules, or of what is in them, that it may import.
    """

    path: Path
    content: bytes
    text: str
    imports: frozenset[str]


def names_file(word: object) -> bool:
    """Whether a word of a command line names a class by its file: ``FILE.py:Class``."""
    return isinstance(word, str) and _WORD.fullmatch(word) is not None


def is_class_file(target: str) -> bool:
    """Whether a class ``module.Class``, or a module, is one of a file that was named by its path."""
    return _MODULE.fullmatch(target.partition(".")[0]) is not None


def target_of(word: str) -> str:
    """The class that ``FILE.py:Class`` names, as ``file_0f3a6a3c1d2e.Class``. Nothing is imported.

    Raises:
        UserError: there is no such file, it is no Python, or the word names no class of it.
    """
    found = _WORD.fullmatch(word)
    if found is None:
        raise UserError(f"'{word}' names no class of a file: give FILE.py:Class")
    module, files = _register(found["path"])
    own = [node.name for node in ast.parse(files[ITSELF].content).body if type(node) is ast.ClassDef]
    name = found["name"]
    if not name:
        example = f"{found['path']}:{own[-1] if own else 'Class'}"
        raise UserError(f"'{word}' names a file: name the class in it too, such as {example}")
    if not name.isidentifier():
        raise UserError(f"'{word}': '{name}' is no name of a class: give FILE.py:Class")
    return f"{module}.{name}"


def module_of(word: str) -> str:
    """The module of a file that may be imported: ``FILE.py``, or ``FILE.py:Class``.

    Raises:
        UserError: as :func:`target_of`.
    """
    found = _WORD.fullmatch(word)
    return _register(found["path"] if found else word)[0]


def trusted_packages(word: object) -> str:
    """What ``trust=`` names, packages and files, as names of packages with commas between them.

    Args:
        word: ``package``, ``FILE.py``, ``FILE.py:Class``, or a list of such words.

    Raises:
        UserError: as :func:`target_of`.
    """
    words = word if isinstance(word, list) else [word]
    return ",".join(module_of(one) if names_file(one) else str(one) for one in words)


def _register(place: str) -> tuple[str, dict[str, SourceFile]]:
    path = Path(place).expanduser()
    if not path.is_file():
        raise UserError(
            f"there is no file {place}: a class of your own is FILE.py:Class, from the folder "
            "where the command is given, or package.module.Class"
        )
    files = _files_beside(path.resolve())
    module = _name_of(files)
    known = _registered()
    if known.get(module) != str(path.resolve()):
        os.environ[VARIABLE] = json.dumps({**known, module: str(path.resolve())})
    return module, files


def _registered() -> dict[str, str]:
    return dict(json.loads(os.environ.get(VARIABLE, "{}")))


def path_of(module: str) -> Path:
    """The file of a module.

    Raises:
        UserError: it was not named to this process, or is gone.
    """
    path = _registered().get(module)
    if path is None:
        raise UserError(
            f"the class is one of a file that was not named here ({module}): name the file that "
            "made it, as FILE.py:Class (of bench.evaluate: trust=FILE.py)"
        )
    if not Path(path).is_file():
        raise UserError(f"the file {path} is not there any more: put it back, or name it anew")
    return Path(path)


def files_of(module: str) -> dict[str, SourceFile]:
    """The file of a module, and all beside it that it imports, directly or not: name -> file, the
    first one called :data:`ITSELF`.

    Raises:
        UserError: one of them is gone, no Python, or was edited since it was named.
    """
    path = path_of(module)
    files = _files_beside(path)
    if _name_of(files) != module:
        raise UserError(f"{path}, or a file beside it, was edited meanwhile: give the command again")
    return files


def _name_of(files: dict[str, SourceFile]) -> str:
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        digest.update(f"{name}\n{file.text}\n".encode())
    return f"file_{digest.hexdigest()[:12]}"


def _files_beside(path: Path) -> dict[str, SourceFile]:
    """A file and those of its folder that it imports, as ``import helper`` or ``from .helper``."""
    found: dict[str, SourceFile] = {}
    waiting = {ITSELF}
    while waiting:
        name = waiting.pop()
        file = path if name == ITSELF else _beside(name, path.parent)
        if file is None:
            continue
        # The file stands for a package of its folder, so that its relative imports have a meaning.
        is_package = name == ITSELF or file.name == "__init__.py"
        package = name if is_package else name.rpartition(".")[0]
        content = file.read_bytes()
        text, names = parse_source(file, content, package)
        imports = set(names)  # what was parsed is shared
        for whole in [*imports]:  # a module's packages are imported before it
            parts = whole.split(".")
            imports |= {".".join(parts[:n]) for n in range(1, len(parts))} - {ITSELF}
        found[name] = SourceFile(file, content, text, frozenset(imports))
        waiting |= imports - found.keys()
    return found


def _beside(name: str, folder: Path) -> Path | None:
    """The file of a module in a folder; None for one that lies elsewhere."""
    relative = name.removeprefix(f"{ITSELF}.")
    if relative == name and (ROOT / name.partition(".")[0]).is_dir():
        return None  # a package of this project, which comes first
    stem = folder.joinpath(*relative.split("."))
    candidates = (stem / "__init__.py", stem.with_name(f"{stem.name}.py"))
    return next((path for path in candidates if path.is_file()), None)


def load_from_file(target: str) -> type:
    """The class ``file_0f3a6a3c1d2e.Class`` of a file that was named: imports it.

    Raises:
        UserError: the file was not named to this process, is gone, was edited, stops while it is
            imported, or has no such class.
    """
    module_name, _, class_name = target.rpartition(".")
    path = path_of(module_name)
    try:
        module = importlib.import_module(module_name)
    except UserError:
        raise
    except Exception as error:  # whatever the file does while it is imported
        raise UserError(_why_not_imported(path, error)) from None
    loaded = getattr(module, class_name, None)
    if loaded is None:
        own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module_name]
        raise UserError(f"{path} has no class '{class_name}': {nearest(class_name, own)}")
    if not isinstance(loaded, type):
        raise UserError(f"'{class_name}' of {path} is not a class: a model or task is a class")
    return loaded


def _why_not_imported(path: Path, error: Exception) -> str:
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing:
        top = missing.partition(".")[0]
        taken = (ROOT / top).is_dir() and ((path.parent / top).exists() or "." in missing)
        how = (
            f"'{top}' is a package of this project, which comes first: give yours another name, or "
            f"import it from beside the file, as from .{missing}"
            if taken
            else "install it, or put it beside the file"
        )
        return f"cannot import {path}: it imports '{missing}', which is not found: {how}"
    place = place_of(error)
    return f"cannot import {path}: it stops{f' at {place}' if place else ''} ({said}): mend that file"


class _FileLoader(Loader):
    """Executes the very content that the module is named after."""

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        files = files_of(name)
        file = files[ITSELF]
        with _folder_searched(file.path.parent, files):
            code = compile(file.content, str(file.path), "exec")
            exec(code, module.__dict__)  # the file that the user named
        for other, beside in files.items():
            loaded = sys.modules.get(other)
            place = getattr(loaded, "__file__", None)
            if loaded is not None and place and Path(place).resolve() != beside.path.resolve():
                raise UserError(
                    f"{file.path} imports '{other}', and that is {place}, not {beside.path}: give "
                    f"the file beside it another name, or import it as from .{other}"
                )


class _Finder(MetaPathFinder):
    """Finds the modules of files that were named, also where an object of them is unpickled."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        place = _registered().get(name) if _MODULE.fullmatch(name) else None
        if place is None:
            return None
        spec = spec_from_loader(name, _FileLoader(), origin=place, is_package=True)
        assert spec is not None
        spec.submodule_search_locations = [str(Path(place).parent)]
        spec.has_location = True
        return spec


_loaded_beside: set[str] = set()  # modules of folders of files, which another folder may have too
_searched: list[str] = []  # the folder that was put at the end of the path for them


@contextmanager
def _folder_searched(folder: Path, files: dict[str, SourceFile]) -> Iterator[None]:
    """Modules of one folder are found after all others, and those that another folder had under
    the same names, or that were edited since, are read anew."""
    for name in [*_loaded_beside]:
        sys.modules.pop(name, None)
    _loaded_beside.clear()
    for place in _searched:
        if place in sys.path:
            sys.path.remove(place)
    _searched.clear()
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        _searched.append(str(folder))
    importlib.invalidate_caches()
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing into the user's folder
    before = set(sys.modules)
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        _loaded_beside.update((set(sys.modules) - before) & files.keys())


if not any(type(finder).__name__ == _Finder.__name__ for finder in sys.meta_path):
    sys.meta_path.append(_Finder())
