"""How a submission changes the board, as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.records.schema import RunRecord
from leaderboards.board import build_board
from leaderboards.contents import Row
from leaderboards.standing.levels import FOLDER, Standings, read_standings
from leaderboards.submission import of_tasks_of

Place = tuple[str, str, str, str]
HEAD = "| task | preset | configuration | model | score | rank before | rank after | checked |"


def difference_in_words(records: Sequence[RunRecord], verifications: Path = FOLDER) -> str:
    """The rows that new records add, and those whose rank they move, in tables of headlines alone.

    Args:
        verifications: the folder of what was found of the new records; that of others is the
            board's own.
    """
    own = [*of_tasks_of(records)]
    known = {record.run_id for record in own}
    new = [record for record in records if record.run_id not in known]
    submitted = frozenset(record.run_id for record in new)
    standings = read_standings(known)
    fresh = read_standings(known, verifications).verifications
    after_all = Standings({**standings.verifications, **fresh}, standings.submitted | submitted)
    before = _headlines(own, standings)
    after = _headlines([*own, *new], after_all)
    ids = {run_id for record in new for run_id in [record.run_id]}
    added = [row for place, row in after.items() if ids & set(row.run_ids)]
    moved = [
        row
        for place, row in after.items()
        if not ids & set(row.run_ids) and _rank(before.get(place)) != _rank(row)
    ]
    again = [record.run_id for record in records if record.run_id in known]
    parts = ["### What the board would show", *_table("New rows", added, before)]
    parts += _table("Rows whose rank moves", moved, before)
    if again:
        parts += ["", f"{len(again)} of the runs are on the board already: they are replications."]
    return "\n".join(parts) + "\n"


def _headlines(records: Iterable[RunRecord], standings: Standings) -> dict[Place, Row]:
    board = build_board(records, standings=standings)
    return {(r.group, r.label, r.setting, r.model): r for r in board.rows if r.headline}


def _table(title: str, rows: Sequence[Row], before: dict[Place, Row]) -> list[str]:
    if not rows:
        return ["", f"{title}: none."]
    lines = ["", f"{title}:", "", HEAD, "|" + "---|" * HEAD.count(" | ") + "---|"]
    for row in rows:
        old = before.get((row.group, row.label, row.setting, row.model))
        score = "" if row.mean is None else f"{row.mean:.4g}"
        cells = (row.task, row.preset, row.variant, row.label, score, _rank(old), _rank(row))
        lines.append("| " + " | ".join(map(_plain, (*cells, row.checked))) + " |")
    return lines


def _rank(row: Row | None) -> str:
    if row is None or row.rank_best is None:
        return "none"
    same = row.rank_best == row.rank_worst
    return str(row.rank_best) if same else f"{row.rank_best} to {row.rank_worst}"


def _plain(text: str) -> str:
    """Text of somebody else in a cell: nothing of it is Markdown, a link or a mention."""
    kept = (c if c.isalnum() or c in " .,=-_×" else f"&#{ord(c)};" for c in text if c.isprintable())
    return "".join(kept).replace("_", "&#95;")
