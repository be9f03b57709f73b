"""What the words of the command stand for: records of a submission, the board, or one's own."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.records.equivalence import FORMS, form
from bench.records.identity import settled
from bench.records.schema import RunRecord, read_record
from bench.records.store import COMMITTED, Store
from core.errors import UserError
from core.reading import read_all
from leaderboards.checks.admission import in_store, no_such_run
from leaderboards.tables.status import FOLDER, OWN, SUBMISSIONS
from leaderboards.tables.summaries import beside_data
from leaderboards.verification.submission import FILE, read_submission
from leaderboards.verification.verifier import Asked


def asked(
    name: str, store: Path, to: Path | None = None, refused: list[UserError] | None = None
) -> list[Asked]:
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
        _, records = read_submission(folder)
        files = [Store(folder).records / f"{record.run_id}.json" for record in records]
        placed = (_placed(*pair, to) for pair in zip(records, files, strict=True))
        return [replace(target, submitted=True) for target in placed]
    if folder.is_dir():
        read = read_all(_own_files(folder), lambda path: (read_record(path), path), refused)
        return [_placed(record, path, to) for record, path in read]
    return [_placed(read_record(path), path, to) for path in _files(name, store)]


def _placed(record: RunRecord, path: Path, to: Path | None) -> Asked:
    """A record with where what is found of it goes: beside the board for what is on it or was sent,
    and for one's own into its store."""
    place = path.resolve()
    on_board = any(place.is_relative_to(folder.resolve()) for folder in (COMMITTED, SUBMISSIONS))
    if on_board or (place.parent.parent / FILE).exists():
        return Asked(record, path, to or FOLDER)
    store = path.parent.parent if path.parent.name == "records" else path.parent
    return Asked(record, path, to or store / OWN, own=True)


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
        paths = sorted((records if records.is_dir() else folder).glob("*.json"))
    if not any(path.is_file() for path in paths):
        raise UserError(
            f"{str(folder)!a:.200} holds no record: name a store, the folder of a run in it, or a "
            f"submission, which has a {FILE}"
        )
    return paths


def _files(name: str, store: Path) -> list[Path]:
    """The file that a path or a run id names; of a run id without its seed those of all seeds."""
    own_file = in_store(name, store)
    if own_file == Path(name):
        if not own_file.exists():
            expected = "the folder of a submission, a store, the file of a record, or a run id"
            raise UserError(f"there is no file or folder {name!a:.200}: give {expected}")
        return [own_file]
    folders = (COMMITTED.glob("*/*"), SUBMISSIONS.glob("*/records"), [own_file.parent])
    for places in map(list, folders):
        if matching := [path for place in places if (path := place / own_file.name).is_file()]:
            return matching[:1]
        seeds = [path for place in places for path in place.glob(f"{own_file.stem}-s*.json")]
        # Else "regbench" would be all runs of s4d.
        if matching := [p for p in seeds if p.stem.removeprefix(f"{own_file.stem}-s").isdecimal()]:
            return sorted(matching)
    run_ids = [path.stem for folder in (COMMITTED, SUBMISSIONS) for path in folder.rglob("*.json")]
    run_ids += [path.stem for path in own_file.parent.glob("*.json")]
    raise no_such_run(name, f"{own_file.parent}, and none is committed", run_ids)


def beside(own_records: Iterable[RunRecord], trusted: Sequence[RunRecord]) -> list[RunRecord]:
    """Of trusted records those with which one's own have to agree. What repeats a setting has the
    numbers of its own machine: it is compared with no run of that setting, as on a board."""
    settings = {beside_data(settled(record)) for record in own_records}
    if not settings:
        return []
    return [record for record in trusted if beside_data(settled(record)) not in settings]


def drawn(number: int, seed: int, to: Path | None = None) -> list[list[Asked]]:
    """Committed records that this checkout can make, each by itself.

    Raises:
        UserError: there are fewer.
    """
    committed = [
        Asked(read_record(path), path, to or FOLDER) for path in sorted(COMMITTED.rglob("*.json"))
    ]
    made_here = [
        target
        for target in committed
        if form(target.record.config, target.record.provenance) != FORMS[-1]
    ]
    if not 0 < number <= len(made_here):
        raise UserError(
            f"sample={number} is not from 1 to {len(made_here)}, the number of records that this "
            "checkout can make"
        )
    others = len(committed) - len(made_here)
    print(f"{number} of {len(made_here)} records, seed {seed}; {others} are of other code")
    return [[target] for target in random.Random(seed).sample(made_here, number)]
