"""``python -m leaderboards.add``: check records and copy them to where the board is made from."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import OK, UserError, command
from core.words import command_line
from leaderboards.arguments import Arguments, read
from leaderboards.build import FOLDER, STORE

if TYPE_CHECKING:
    from bench.records.schema import RunRecord

HELP = """\
usage: python -m leaderboards.add RUN_ID|FILE ... [to=FOLDER]

Checks each record and copies it unchanged to leaderboards/records/TASK/PRESET/. What it says is
worked out again as far as it goes, and compared with the other records of its task; what was
checked and what was not is printed. Nothing is run again. A RUN_ID is looked up in runs/records.
Records of trials stay out: only final and single runs and baselines stand on a board.

  to=FOLDER   copy to FOLDER/TASK/PRESET/ instead of leaderboards/records
example: python -m leaderboards.add runs/records/*.json"""


@command_line(HELP, partial(read, settings=("to",), takes_names=True))
def main(arguments: Arguments) -> int:
    """Check all records, then copy all of them: one that is refused leaves nothing behind."""
    if not arguments.names:
        raise UserError("name at least one record: RUN_ID or FILE; --help explains")
    target = arguments.place("to", FOLDER / "records")
    copies = [plan(name, target) for name in arguments.names]
    sources: dict[Path, Path] = {}
    for _, source, destination in copies:
        other = sources.setdefault(destination, source)
        if other.read_bytes() != source.read_bytes():
            raise UserError(f"{other} and {source} hold two records of one name: add one of them")
    from core.files import write_atomically
    from leaderboards.checks.admission import checked_and_not, examine, records_beside, tells

    records = [record for record, _, _ in copies]
    confirmed_by_run = examine(records, records_beside(records, target))
    for record, source, destination in copies:
        content = source.read_bytes()
        if destination.exists() and destination.read_bytes() == content:
            print(f"already there: {destination}")
            continue
        write_atomically(destination, content)
        note = " (made from a tree with uncommitted changes)" if record.provenance.dirty else ""
        print(f"added {destination}{note}")
        checked, unchecked = checked_and_not(record, confirmed_by_run[record.run_id])
        if private := tells(record):
            print(
                f"  it tells of the machine that made it, to whoever reads it: {'; '.join(private)}"
            )
        print(f"  checked: {', '.join(checked)}\n  not checked: {'; '.join(unchecked)}")
    print(
        "make the board again with `python -m leaderboards.build`; `python -m leaderboards.verify "
        "RUN_ID` counts data and sizes again, and makes the run"
    )
    return OK


def plan(name: str, target: Path) -> tuple[RunRecord, Path, Path]:
    """A checked record, its file, and the file that it goes to.

    Raises:
        UserError: the record is refused, or another one of that name stands there already.
    """
    from bench.records.schema import read_record
    from leaderboards.checks.admission import check, in_store

    source = in_store(name, STORE)
    record = read_record(source, any_name=True)  # its copy has the right one
    if record.role == "trial":
        raise UserError(
            f"{record.run_id} is a trial of a study, which never saw the test split: "
            "add the records of its final runs"
        )
    check(record)
    destination = target / record.task / record.preset / f"{record.run_id}.json"
    if destination.exists() and read_record(destination) != record:
        raise UserError(
            f"{destination} already holds another record of that name, which stays: "
            "`python -m leaderboards.verify` keeps what a run gives that is made again, and "
            "to=FOLDER puts the new one elsewhere"
        )
    return record, source, destination


if __name__ == "__main__":
    command(main)
