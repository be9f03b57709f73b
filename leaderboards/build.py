"""``python -m leaderboards.build``: records, published numbers and verdicts → the board."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import OK, VERIFICATION_FAILED, UserError, command
from core.escaping import terminal
from core.places import absolute, shown
from core.words import command_line
from leaderboards.arguments import Arguments, read

if TYPE_CHECKING:
    from leaderboards.tables.builder import Inputs
    from leaderboards.tables.open_board import OpenBoard

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
    output = arguments.place("output", LOCAL if local else COMMITTED)
    folders = [absolute(folder) for folder in arguments.settings.get("records", [])]
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"there is no folder {shown(folder)}: records=FOLDER holds run records")
    may_lack_some, drop_stale = arguments.true("skip_refused"), arguments.true("drop_stale")
    if drop_stale and (folders or may_lack_some or only_check):
        raise UserError(
            "drop_stale=true goes by all records there are: leave records=, skip_refused= and "
            "--check out"
        )
    # What computes is imported once the words are known to be right.
    from bench.config.outside_tasks import use_cards_of
    from core.progress import progress
    from leaderboards.tables.builder import build
    from leaderboards.tables.difference import difference_from_records
    from leaderboards.tables.open_board import OpenBoard
    from leaderboards.tables.status import SUBMISSIONS, Verification, drop

    sources = inputs(folders or [FOLDER / "records", SUBMISSIONS], local)
    command_again = "python -m leaderboards.build" + (" local=true" if local else "")
    stale: list[Verification] = []
    wrong_cards = use_cards_of(STORE) if local else []
    refused: list[UserError] = []
    difference = ""
    with progress() as report:
        if only_check:
            board = OpenBoard(output)
            difference = difference_from_records(board, sources, refused, report, stale)
        else:
            board = build(sources, output, refused, report, stale)
    if difference:
        raise UserError(
            f"{shown(output)} is not what its records give: {difference}; make it again with "
            f"`{command_again}`",
            VERIFICATION_FAILED,
        )
    for error in [*wrong_cards, *refused]:
        print(terminal(f"not shown: {error}"), file=sys.stderr)
    if stale and not folders:  # else there are records that were not looked at
        told = (
            f"{len(stale)} verifications are stale and count for nothing, since their records are "
            "gone or were replaced: drop them with `python -m leaderboards.build drop_stale=true"
            f"{' local=true' if local else ''}`"
        )
        # What a record that is not shown was verified as may count again, once that is mended.
        if drop_stale and not refused:
            told = f"dropped {len(drop(stale, sources.verifications))} stale verifications"
        print(told, file=sys.stderr)
    size = _size_in_words(board, len(refused))
    if only_check:
        print(f"{shown(output)} is what its records give ({size})")
    else:
        print(f"{shown(output)}: {size}\nopen it with `python -m leaderboards.serve`")
    return VERIFICATION_FAILED if refused and not may_lack_some else OK


def inputs(folders: Sequence[Path], local: bool = False) -> Inputs:
    """What a board is made of: records below ``folders``, published numbers, verdicts, and what was
    checked of records. Those below ``leaderboards/submissions`` came from elsewhere."""
    from bench.records.store import Store
    from leaderboards.render import PRESETS
    from leaderboards.tables import summaries
    from leaderboards.tables.builder import Inputs
    from leaderboards.tables.index import Folder
    from leaderboards.tables.status import FOLDER as VERIFICATIONS
    from leaderboards.tables.status import OWN, SUBMISSIONS

    sources, verifications = [], [VERIFICATIONS]
    for folder in folders:
        submitted = folder.resolve().is_relative_to(SUBMISSIONS.resolve())
        origin = summaries.SUBMITTED if submitted else summaries.COMMITTED
        sources.append(Folder(folder, origin))
    # Of equal run ids the first counts.
    sources.sort(key=lambda source: source.origin == summaries.SUBMITTED)
    own_verdicts = []
    if local:
        sources.append(Folder(Store(STORE).records, summaries.YOURS))
        verifications.insert(0, STORE / OWN)  # of one record the last counts
        # A reproduction with changed settings lies in a folder of another name, and its verdicts
        # are not those of the preset.
        for path in sorted((STORE / "reproductions").rglob("verdicts.json")):
            if path.parent.name in PRESETS:
                own_verdicts.append(path)
    verdicts = sorted((FOLDER / "verdicts").rglob("*.json"))
    return Inputs(
        sources, FOLDER.parent / "reproduce" / "published", verdicts, verifications, own_verdicts
    )


def _size_in_words(board: OpenBoard, refused: int) -> str:
    """How much a board holds."""
    texts = [
        f"{board.count('records')} records",
        f"{board.count('rows')} rows",
        f"{board.count('curves')} curves",
        f"{board.count('claims')} verdicts",
    ]
    if replications := board.count("replications"):
        texts.append(f"{replications} replications")
    if refused:
        texts.append(f"{refused} files not shown")
    return ", ".join(texts)


READ = partial(read, settings=SETTINGS, flags=("--check",))


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
