"""What a board holds, and the folder that carries it."""

from __future__ import annotations

from leaderboards.data.folder import to_parquet, write_board
from leaderboards.data.opened import KeptBoard, OpenBoard, read_board
from leaderboards.shapes.lines import Board, ClaimLine, Line, RecordLine, Replication, Row

__all__ = [
    "Board",
    "ClaimLine",
    "KeptBoard",
    "Line",
    "OpenBoard",
    "RecordLine",
    "Replication",
    "Row",
    "read_board",
    "to_parquet",
    "write_board",
]
