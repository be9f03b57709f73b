"""What was found of a submission, and how it changes the board, as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.records.schema import RunRecord
from core.escaping import markdown_code
from leaderboards.checks.admission import records_beside
from leaderboards.contents import Row
from leaderboards.render import rank
from leaderboards.tables.builder import build_board
from leaderboards.tables.status import Verification, VerificationStatuses, read_statuses

Place = tuple[str, ...]
COLUMNS = (
    "task",
    "preset",
    "configuration",
    "model",
    "score",
    "rank before",
    "rank after",
    "checked",
)


def report(
    records: Sequence[RunRecord], verifications: Sequence[Verification], lines: Sequence[str]
) -> str:
    """What was found, then the rows that new records add, and those whose rank they move, in tables
    of headlines alone.

    Args:
        verifications: of each record.
        lines: what was found, in words.
    """
    committed = [*records_beside(records)]
    committed_ids = {record.run_id for record in committed}
    new = [record for record in records if record.run_id not in committed_ids]
    statuses = read_statuses()
    ids = {record.run_id for record in new}
    after = _headlines(
        committed, VerificationStatuses.of([*statuses.verifications.values(), *verifications]), new
    )
    before = _headlines(committed, statuses)
    added = [row for row in after.values() if ids & set(row.run_ids)]
    others = [(place, row) for place, row in after.items() if not ids & set(row.run_ids)]
    moved = [row for place, row in others if _rank(before.get(place)) != _rank(row)]
    parts = ["### What was found", "", *(f"- {markdown_code(line.strip())}" for line in lines)]
    parts += ["", "### What the board would show", *_table("New rows", added, before)]
    parts += _table("Rows whose rank moves", moved, before)
    if replicated := len(records) - len(new):
        parts += ["", f"{replicated} of the runs are on the board already: they are replications."]
    return "\n".join(parts) + "\n"


def refusal(sentence: str) -> str:
    """That a submission is refused, and why."""
    return f"### Refused\n\n{markdown_code(sentence)}\n"


def _headlines(
    records: Iterable[RunRecord],
    statuses: VerificationStatuses,
    submitted: Iterable[RunRecord] = (),
) -> dict[Place, Row]:
    board = build_board(records, submitted=submitted, statuses=statuses)
    return {_place(row): row for row in board.rows if row.headline}


def _place(row: Row) -> Place:
    return row.group, row.label, row.setting, row.model, row.kind


def _table(title: str, rows: Sequence[Row], before: dict[Place, Row]) -> list[str]:
    if not rows:
        return ["", f"{title}: none."]
    lines = ["", f"{title}:", "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]
    for row in rows:
        score = "" if row.mean is None else f"{row.mean:.4g}"
        ranks = (_rank(before.get(_place(row))), _rank(row))
        cells = (row.task, row.preset, row.variant, row.label, score, *ranks, row.checked)
        # Spans of code: nobody who is named in one is called.
        lines.append(_line(markdown_code(text) if text else "" for text in cells))
    return lines


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rank(row: Row | None) -> str:
    return rank(row) if row else "none"
