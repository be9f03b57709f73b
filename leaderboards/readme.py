"""``python -m leaderboards.readme``: the numbers of the README and of docs/results.md.

Everything between two markers is written from the committed board, so that no number there can be
anything but a record's. The README has a summary, the page has all tables and verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ground.errors import OK, VERIFICATION_FAILED, UserError, command
from bench.ground.files import write_atomically
from bench.ground.words import wants_help
from leaderboards.arguments import read
from leaderboards.build import COMMITTED
from leaderboards.forms import warning
from leaderboards.grouping import without_length
from leaderboards.render import plain

if TYPE_CHECKING:
    from leaderboards.contents import Board, ClaimLine, Row

ROOT = Path(__file__).resolve().parent.parent
PRESETS = ("paper", "gpu", "laptop", "smoke")  # the most demanding first
RESULTS = ROOT / "docs" / "results.md"
VERDICTS = ("reproduced", "contradicted", "not enough evidence")
START = "<!-- results: written by `python -m leaderboards.readme` from the committed records -->"
END = "<!-- end of results -->"

HELP = """\
usage: python -m leaderboards.readme [--check]

Write the results sections of README.md and docs/results.md from leaderboards/board.parquet.
  --check   write nothing; exit code 4 if a section differs from what the board gives"""


def main(words: list[str]) -> int:
    """Write the section, or compare it with the board."""
    if wants_help(words):
        print(HELP)
        return OK
    given = read(words, settings=(), flags=("--check",))
    from leaderboards.contents import read_board

    board = read_board(COMMITTED)
    for path, section in ((ROOT / "README.md", summary(board)), (RESULTS, results(board))):
        text = path.read_text()
        wanted = with_results(text, section, path.name)
        if "--check" in given.flags and wanted != text:
            raise UserError(
                f"the results in {path.name} are not those of the committed board: write them "
                "again with `python -m leaderboards.readme`",
                VERIFICATION_FAILED,
            )
        if wanted != text:
            write_atomically(path, wanted.encode())
    print("README.md and docs/results.md hold the results of the committed board")
    return OK


def with_results(text: str, section: str, name: str) -> str:
    """``text`` with everything between the markers replaced.

    Raises:
        UserError: a marker is missing.
    """
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise UserError(f"{name} must hold the lines {START!r} and {END!r}")
    return f"{before}{START}\n\n{section}\n{END}{after}"


def summary(board: Board) -> str:
    """Markdown: for each task the table with most models at its most demanding preset, with those
    of models trained for longer or shorter, and the number of claims by figure and verdict, each
    figure at its most demanding preset."""
    parts: list[str] = []
    every = _groups(board)
    groups = [rows for rows in every if _compares(rows)]
    for task in dict.fromkeys(rows[0].task for rows in groups):
        own = [rows for rows in groups if rows[0].task == task]
        best = min(PRESETS.index(rows[0].preset) for rows in own)
        # The one that compares most models. Variants sort by their first setting, the size: the
        # last of equals is the largest.
        tables = [rows for rows in own if rows[0].preset == PRESETS[best]]
        largest = max(reversed(tables), key=lambda rows: len(_models(rows)))
        shown = without_length(largest[0].group)
        parts += [_table(rows) for rows in every if without_length(rows[0].group) == shown]
    lines = ["| claims of | preset | " + " | ".join(VERDICTS) + " |", "|---|---|---|---|---|"]
    by_figure = {
        (title, preset): [claim.verdict for claim in claims]
        for (title, preset), claims in groupby(board.claims, key=lambda c: (c.title, c.preset))
    }
    best_of: dict[str, str] = {}
    for title, preset in sorted(by_figure, key=lambda key: PRESETS.index(key[1])):
        best_of.setdefault(title, preset)
    for (title, preset), found in by_figure.items():
        if best_of[title] != preset:
            continue
        counts = " | ".join(str(found.count(verdict)) for verdict in VERDICTS)
        lines.append(f"| {title} | `{preset}` | {counts} |")
    return "\n".join([*parts, *lines, ""]) if board.records else "No record is committed yet.\n"


def _compares(rows: Sequence[Row]) -> bool:
    """Whether a table is of more than a first look, and of more than one model."""
    return rows[0].preset != "smoke" and len(_models(rows)) > 1


def _models(rows: Sequence[Row]) -> set[str]:
    return {row.model for row in rows if row.kind == "measured"}


def _groups(board: Board) -> list[list[Row]]:
    rows = [row for row in board.rows if row.headline and row.kind in ("measured", "reference")]
    grouped = groupby(rows, key=lambda row: (row.task, row.preset, row.group))
    return [list(group) for _, group in grouped]


def results(board: Board) -> str:
    """Markdown: a warning if records are of an earlier form, one table for each measured group by
    its headline, then the verdicts."""
    parts = [*filter(None, [warning(board)]), *(_table(rows) for rows in _groups(board))]
    for (title, preset), claims in groupby(board.claims, key=lambda c: (c.title, c.preset)):
        parts.append(_verdicts(title, preset, list(claims)))
    return "\n".join(parts) or "No record is committed yet.\n"


def _table(rows: Sequence[Row]) -> str:
    title, variant = f"{rows[0].task}, preset `{rows[0].preset}`", rows[0].variant
    metric, direction = rows[0].metric, rows[0].direction
    names = [row.label for row in rows]
    arrow = {"maximise": "higher is better", "minimise": "lower is better"}.get(direction or "", "")
    repeated = any((row.seeds or 0) > 1 for row in rows)
    shown = "mean ± 95 % interval over seeds" if repeated else "one seed: no interval, no rank"
    lines = [
        f"**{title}**{f' ({variant})' if variant else ''}: {metric.replace('_', ' ')} on test, "
        f"{arrow}, {shown}",
        "",
        "| model | rank | " + metric.replace("_", " ") + " | seeds | parameters | tuning trials |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_line(row, alone=names.count(row.label) == 1) for row in rows]
    return "\n".join([*lines, ""])


def _line(row: Row, alone: bool) -> str:
    name = plain(row.label) if alone else f"{plain(row.label)} ({row.setting})"
    rank = ""
    if row.rank_best is not None:
        same = row.rank_best == row.rank_worst
        rank = f"{row.rank_best}" if same else f"{row.rank_best}–{row.rank_worst}"
    value = row.cause or row.outcome
    if row.mean is not None:
        value = f"{row.mean:.3f}"
        if row.high is not None:
            value += f" ± {row.high - row.mean:.3f}"
        if row.outcome != "ok":
            value += f" ({row.outcome})"
    if row.kind == "reference":
        return f"| *{name}* | | {value} | | | |"
    parameters = None if row.parameters is None else f"{row.parameters:,}"
    cells = (name, rank, value, row.seeds, parameters, row.trials)
    return "| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |"


def _verdicts(title: str, preset: str, claims: Sequence[ClaimLine]) -> str:
    lines = [
        f"**{title}** (preset `{preset}`)",
        "",
        "| claim | verdict | evidence |",
        "|---|---|---|",
    ]
    for claim in claims:
        needed = f" ({claim.seeds_needed} seeds would settle it)" if claim.seeds_needed else ""
        evidence = " ".join(claim.evidence.split())
        lines.append(f"| {claim.sentence} | {claim.verdict}{needed} | {evidence} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    command(main)
