"""How far the rows of a board can be believed: who made their runs, and who made them again.

This is the one place that says so: what ``trust_of`` and ``bar`` return is shown on every page.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from leaderboards.contents import OpenBoard, RecordLine, Replication, Row
from leaderboards.render import task_label
from leaderboards.tables.replications import Replicated, summarised
from leaderboards.tables.status import LEVELS
from leaderboards.tables.summaries import YOURS
from leaderboards.views.links import Link, to_table


@dataclass(frozen=True)
class Trust:
    """What stands behind a row.

    Attributes:
        level: one of ``LEVELS``.
        checked: the level with all that is known beside it, as ``read_board`` has it.
        yours: whether its runs were made here, and are not committed.
    """

    level: str
    checked: str
    yours: bool

    @property
    def words(self) -> str:
        """What was checked, and whether its runs are one's own."""
        return f"{self.checked}, {YOURS}" if self.yours else self.checked


@dataclass(frozen=True)
class Bar:
    """The board's trust on one line: measured rows by level, the strongest first, what replications
    gave, and how many rows are one's own: of each task, with the table that has the first."""

    levels: tuple[tuple[str, int], ...]
    rows: int
    replicated: Replicated
    yours: int = 0
    to_yours: tuple[tuple[str, int, Link], ...] = ()


def trust_of(row: Row | RecordLine) -> Trust:
    """What stands behind a row, or a record. What nobody verified was reported."""
    checked = row.checked or LEVELS[0]
    level = next((level for level in reversed(LEVELS) if checked.startswith(level)), LEVELS[0])
    return Trust(level, checked, row.origin == YOURS)


def bar(board: OpenBoard) -> Bar:
    """The trust in the rows that were measured."""
    rows = board.summary(kind=["measured", "replication"])
    counts = Counter(trust_of(row).level for row in rows if row.kind == "measured")
    levels = tuple((level, counts[level]) for level in reversed(LEVELS) if counts[level])
    your_rows: dict[str, list[Row]] = {}
    for row in rows:
        if trust_of(row).yours:
            your_rows.setdefault(row.task, []).append(row)
    to_yours = []
    for task, of_task in your_rows.items():
        to_yours.append((task_label(task), len(of_task), to_table(of_task[0])))
    yours = sum(map(len, your_rows.values()))
    replications: list[Replication] = []
    for task in board.tasks():
        replications += board.replications(task)
    return Bar(levels, counts.total(), summarised(replications), yours, tuple(to_yours))


def explained() -> str:
    """The levels in a sentence."""
    return (
        "reported: somebody's records; consistent: data and sizes are as counted again, and the "
        "headline follows from the record's own scores; re-scored: its weights give it again; "
        "re-run: its command does; replicated ×k: so on k kinds of machine, or by k people. A row "
        "has the level of its least checked seed"
    )
