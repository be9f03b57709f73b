"""From a configuration to a run record: found in the store, or made and written."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import torch

from bench.records import provenance
from bench.records.code import code_hash
from bench.records.identity import Identity
from bench.records.schema import (
    FINISHED,
    Cost,
    Role,
    RunRecord,
    Study,
    read_record,
    write_record,
)
from bench.records.store import Store, committed_path, record_path
from bench.runs.making import TrainingRun, only_one
from bench.runs.measuring import MeasuringRun
from bench.runs.recording import Run, measured_fields
from bench.training.building import data_hashes, prepare_data, resolve_device, task_or_measurement
from ground.errors import RUN_FAILED, UserError
from ground.files import write_atomically
from ground.places import is_path
from ground.progress import Report, silent
from settings.config import training_configuration
from settings.outside_tasks import keep_card
from settings.settings import Configuration

LOCATIONS = "locations.json"  # in the folder of a run: where its data lay on this machine


_elsewhere: list[str] = []  # class of the devices that compute, where these are not of this machine


@contextmanager
def devices_elsewhere(device_class: str) -> Iterator[None]:
    """In this block runs are named by what they are computed on: other machines' devices."""
    _elsewhere.append(device_class)
    try:
        yield
    finally:
        _elsewhere.pop()


def _device_class(configuration: Configuration) -> str:
    if _elsewhere:
        return "cpu" if configuration.device == "cpu" else _elsewhere[-1]
    device = resolve_device(configuration.device)
    return "cpu" if device.type == "cpu" else torch.cuda.get_device_name(device)


def identify(configuration: Configuration) -> Identity:
    """The identity of a configuration on this machine; makes the data to hash it."""
    collected = provenance.collect(
        model_code=code_hash(configuration.models["_target_"]),
        task_code=code_hash(configuration.tasks["_target_"]),
        data=data_hashes(configuration),
        precision=configuration.training.precision,
        device_class=_device_class(configuration),
        started=datetime.now(UTC),
    )
    return Identity.of(configuration, configuration.resolved(), collected)


def find(identity: Identity, role: Role) -> RunRecord | None:
    """The finished record of exactly this run, if the store holds it. A trial is measured on the
    validation split alone, so that a run which was measured on both is one too.

    Raises:
        UserError: the record is there but was truncated or edited.
    """
    c = identity.configuration
    store, run_ids = Store(c.store), identity.run_ids(c.seed)
    folders = dict.fromkeys([store.record_folder(role), *([store.records] * (role == "trial"))])
    places = [folder / f"{run_id}.json" for folder in folders for run_id in run_ids]
    if c.committed:
        places += [committed_path(run_id, c.task, c.preset) for run_id in run_ids]
    found = (_read(path, identity.all, c.seed) for path in places)
    of_controls = role == "control"  # whose committed records lie beside the others
    return next((r for r in found if r and (r.role == "control") == of_controls), None)


def _read(path: Path, expected: Collection[str], seed: int) -> RunRecord | None:
    """The finished record at ``path``, if there is one, which must be of an expected identity."""
    if not path.exists():
        return None
    record = read_record(path)
    if record.identity not in expected or record.seed != seed:
        raise UserError(f"{path} belongs to another run: move it away and run again", RUN_FAILED)
    return record if record.outcome in FINISHED else None


def obtain(
    configuration: Configuration,
    *,
    role: Role = "single",
    study: Study | None = None,
    report: Report | None = None,
) -> RunRecord:
    """The record of a run, as :func:`serve_or_make` has it."""
    return serve_or_make(configuration, role=role, study=study, report=report)[0]


def serve_or_make(
    configuration: Configuration,
    *,
    role: Role = "single",
    study: Study | None = None,
    report: Report | None = None,
) -> tuple[RunRecord, bool]:
    """The record of a run, and whether it was there: served if identity, seed and role are the
    same, else made.

    A run that diverges, runs out of memory or fails in the model's code is a record with its
    cause, not an exception. Role "trial" sees the validation split only.

    Raises:
        UserError: a user's mistake, or a record or weights that cannot be trusted.
        KeyboardInterrupt: the run was stopped; its checkpoint is kept.
    """
    prepare_data(configuration, report or silent)
    identity = identify(configuration)
    store = Store(configuration.store)
    store.state_layout()
    run_id = identity.run_id(configuration.seed)
    note_locations(configuration, store.work(run_id))
    keep_card(configuration.task, configuration.store)
    found = find(identity, role)
    if found is not None:
        track(found, configuration)
        return found, True
    with only_one(store.work(run_id)):
        record = _run(identity, store, report or silent).make(role, study)
        if record.outcome == "diverged" and configuration.trained_on is not None:
            # The cause names the training, which has nothing to evaluate: its record is complete.
            own: Role = "single" if role == "final" else role
            obtain(training_configuration(configuration), role=own, report=report)
        write_record(record, store.record_folder(role))
    track(record, configuration)
    return record, False


def unmade(configuration: Configuration, role: Role, report: Report) -> TrainingRun | None:
    """The run of a model that the engine trains; None if its record is there."""
    identity = identify(configuration)
    if find(identity, role) is not None:
        return None
    return _training_run(identity, Store(configuration.store), report)


def track(record: RunRecord, configuration: Configuration) -> None:
    if configuration.tracking == "mlflow":
        from bench.records.tracking import track

        track(record, record_path(record, configuration.store), Store(configuration.store))


def note_locations(configuration: Configuration, work: Path) -> None:
    """Say beside the weights where data lie: no record does, and evaluating again needs it."""
    if configuration.locations:
        given = {name: configuration.tasks[name] for name in configuration.locations}
        here = {k: str(Path(v).resolve()) if is_path(v) else v for k, v in given.items()}
        write_atomically(work / LOCATIONS, json.dumps(here).encode())


def _run(identity: Identity, store: Store, report: Report) -> Run:
    """The run of a configuration, of the kind that its task makes."""
    if identity.configuration.takes is None:
        return _training_run(identity, store, report)
    run_id = identity.run_id(identity.configuration.seed)
    return MeasuringRun(identity, store.work(run_id), report)


def _training_run(identity: Identity, store: Store, report: Report) -> TrainingRun:
    configuration = identity.configuration
    work, *earlier = [store.work(run_id) for run_id in identity.run_ids(configuration.seed)]
    trained = training_configuration(configuration)
    training = None
    if trained is not configuration:
        training = _training_run(identify(trained), store, report)
    run = TrainingRun(identity, work, report, training)
    run.inherit(earlier)
    return run


def obtain_baselines(configuration: Configuration, report: Report | None = None) -> list[RunRecord]:
    """Records of the task's predictors that need no training."""
    task = task_or_measurement(configuration)
    prepare_data(configuration, report or silent)
    store = Store(configuration.store)
    store.state_layout()
    own = configuration.model_copy(
        update={
            "models": {"_target_": configuration.tasks["_target_"]},
            "seed": 0,
            "device": "cpu",  # whatever the models run on
        }
    )
    collected = identify(own).provenance
    keep_card(configuration.task, configuration.store)
    config = {"tasks": configuration.resolved()["tasks"]}
    records = []
    baselines = task.baselines()
    for number, (label, predict) in enumerate(baselines.items()):
        name = "".join(c if c.isalnum() else "_" for c in label.lower())
        called = own.model_copy(update={"model": name})
        identity = Identity.of(called, config, collected, baseline=label)
        known = find(identity, "baseline")
        if known is not None:
            records.append(known)
            continue
        started = time.perf_counter()
        evaluations = {"validation": predict("validation"), "test": predict("test")}
        record = RunRecord(
            run_id=identity.run_id(0),
            identity=identity.identity,
            seed=0,
            task=configuration.task,
            model=name,
            label=label,
            preset=configuration.preset,
            role="baseline",
            outcome="ok",
            config=config,
            cost=Cost(wall_seconds=time.perf_counter() - started),
            provenance=collected,
            **measured_fields(task, evaluations, "test"),
        )
        write_record(record, store.records)
        records.append(record)
        (report or silent)("predictors without training", number + 1, len(baselines))
    return records
