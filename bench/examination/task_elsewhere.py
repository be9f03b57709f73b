"""The data of a task made in another process, where strings have other hashes: characters that are
numbered in the order of a set are other tokens there.

A process costs seconds, so one is started only for a task of somebody else whose source names what
differs between processes. As a program it is that other process: ``FOLDER`` holds what is asked.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.config.source_files import places_of, use_places
from bench.records.code import is_own, modules_behind
from bench.training.building import task_of
from core.processes import module_command

SECONDS = 60.0  # after which the other process is given up, and nothing is known
REQUEST, RESULT = "request.json", "result.json"
Hashes = dict[str, str]  # split -> SHA-256 of its content
# What a source may import or call to have numbers that another process has otherwise.
MODULES = {"secrets", "uuid", "time", "datetime"}
CALLS = {
    *("hash", "id", "set", "frozenset", "getpid", "urandom", "getrandom", "SystemRandom"),
    *("Random", "default_rng", "RandomState", "SeedSequence"),
    # Addresses, of which the text of an object has one too.
    *("repr", "__hash__", "data_ptr", "get_ident"),
}


def may_differ(target: str) -> bool:
    """Whether the source of a class of another package or file, or of what it imports from there,
    names a source of numbers that are others in another process."""
    for name, path in modules_behind(target).items():
        if is_own(name):
            continue
        if any(map(_names_a_source, ast.walk(ast.parse(path.read_bytes())))):
            return True
    return False


def _names_a_source(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name in MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module in MODULES or any(alias.name in CALLS for alias in node.names)
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
        return (called.id if isinstance(called, ast.Name) else called) in CALLS
    return isinstance(node, ast.Set | ast.SetComp)


@contextmanager
def hashed_elsewhere(settings: Mapping[str, Any]) -> Iterator[Callable[[], Hashes | None]]:
    """Start a process that makes the data of a task; a call waits for their hashes, which are None
    where none is needed or it could not.

    Args:
        settings: the class as ``_target_``, and its settings.
    """
    if not may_differ(settings["_target_"]):
        yield lambda: None
        return
    with tempfile.TemporaryDirectory(prefix="examination-") as name:
        folder = Path(name)
        places = {file: str(place) for file, place in places_of(settings["_target_"]).items()}
        request = {"tasks": dict(settings), "path": sys.path, "places": places}
        (folder / REQUEST).write_text(json.dumps(request))
        is_zero = os.environ.get("PYTHONHASHSEED") == "0"
        process = subprocess.Popen(
            module_command("bench.examination.task_elsewhere", [str(folder)]),
            env={**os.environ, "PYTHONHASHSEED": "1" if is_zero else "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def result() -> Hashes | None:
            try:
                ended = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                return None
            return json.loads((folder / RESULT).read_text()) if ended == 0 else None

        try:
            yield result
        finally:
            process.kill()
            process.wait()


def main(folder: Path) -> None:
    """Make the data that are asked for in a folder, and write their hashes there."""
    request = json.loads((folder / REQUEST).read_text())
    sys.path[:] = request["path"]
    use_places({name: Path(place) for name, place in request["places"].items()})
    hashes = task_of(request["tasks"]).data_hashes()
    (folder / RESULT).write_text(json.dumps(hashes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
