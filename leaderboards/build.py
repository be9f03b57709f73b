"""``python -m leaderboards.build``: records, published numbers and verdicts → the board."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from core.errors import command
from core.words import command_line
from leaderboards.arguments import BOARD, read

FOLDER = Path(__file__).resolve().parent
COMMITTED = FOLDER / "board.parquet"
STORE = Path("runs")  # of bench, in the working directory
LOCAL = STORE / BOARD
SETTINGS = ("records", "output", "local", "store", "skip_refused", "drop_stale")

HELP = """\
usage: python -m leaderboards.build [key=value ...] [--check]

  records=FOLDER   records to show, instead of leaderboards/records; may be given several times
  local=true       add the records of runs/records and the verdicts of runs/reproductions (but of
                   reproductions with changed settings), and write runs/board.parquet, which is
                   yours and is not committed
  store=FOLDER     as local=true, with the runs of another store than runs/: the board goes to
                   FOLDER/board.parquet
  output=FOLDER    where the board goes (default leaderboards/board.parquet)
  skip_refused=true
                   exit code 0 although files cannot be shown
  drop_stale=true  delete what was verified of records that are gone, or were replaced: it counts
                   for nothing
  --check          write nothing, read everything; exit code 4 if the board differs from what the
                   records give

A file that cannot be shown is named with the reason, and the board is built from the others: no
record stops it. The exit code is then 4, or 0 with skip_refused=true.
Only what has changed since the last build is read, by an index beside the board that may be
deleted. Your runs of a setting that is committed stand beside it, as replications.
Published numbers (published/) and committed verdicts (leaderboards/verdicts) are always on the
board, and so is how far its records were verified (leaderboards/verifications). Submissions
(leaderboards/submissions) are, unless you name other records.
example: python -m leaderboards.build local=true"""


def default_board() -> Path:
    """The board of one's own runs if there is one, else the committed one."""
    return LOCAL if LOCAL.exists() else COMMITTED


def board_of(store: Path) -> Path:
    """Where the board of a store's runs lies."""
    return store / BOARD


READ = partial(read, settings=SETTINGS, flags=("--check",))
main = command_line(HELP, READ, "leaderboards.making:build_board")
_alone = command_line(HELP, READ, "leaderboards.making:build_in_own_process")


if __name__ == "__main__":
    command(_alone)
