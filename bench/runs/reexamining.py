"""Examining a finished run by its saved weights, without training it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.records.report import print_examination
from bench.records.schema import Examination, RunRecord, initial_seed, write_record
from bench.records.store import Store
from bench.runs.examined import ExaminedWeights, examine_fresh
from bench.runs.requests import ExaminationRequest
from bench.runs.saved import SavedRun, find_record, load_run
from bench.training.building import build_model, build_task
from bench.training.unfit import UnfitModel
from core.errors import OK, VERIFICATION_FAILED
from core.files import write_atomically
from core.privacy import without_places
from core.progress import progress

EARLIER = "record_before_examination.json"  # in the folder of a run


def examine_weights(saved: SavedRun) -> ExaminedWeights:
    """The model of a finished run, once its weights have passed.

    Raises:
        UnfitModel: what it fails.
    """
    trained_by = build_task(saved.configuration.of_training())
    trained_on = saved.record.cost.training_tokens
    seed = initial_seed(saved.record.restarts, saved.record.seed)
    return ExaminedWeights(
        saved.model, saved.task, trained_by, saved.configuration, trained_on, seed
    )


def examine_saved(saved: SavedRun) -> Examination:
    """Examine a finished run: its model with fresh weights, and with those that were
    scored.

    Raises:
        UnfitModel: what it fails.
    """
    configuration, record = saved.configuration, saved.record
    weights = examine_weights(saved)
    weights.examine_elsewhere()
    trained_by = build_task(configuration.of_training())
    size = configuration.training.batch_size
    batch = trained_by.training_batch(record.seed, 0, size).to(saved.device)
    fresh = build_model(configuration, saved.task, record.seed).to(saved.device)
    return weights.record([*examine_fresh(fresh, saved.task, batch, configuration).passed])


def examine_run(request: ExaminationRequest) -> int:
    """Examine a run of a store and print what came of it.

    Returns:
        Exit code 0 when its model passes, 4 when it fails.

    Raises:
        UserError: no such run, or its weights are missing or not those of the record.
    """
    record, store = find_record(request.run, request.store)
    examination, cause = None, ""
    with progress() as report:
        saved = load_run(
            request.run, request.store, request.device, request.places, report, request.trust
        )
        report(f"examining {record.run_id}", 0, 1)
        try:
            examination = examine_saved(saved)
        except UnfitModel as error:
            cause = without_places(str(error))
    print_examination(record, examination, cause)
    if request.write:
        _complete(record, store, examination, cause)
    return VERIFICATION_FAILED if examination is None else OK


def _complete(record: RunRecord, store: Path, examination: Examination | None, cause: str) -> None:
    """Put what was found into the record of the store, if it is there and says otherwise."""
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
        without_numbers: dict[str, Any] = {
            "outcome": "failed",
            "cause": cause,
            "headline": record.headline.model_copy(update={"value": None}),
            "metrics": {},
            "per_sequence": {},
            "arrays": {},
            "examination": None,
        }
        completed = record.model_copy(update=without_numbers)
    write_record(completed, folder)
    print(f"record: {path}")
