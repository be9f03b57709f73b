"""A run whose record is there, told without making its data and without PyTorch.

The identity of a run holds the hashes of its data. The data of this project's tasks are a function
of their settings and code, so any record of equal settings, equal code and the same libraries says
which hashes they have. A run that has to be made is named by the data that were made for it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import from_json

from bench.config.files import shared_file
from bench.config.groups import choices
from bench.config.outside_tasks import keep_card
from bench.config.settings import Configuration
from bench.records import provenance, tracking
from bench.records.code import code_hash, is_own
from bench.records.equivalence import current_name
from bench.records.identity import Identity
from bench.records.provenance import library_versions, sha256_of, version
from bench.records.record_files import is_record, records_in
from bench.records.schema import FINISHED, Headline, Role, RunRecord, json_of, read_record
from bench.records.store import COMMITTED, Store, committed_path, record_path
from core.errors import RUN_FAILED, UserError
from core.files import when_changed, write_atomically
from core.places import is_path

if TYPE_CHECKING:
    from tasks.interface import Task
    from tasks.measurement import Measurement

LOCATIONS = "locations.json"  # in the folder of a run: where its data lay on this machine
PREPARED = "prepared"  # the location of what a task makes itself: it may lie anywhere
Hashes = dict[str, str]  # split -> SHA-256 of its content

_classes_of_nodes: list[str] = []  # of devices that compute, where these are not of this machine


@contextmanager
def devices_elsewhere(class_of_nodes: str) -> Iterator[None]:
    """In this block runs are named by what they are computed on: other machines' devices."""
    _classes_of_nodes.append(class_of_nodes)
    try:
        yield
    finally:
        _classes_of_nodes.pop()


class _Naming(Protocol):
    """What :mod:`bench.runs.naming` has."""

    def device_class(self, name: str) -> str: ...
    def examined_data_hashes(self, configuration: Configuration) -> Hashes: ...
    def refuse_other_constructor(self, configuration: Configuration) -> None: ...
    def task_or_measurement(self, configuration: Configuration) -> Task | Measurement: ...


def _naming() -> _Naming:
    """The functions that name a run by its data and device. Importing them takes a second, for
    PyTorch; most names are told without."""
    from bench.runs import naming

    return naming


def device_class(configuration: Configuration) -> str:
    """What records call the device that computes a run: "cpu", or the name of a GPU. A build of
    PyTorch for CPUs finds no GPU, which needs no import.

    Raises:
        UserError: a GPU is asked for and there is none.
    """
    if configuration.device == "cpu":
        return "cpu"
    if _classes_of_nodes:
        return _classes_of_nodes[-1]
    if configuration.device == "auto" and version("torch").endswith("+cpu"):
        return "cpu"
    return _naming().device_class(configuration.device)


def identify(configuration: Configuration, data: Hashes | None = None) -> Identity:
    """The identity of a configuration on this machine.

    Args:
        data: hashes of its data where they are known; None makes the data to hash them.
    """
    if not is_own(configuration.models["_target_"]):
        _naming().refuse_other_constructor(configuration)
    if data is None:
        data = _naming().examined_data_hashes(configuration)
    collected = provenance.collect(
        model_code=code_hash(configuration.models["_target_"]),
        task_code=code_hash(configuration.tasks["_target_"]),
        data=data,
        precision=configuration.training.precision,
        device_class=device_class(configuration),
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
    places = []
    for folder in folders:
        places += [folder / f"{run_id}.json" for run_id in run_ids]
    if c.committed:
        places += [committed_path(run_id, c.task, c.preset) for run_id in run_ids]
    for path in places:
        record = _finished_record(path, identity.all, c.seed)
        # Committed records of controls lie beside the others.
        if record and (record.role == "control") == (role == "control"):
            return record
    return None


def _finished_record(path: Path, expected: Collection[str], seed: int) -> RunRecord | None:
    """The finished record at ``path``, if there is one, which must be of an expected identity."""
    if not is_record(path):
        return None
    record = read_record(path)
    if record.identity not in expected or record.seed != seed:
        raise UserError(f"{path} belongs to another run: move it away and run again", RUN_FAILED)
    return record if record.outcome in FINISHED else None


def serve(configuration: Configuration, role: Role) -> RunRecord | None:
    """The record of a run if it is there and the hashes of its data are known; None if it has to
    be looked for by its data, or made.

    Raises:
        UserError: the record was truncated or edited.
    """
    if not _may_be_there(configuration) or (data := known_data(configuration)) is None:
        return None
    identity = identify(configuration, data)
    record = find(identity, role)
    if record is not None:
        note_beginning(identity)
        track(record, configuration)
    return record


def serve_baselines(configuration: Configuration) -> list[RunRecord] | None:
    """The records of the task's predictors without training, as :func:`serve`; None unless all are
    there."""
    predictors = predictors_of(configuration)
    if not _is_registered(configuration) or (data := known_data(predictors)) is None:
        return None
    provenance_of_task = identify(predictors, data).provenance
    records = []
    for label in _card(configuration).get("predictors", ()):
        record = find(identity_of_predictor(predictors, provenance_of_task, label), "baseline")
        if record is None:
            return None
        records.append(record)
    Store(configuration.store).state_layout()
    return records


def predictors_of(configuration: Configuration) -> Configuration:
    """The configuration by which a task's predictors without training are named: no model's."""
    models = {"_target_": configuration.tasks["_target_"]}
    # They run on the CPU, whatever the models run on.
    return configuration.model_copy(update={"models": models, "seed": 0, "device": "cpu"})


def identity_of_predictor(
    configuration: Configuration, provenance_of_task: provenance.Provenance, label: str
) -> Identity:
    """The identity of one predictor without training.

    Args:
        configuration: as :func:`predictors_of` has it.
    """
    name = "".join(c if c.isalnum() else "_" for c in label.lower())
    config = {"tasks": configuration.resolved()["tasks"]}
    predictor = configuration.model_copy(update={"model": name})
    return Identity.of(predictor, config, provenance_of_task, baseline=label)


def headline_of(configuration: Configuration) -> Headline:
    """The number that a task is ranked by: the card of a task of ours states it."""
    if _is_own(configuration) and (stated := _card(configuration).get("headline")):
        return Headline(**stated)
    metric = _naming().task_or_measurement(configuration).headline
    return Headline(name=metric.name, direction=metric.direction, unit=metric.unit)


def note_beginning(identity: Identity) -> None:
    """What a store is told when a run is asked for, whether it is made or served."""
    configuration = identity.configuration
    store = Store(configuration.store)
    store.state_layout()
    note_locations(configuration, store.work(identity.run_id(configuration.seed)))
    keep_card(configuration.task, configuration.store)


def note_locations(configuration: Configuration, work: Path) -> None:
    """Say beside the weights where data lie: no record does, and evaluating again needs it."""
    if configuration.locations:
        values = {name: configuration.tasks[name] for name in configuration.locations}
        resolved = {k: str(Path(v).resolve()) if is_path(v) else v for k, v in values.items()}
        write_atomically(work / LOCATIONS, json.dumps(resolved).encode())


def track(record: RunRecord, configuration: Configuration) -> None:
    """Show a record in MLflow, where that is asked for."""
    if configuration.tracking == "mlflow":
        tracking.track(record, record_path(record, configuration.store), Store(configuration.store))


def known_data(configuration: Configuration) -> Hashes | None:
    """The hashes of a task's data by records of equal settings, equal code and the same libraries;
    None where no record says them, where two contradict each other, or where data are not a
    function of the settings: text of one's own, and tasks from elsewhere."""
    if not _is_registered(configuration):
        return None
    settings = configuration.resolved()["tasks"]
    lock = sha256_of(library_versions())
    key = _text([settings, code_hash(settings["_target_"]), lock])
    if key not in _data_by_settings:
        store = Store(configuration.store)
        places = [COMMITTED / configuration.task / configuration.preset]
        places += [store.records, store.trials, store.controls]
        pattern = f"{configuration.task}-*-{configuration.preset}-*.json"
        for folder in places:
            statements = _statements(folder, pattern, when_changed(folder)).get(_text(settings), ())
            data = _agreed([s for s in statements if s.lock == lock], settings)
            if data is not None:
                _data_by_settings[key] = data
                break
    return _data_by_settings.get(key)


# By settings, code and libraries: what this process has read.
_data_by_settings: dict[str, Hashes] = {}


@dataclass(frozen=True)
class _DataStatement:
    """What a file says of the data of its run; it is believed when it has been read as a record.

    Attributes:
        code: hashes of task and model, and the class of the model.
        lock: the hash of the computing libraries' versions.
    """

    path: Path
    data: Hashes
    code: tuple[str, ...]
    lock: str


def _agreed(statements: Sequence[_DataStatement], settings: dict[str, Any]) -> Hashes | None:
    """The hashes that all state and a record of equal code confirms."""
    if len({_text(statement.data) for statement in statements}) != 1:
        return None
    by_code = {statement.code: statement for statement in statements}
    for statement in by_code.values():
        with suppress(UserError):  # whoever asks for this very record is told what it is
            record = read_record(statement.path)
            name = current_name(record.config, record.provenance)
            equal = name is not None and name.config["tasks"] == settings
            if equal and record.provenance.data == statement.data:
                return record.provenance.data
    return None


@lru_cache(maxsize=16)
def _statements(folder: Path, pattern: str, _changed: int) -> dict[str, list[_DataStatement]]:
    """Settings of a task -> what the files of a folder state of its data. A file is read as a
    record when it is believed, which takes ten times as long."""
    by_settings: dict[str, list[_DataStatement]] = defaultdict(list)
    for path in records_in(folder, pattern):
        with suppress(UserError, ValueError, KeyError, TypeError, AttributeError):
            content = from_json(json_of(path))
            config, origin = content["config"], content["provenance"]
            classes = str(config.get("models", {}).get("_target_"))
            code = (str(origin["task_code"]), str(origin["model_code"]), classes)
            statement = _DataStatement(path, origin["data"], code, origin["library_lock"])
            by_settings[_text(config["tasks"])].append(statement)
    return by_settings


def _may_be_there(configuration: Configuration) -> bool:
    """Whether a file has a name that a record of this run can have."""
    c = configuration
    store = Store(c.store)
    folders = [store.records, store.trials, store.controls]
    folders += [COMMITTED / c.task / c.preset] * c.committed
    pattern = f"{c.task}-{c.model}-{c.preset}-*-s{c.seed}.json"
    return any(records_in(folder, pattern) for folder in folders)


def _is_registered(configuration: Configuration) -> bool:
    """Whether the data of a run are a function of its settings and of this project's code."""
    c = configuration
    if not _is_own(c):
        return False
    if any(c.tasks.get(name) is not None for name in c.locations if name != PREPARED):
        return False
    for conditions in _card(c).get("places", {}).values():
        if any(c.tasks.get(key) in values for key, values in conditions.items()):
            return False
    return True


def _is_own(configuration: Configuration) -> bool:
    """Whether a task is of this project, so that its card tells of its class."""
    return configuration.task in choices("tasks") and is_own(configuration.tasks["_target_"])


def _card(configuration: Configuration) -> Mapping[str, Any]:
    card: Mapping[str, Any] = shared_file("tasks", configuration.task).get("card", {})
    return card


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
