"""Which records a folder holds, as files of their own or in segments.

A record has one path, ``FOLDER/RUN_ID.json``, in either form. A file of that name counts before a
record of that name in a segment. Records that ``withdrawn.txt`` lists by their content stay in
their segments, which are never rewritten, and count no more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from pathlib import Path

from bench.records.segments import SUFFIX, PackedRecord, records_of, state_of
from core.amounts import amount
from core.errors import RUN_FAILED, UserError
from core.files import when_changed

WITHDRAWN = "withdrawn.txt"  # in a folder of segments; lines of content hash and run id
_WITHDRAWN_LINE = re.compile(r"([0-9a-f]{64}) \S+")


def records_in(folder: Path, pattern: str = "*.json") -> list[Path]:
    """The paths of the records directly in a folder, in their order.

    Args:
        pattern: of names, such as ``regbench-gpt2-*.json``.

    Raises:
        UserError: a segment cannot be trusted.
    """
    names = {path.name for path in folder.glob(pattern)}
    matches = re.compile(translate(pattern)).match
    for run_id in packed_in(folder):
        if matches(f"{run_id}.json"):
            names.add(f"{run_id}.json")
    return [folder / name for name in sorted(names)]


def records_below(folder: Path, pattern: str = "*.json") -> list[Path]:
    """The paths of the records in a folder and in all below it, in their order.

    Raises:
        UserError: as :func:`records_in`.
    """
    paths = []
    for place, _, _ in os.walk(folder):
        paths += records_in(Path(place), pattern)
    return sorted(paths)


def is_record(path: Path) -> bool:
    """Whether there is a record at a path, as a file or in a segment."""
    return path.exists() or packed_at(path) is not None


def packed_at(path: Path) -> PackedRecord | None:
    """Where the record of a path lies in a segment; None if it is a file, or not there.

    Raises:
        UserError: as :func:`records_in`.
    """
    if path.suffix != ".json" or os.path.lexists(path):
        return None
    return packed_in(path.parent).get(path.stem)


def refuse_segment(path: Path) -> None:
    """Nothing where a path is not that of a segment, which holds many records.

    Raises:
        UserError: it is; says how one of them is named.
    """
    if path.name.endswith(SUFFIX) and path.is_file():
        run_ids = sorted(records_of(path))
        example = path.with_name(f"{min(run_ids, default='RUN_ID')}.json")
        raise UserError(
            f"{path} is a segment of {amount(len(run_ids), 'record')}: name one of them as if it "
            f"were a file beside it, such as {example}"
        )


def packed_in(folder: Path) -> dict[str, PackedRecord]:
    """Run id -> where the record lies, of all in the segments of a folder that count.

    Raises:
        UserError: a segment cannot be trusted, or two hold different records of one name.
    """
    segments, withdrawn = _files_in(folder, when_changed(folder))
    if not segments:
        return {}
    return _packed_records(
        tuple((path, state_of(path)) for path in segments),
        (withdrawn, state_of(withdrawn)) if withdrawn else None,
    )


def withdrawn_in(folder: Path) -> set[str]:
    """The content hashes of the records of a folder that count no more.

    Raises:
        UserError: the list was edited into something else.
    """
    path = folder / WITHDRAWN
    return _withdrawn(path) if path.is_file() else set()


@lru_cache(maxsize=512)
def _files_in(folder: Path, _changed: int) -> tuple[list[Path], Path | None]:
    """The segments of a folder, and its list of what was withdrawn."""
    segments, withdrawn = [], None
    if folder.is_dir():
        for entry in os.scandir(folder):
            if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                segments.append(folder / entry.name)
            elif entry.name == WITHDRAWN:
                withdrawn = folder / entry.name
    return sorted(segments), withdrawn


@lru_cache(maxsize=512)
def _packed_records(
    segments: Iterable[tuple[Path, str]], withdrawn: tuple[Path, str] | None
) -> dict[str, PackedRecord]:
    gone = _withdrawn(withdrawn[0]) if withdrawn else set()
    packed: dict[str, PackedRecord] = {}
    for segment, _ in segments:
        for run_id, record in records_of(segment).items():
            if record.content_sha256 in gone:
                continue
            other = packed.setdefault(run_id, record)
            if other.content_sha256 != record.content_sha256:
                raise UserError(
                    f"{other.segment} and {segment} hold two records named {run_id}: write the "
                    f"line of the one that counts no more into {segment.with_name(WITHDRAWN)} "
                    f"({other.content_sha256} or {record.content_sha256}, a space, {run_id})",
                    RUN_FAILED,
                )
    return packed


def _withdrawn(path: Path) -> set[str]:
    hashes = set()
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        match = _WITHDRAWN_LINE.fullmatch(line)
        if match is None:
            raise UserError(
                f"{path}, line {number}, is not a content hash and a run id: restore it from "
                "version control",
                RUN_FAILED,
            )
        hashes.add(match[1])
    return hashes
