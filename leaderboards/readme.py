"""``python -m leaderboards.readme``: the numbers of the README, written from the committed board.

Everything between two markers is generated, so no number there can be anything but a record's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import OK, VERIFICATION_FAILED, UserError, command
from bench.files import write_atomically
from bench.words import wants_help
from leaderboards.arguments import read
from leaderboards.build import COMMITTED

if TYPE_CHECKING:
    from leaderboards.contents import Board, ClaimLine, Row

README = Path(__file__).resolve().parent.parent / "README.md"
START = "<!-- results: written by `python -m leaderboards.readme` from the committed records -->"
END = "<!-- end of results -->"

HELP = """\
usage: python -m leaderboards.readme [--check]

Write the results section of README.md from leaderboards/board.parquet.
  --check   write nothing; exit code 4 if the README differs from what the board gives"""


def main(words: list[str]) -> int:
    """Write the section, or compare it with the board."""
    if wants_help(words):
        print(HELP)
        return OK
    given = read(words, settings=(), flags=("--check",))
    from leaderboards.contents import read_board

    text = README.read_text()
    wanted = with_results(text, results(read_board(COMMITTED)))
    if "--check" in given.flags and wanted != text:
        raise UserError(
            "the results in README.md are not those of the committed board: write them again with "
            "`python -m leaderboards.readme`",
            VERIFICATION_FAILED,
        )
    if wanted != text:
        write_atomically(README, wanted.encode())
    print("README.md holds the results of the committed board")
    return OK


def with_results(text: str, section: str) -> str:
    """``text`` with everything between the markers replaced.

    Raises:
        UserError: a marker is missing.
    """
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise UserError(f"README.md must hold the lines {START!r} and {END!r}")
    return f"{before}{START}\n\n{section}\n{END}{after}"


def results(board: Board) -> str:
    """Markdown: one table for each measured group by its headline, then the verdicts."""
    rows = [row for row in board.rows if row.headline and row.kind in ("measured", "reference")]
    parts = []
    for (task, preset, variant, _), group in groupby(
        rows, key=lambda row: (row.task, row.preset, row.variant, row.group)
    ):
        parts.append(_table(f"{task}, preset `{preset}`", variant, list(group)))
    for (title, preset), claims in groupby(board.claims, key=lambda c: (c.title, c.preset)):
        parts.append(_verdicts(title, preset, list(claims)))
    return "\n".join(parts) or "No record is committed yet.\n"


def _table(title: str, variant: str, rows: Sequence[Row]) -> str:
    metric, direction = rows[0].metric, rows[0].direction
    arrow = {"maximise": "higher is better", "minimise": "lower is better"}.get(direction or "", "")
    lines = [
        f"**{title}**{f' ({variant})' if variant else ''}: {metric.replace('_', ' ')} on test, "
        f"{arrow}, mean ± 95 % interval over seeds",
        "",
        "| model | rank | " + metric.replace("_", " ") + " | seeds | parameters | trials |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_line(row) for row in rows]
    return "\n".join([*lines, ""])


def _line(row: Row) -> str:
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
        return f"| *{row.label}* | | {value} | | | |"
    cells = (row.label, rank, value, row.seeds, f"{row.parameters or 0:,}", row.trials)
    return "| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |"


def _verdicts(title: str, preset: str, claims: Sequence[ClaimLine]) -> str:
    lines = [f"**{title}** (preset `{preset}`)", "", "| claim | verdict |", "|---|---|"]
    for claim in claims:
        needed = f" ({claim.seeds_needed} seeds would settle it)" if claim.seeds_needed else ""
        lines.append(f"| {claim.sentence} | {claim.verdict}{needed} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    command(main)
