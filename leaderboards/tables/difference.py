"""Whether a board is what its records give: a build from nothing, compared with it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from core.errors import UserError
from core.progress import Report
from leaderboards.tables.builder import Inputs, build
from leaderboards.tables.lines import Board
from leaderboards.tables.open_board import OpenBoard
from leaderboards.tables.status import Verification


def difference_from_records(
    board: OpenBoard,
    inputs: Inputs,
    refused: list[UserError] | None,
    report: Report,
    stale: list[Verification] | None = None,
) -> str:
    """What a board has otherwise than a build from nothing, in words; "" if nothing.

    Raises:
        UserError: a file of the board is damaged; or as :func:`build`.
    """
    with TemporaryDirectory() as folder:
        fresh = build(inputs, Path(folder) / board.path.name, refused, report, stale)
        differences = []
        for task in ["", *sorted({*board.tasks(), *fresh.tasks()})]:
            # Equal hashes need no look at the lines, once the files are what the list says.
            if board.parts(task) != fresh.parts(task) or not board.is_whole(task):
                differences.append(describe_difference(board.of_task(task), fresh.of_task(task)))
    # A record that is missing explains every number that differs.
    missing_first = sorted(filter(None, differences), key=lambda text: "the record " not in text)
    return next(iter(missing_first), "")


def describe_difference(old: Board, new: Board) -> str:
    """The first difference in words, a missing record before all; empty if the boards are equal.

    Floats may differ by one part in 10⁹: quantiles differ in their last bits between versions of
    the library that computes them.
    """
    old_ids, new_ids = ({record.run_id for record in board.records} for board in (old, new))
    if lost := sorted(old_ids - new_ids):
        more = f" and {len(lost) - 1} more" if lost[1:] else ""
        return f"it has the record {lost[0]}{more}, whose file is not there (restore it)"
    if added := sorted(new_ids - old_ids):
        return f"it lacks the record {added[0]}"
    for section in ("rows", "lines", "claims", "records", "replications"):
        old_lines, new_lines = getattr(old, section), getattr(new, section)
        if len(old_lines) != len(new_lines):
            return f"it has {len(old_lines)} {section} instead of {len(new_lines)}"
        for number, (line, expected_line) in enumerate(zip(old_lines, new_lines, strict=True)):
            for key, value in vars(line).items():
                expected = getattr(expected_line, key)
                if not _equal(value, expected):
                    return f"{section[:-1]} {number} has {key} {value!r:.80} not {expected!r:.80}"
    return ""


def _equal(value: object, expected: object) -> bool:
    if isinstance(value, tuple) and isinstance(expected, tuple):
        return len(value) == len(expected) and all(map(_equal, value, expected))
    if isinstance(value, float) and isinstance(expected, float):
        return abs(value - expected) <= 1e-9 * max(abs(value), abs(expected), 1e-9)
    return value == expected
