"""A small sweep, what it ends with when nothing disturbs it, and tasks of files as yet unknown."""

import sys
from collections.abc import Iterator

import pytest

from bench.config import groups, source_files
from bench.examination import task_data
from bench.records.code import forget_code
from bench.records.schema import read_records
from bench.runs import making
from bench.search.driver import records_of
from bench.search.storage import open_storage
from core.progress import silent
from tests.configurations import make_plan

TINY = [
    "tasks=three_moons",
    "device=cpu",
    "tasks.length=130",
    "tasks.sequences=2",
    "tasks.contexts_every=16",
    "training.steps=12",
    "training.batch_size=2",
    "training.restarts=1",
    "training.checkpoint_every=2",
]
SWEEP = [
    *TINY,
    "models=[memory_unit,lstm]",
    "models.width=8",
    "models.layers=1",
    "n_trials=3",
    "seeds=2",
]


def outcome(store, records):
    """Everything of a sweep that must not depend on what disturbed it."""
    finals = [
        (
            record.run_id,
            record.outcome,
            record.metrics,
            record.weights_sha256,
            record.study and record.study.name,
            record.study and [(t.parameters, t.value, t.outcome) for t in record.study.trials],
            record.cost.tuning_trials,
        )
        for record in records
    ]
    trials = {record.run_id: record.metrics for record in read_records([store / "trials"])}
    return finals, trials


def states(store):
    """State of every trial of every study, attempts included."""
    storage = open_storage("journal", store / "studies")
    return {
        study.study_name: [t.state.name for t in storage.get_all_trials(study._study_id)]
        for study in storage.get_all_studies()
    }


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The outcome of a sweep that nothing disturbs."""
    store = tmp_path_factory.mktemp("undisturbed")
    records = records_of(make_plan([*SWEEP, f"store={store}"]), silent)
    return outcome(store, records)


@pytest.fixture
def unknown_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files of tasks are read, examined and rehearsed as in a new process."""
    monkeypatch.setattr(source_files, "_places", {})
    monkeypatch.setattr(source_files, "_imported", {})
    monkeypatch.setattr(groups, "_tasks_from_outside", {})
    monkeypatch.setattr(task_data, "_passed", set())
    monkeypatch.setattr(making, "_rehearsed", set())
    monkeypatch.setattr(making, "_tried", set())
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    forget_code()
