"""Classes in a file that a command line names: ``./net.py:GRU``.

Settings and records call such a class ``net.py:GRU``, wherever the file lies. Where it lies is
known to the process that was told, and to those that it starts (``Configuration.source_files``). A
record says no place, so that nothing is imported for it unless somebody names the file.

The file is imported as the module ``net``, and its folder comes last on Python's path: what lies
there stands in for no library, and a file whose name is taken is refused before it is imported.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

from core.errors import UserError
from core.files import NOT_REGULAR, ROOT, working_directory
from core.places import absolute

_TARGET = re.compile(r"(?P<file>.+\.py):(?P<name>[^:/]*)", re.DOTALL)
_ELEMENT = re.compile(r"""(?<=[\[,])(\+?~[^,\[\]"']*\.py:\w*)(?=[,\]])""")
KEYS = ("models", "models._target_", "tasks", "tasks._target_", "trust")  # may name a file

_places: dict[str, Path] = {}  # file name -> where it lies
_imported: dict[Path, set[str]] = {}  # file -> the names of the modules that came with it
_contents: dict[Path, str] = {}  # file -> hash of all of these as they were then


def names_file(target: str) -> bool:
    """Whether a class is named by its file, as ``./net.py:GRU`` or ``net.py:GRU``."""
    return _TARGET.fullmatch(target) is not None


def class_name(target: str) -> str:
    """The class of ``net.py:GRU`` or of ``package.module.Class``."""
    matched = _TARGET.fullmatch(target)
    return matched["name"] if matched else target.rpartition(".")[2]


def source_name(target: str) -> str:
    """What somebody trusts who imports a class: ``net.py``, or the top-level package."""
    matched = _TARGET.fullmatch(target)
    return matched["file"] if matched else target.partition(".")[0]


def quoted(word: str) -> str:
    """A word of a command line in the quotes that Hydra's grammar needs for ``~`` or brackets in
    the path of a file."""
    key, equals, value = word.partition("=")
    if key not in KEYS or not equals or value[:1] in ("'", '"'):
        return word
    if value.startswith("["):
        return f"{key}={_ELEMENT.sub(lambda element: _in_quotes(element[1]), value)}"
    return f"{key}={_in_quotes(value)}" if re.search(r"\.py(:\w*)?\Z", value) else word


def _in_quotes(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def use_named(target: str) -> str:
    """Note where the file of ``PATH/net.py:GRU`` lies.

    Returns:
        ``net.py:GRU``; any other text is returned as it is.

    Raises:
        UserError: there is no such file, or no class is named.
    """
    parts = file_and_class(target)
    return target if parts is None else f"{use_file(parts[0])}:{parts[1]}"


def file_and_class(target: str) -> tuple[str, str] | None:
    """``PATH/net.py`` and ``GRU`` of ``PATH/net.py:GRU``; None of any other text.

    Raises:
        UserError: no class is named.
    """
    matched = _TARGET.fullmatch(target)
    if matched is None:
        return None
    if not matched["name"].isidentifier():
        raise UserError(f"'{target}' names no class: give FILE.py:CLASS, such as ./net.py:GRU")
    return matched["file"], matched["name"]


def trusted_names(setting: object) -> str | None:
    """What a command line says after ``trust=``, a name or a list of names, with commas between
    them."""
    if setting is None:
        return None
    return ",".join(map(str, setting if isinstance(setting, list) else [setting]))


def use_trusted(text: str | None) -> str | None:
    """What ``trust=`` of a command line names, as :func:`source_name` calls it; several of them
    have commas between them.

    Raises:
        UserError: it is a file, and there is none.
    """
    if text is None:
        return None
    named = []
    for part in text.split(","):
        matched = _TARGET.fullmatch(part)
        file = matched["file"] if matched else part
        named.append(use_file(file) if file.endswith(".py") else part)
    return ",".join(named)


def use_file(file: str) -> str:
    """Note where a Python file lies; a plain name that was noted before means that file.

    Raises:
        UserError: there is no such file.
    """
    path = path_of_file(file)
    use_places({path.name: path})
    return path.name


def path_of_file(file: str) -> Path:
    """Where a Python file lies; a plain name that was noted before means that file.

    Raises:
        UserError: there is no such file.
    """
    if file in _places and Path(file).name == file:
        return _places[file]
    path = absolute(file)
    if not path.exists():
        where = "" if Path(file).expanduser().is_absolute() else f" in {working_directory()}"
        raise UserError(
            f"there is no file {file}{where}: a class of your own is named FILE.py:CLASS, such as "
            "./net.py:GRU"
        )
    if not path.is_file():
        raise UserError(f"{file} {NOT_REGULAR}: name a Python file")
    return path.resolve()


def use_places(places: Mapping[str, Path]) -> None:
    """Note where files lie, as the process that started this one has it."""
    for name, path in places.items():
        earlier = _places.get(name)
        if earlier is not None and earlier != path:
            _forget(earlier)
        _places[name] = path


def refuse_files_of_one_name(targets: Iterable[str]) -> None:
    """Refuse classes of two files that are called alike, as one process imports one of them.

    Raises:
        UserError: which files.
    """
    first: dict[str, Path] = {}
    for matched in filter(None, map(_TARGET.fullmatch, targets)):
        path = Path(matched["file"]).expanduser()
        place = _places.get(path.name) if str(path) == path.name else None
        place = place or absolute(matched["file"]).resolve()
        other = first.setdefault(path.name, place)
        if other != place:
            raise UserError(
                f"{other} and {place} are two files of one name, and results of {path.name} could "
                "not be told apart: give one of them another name"
            )


def places_of(*targets: str) -> dict[str, Path]:
    """Where the files of some classes lie, for another process."""
    names = {source_name(target) for target in targets if names_file(target)}
    return {name: _places[name] for name in sorted(names) if name in _places}


def place_of_source(target: str) -> Path | None:
    """Where the file of a class lies; None for one of a package, or of a file that nobody named."""
    return _places.get(source_name(target)) if names_file(target) else None


def load_module(target: str) -> ModuleType:
    """Import the file of ``net.py:GRU``.

    Raises:
        UserError: nobody has named that file, or its name is that of another module.
        Exception: whatever the file raises while it is imported.
    """
    path = place_of_source(target)
    if path is None:
        name = source_name(target)
        raise UserError(
            f"where {name!a} lies is for you to say: models=PATH/{Path(name).name}:CLASS for a run "
            f"of your own, trust=PATH/{Path(name).name} for one that is recorded"
        )
    modules = modules_beside(path)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    importlib.invalidate_caches()
    for name, file in modules.items():
        _refuse_a_taken_name(name, file, path)
    _imported[path] = {*modules}
    _contents[path] = _digest(modules)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # it is somebody else's folder
    try:
        return importlib.import_module(path.stem)
    finally:
        sys.dont_write_bytecode = writes


def forget_edited() -> bool:
    """Take files off the modules of this process that were edited since they were imported, for
    whoever goes on in one process, as a notebook does.

    Returns:
        Whether there were any. What is remembered of them elsewhere is for the caller to forget.
    """
    edited = []
    for path in _imported:
        try:
            same = _digest(modules_beside(path)) == _contents.get(path)
        except (OSError, SyntaxError, UserError):  # importing it says what is wrong
            same = False
        if not same:
            edited.append(path)
    for path in edited:
        _forget(path)
    return bool(edited)


def _digest(modules: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, file in sorted(modules.items()):
        digest.update(f"{name}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def modules_beside(path: Path) -> dict[str, Path]:
    """A file, and the modules of its own folder that it imports, directly or not, by name.

    Raises:
        SyntaxError: one of them is no Python.
        UserError: the file's name cannot be that of a module, or a module is imported relatively.
    """
    if "." in path.stem:
        raise UserError(
            f"{path.name} cannot be imported, since its name has a second point: call it "
            f"{path.stem.replace('.', '_')}.py"
        )
    modules: dict[str, Path] = {}
    waiting = {path.stem: path}
    while waiting:
        name, file = waiting.popitem()
        modules[name] = file
        for imported in _imports(file, name):
            stem = path.parent.joinpath(*imported.split("."))
            for candidate in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
                if imported not in modules and candidate.is_file():
                    waiting[imported] = candidate
                    break
    return modules


def _imports(path: Path, name: str) -> set[str]:
    """The modules that a file may import, with the packages around them.

    Raises:
        UserError: it imports from a package around it, and it lies in none.
    """
    tree = ast.parse(path.read_bytes(), str(path))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level > (package.count(".") + 1 if package else 0):
                raise UserError(
                    f"{path.name}, line {node.lineno}, imports from the package around it, and a "
                    f"file that is named by itself is in none: write 'from {node.module or 'NAME'} "
                    "import …' for a module beside it, or name the class package.module.Class"
                )
            base = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(base, package) if node.level else base
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    parts = [module.split(".") for module in names]
    return {".".join(part[:length]) for part in parts for length in range(1, len(part) + 1)}


def _refuse_a_taken_name(name: str, file: Path, named: Path) -> None:
    """Refuse a module whose name, or whose package's, Python knows for another file.

    Raises:
        UserError: which, and what to do.
    """
    top = name.partition(".")[0]
    beside = named.parent / top if "." in name else file
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):  # a module without a file, as __main__ is
        spec = None
        if top in sys.modules:
            raise UserError(
                _name_is_taken(top, beside, named, "a module of this process")
            ) from None
    if spec is None:
        return
    origin = spec.origin and Path(spec.origin).resolve()
    folders = [Path(folder).resolve() for folder in spec.submodule_search_locations or ()]
    if origin == file.resolve() or (named.parent / top).resolve() in folders:
        return
    if top in sys.stdlib_module_names:
        owner = "a module of Python"
    elif is_of_this_project(top):
        owner = "a package of this project"
    else:
        owner = f"a module that is found before it ({origin or 'of this process'})"
    raise UserError(_name_is_taken(top, beside, named, owner))


def is_of_this_project(name: str) -> bool:
    """Whether a top-level name is that of a package in this checkout."""
    return name.isidentifier() and (ROOT / name / "__init__.py").is_file()


def _name_is_taken(name: str, file: Path, named: Path, owner: str) -> str:
    if file == named:
        return (
            f"{file.name} cannot be imported: '{name}' is the name of {owner}; give the file "
            f"another name, such as my_{file.name}"
        )
    return (
        f"{named.name} imports '{name}', which is the name of {owner}, so that {file} would not be "
        "found: give it another name"
    )


def _forget(path: Path) -> None:
    """Take a file of the same name in another folder off the modules of this process."""
    for name in _imported.pop(path, set()):
        sys.modules.pop(name, None)
    if str(path.parent) in sys.path and path.parent != ROOT:
        sys.path.remove(str(path.parent))
