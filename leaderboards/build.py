"""``python -m leaderboards.build``: records, published numbers and verdicts → one Parquet file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ground.errors import OK, VERIFICATION_FAILED, UserError, command
from ground.progress import Report, silent
from ground.words import wants_help
from leaderboards.arguments import read

if TYPE_CHECKING:
    from leaderboards.contents import Board

FOLDER = Path(__file__).resolve().parent
COMMITTED = FOLDER / "board.parquet"
STORE = Path("runs")  # of bench, in the working directory
LOCAL = STORE / "board.parquet"

HELP = """\
usage: python -m leaderboards.build [key=value ...] [--check]

  records=FOLDER   records to show, instead of leaderboards/records; may be given several times
  local=true       add the records of runs/records and the verdicts of runs/reproductions, and
                   write runs/board.parquet, which is yours and is not committed
  output=FILE      where the board goes (default leaderboards/board.parquet)
  skip_refused=true
                   name every file that cannot be trusted, and build the board from the others
  --check          write nothing; exit code 4 if the file differs from what the records give

Published numbers (published/) and committed verdicts (leaderboards/verdicts) are
always on the board.
example: python -m leaderboards.build local=true"""


def main(words: list[str]) -> int:
    """Build the board, or compare it with the records."""
    if wants_help(words):
        print(HELP)
        return OK
    given = read(words, settings=("records", "output", "local", "skip_refused"), flags=("--check",))
    local = given.true("local")
    output = Path(given.one("output", str(LOCAL if local else COMMITTED)))
    folders = [Path(folder) for folder in given.settings.get("records", [])]
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}: records=FOLDER holds run records")
    refused: list[UserError] | None = [] if given.true("skip_refused") else None
    from ground.progress import progress

    with progress() as report:
        board = gather(folders or [FOLDER / "records", *submitted()], local, refused, report)
    for error in refused or ():
        print(f"refused: {error}", file=sys.stderr)
    from leaderboards.contents import read_board, write_board

    contents = (
        f"{len(board.records)} records, {len(board.rows)} rows, {len(board.lines)} curves, "
        f"{len(board.claims)} verdicts" + (f", {len(refused)} files refused" if refused else "")
    )
    if "--check" in given.flags:
        difference = describe_difference(read_board(output), board)
        if difference:
            how = "python -m leaderboards.build" + (" local=true" if local else "")
            raise UserError(
                f"{output} is not what its records give: {difference}; make it again with `{how}`",
                VERIFICATION_FAILED,
            )
        print(f"{output} is what its records give ({contents})")
        return OK
    write_board(board, output)
    print(f"{output}: {contents}\nopen it with `python -m leaderboards.serve`")
    return OK


def submitted() -> list[Path]:
    """The folders of records that came from elsewhere."""
    from leaderboards.standing.levels import SUBMISSIONS

    return sorted(SUBMISSIONS.glob("*/records"))


def gather(
    folders: Sequence[Path],
    local: bool = False,
    refused: list[UserError] | None = None,
    report: Report = silent,
) -> Board:
    """The board of the records below ``folders``, of published numbers and of verdicts. With
    ``refused``, it is made without inputs that cannot be trusted, which are put there.

    Raises:
        UserError: without ``refused``, an input cannot be trusted.
    """
    from leaderboards.board import build_board
    from leaderboards.standing.levels import read_standings
    from leaderboards.submission import read_checked
    from leaderboards.verdicts import read_verdicts
    from published.numbers import read_published

    verdicts = sorted((FOLDER / "verdicts").rglob("*.json"))
    if local:
        folders = [*folders, STORE / "records"]
        verdicts += sorted((STORE / "reproductions").rglob("verdicts.json"))
    others = submitted()
    own = {path.stem for f in folders if f not in others for path in f.rglob("*.json")}
    return build_board(
        read_checked(folders, refused, report),
        read_published(FOLDER.parent / "published", refused),
        read_verdicts(verdicts, refused),
        report,
        read_standings(own, refused=refused),
    )


def describe_difference(old: Board, new: Board) -> str:
    """The first difference in words, a missing record before all; empty if the boards are equal.

    Floats may differ by one part in 10⁹: quantiles differ in their last bits between versions of
    the library that computes them.
    """
    known, there = ({record.run_id for record in board.records} for board in (old, new))
    if lost := sorted(known - there):
        more = f" and {len(lost) - 1} more" if lost[1:] else ""
        return f"it has the record {lost[0]}{more}, whose file is not there (restore it)"
    if added := sorted(there - known):
        return f"it lacks the record {added[0]}"
    for section in ("rows", "lines", "claims", "records"):
        before, after = getattr(old, section), getattr(new, section)
        if len(before) != len(after):
            return f"it has {len(before)} {section} instead of {len(after)}"
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            for key, value in vars(one).items():
                expected = getattr(other, key)
                if not _equal(value, expected):
                    return f"{section[:-1]} {number} has {key} {value!r:.80} not {expected!r:.80}"
    return ""


def _equal(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(abs(one), abs(other), 1e-9)
    return one == other


if __name__ == "__main__":
    command(main)
