"""What the engine does with an examination: before a training, before a score, and later."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench import evaluate, examine, train
from bench.records.schema import RunRecord, read_record, write_record
from bench.records.store import Store
from bench.runs.fresh import pending_run, train_together
from bench.runs.reexamining import EARLIER
from core.progress import silent
from tests.configurations import compose
from tests.conftest import Command

GENERATED = "tests.bench.examination.generated"
SHORT = ["tasks=state_tracking", "preset=smoke", "training.warmup_steps=1"]


def words(kind: str, store: Path, *more: str) -> list[str]:
    model = f"models={GENERATED}.{kind}" if kind[0].isupper() else f"models={kind}"
    return [*SHORT, model, f"store={store}", "training.lr=0.3", "training.steps=25", *more]


def only_record(store: Path) -> RunRecord:
    (path,) = (store / "records").glob("*.json")
    return read_record(path)


def test_a_leak_is_known_before_anything_is_trained(run_here: Command, tmp_path: Path) -> None:
    done = run_here(train.main, *words("InBlocks", tmp_path, "training.steps=100000"))
    assert done.returncode == 1
    record = only_record(tmp_path)
    assert record.outcome == "failed"
    assert str(record.cause).startswith("the model sees the future: other inputs from position")
    assert not [*tmp_path.glob("work/*/checkpoint-*")]


def test_a_leak_that_opens_in_training_has_no_score(run_here: Command, tmp_path: Path) -> None:
    done = run_here(train.main, *words("Opening", tmp_path))
    assert done.returncode == 1, done.stderr
    record = only_record(tmp_path)
    assert record.outcome == "failed"
    assert "sees the future with its trained weights" in str(record.cause)
    assert record.metrics == {}
    assert record.headline.value is None
    assert record.examination is None

    # Made as before there was a second examination: its record has a score, until it is examined.
    metrics = {split: {"accuracy": 1.0, "loss": 0.0} for split in ("validation", "test")}
    headline = record.headline.model_copy(update={"value": 1.0})
    scored = record.model_copy(
        update={"outcome": "ok", "cause": None, "headline": headline, "metrics": metrics}
    )
    write_record(scored, tmp_path / "records")
    asked = [f"run={record.run_id}", f"store={tmp_path}", "trust=tests"]
    refused = run_here(evaluate.main, *asked)
    assert refused.returncode == 4
    assert f"{record.run_id} is no result: the model sees the future" in refused.stderr

    looked = run_here(examine.main, *asked, "write=false")
    assert looked.returncode == 4
    assert "failed: the model sees the future" in looked.stdout
    assert only_record(tmp_path) == scored
    assert run_here(examine.main, *asked).returncode == 4
    again = only_record(tmp_path)
    assert (again.outcome, again.metrics, again.headline.value) == ("failed", {}, None)
    assert "sees the future with its trained weights" in str(again.cause)
    kept = Store(tmp_path).work(record.run_id) / EARLIER
    assert json.loads(kept.read_text())["outcome"] == "ok"


def test_an_older_record_is_completed_without_training(run_here: Command, tmp_path: Path) -> None:
    done = run_here(train.main, *words("lstm", tmp_path, "models.width=16"))
    assert done.returncode == 0, done.stderr
    assert "before training only" not in done.stdout
    record = only_record(tmp_path)
    assert record.examination is not None
    assert "moved parameters" in record.examination.before
    assert {"causal by values", "longest sequence"} <= {*record.examination.trained}

    older = record.model_copy(update={"examination": None})
    path = write_record(older, tmp_path / "records")
    assert "examination" not in json.loads(path.read_text())  # as those that are published
    served = run_here(train.main, *words("lstm", tmp_path, "models.width=16"))
    assert "examined before training only" in served.stdout
    asked = run_here(examine.main, f"run={record.run_id}", f"store={tmp_path}")
    assert asked.returncode == 0, asked.stderr
    assert "passed" in asked.stdout
    assert only_record(tmp_path) == record


def test_no_numbers_in_an_evaluation_end_a_run(run_here: Command, tmp_path: Path) -> None:
    done = run_here(train.main, *words("NoNumbers", tmp_path))  # trained on 8, measured on 32
    assert done.returncode == 1
    record = only_record(tmp_path)
    assert record.outcome == "failed"
    assert "no numbers (NaN or infinity)" in str(record.cause)
    assert record.metrics == {}


@pytest.mark.bitwise
def test_writing_into_inputs_changes_no_target(run_here: Command, tmp_path: Path) -> None:
    records: list[Any] = []
    for writes in ("true", "false"):
        store = tmp_path / writes
        text = ["tasks=bigram", f"models={GENERATED}.InPlace", f"models.writes={writes}"]
        rest = ["preset=smoke", "training.steps=10", "training.warmup_steps=1", f"store={store}"]
        assert run_here(train.main, *text, *rest).returncode == 0
        records.append(only_record(store))
    writing, reading = records
    assert writing.metrics == reading.metrics
    assert writing.weights_sha256 == reading.weights_sha256
    assert "inputs unchanged" not in writing.examination.trained
    assert "inputs unchanged" in reading.examination.trained


@pytest.mark.parametrize(("kind", "trained"), [("InBlocks", False), ("Guest", True)])
def test_trainings_together_are_examined_before(kind: str, trained: bool, tmp_path: Path) -> None:
    runs = [
        compose(words(kind, tmp_path, "sweep.stack=2", f"training.lr={lr}")) for lr in (0.01, 0.02)
    ]
    train_together([(configuration, "trial") for configuration in runs], silent)
    assert bool([*tmp_path.glob("work/*/checkpoint-0.pt")]) == trained
    assert all(pending_run(configuration, "trial", silent) is not None for configuration in runs)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (["store={store}"], "no run is named"),
        (["run=x", "store="], "store= is empty"),
        (["run=x", "dvice=cpu"], "there is no setting 'dvice'"),
        (["run=x", "write=2"], "write=2 is neither true nor false"),
        (["run=x", "store={store}"], "there is no store at"),
    ],
)
def test_mistakes_are_one_sentence(
    run_here: Command, tmp_path: Path, asked: list[str], sentence: str
) -> None:
    done = run_here(examine.main, *(word.format(store=tmp_path) for word in asked))
    assert done.returncode == 2
    assert sentence in done.stderr
