"""The folder of a board: Parquet files by what they hold and by task, and a list of them.

    board.parquet/
      board.json              the files, with the hash and the number of lines of each
      claims.parquet          verdicts
      summary.parquet         the rows by headline, of all tasks
      rows/TASK.parquet       every row of a task, published ones last
      curves/TASK.parquet
      records/TASK.parquet    records without their bulk
      replications/TASK.parquet

Any reader of Parquet takes one of these folders as one table. Lines have a fixed order and files no
time, so equal boards are equal bytes with equal pyarrow, and a new record changes the files of its
task alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import shutil
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from bench.records.schema import FrozenModel
from core.files import make_folder, write_atomically
from core.reading import Kind
from leaderboards.tables.lines import Board, ClaimLine, ModelCurve, RecordLine, Replication, Row

MANIFEST = "board.json"
MAXIMUM_LINES = 1_000_000  # of one file
MAXIMUM_BYTES = 2**29
KINDS: dict[str, type] = {
    "claims": ClaimLine,
    "summary": Row,
    "rows": Row,
    "curves": ModelCurve,
    "records": RecordLine,
    "replications": Replication,
}
BY_TASK = ("rows", "curves", "records", "replications")
# Lines that are unpacked together, and the columns whose ends tell a reader which of them to skip.
TOGETHER = {"curves": 256, "records": 64}
SORTED_BY = ("run_id", "task", "preset", "variant", "group", "metric")
HOW = (
    "make it with `python -m leaderboards.build`, or with `python -m leaderboards.build "
    "local=true` for a board of your own runs"
)
_TYPES = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "tuple[str, ...]": pa.list_(pa.string()),
    "tuple[float, ...]": pa.list_(pa.float64()),
    "tuple[float | None, ...]": pa.list_(pa.float64()),
}
_NAME = r"^(claims|summary|(rows|curves|records|replications)/[A-Za-z0-9_][A-Za-z0-9_-]{0,199})$"


class BoardFile(FrozenModel):
    """One file of a board."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    lines: int = Field(ge=0, le=MAXIMUM_LINES)


class BoardManifest(FrozenModel):
    """The files of a board by name, without ``.parquet``; ``sha256`` is the hash of this list, and
    so of the board."""

    schema_version: Literal[6] = 6
    parts: dict[Annotated[str, Field(pattern=_NAME)], BoardFile]
    sha256: str

    @classmethod
    def of(cls, parts: Mapping[str, BoardFile]) -> BoardManifest:
        """The list of these files."""
        unsealed = cls(parts=dict(sorted(parts.items())), sha256="")
        return unsealed.model_copy(update={"sha256": unsealed.hash()})

    def hash(self) -> str:
        """What ``sha256`` has to be."""
        content = self.model_dump(mode="json", exclude={"sha256"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def tasks(self) -> list[str]:
        """The tasks that the board has anything of."""
        return sorted({name.partition("/")[2] for name in self.parts if "/" in name})


LIST = Kind("board", BoardManifest, HOW, most=2**22)


@cache
def schema_of(kind: type) -> pa.Schema:
    """The columns of a kind of line: its fields, in their order."""
    fields = dataclasses.fields(kind)
    return pa.schema([(f.name, _TYPES[str(f.type).removesuffix(" | None")]) for f in fields])


def table_of(kind: type, lines: Iterable[Any]) -> pa.Table:
    """Lines of one kind as a table."""
    return pa.Table.from_pylist([vars(line) for line in lines], schema=schema_of(kind))


def parquet_bytes(section: str, table: pa.Table) -> memoryview:
    """The bytes of a Parquet file."""
    # A table that was read has numbered fields, and pages end where its chunks do.
    same = pa.Table.from_arrays(table.columns, schema=schema_of(KINDS[section]))
    buffer = io.BytesIO()
    # Measured numbers hardly repeat: a dictionary of them is larger than they are, and their bytes
    # compress better place by place.
    names = [_leaf(field) for field in same.schema]
    numbers = {_leaf(field) for field in same.schema if field.type == pa.list_(pa.float64())}
    pq.write_table(
        same.combine_chunks(),
        buffer,
        compression="zstd",
        compression_level=19,
        use_dictionary=[name for name in names if name not in numbers],
        use_byte_stream_split=sorted(numbers),
        row_group_size=TOGETHER.get(section, 8192),
        write_statistics=[name for name in SORTED_BY if name in table.schema.names],
        write_page_checksum=True,  # for other readers: this project's own compares the hash
    )
    return buffer.getbuffer()


def _leaf(field: pa.Field) -> str:
    """The name of a column in a Parquet file."""
    return f"{field.name}.list.element" if pa.types.is_list(field.type) else str(field.name)


class StagedFolder:
    """The next state of a board's folder: files wait in a folder of their own until all are there,
    and then take their places within milliseconds, the list of them last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts: dict[str, BoardFile] = {}
        self._waiting = path.with_name(f".{path.name}.new")
        shutil.rmtree(self._waiting, ignore_errors=True)  # of a build that was killed

    def put(self, name: str, table: pa.Table) -> None:
        """Write one file of the board."""
        content = parquet_bytes(name.partition("/")[0], table)
        write_atomically(self._waiting / f"{name}.parquet", content)
        self.parts[name] = BoardFile(sha256=hashlib.sha256(content).hexdigest(), lines=len(table))

    def keep(self, name: str, part: BoardFile, board: Path) -> None:
        """Let a file be as it is in a board, which may be another one.

        Raises:
            UserError: it is not what the list of that board tells any more.
        """
        if board != self.path:
            path = board / f"{name}.parquet"
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != part.sha256:
                raise LIST.refused(path, "changed while a board was made of it")
            write_atomically(self._waiting / f"{name}.parquet", content)
        self.parts[name] = part

    def finish(self) -> BoardManifest:
        """Let the board be what was put and kept; other files are taken away."""
        manifest = BoardManifest.of(self.parts)
        if self.path.is_file():  # a board of an earlier version
            self.path.unlink()
        make_folder(self.path)
        for new_file in sorted(self._waiting.rglob("*.parquet")):
            place = self.path / new_file.relative_to(self._waiting)
            make_folder(place.parent)
            new_file.replace(place)
        content = json.dumps(manifest.model_dump(mode="json"), indent=1, sort_keys=True)
        write_atomically(self.path / MANIFEST, content.encode() + b"\n")
        shutil.rmtree(self._waiting, ignore_errors=True)
        for path in self.path.rglob("*.parquet"):
            if path.relative_to(self.path).with_suffix("").as_posix() not in manifest.parts:
                path.unlink()
        return manifest


def lines_in(kind: type, table: pa.Table) -> list[Any]:
    """The lines of a table that this program made; of a file see :class:`OpenBoard`, which checks
    them."""
    columns = []
    for field in schema_of(kind):
        values = table[field.name].to_pylist()
        columns.append(list(map(tuple, values)) if pa.types.is_list(field.type) else values)
    # By their order: with names it takes three times as long.
    return list(map(kind, *columns))


def board_of(tables: Mapping[str, pa.Table]) -> Board:
    """Name of a file -> what it holds, as a board in memory."""
    lines: dict[str, list[Any]] = {section: [] for section in ("claims", *BY_TASK)}
    for name, table in tables.items():
        section = name.partition("/")[0]
        lines[section] += lines_in(KINDS[section], table)
    return Board(
        rows=tuple(lines["rows"]),
        lines=tuple(lines["curves"]),
        claims=tuple(lines["claims"]),
        records=tuple(lines["records"]),
        replications=tuple(lines["replications"]),
    )
