"""Committed records moved into segments, withdrawn from them, and taken out as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.records.record_files import WITHDRAWN, packed_in, records_below, records_in, withdrawn_in
from bench.records.schema import as_file, file_of, read_file
from bench.records.segments import SUFFIX, PackedRecord, canonical, records_of, write_segments
from core.amounts import amount
from core.errors import RUN_FAILED, UserError
from core.files import write_atomically
from core.places import readable
from core.progress import Report, silent, with_progress
from leaderboards.checks.admission import no_such_run


def pack(records: Path, report: Report = silent) -> None:
    """Move every record that is a file into a new segment of its folder, and print what was done.
    A file is removed when the record was read from the segment again and was the same.

    Raises:
        UserError: a record cannot be trusted; the folders before it are packed.
    """
    paths = [path for path in records_below(records) if path.is_file()]
    folders = sorted({path.parent for path in paths})
    segments = moved = packed_before = 0
    for folder in with_progress(folders, "folders packed", report):
        packed = _pack_folder(folder)
        segments += len(packed.segments)
        moved += packed.moved
        packed_before += packed.packed_before
    below = f"below {readable(records)}"
    if moved:
        into = amount(segments, "new segment")
        print(f"{amount(moved, 'record')} moved into {into} {below}")
    if packed_before:
        files = amount(packed_before, "file")
        print(f"{files} {below} deleted, of records that lay in a segment already")
    if not paths:
        print(f"nothing to move: no record {below} is a file of its own")


def join(names: Sequence[str], records: Path) -> None:
    """Write the records of folders with several segments into as few as hold them, and print how
    many bytes that takes less. Records that were withdrawn are left out.

    Args:
        names: of the folders, ``TASK/PRESET``.

    Raises:
        UserError: a folder has no segments, or a record cannot be read; the folders before it are
            joined.
    """
    for name in names:
        folder = records / name
        old = set(folder.glob(f"*{SUFFIX}"))
        if not old:
            raise UserError(f"join={name}: {readable(folder)} has no segments: give TASK/PRESET")
        line_by_run = {run_id: record.line() for run_id, record in packed_in(folder).items()}
        before = sum(path.stat().st_size for path in old)
        new = set(write_segments(folder, line_by_run))
        again = {run: record.line() for path in new for run, record in records_of(path).items()}
        if again != line_by_run:
            place = readable(folder)
            raise UserError(f"{place} is not the same when joined: report it", RUN_FAILED)
        less = before - sum(path.stat().st_size for path in new)
        for path in old - new:
            path.unlink()
        print(f"{name}: {amount(len(old), 'segment')} joined, {amount(less, 'byte')} less")


class _PackedFolder(NamedTuple):
    """What became of the files of one folder.

    Attributes:
        segments: the new ones.
        moved: how many records they hold.
        packed_before: how many files were deleted whose record an older segment holds.
    """

    segments: list[Path]
    moved: int
    packed_before: int


def _pack_folder(folder: Path) -> _PackedFolder:
    before, withdrawn = packed_in(folder), withdrawn_in(folder)
    line_by_run: dict[str, bytes] = {}
    replaced: dict[str, str] = {}  # content hash -> run id
    already_packed: list[Path] = []
    for path in records_in(folder):
        if not path.is_file():
            continue
        file = read_file(path)
        if file.content_sha256 in withdrawn:
            print(f"{readable(path)} stays a file: the same record was withdrawn before")
            continue
        packed = before.get(path.stem)
        if packed is not None and packed.content_sha256 == file.content_sha256:
            already_packed.append(path)
            continue
        if packed is not None:
            replaced[packed.content_sha256] = path.stem
        content = json.loads(file.content)
        del content["content_sha256"]
        line_by_run[path.stem] = canonical(content)
    segments = write_segments(folder, line_by_run)
    packed_again = {}
    for segment in segments:
        packed_again.update(records_of(segment))
    for run_id, line in line_by_run.items():
        _refuse_loss(folder / f"{run_id}.json", packed_again[run_id], line)
    _withdraw(folder, replaced)
    for path in (*already_packed, *(folder / f"{run_id}.json" for run_id in line_by_run)):
        path.unlink()
    return _PackedFolder(segments, len(line_by_run), len(already_packed))


def _refuse_loss(path: Path, packed: PackedRecord, line: bytes) -> None:
    """Refuse a segment that does not give back exactly the record of a file.

    Raises:
        UserError: it does not.
    """
    file = read_file(path)
    read_again = json.loads(packed.line())
    same_line = packed.line() == line
    same_hash = packed.content_sha256 == file.content_sha256 == file.record.content_hash()
    same_tree = file_of(read_again, packed.content_sha256) == file_of(
        json.loads(file.content), file.content_sha256
    )
    if not (same_line and same_hash and same_tree):
        raise UserError(
            f"{path} is not the same in {packed.segment}: the file stays; report it", RUN_FAILED
        )


def withdraw(run_ids: Sequence[str], records: Path) -> None:
    """Let records of the segments count no more, and delete those that are files.

    Raises:
        UserError: there is no such record; then none is withdrawn.
    """
    for run_id, path in _paths(run_ids, records).items():
        was_file = path.is_file()
        path.unlink(missing_ok=True)
        packed = packed_in(path.parent).get(run_id)
        done = [f"its file in {readable(path.parent)} is deleted"] if was_file else []
        if packed is not None:
            _withdraw(path.parent, {packed.content_sha256: run_id})
            done.append(
                f"a line of {readable(path.with_name(WITHDRAWN))}; without it, it counts again"
            )
        print(f"withdrawn: {run_id} ({'; '.join(done)})")


def _paths(run_ids: Sequence[str], records: Path) -> dict[str, Path]:
    """Run id -> path.

    Raises:
        UserError: there is no such record.
    """
    path_by_run = {path.stem: path for path in records_below(records)}
    for run_id in run_ids:
        if run_id not in path_by_run:
            raise no_such_run(run_id, readable(records), path_by_run)
    return {run_id: path_by_run[run_id] for run_id in run_ids}


def _withdraw(folder: Path, run_by_content: dict[str, str]) -> None:
    if not run_by_content:
        return
    path = folder / WITHDRAWN
    lines = set(path.read_text().splitlines()) if path.exists() else set()
    lines |= {f"{sha256} {run_id}" for sha256, run_id in run_by_content.items()}
    write_atomically(path, "".join(f"{line}\n" for line in sorted(lines)).encode())


def unpack(run_ids: Sequence[str], records: Path, target: Path) -> None:
    """Write records as files of their own, one JSON file each.

    Raises:
        UserError: there is no such record; then none is written.
    """
    for run_id, path in _paths(run_ids, records).items():
        place = target / f"{run_id}.json"
        write_atomically(place, as_file(path))
        print(readable(place))
