"""What a board holds, and the folder that carries it."""

from __future__ import annotations

from leaderboards.tables.lines import Board, ClaimLine, ModelCurve, RecordLine, Replication, Row
from leaderboards.tables.open_board import KeptBoard, OpenBoard, read_board

__all__ = [
    "Board",
    "ClaimLine",
    "KeptBoard",
    "ModelCurve",
    "OpenBoard",
    "RecordLine",
    "Replication",
    "Row",
    "read_board",
]
