"""Many records in one file: the form in which the project's own records are committed.

A segment is a file of JSON lines, compressed by xz, in a folder of records; ``xz -dc`` prints it.
Its first line lists the others by run id, content hash and length. Each other line is the canonical
JSON of a record without its hash, so that SHA-256 of the line is the content hash of the record.
The list, and each block of some megabytes of lines, is an xz stream of its own: to read one record
takes its block alone.

A segment is named by the beginning of its own SHA-256 and is never written again. Branches that add
records add files of different names, and what the history of git has once is not added twice.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.errors import RUN_FAILED, UserError
from core.files import write_atomically
from core.reading import Kind, Several

SUFFIX = ".jsonl.xz"
MAXIMUM_RECORD_BYTES = 16 * 2**20
LARGEST_SEGMENT = 8_000_000  # bytes: no file of this repository may be larger
LARGEST_LIST = 16 * 2**20  # bytes
BLOCK_BYTES = 4 * 2**20  # smaller blocks take more space, larger ones more time for one record
BYTES_IN_THE_LIST = 150  # that a record takes there at most, compressed
DIGITS_OF_NAME = 16  # of a segment's SHA-256
DECODER_BYTES = 64 * 2**20  # memory that xz may take; it takes 9 MiB for what is written here
# Text has no alignment (pb), and the character before says much of the next (lc): with these, the
# records of ten tasks take 2 % less than with the defaults, and twice the time to write.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0}]
BLOCKS_IN_MEMORY = 8


class _ListedRecord(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$")]
    content_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    bytes: Annotated[int, Field(ge=2, le=MAXIMUM_RECORD_BYTES)]  # of its line, without the end


class _ListedBlock(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    bytes: Annotated[int, Field(ge=1, le=LARGEST_SEGMENT)]  # compressed
    records: Annotated[int, Field(ge=1)]


class _List(BaseModel):
    """The first line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1]
    records: Several[_ListedRecord]
    blocks: Several[_ListedBlock]


SEGMENT = Kind(
    "segment of records", _List, how="restore it from version control", most=LARGEST_SEGMENT
)


@dataclass(frozen=True)
class PackedRecord:
    """Where a record lies.

    Attributes:
        segment: the file.
        state: size and times of the file when its list was read.
        start, length: of the compressed block in the file, in bytes.
        block_bytes: of the block's lines.
        offset, size: of the line in the block, in bytes.
    """

    segment: Path
    state: str
    run_id: str
    content_sha256: str
    start: int
    length: int
    block_bytes: int
    offset: int
    size: int

    def line(self) -> bytes:
        """The canonical JSON of the record, without its hash.

        Raises:
            UserError: the segment was damaged since its list was read.
        """
        block = _block(self.segment, self.state, self.start, self.length, self.block_bytes)
        line = block[self.offset : self.offset + self.size]
        if hashlib.sha256(line).hexdigest() != self.content_sha256:
            raise SEGMENT.refused(self.segment, f"does not hold the record {self.run_id} it lists")
        return line


def canonical(content: Mapping[str, Any]) -> bytes:
    """The JSON whose SHA-256 is the content hash of a record."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def state_of(path: Path) -> str:
    """Size and times of a file, which change when it does."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def records_of(segment: Path) -> dict[str, PackedRecord]:
    """Run id -> where the record lies.

    Raises:
        UserError: the segment is damaged, or is none.
    """
    return _records_of(segment, state_of(segment))


@lru_cache(maxsize=512)
def _records_of(segment: Path, state: str) -> dict[str, PackedRecord]:
    content = SEGMENT.bytes_of(segment)
    if not segment.name.startswith(hashlib.sha256(content).hexdigest()[:DIGITS_OF_NAME]):
        raise SEGMENT.refused(segment, "is damaged (its name is not that of its content)")
    text, start = _first_stream(segment, content, LARGEST_LIST)
    listed = SEGMENT.typed(segment, SEGMENT.tree(segment, text))
    records: dict[str, PackedRecord] = {}
    waiting = iter(listed.records)
    for block in listed.blocks:
        # A list that names fewer records than its blocks is refused below.
        of_block = [record for _, record in zip(range(block.records), waiting, strict=False)]
        block_bytes = sum(record.bytes + 1 for record in of_block)
        if block_bytes > BLOCK_BYTES + MAXIMUM_RECORD_BYTES:
            raise SEGMENT.refused(segment, "has a block that is too large")
        offset = 0
        for record in of_block:
            records[record.run_id] = PackedRecord(
                segment=segment,
                state=state,
                run_id=record.run_id,
                content_sha256=record.content_sha256,
                start=start,
                length=block.bytes,
                block_bytes=block_bytes,
                offset=offset,
                size=record.bytes,
            )
            offset += record.bytes + 1  # with the end of the line
        start += block.bytes
    if start != len(content) or len(records) != sum(block.records for block in listed.blocks):
        raise SEGMENT.refused(segment, "does not hold what it lists")
    if len(records) != len(listed.records):
        raise SEGMENT.refused(segment, "lists a record twice, or one that it does not hold")
    return records


@lru_cache(maxsize=BLOCKS_IN_MEMORY)
def _block(segment: Path, _state: str, start: int, length: int, block_bytes: int) -> bytes:
    """The lines of a block."""
    content = SEGMENT.bytes_of(segment)[start : start + length]
    lines, _ = _first_stream(segment, content, block_bytes)
    return lines


def _first_stream(segment: Path, content: bytes, most: int) -> tuple[bytes, int]:
    """What the xz stream at the beginning of ``content`` holds, and its compressed bytes.

    Raises:
        UserError: it is damaged, or holds more than ``most`` bytes.
    """
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=DECODER_BYTES)
    try:
        text = decompressor.decompress(content, most + 1)
    except lzma.LZMAError as error:
        raise SEGMENT.refused(segment, f"cannot be decompressed ({error})") from None
    if len(text) > most or not decompressor.eof:
        raise SEGMENT.refused(segment, "is truncated, or holds more than it lists")
    return text, len(content) - len(decompressor.unused_data)


def all_lines(content: bytes) -> list[bytes]:
    """The canonical JSON of every record of a segment of this project, from its bytes, such as
    those that git has of a file that is gone."""
    return lzma.decompress(content, lzma.FORMAT_XZ).splitlines()[1:]


def write_segments(folder: Path, line_by_run: Mapping[str, bytes]) -> list[Path]:
    """Write records into new segments, as few as hold them.

    Args:
        line_by_run: run id -> canonical JSON of the record, without its hash.

    Raises:
        UserError: a record is too large for a segment.
    """
    paths = []
    blocks: list[tuple[list[str], bytes]] = []
    room = LARGEST_SEGMENT
    for run_ids in _by_blocks(line_by_run):
        lines = b"".join(line_by_run[run_id] + b"\n" for run_id in run_ids)
        block = lzma.compress(lines, filters=FILTERS)
        needed = len(block) + BYTES_IN_THE_LIST * (len(run_ids) + 1)
        if blocks and needed > room:
            paths.append(_write_segment(folder, blocks, line_by_run))
            blocks, room = [], LARGEST_SEGMENT
        if needed > room:
            raise UserError(f"{run_ids[0]} is too large for a segment: leave it out", RUN_FAILED)
        blocks.append((run_ids, block))
        room -= needed
    if blocks:
        paths.append(_write_segment(folder, blocks, line_by_run))
    return paths


def _by_blocks(line_by_run: Mapping[str, bytes]) -> Iterator[list[str]]:
    """Run ids of neighbours, whose settings are alike, with lines of about ``BLOCK_BYTES``."""
    run_ids: list[str] = []
    size = 0
    for run_id in sorted(line_by_run):
        if run_ids and size + len(line_by_run[run_id]) > BLOCK_BYTES:
            yield run_ids
            run_ids, size = [], 0
        run_ids.append(run_id)
        size += len(line_by_run[run_id]) + 1
    if run_ids:
        yield run_ids


def _write_segment(
    folder: Path, blocks: list[tuple[list[str], bytes]], line_by_run: Mapping[str, bytes]
) -> Path:
    records, listed_blocks = [], []
    for run_ids, block in blocks:
        listed_blocks.append({"bytes": len(block), "records": len(run_ids)})
        for run_id in run_ids:
            line = line_by_run[run_id]
            sha256 = hashlib.sha256(line).hexdigest()
            records.append({"run_id": run_id, "content_sha256": sha256, "bytes": len(line)})
    first = canonical({"format": 1, "records": records, "blocks": listed_blocks}) + b"\n"
    content = b"".join([lzma.compress(first), *(block for _, block in blocks)])
    name = hashlib.sha256(content).hexdigest()[:DIGITS_OF_NAME]
    path = folder / f"{name}{SUFFIX}"
    write_atomically(path, content)
    return path
