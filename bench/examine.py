"""Examine the saved weights of a finished run: ``python -m bench.examine run=ID``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.config.command_line import Settings, read
from core.errors import OK, VERIFICATION_FAILED, UserError, command
from core.words import command_line

if TYPE_CHECKING:
    from bench.records.schema import Examination, RunRecord

HELP = """\
usage: python -m bench.examine run=ID [store=FOLDER] [device=cpu|cuda] [trust=PACKAGE] [write=false]

Examine the model of a finished run by its saved weights, as the engine does before it scores test
data: it is causal at several cuts and lengths, in training and eval mode, keeps nothing between
calls, treats each sequence of a batch by itself, and gives numbers. The same model with fresh
weights is examined too. Nothing is trained.
ID is a run id (the name of a file in the folder records of the store), a part of one that no other
has, or the path of a record file.
The record is completed by what was passed. If the model fails, the record becomes that of a failed
run, which has no rank, and the one before it is kept in the run's folder in work/. With write=false
the record stays as it is.
tasks.KEY=PLACE says where data lie; trust=PACKAGE imports a model that is not of this project.
Exit code 4 when the model fails."""

EARLIER = "record_before_examination.json"  # in the folder of a run


@command_line(HELP, read)
def main(settings: Settings) -> int:
    """Exit code 0 when the model passes, 4 when it fails."""
    places = {
        k.removeprefix("tasks."): settings.pop(k) for k in list(settings) if k[:6] == "tasks."
    }
    run, store, device, trust = (settings.pop(k, None) for k in ("run", "store", "device", "trust"))
    write = settings.pop("write", True)
    if settings or not run:
        unknown = next(iter(settings), None)
        wrong = f"there is no setting '{unknown}'" if unknown else "no run is named"
        raise UserError(f"{wrong}: usage is bench.examine run=ID [store=FOLDER] [device=cpu]")
    if type(write) is not bool:
        raise UserError(f"write={write} is neither true nor false")
    if store == "":
        raise UserError("store= is empty: give the folder of the runs, or leave it out for runs")
    root = Path(str(store or "runs"))
    return _examine(str(run), root, device and str(device), places, trust and str(trust), write)


def _examine(
    run: str,
    root: Path,
    device: str | None,
    places: dict[str, Any],
    trust: str | None,
    write: bool,
) -> int:
    from bench.records.report import print_examination
    from bench.runs.reexamining import examine_saved
    from bench.runs.saved import find_record, load_run
    from bench.training.unfit import UnfitModel
    from core.privacy import without_places
    from core.progress import progress

    record, store = find_record(run, root)
    with progress() as report:
        saved = load_run(run, root, device, places, report, trust)
        report(f"examining {record.run_id}", 0, 1)
        try:
            examination = examine_saved(saved)
        except UnfitModel as error:
            examination, cause = None, without_places(str(error))
        else:
            cause = ""
    print_examination(record, examination, cause)
    if write:
        _complete(record, store, examination, cause)
    return OK if examination else VERIFICATION_FAILED


def _complete(record: RunRecord, store: Path, examination: Examination | None, cause: str) -> None:
    """Put what was found into the record of the store, if it is there and says otherwise."""
    from bench.records.schema import write_record
    from bench.records.store import Store
    from core.files import write_atomically

    folder = Store(store).record_folder(record.role)
    path = folder / f"{record.run_id}.json"
    if record.outcome != "ok" or not path.is_file():
        return
    if examination is not None and record.examination == examination:
        return
    if examination is not None:
        completed = record.model_copy(update={"examination": examination})
    else:
        write_atomically(Store(store).work(record.run_id) / EARLIER, path.read_bytes())
        lost: dict[str, Any] = {
            "metrics": {},
            "per_sequence": {},
            "arrays": {},
            "examination": None,
        }
        headline = record.headline.model_copy(update={"value": None})
        completed = record.model_copy(
            update={**lost, "outcome": "failed", "cause": cause, "headline": headline}
        )
    write_record(completed, folder)
    print(f"record: {path}")


if __name__ == "__main__":
    command(main)
