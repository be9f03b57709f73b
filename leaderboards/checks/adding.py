"""Records that are checked, and copied to where a board is made from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.records.record_files import is_record, packed_at
from bench.records.schema import RunRecord, as_file, read_record
from core.errors import UserError
from core.files import write_atomically
from leaderboards.checks.admission import (
    check,
    checked_and_not,
    examine,
    in_store,
    records_beside,
    tells,
)


class Copy(NamedTuple):
    """A checked record, its file, and the file that it goes to."""

    record: RunRecord
    source: Path
    destination: Path


def add(names: Sequence[str], store: Path, target: Path) -> None:
    """Copy records, and print what was checked of each.

    Args:
        names: run ids of the store, or files.
        target: the folder of records, by task and preset.

    Raises:
        UserError: one of them is refused; then nothing is copied.
    """
    copies = [plan(name, store, target) for name in names]
    sources: dict[Path, Path] = {}
    for copy in copies:
        other = sources.setdefault(copy.destination, copy.source)
        if as_file(other) != as_file(copy.source):
            raise UserError(
                f"{other} and {copy.source} hold two records of one name: add one of them"
            )
    records = [copy.record for copy in copies]
    confirmed_by_run = examine(records, records_beside(records, target))
    for record, source, destination in copies:
        content = as_file(source)
        is_packed = packed_at(destination) is not None  # and was found to be equal
        if is_packed or (destination.exists() and destination.read_bytes() == content):
            print(f"already there: {destination}")
            continue
        write_atomically(destination, content)
        note = " (made from a tree with uncommitted changes)" if record.provenance.dirty else ""
        print(f"added {destination}{note}")
        if private := tells(record):
            print(
                f"  it tells of the machine that made it, to whoever reads it: {'; '.join(private)}"
            )
        checked, unchecked = checked_and_not(record, confirmed_by_run[record.run_id])
        print(f"  checked: {', '.join(checked)}\n  not checked: {'; '.join(unchecked)}")


def plan(name: str, store: Path, target: Path) -> Copy:
    """A record that may be copied.

    Raises:
        UserError: it is refused, or another one of that name stands there already.
    """
    source = in_store(name, store)
    record = read_record(source, any_name=True)  # its copy has the right one
    if record.role == "trial":
        raise UserError(
            f"{record.run_id} is a trial of a study, which never saw the test split: "
            "add the records of its final runs"
        )
    check(record)
    destination = target / record.task / record.preset / f"{record.run_id}.json"
    if is_record(destination) and read_record(destination) != record:
        raise UserError(
            f"{destination} already holds another record of that name, which stays: "
            "`python -m leaderboards.verify` keeps what a run gives that is made again, and "
            "to=FOLDER puts the new one elsewhere"
        )
    return Copy(record, source, destination)
