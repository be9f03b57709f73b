"""``python -m leaderboards.build``: records, published numbers and verdicts → the board."""

from __future__ import annotations

import gc
import sys
from functools import partial
from pathlib import Path

from core.errors import UserError, command
from core.places import absolute, shown
from core.words import command_line
from leaderboards.arguments import Arguments, read

FOLDER = Path(__file__).resolve().parent
COMMITTED = FOLDER / "board.parquet"
STORE = Path("runs")  # of bench, in the working directory
LOCAL = STORE / "board.parquet"
SETTINGS = ("records", "output", "local", "skip_refused", "drop_stale")

HELP = """\
usage: python -m leaderboards.build [key=value ...] [--check]

  records=FOLDER   records to show, instead of leaderboards/records; may be given several times
  local=true       add the records of runs/records and the verdicts of runs/reproductions (but of
                   reproductions with changed settings), and write runs/board.parquet, which is
                   yours and is not committed
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


def _build(arguments: Arguments) -> int:
    """Build the board, or compare it with the records."""
    local, only_check = arguments.true("local"), "--check" in arguments.flags
    folders = [absolute(folder) for folder in arguments.settings.get("records", [])]
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"there is no folder {shown(folder)}: records=FOLDER holds run records")
    skip_refused, drop_stale = arguments.true("skip_refused"), arguments.true("drop_stale")
    if drop_stale and (folders or skip_refused or only_check):
        raise UserError(
            "drop_stale=true goes by all records there are: leave records=, skip_refused= and "
            "--check out"
        )
    from leaderboards.making import BoardRequest, make

    request = BoardRequest(
        house=FOLDER,
        folders=folders,
        store=STORE if local else None,
        output=arguments.place("output", LOCAL if local else COMMITTED),
        only_check=only_check,
        skip_refused=skip_refused,
        drop_stale=drop_stale,
    )
    return make(request)


ELSEWHERE = {
    "store": "records=STORE/records output=STORE/board.parquet is the board of another store"
}
READ = partial(read, settings=SETTINGS, flags=("--check",), elsewhere=ELSEWHERE)


@command_line(HELP, READ)
def main(arguments: Arguments) -> int:
    """Build the board, or compare it with the records."""
    return _build(arguments)


@command_line(HELP, READ)
def _alone(arguments: Arguments) -> int:
    """``main`` in a process of its own, which needs no pandas and ends soon."""
    import pyarrow as pa

    # What is made of a task lives until it is written, so that a search for garbage finds none; and
    # pyarrow's own allocator asks the kernel for more than one pass over a task needs.
    gc.set_threshold(20_000, 20, 100)
    pa.set_memory_pool(pa.system_memory_pool())
    # pyarrow looks for pandas at its first array, to know what a data frame is; loading it takes
    # longer than adding a record to a board.
    path, sys.path = sys.path, []
    pa.array([0])
    sys.path = path
    return _build(arguments)


if __name__ == "__main__":
    command(_alone)
