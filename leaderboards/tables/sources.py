"""What the committed board was made of, by which a board of one's own begins where it ends.

``sources.json`` beside the list of a board's files has the hash of the code that made it, and of
each task the hash of the files of its records and of what was verified of them. Where a board of
one's own has the same files of a task and no more, it takes over the tables of the committed one:
every file is hashed, and none is looked into. Without that file, or with other code, the board is
made from all records.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from bench.records.record_files import packed_at
from core.errors import UserError
from core.files import ROOT, write_atomically
from core.reading import Kind
from leaderboards.tables.folder import HOW
from leaderboards.tables.open_board import OpenBoard
from leaderboards.tables.summaries import YOURS

SOURCES = "sources.json"
# Everything that a line of a board follows from beside records, verdicts and published numbers.
DECIDING = (
    "core",
    "models",
    "tasks",
    "bench",
    "reproduce/claims",
    "reproduce/published",
    "leaderboards",
)
# Below leaderboards/.
NO_CODE = ("board.parquet", "records", "submissions", "verdicts", "verifications")


class RecordFolder(NamedTuple):
    """A folder of records, and where these were found: committed, submitted or yours."""

    path: Path
    origin: str


class Sources(BaseModel):
    """What a board was made of.

    Attributes:
        board: its hash.
        code: of :func:`hash_of_code`.
        tasks: of each task the hash by :func:`hashes_by_task`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    board: str
    code: str
    tasks: dict[str, str]


_KIND = Kind("list of the sources of a board", Sources, HOW)


@cache
def hash_of_code() -> str:
    """Hash of all in this checkout, beside the records, that decides what their lines are."""
    digest = hashlib.sha256()
    for house in DECIDING:
        for folder, inner, names in os.walk(ROOT / house):
            left_out = {"__pycache__", *(NO_CODE if folder == str(ROOT / "leaderboards") else ())}
            inner[:] = sorted(set(inner) - left_out)
            for name in sorted(names):
                if name.endswith((".py", ".yaml", ".json")):
                    path = Path(folder, name)
                    digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def task_of(path: str) -> str:
    """The task of a record by the name of its file, which begins with it."""
    return path.rpartition("/")[2].partition("-")[0]


def hashes_by_task(
    files: Iterable[tuple[RecordFolder, str, str]], verified: Mapping[str, str]
) -> dict[str, str]:
    """The hash of all that the tables of each task are made of.

    Args:
        files: folder, path and SHA-256 of every file that is not one's own.
        verified: hash of what is known of the records of each task.
    """
    lines: dict[str, list[str]] = defaultdict(list)
    for folder, path, sha256 in files:
        place = Path(path).relative_to(folder.path).as_posix()
        lines[task_of(path)].append(f"{folder.origin} {place} {sha256}")
    hashes = {}
    for task in {*lines, *verified}:
        content = [*sorted(lines[task]), verified.get(task, "")]
        hashes[task] = hashlib.sha256("\n".join(content).encode()).hexdigest()
    return hashes


def write_sources(board: Path, sources: Sources) -> None:
    """Write what the board in a folder was made of, where that is not written there yet."""
    content = f"{json.dumps(sources.model_dump(), indent=1, sort_keys=True)}\n".encode()
    path = board / SOURCES
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)


def unchanged_tasks(
    board: OpenBoard,
    files: Iterable[tuple[int, str, str]],
    folders: Sequence[RecordFolder],
    verified: Mapping[str, str],
) -> set[str]:
    """The tasks of which a board was made by this code from these files, but for one's own; none
    where nobody knows.

    Args:
        files: number of the folder, path and state of every file of a record.
        verified: as :func:`hashes_by_task` has it.
    """
    path = board.path / SOURCES
    if not path.is_file():
        return set()
    try:
        sources = _KIND.read_json(path)
    except UserError:  # it is no part of the board, and saves time alone
        return set()
    if sources.board != board.sha256 or sources.code != hash_of_code():
        return set()
    others = (file for file in files if folders[file[0]].origin != YOURS)
    here = hashes_by_task(_hashed(others, folders), verified)
    return {task for task, sha256 in here.items() if sources.tasks.get(task) == sha256}


def _hashed(
    files: Iterable[tuple[int, str, str]], folders: Sequence[RecordFolder]
) -> Iterator[tuple[RecordFolder, str, str]]:
    for place, path, _ in files:
        packed = packed_at(Path(path))
        if packed is not None:  # its segment was hashed when its list was read
            yield folders[place], path, packed.content_sha256
            continue
        with Path(path).open("rb") as file:
            yield folders[place], path, hashlib.file_digest(file, "sha256").hexdigest()
