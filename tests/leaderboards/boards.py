"""Boards as others may have made them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from core.files import write_atomically
from leaderboards.build import FOLDER
from leaderboards.contents import Board
from leaderboards.making import inputs
from leaderboards.tables.builder import build
from leaderboards.tables.folder import LIST, MANIFEST, Manifest, Part


def listed_again(board: Path) -> Path:
    """A board whose list of files has the hashes that its files have now."""
    old = LIST.read_json(board / MANIFEST)
    parts = dict(old.parts)
    for name, part in old.parts.items():
        path = board / f"{name}.parquet"
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            parts[name] = Part(sha256=digest, lines=part.lines)
    write_atomically(board / MANIFEST, Manifest.of(parts).model_dump_json().encode())
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
