"""How far the rows of a board can be believed: who made their runs, and who made them again.

This is the one place that says so: the levels of a verified submission and the replications of a
run are told by what ``trust_of`` returns, on every page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leaderboards.contents import Board, Row

LEVELS = ("reported", "consistent", "re-scored", "re-run", "replicated")  # the weakest first
STARTED = re.compile(r'"started_at": "([^"]*)"')


@dataclass(frozen=True)
class Trust:
    """What stands behind a row.

    Attributes:
        level: one of ``LEVELS``.
        machines: how many kinds of machine gave its numbers.
        yours: whether some of its runs were made here, and are not committed.
    """

    level: str = LEVELS[0]
    machines: int = 1
    yours: bool = False

    @property
    def words(self) -> str:
        """As a table shows it."""
        often = f" ×{self.machines}" if self.level == LEVELS[-1] else ""
        return f"{self.level}{often}" + (", yours" if self.yours else "")


@dataclass(frozen=True)
class Bar:
    """The board's trust on one line: measured rows by level, and how new its records are."""

    levels: tuple[tuple[str, int], ...]  # every level that has rows, the strongest first
    rows: int
    yours: int
    newest: str  # day of the newest record; "" where there is none


def trust_of(row: Row) -> Trust:
    """What stands behind a row: so far, that its runs were reported."""
    return Trust()


def bar(board: Board, rows: Iterable[Row] | None = None) -> Bar:
    """The trust in the headline rows that were measured."""
    shown = board.rows if rows is None else rows
    measured = [trust_of(row) for row in shown if row.headline and row.kind == "measured"]
    counts = Counter(trust.level for trust in measured)
    levels = tuple((level, counts[level]) for level in reversed(LEVELS) if counts[level])
    yours = sum(trust.yours for trust in measured)
    contents = [record.content for record in board.records]
    return Bar(levels, len(measured), yours, _newest(contents))


def _newest(contents: Sequence[str]) -> str:
    found = (STARTED.search(content) for content in contents)
    return max((match[1][:10] for match in found if match), default="")


def explained() -> str:
    """The levels in a sentence."""
    return (
        "reported: somebody's records; consistent: its numbers follow from its own scores; "
        "re-scored: from its weights; re-run: from its command; replicated: by other machines"
    )
