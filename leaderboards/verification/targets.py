"""What the words of the command stand for: records of a submission, the board, or one's own."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.records.equivalence import CODE_STATUSES, code_status
from bench.records.identity import beside_data, canonical_record
from bench.records.record_files import is_record, records_below, records_in
from bench.records.schema import RunRecord, read_record
from bench.records.store import COMMITTED, Store
from core.amounts import amount
from core.errors import UserError
from core.reading import read_all
from leaderboards.checks.admission import in_store, no_such_run
from leaderboards.tables.status import FOLDER, OWN, SUBMISSIONS
from leaderboards.verification.submission import FILE, read_submission
from leaderboards.verification.verifier import RecordToVerify


def records_named(
    name: str, store: Path, to: Path | None = None, refused: list[UserError] | None = None
) -> list[RecordToVerify]:
    """The records that a name on the command line stands for, which belong together.

    Args:
        store: one's own, where a run id is looked up that is not on the board.
        to: the folder of verifications, if one is given.
        refused: where the errors of records of a store go that cannot be read.

    Raises:
        UserError: nothing of that name can be read.
    """
    folder = Path(name)
    if (folder / FILE).exists():
        targets = []
        for record in read_submission(folder)[1]:
            path = Store(folder).records / f"{record.run_id}.json"
            targets.append(replace(_with_place(record, path, to), submitted=True))
        return targets
    if folder.is_dir():
        read = read_all(_own_files(folder), lambda path: (read_record(path), path), refused)
        return [_with_place(record, path, to) for record, path in read]
    return [_with_place(read_record(path), path, to) for path in _files(name, store)]


def _with_place(record: RunRecord, path: Path, to: Path | None) -> RecordToVerify:
    """A record with where what is found of it goes: beside the board for what lies there, beside
    the folder of a submission that lies elsewhere, and for one's own into its store."""
    place = path.resolve()
    if any(place.is_relative_to(folder.resolve()) for folder in (COMMITTED, SUBMISSIONS)):
        return RecordToVerify(record, path, to or FOLDER)
    submission = place.parent.parent
    if (submission / FILE).exists():
        return RecordToVerify(record, path, to or submission.parent / OWN)
    store = path.parent.parent if path.parent.name == "records" else path.parent
    return RecordToVerify(record, path, to or store / OWN, own=True)


def _own_files(folder: Path) -> list[Path]:
    """The records of a store, of its folder of records, or of the run whose folder it is.

    Raises:
        UserError: it holds none.
    """
    place = folder.resolve()
    store = Store(place.parent.parent)
    records = Store(folder).records
    if place == store.work(place.name) and not records.is_dir() and store.records.is_dir():
        paths = [store.records / f"{place.name}.json"]
    else:
        paths = records_in(records if records.is_dir() else folder)
    if not any(map(is_record, paths)):
        raise UserError(
            f"{str(folder)!a:.200} holds no record: name a store, the folder of a run in it, or a "
            f"submission, which has a {FILE}"
        )
    return paths


def _files(name: str, store: Path) -> list[Path]:
    """The file that a path or a run id names; of a run id without its seed those of all seeds."""
    own_file = in_store(name, store)
    if own_file == Path(name):
        if not is_record(own_file):
            expected = "the folder of a submission, a store, the file of a record, or a run id"
            raise UserError(f"there is no file or folder {name!a:.200}: give {expected}")
        return [own_file]
    folders = (COMMITTED.glob("*/*"), SUBMISSIONS.glob("*/records"), [own_file.parent])
    run_ids = []
    for places in folders:
        seeds = []
        for place in places:
            if is_record(place / own_file.name):
                return [place / own_file.name]
            for path in records_in(place):
                run_id, _, seed = path.stem.rpartition("-s")
                # Else "regbench" would be all runs of s4d.
                if run_id == own_file.stem and seed.isdecimal():
                    seeds.append(path)
                run_ids.append(path.stem)
        if seeds:
            return sorted(seeds)
    raise no_such_run(name, f"{own_file.parent}, and none is committed", run_ids)


def comparable_records(
    own_records: Iterable[RunRecord], trusted: Sequence[RunRecord]
) -> list[RunRecord]:
    """Of trusted records those with which one's own have to agree. What repeats a setting has the
    numbers of its own machine: it is compared with no run of that setting, as on a board."""
    settings = {beside_data(canonical_record(record)) for record in own_records}
    if not settings:
        return []
    return [record for record in trusted if beside_data(canonical_record(record)) not in settings]


def drawn_records(number: int, seed: int, to: Path | None = None) -> list[list[RecordToVerify]]:
    """Committed records that this checkout can make, each by itself.

    Raises:
        UserError: there are fewer.
    """
    current, others = [], 0
    for path in records_below(COMMITTED):
        record = read_record(path)
        if code_status(record.config, record.provenance) == CODE_STATUSES[-1]:
            others += 1
        else:
            current.append([RecordToVerify(record, path, to or FOLDER)])
    if not 0 < number <= len(current):
        raise UserError(
            f"sample={number} is not from 1 to {len(current)}, the number of records that this "
            "checkout can make"
        )
    print(
        f"{number} of {amount(len(current), 'record')}, seed {seed}; {others or 'none'} "
        f"{'is' if others == 1 else 'are'} of other code"
    )
    return random.Random(seed).sample(current, number)
