"""``python -m reproduce claims page=FILE``: every claim that was set after its first run had begun.

What is looked up is what the committed verdict files say of themselves, so the page is made again
after these have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from pathlib import Path

from bench.records.schema import read_records
from bench.records.store import COMMITTED
from ground.errors import OK, UserError
from ground.escaping import markdown, markdown_code
from ground.files import write_atomically
from judging.repeats import began, moment
from reproduce.committed import VERDICTS, VerdictFile
from reproduce.drawing import tables

COMMAND = "python -m reproduce claims page={path}"
HEADS = (
    "figure",
    "preset",
    "claim",
    "tolerance",
    "last set, or its test edited",
    "first run began",
    "confirmed by later runs",
)
CONFIRMED = {True: "yes", False: "no", None: "not decided"}


def main(path: Path) -> int:
    """Write the page of the committed verdict files; the exit code."""
    write_atomically(path, page(str(path)).encode())
    print(f"{path} is written")
    return OK


def page(path: str) -> str:
    """The page of the committed verdict files; ``path`` is its own, as the command names it."""
    files = sorted((COMMITTED.parent / "verdicts").glob("*.json"))
    starts = {one.run_id: began(one).isoformat() for one in read_records([COMMITTED])}
    return page_of([VERDICTS.read_json(file) for file in files], starts, path)


def page_of(files: Sequence[VerdictFile], starts: Mapping[str, str], path: str) -> str:
    """Markdown: a row for each claim that was set after its runs, and how many there are of all.

    Args:
        starts: run id -> when it, or the first run that it repeats, was started, of all runs that
            the files name.
    """
    rows = [row for file in files for row in _rows(file, starts)]
    count = sum(len(file.claims) for file in files)
    return (
        "# Claims that were set after their first run had begun\n\n"
        f"{len(rows)} of the {count} claims in the files of `leaderboards/verdicts`: their words, "
        "numbers, control or test were last changed when the first run of their file had begun. "
        f"Made by {markdown_code(COMMAND.format(path=path))}.\n\n"
        "Such a claim may have been fitted to what was seen. It is confirmed where the runs that "
        "began later, and repeat no older one, give the same verdict by themselves. Times are "
        "UTC.\n\n" + tables.markdown(HEADS, rows)
    )


def _rows(file: VerdictFile, starts: Mapping[str, str]) -> Iterator[list[str]]:
    if lost := [run for run in file.records if run not in starts]:
        raise UserError(
            f"the verdicts on {file.figure} at {file.preset} are judged from {lost[0]}, whose "
            "record is not there: restore it, or write them anew by `python -m reproduce verdicts "
            "update=true`"
        )
    first = min((moment(starts[run]) for run in file.records), default=None)
    for claim in (one for one in file.claims if one.after_runs):
        times = (claim.set and moment(claim.set), first)
        shown = (f"{time.astimezone(UTC):%Y-%m-%d %H:%M}" if time else "" for time in times)
        texts = map(markdown, (claim.name, claim.tolerance))
        yield [file.figure, file.preset, *texts, *shown, CONFIRMED[claim.confirmed]]
