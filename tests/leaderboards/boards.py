"""Boards as others may have made them."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from core.files import write_atomically
from leaderboards.build import FOLDER
from leaderboards.contents import Board, ClaimLine, Row
from leaderboards.making import inputs
from leaderboards.tables.builder import build
from leaderboards.tables.folder import (
    KINDS,
    LIST,
    MANIFEST,
    BoardFile,
    BoardManifest,
    StagedFolder,
    parquet_bytes,
    table_of,
)


def listed_again(board: Path) -> Path:
    """A board whose list of files has the hashes that its files have now."""
    old = LIST.read_json(board / MANIFEST)
    parts = dict(old.parts)
    for name, part in old.parts.items():
        path = board / f"{name}.parquet"
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            parts[name] = BoardFile(sha256=digest, lines=part.lines)
    write_atomically(board / MANIFEST, BoardManifest.of(parts).model_dump_json().encode())
    return board


def with_table(board: Path, name: str, table: pa.Table) -> Path:
    """A board that holds another table, with the hash that it needs."""
    pq.write_table(table, board / f"{name}.parquet")
    return listed_again(board)


def gather(folders: Sequence[Path]) -> Board:
    """The board of some records, in memory.

    Raises:
        UserError: one of them cannot be trusted.
    """
    with TemporaryDirectory() as folder:
        return build(inputs(folders, FOLDER), Path(folder) / "board.parquet").whole()


def tables_of(board: Board) -> dict[str, pa.Table]:
    """Name of a file -> what it holds. The order of lines within a task is kept."""
    sections: dict[str, tuple[Any, ...]] = {
        "rows": board.rows,
        "curves": board.lines,
        "records": board.records,
        "replications": board.replications,
    }
    tables = {"claims": table_of(ClaimLine, board.claims)}
    rows = sorted(filter(is_in_summary, board.rows), key=lambda row: row.task)
    tables["summary"] = table_of(Row, rows)
    for section, lines in sections.items():
        by_task: dict[str, list[Any]] = {}
        for line in lines:
            by_task.setdefault(line.task, []).append(line)
        for task, of_task in by_task.items():
            tables[f"{section}/{task}"] = table_of(KINDS[section], of_task)
    return tables


def is_in_summary(row: Row) -> bool:
    """Whether a row is one of our own by the headline of its task."""
    return row.headline and bool(row.group)


def bytes_of(board: Path) -> dict[str, bytes]:
    """Of every file of a board on disk."""
    return {str(p.relative_to(board)): p.read_bytes() for p in board.rglob("*") if p.is_file()}


def write_board(board: Board, path: Path) -> None:
    """Write a whole board."""
    staged = StagedFolder(path)
    for name, table in tables_of(board).items():
        staged.put(name, table)
    staged.finish()


def to_parquet(board: Board) -> bytes:
    """All bytes of a board's files."""
    tables = sorted(tables_of(board).items())
    return b"".join(parquet_bytes(name.partition("/")[0], table) for name, table in tables)
