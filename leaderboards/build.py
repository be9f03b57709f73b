"""``python -m leaderboards.build``: records, published numbers and verdicts → the board."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ground.errors import OK, VERIFICATION_FAILED, UserError, command
from ground.escaping import terminal
from ground.places import absolute, shown
from ground.progress import Report
from ground.words import wants_help
from leaderboards.arguments import read

if TYPE_CHECKING:
    from leaderboards.contents import Board, OpenBoard
    from leaderboards.tables.builder import Inputs
    from leaderboards.verification.status import Verification

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


def main(words: list[str]) -> int:
    """Build the board, or compare it with the records."""
    if wants_help(words):
        print(HELP)
        return OK
    given = read(words, SETTINGS, flags=("--check",))
    local = given.true("local")
    output = given.place("output", LOCAL if local else COMMITTED)
    folders = [absolute(folder) for folder in given.settings.get("records", [])]
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"there is no folder {shown(folder)}: records=FOLDER holds run records")
    may_lack_some = given.true("skip_refused")
    if given.true("drop_stale") and (folders or may_lack_some or given.flags):
        raise UserError(
            "drop_stale=true goes by all records there are: leave records=, skip_refused= and "
            "--check out"
        )
    from ground.progress import progress
    from leaderboards.tables.builder import build
    from leaderboards.verification.status import SUBMISSIONS
    from settings.outside_tasks import use_cards_of

    own = inputs(folders or [FOLDER / "records", SUBMISSIONS], local)
    stale: list[Verification] = []
    cards = use_cards_of(STORE) if local else []
    refused: list[UserError] = []
    with progress() as report:
        if "--check" in given.flags:
            contents = checked(own, output, local, refused, report, stale)
        else:
            contents = in_words(build(own, output, refused, report, stale), refused)
    for error in [*cards, *refused]:
        print(terminal(f"not shown: {error}"), file=sys.stderr)
    if stale and not folders:  # else there are records that were not looked at
        # What a record that is not shown was verified as may count again, once that is mended.
        unwanted = given.true("drop_stale") and not refused
        print(_about_stale(stale, own, local, unwanted), file=sys.stderr)
    if "--check" in given.flags:
        print(f"{shown(output)} is what its records give ({contents})")
    else:
        print(f"{shown(output)}: {contents}\nopen it with `python -m leaderboards.serve`")
    return VERIFICATION_FAILED if refused and not may_lack_some else OK


def _about_stale(stale: list[Verification], own: Inputs, local: bool, unwanted: bool) -> str:
    """How many verifications are stale, in a line; if they are unwanted, they are deleted."""
    from leaderboards.verification.status import drop

    if unwanted:
        return f"dropped {len(drop(stale, own.verifications))} stale verifications"
    how = "python -m leaderboards.build drop_stale=true" + (" local=true" if local else "")
    return (
        f"{len(stale)} verifications are stale and count for nothing, since their records are gone "
        f"or were replaced: drop them with `{how}`"
    )


def inputs(folders: Sequence[Path], local: bool = False) -> Inputs:
    """What a board is made of: records below ``folders``, published numbers, verdicts, and what was
    checked of records. Those below ``leaderboards/submissions`` came from elsewhere."""
    from bench.records.store import Store
    from leaderboards.render import PRESETS
    from leaderboards.tables.builder import Inputs
    from leaderboards.tables.index import Folder
    from leaderboards.tables.summaries import COMMITTED as OURS
    from leaderboards.tables.summaries import SUBMITTED, YOURS
    from leaderboards.verification.status import FOLDER as VERIFICATIONS
    from leaderboards.verification.status import OWN, SUBMISSIONS

    verdicts, known = sorted((FOLDER / "verdicts").rglob("*.json")), [VERIFICATIONS]
    elsewhere = SUBMISSIONS.resolve()
    found = [
        Folder(folder, SUBMITTED if folder.resolve().is_relative_to(elsewhere) else OURS)
        for folder in folders
    ]
    found.sort(key=lambda folder: folder.origin == SUBMITTED)  # of equal run ids the first counts
    if local:
        found.append(Folder(Store(STORE).records, YOURS))
        known.insert(0, STORE / OWN)  # of one record the last counts
    # A reproduction with changed settings lies in a folder of another name, and its verdicts are
    # not those of the preset.
    own = [
        path
        for path in (sorted((STORE / "reproductions").rglob("verdicts.json")) if local else [])
        if path.parent.name in PRESETS
    ]
    return Inputs(found, FOLDER.parent / "published", verdicts, known, own)


def in_words(board: OpenBoard, refused: list[UserError] | None) -> str:
    """How much a board holds."""
    counts = [
        (board.count("records"), "records"),
        (board.count("rows"), "rows"),
        (board.count("curves"), "curves"),
        (board.count("claims"), "verdicts"),
        (board.count("replications"), "replications"),
        (len(refused or ()), "files not shown"),
    ]
    said = (f"{n} {what}" for n, what in counts if n or what not in ("replications", counts[-1][1]))
    return ", ".join(said)


def checked(
    own: Inputs,
    output: Path,
    local: bool,
    refused: list[UserError] | None,
    report: Report,
    stale: list[Verification] | None = None,
) -> str:
    """How much the board at ``output`` holds, which is what its inputs give.

    Raises:
        UserError: it is another board.
    """
    from leaderboards.contents import Board, OpenBoard
    from leaderboards.tables.builder import each_task

    there = OpenBoard(output)
    seen, said = set(), []
    for task, board in each_task(own, refused, report, stale):
        seen.add(task)
        said.append(describe_difference(there.of_task(task), board))
    for task in set(there.tasks()) - seen:
        said.append(describe_difference(there.of_task(task), Board((), (), (), ())))
    # A record that is missing explains every number that differs.
    difference = next(
        iter(sorted(filter(None, said), key=lambda text: "the record " not in text)), ""
    )
    if difference:
        how = "python -m leaderboards.build" + (" local=true" if local else "")
        raise UserError(
            f"{shown(output)} is not what its records give: {difference}; make it again with "
            f"`{how}`",
            VERIFICATION_FAILED,
        )
    return in_words(there, refused)


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
    for section in ("rows", "lines", "claims", "records", "replications"):
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


def _alone(words: list[str]) -> int:
    """``main`` in a process of its own, which needs no pandas and ends soon."""
    if not wants_help(words):
        from leaderboards.tables.lean import be_lean

        be_lean()
    return main(words)


if __name__ == "__main__":
    command(_alone)
