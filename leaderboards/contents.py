"""What a board holds, and the one Parquet file that carries it.

Four kinds of lines share one file: a column exists once, and is null where a kind does not have it.
This module imports neither torch nor pandas, so that the app starts quickly.
"""

from __future__ import annotations

import dataclasses
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ground.errors import RUN_FAILED, UserError
from ground.files import write_atomically

SCHEMA_VERSION = 2


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
    """The board as one Parquet file; equal boards give equal bytes with equal pyarrow."""
    lines = [
        {"section": section, **vars(line)}
        for section in _SECTIONS
        for line in getattr(board, section)
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(lines, schema=SCHEMA), buffer, compression="zstd")
    return buffer.getvalue()


def write_board(board: Board, path: Path) -> None:
    """Write the board atomically."""
    write_atomically(path, to_parquet(board))


def read_board(path: Path) -> Board:
    """Read a board.

    Raises:
        UserError: there is none, or it is not a board of this version; names the command that
            makes one.
    """
    make = (
        "make it with `python -m leaderboards.build`, or with `python -m leaderboards.build "
        "local=true` for a board of your own runs"
    )
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"there is no board at {path}: {make}", RUN_FAILED) from None
    except (pa.ArrowException, OSError):
        raise UserError(f"{path} is not a readable Parquet file: {make}", RUN_FAILED) from None
    version = (table.schema.metadata or {}).get(b"board_schema", b"none").decode(errors="replace")
    if version != str(SCHEMA_VERSION) or table.schema.names != SCHEMA.names:
        raise UserError(
            f"{path} has board schema {version} but this version reads {SCHEMA_VERSION}: {make}",
            RUN_FAILED,
        )
    sections: dict[str, list[Any]] = {section: [] for section in _SECTIONS}
    names = {
        section: [field.name for field in dataclasses.fields(kind)]
        for section, kind in _SECTIONS.items()
    }
    for line in table.to_pylist():
        section = line["section"]
        values = {name: line[name] for name in names[section]}
        plain = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        sections[section].append(_SECTIONS[section](**plain))
    return Board(**{section: tuple(found) for section, found in sections.items()})
