"""What a board holds, and the folder that carries it."""

from __future__ import annotations

from leaderboards.tables.lines import (
    Board,
    ClaimLine,
    ModelCurve,
    RecordLine,
    Replication,
    Row,
    leading_rows,
    measured_rows,
    runs_of,
    verdict_counts,
)
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
    "leading_rows",
    "measured_rows",
    "read_board",
    "runs_of",
    "verdict_counts",
]
