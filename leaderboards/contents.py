"""What a board holds, and the one Parquet file that carries it.

Four kinds of lines share one file: a column exists once, and is null where a kind does not have it.
This module imports neither torch nor pandas, so that the app starts quickly.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.records.schema import RunRecord
from ground.files import write_atomically
from ground.reading import Kind
from judging.fairness import TUNED

SCHEMA_VERSION = 4
MAXIMUM_LINES = 1_000_000
HASH_KEY = "board_sha256"
HASH_DIGITS = 64
HASH_PLACE = HASH_KEY.encode() + b"\x18@"  # as Parquet writes the key of a text of 64 bytes


@dataclass(frozen=True)
class Row:
    """One line of a table: one metric of one model setting over its seeds, or a published number.

    ``group`` is the hash of what has to be equal for a common ranking; ``variant`` says in words
    which of the task's configurations it is.
    """

    task: str
    preset: str
    variant: str
    group: str
    model: str
    label: str
    setting: str
    kind: str  # measured | reference | published (printed) | published (digitised ±…)
    source: str
    metric: str
    direction: str | None  # maximise | minimise; None: not known, hence no rank
    unit: str
    headline: bool
    mean: float | None
    low: float | None
    high: float | None
    reading_error: float | None  # of a digitised number
    note: str  # what a reader of a published number must know
    seeds: int | None
    outcome: str
    cause: str | None
    rank_best: int | None
    rank_worst: int | None
    parameters: int | None
    position_parameters: int | None
    state_bytes: int | None
    state_length: int | None
    training_flops: float | None
    training_tokens: int | None
    training_steps: int | None
    trials: int | None
    wall_seconds: float | None
    peak_memory_bytes: int | None
    device: str | None
    run_ids: tuple[str, ...]
    items: int | None = None  # of the test, where the interval is over these too
    mark: str = ""  # the gravest of its marks (judging.fairness); "" where nothing was trained
    marks: tuple[str, ...] = ()  # all of them, each with its reason
    share_of_items: float | None = None  # of the variance of the mean that is from these
    data_seeds: int | None = None
    checked: str = ""  # how far, in words (standing.levels); "" where nothing was measured
    verified: bool = True  # whether it may be ranked beside the project's own

    @property
    def fair(self) -> bool:
        """Whether it may be ranked: it is tuned and converged, or needs no training."""
        return self.mark in ("", TUNED)


@dataclass(frozen=True)
class Line:
    """A curve of one model setting: mean over seeds with its pointwise interval, or published."""

    task: str
    preset: str
    variant: str
    group: str
    model: str
    label: str
    setting: str
    kind: str
    source: str
    metric: str  # name of the curve, or of the metric that is drawn against the size
    direction: str | None
    abscissa: str  # position | training step | the name of a training size
    by_size: bool
    note: str
    seeds: int | None
    x: tuple[float, ...]
    y: tuple[float, ...]
    y_low: tuple[float | None, ...]
    y_high: tuple[float | None, ...]


@dataclass(frozen=True)
class ClaimLine:
    """The verdict on one published statement, or that its preset does not ask for one."""

    figure: str
    title: str
    preset: str
    name: str
    source: str
    sentence: str
    tolerance: str
    verdict: str
    evidence: str
    seeds: int | None
    seeds_needed: int | None
    asked_at: str  # of what a preset does not ask: the preset that does,
    cost: str  # and what asking there would take
    run_ids: tuple[str, ...]
    p: float | None = None  # smallest share of error at which it is decided; 0: no chance enters
    stays: bool | None = None  # among all of its preset; None: no chance enters, or undecided
    effect: str = ""
    set: str | None = None  # when the claim was last set
    after_runs: bool = False  # after the first of its runs had begun


@dataclass(frozen=True)
class RecordLine:
    """A record without its bulk (curves, arrays, values per sequence), as JSON."""

    run_id: str
    task: str
    preset: str
    model: str
    label: str
    role: str
    seed: int
    outcome: str
    content: str


@dataclass(frozen=True)
class Board:
    """Everything that the app shows, in a fixed order."""

    rows: tuple[Row, ...]
    lines: tuple[Line, ...]
    claims: tuple[ClaimLine, ...]
    records: tuple[RecordLine, ...]


_SECTIONS: dict[str, type] = {
    "rows": Row,
    "lines": Line,
    "claims": ClaimLine,
    "records": RecordLine,
}
_NAMES = {
    section: [field.name for field in dataclasses.fields(kind)]
    for section, kind in _SECTIONS.items()
}
_TYPES = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "tuple[str, ...]": pa.list_(pa.string()),
    "tuple[float, ...]": pa.list_(pa.float64()),
    "tuple[float | None, ...]": pa.list_(pa.float64()),
}


def _schema() -> pa.Schema:
    types = {"section": pa.string()}
    for section in _SECTIONS.values():
        for field in dataclasses.fields(section):
            types[field.name] = _TYPES[str(field.type).removesuffix(" | None")]
    return pa.schema(list(types.items()), metadata={"board_schema": str(SCHEMA_VERSION)})


SCHEMA = _schema()


def to_parquet(board: Board) -> bytes:
    """The board as one Parquet file; equal boards give equal bytes with equal pyarrow. Its metadata
    hold the hash of the whole file, with zeros in place of the hash."""
    lines = [
        {"section": section, **vars(line)}
        for section in _SECTIONS
        for line in getattr(board, section)
    ]
    buffer = io.BytesIO()
    # Checksums of pages are for other readers of Parquet: this project's own compares the hash.
    with pq.ParquetWriter(buffer, SCHEMA, compression="zstd", write_page_checksum=True) as writer:
        writer.write_table(pa.Table.from_pylist(lines, schema=SCHEMA))
        writer.add_key_value_metadata({HASH_KEY: "0" * HASH_DIGITS})
    return _sealed(buffer.getvalue())


def _sealed(content: bytes) -> bytes:
    """A board's file with the hash that it has to hold.

    Raises:
        ValueError: it has no place for one.
    """
    start = content.rindex(HASH_PLACE) + len(HASH_PLACE)
    before, after = content[:start], content[start + HASH_DIGITS :]
    digest = hashlib.sha256(before + b"0" * HASH_DIGITS + after).hexdigest()
    return before + digest.encode() + after


def write_board(board: Board, path: Path) -> None:
    """Write the board atomically."""
    write_atomically(path, to_parquet(board))


class _Shown(RunRecord):
    """What the board keeps of a record."""

    content_sha256: str


HOW = (
    "make it with `python -m leaderboards.build`, or with `python -m leaderboards.build "
    "local=true` for a board of your own runs"
)
BOARD = Kind("board", Board, HOW, most=64 * 2**20)
SHOWN = Kind("board", _Shown, HOW)


def read_board(path: Path) -> Board:
    """Read a board.

    Raises:
        UserError: there is none, a bit of it was changed, or it is not a board of this version;
            names the command that makes one.
    """
    content = BOARD.bytes_of(path)
    if HASH_PLACE not in content or _sealed(content) != content:
        why = "is damaged, or was made by another version (it does not hold the hash of its bytes)"
        raise BOARD.refused(path, why)
    sections: dict[str, list[Any]] = {section: [] for section in _SECTIONS}
    try:
        for line in _table(path, content).to_pylist():
            section = line["section"]
            sections[section].append({name: line[name] for name in _NAMES[section]})
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError):
        raise BOARD.refused(path, "does not hold the lines of a board") from None
    # The columns have their types, so that only lists of Parquet have to become tuples.
    board = BOARD.typed(path, sections, strict=False)
    for record in board.records:
        SHOWN.typed(path, SHOWN.tree(path, record.content.encode()))
    return board


def _table(path: Path, content: bytes) -> pa.Table:
    file = pq.ParquetFile(pa.BufferReader(content))
    version = (file.schema_arrow.metadata or {}).get(b"board_schema", b"none")
    if version != str(SCHEMA_VERSION).encode() or not file.schema_arrow.equals(SCHEMA):
        found = version.decode(errors="replace")
        reads = f"but this version reads {SCHEMA_VERSION}"
        raise BOARD.refused(path, f"has board schema {found} {reads}")
    if file.metadata.num_rows > MAXIMUM_LINES:
        raise BOARD.refused(path, f"has more than {MAXIMUM_LINES} lines")
    return file.read()
