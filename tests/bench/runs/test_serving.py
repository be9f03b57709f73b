"""What is there is served by its name: no data made for it, and never by a wrong hash."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from bench.config.settings import Configuration
from bench.records.provenance import library_versions, sha256_of
from bench.records.schema import RunRecord, read_record, write_record
from bench.records.store import Store
from bench.runs.get_or_run import get_or_run, get_or_run_baselines, load_or_run
from bench.runs.serving import identify, known_data, serve, serve_baselines
from bench.training.building import data_hashes
from core.errors import UserError
from tests.committed import committed_records
from tests.configurations import compose
from tests.conftest import told_by_a_process

# Tiny data that no committed record is of.
TASK = ["tasks=in_context_regression", "tasks.validation_size=7"]
WORDS = [*TASK, "models=gpt2", "models.width=8", "models.heads=1", "models.layers=1"]
WORDS += ["training.steps=1", "training.batch_size=2", "device=cpu"]
HERE = sha256_of(library_versions())
TOLD = """
import json, sys
from bench.runs.get_or_run import get_or_run, get_or_run_baselines
from tests.configurations import compose
words = sys.argv[1:]
found = [get_or_run(compose(words)), *get_or_run_baselines(compose(words))]
print(json.dumps([[one.run_id for one in found], "torch" in sys.modules]))
"""
SWEEP = """
import json, multiprocessing, sys
from bench.search.driver import run_plan
from tests.configurations import make_plan
from core.progress import silent
result = run_plan(make_plan(sys.argv[1:]), silent)
(model,) = result.models
pool = [one.name for one in multiprocessing.active_children()]
print(json.dumps([[one.study is not None for one in model.records], pool, "torch" in sys.modules]))
"""


def asked(store: Path, *words: str) -> Configuration:
    return compose([*WORDS, f"store={store}", *words])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """A run that was made, and so named by data that were made."""
    return get_or_run(asked(tmp_path_factory.mktemp("made")))


def stored(record: RunRecord, store: Path) -> Path:
    """The only record of a store."""
    return write_record(record, Store(store).records)


def changed(record: RunRecord, **provenance: object) -> RunRecord:
    """A record of other code, data or libraries, well written."""
    update = {"provenance": record.provenance.model_copy(update=provenance)}
    return record.model_copy(update={**update, "run_id": record.run_id.replace("-s0", "x-s0")})


@pytest.mark.parametrize(
    "words",
    [
        ["tasks=in_context_regression", "models=gpt2"],
        ["tasks=state_tracking", "models=gpt2"],
        ["tasks=three_moons", "models=memory_mosaic"],
        ["tasks=regbench", "models=gpt2"],
        ["tasks=in_context_regression_memories", "models=delta_rule"],
    ],
)
def test_known_hashes_are_those_of_the_data(words: list[str], tmp_path: Path) -> None:
    configuration = compose([*words, f"store={tmp_path}"])
    task = configuration.task
    of_task = [r for r in committed_records() if (r.task, r.preset) == (task, "smoke")]
    if HERE not in {one.provenance.library_lock for one in of_task}:
        pytest.skip("no committed record is of the libraries that are here")
    assert known_data(configuration) == data_hashes(configuration)


def test_no_two_committed_records_of_equal_settings_and_libraries_differ_in_their_data() -> None:
    data = defaultdict(set)
    for record in committed_records():
        settings = json.dumps(record.config["tasks"], sort_keys=True)
        stated = json.dumps(record.provenance.data, sort_keys=True)
        data[record.task, settings, record.provenance.library_lock].add(stated)
    assert [key for key, stated in data.items() if len(stated) > 1] == []


def test_a_run_and_predictors_are_served_without_torch(made: RunRecord, tmp_path: Path) -> None:
    stored(made, tmp_path)
    predictors = get_or_run_baselines(asked(tmp_path))
    words = [*WORDS, f"store={tmp_path}"]
    run_ids = [made.run_id, *(one.run_id for one in predictors)]
    assert told_by_a_process(TOLD, *words) == [run_ids, False]
    assert load_or_run(asked(tmp_path)) == (made, True)


def test_a_committed_sweep_opens_no_process(tmp_path: Path) -> None:
    words = ["tasks=in_context_regression", "models=gpt2", "preset=smoke", "committed=true"]
    words += ["device=cpu", "workers=2", f"store={tmp_path}"]
    has_search, pool, torch_was_imported = told_by_a_process(SWEEP, *words)
    if not all(has_search):  # it was made here
        pytest.skip("no committed search is of the libraries that are here")
    assert (pool, torch_was_imported) == ([], False)
    assert not Store(tmp_path).records.exists()


def test_a_predictor_that_is_gone_is_made_again(tmp_path: Path) -> None:
    before = get_or_run_baselines(asked(tmp_path))
    assert serve_baselines(asked(tmp_path)) == before
    (Store(tmp_path).records / f"{before[1].run_id}.json").unlink()
    assert serve_baselines(asked(tmp_path)) is None
    again = get_or_run_baselines(asked(tmp_path))
    assert [one.run_id for one in again] == [one.run_id for one in before]
    assert again[1].metrics == before[1].metrics


def test_records_that_come_and_go_are_seen(made: RunRecord, tmp_path: Path) -> None:
    configuration = asked(tmp_path, "training.lr=0.5")
    other = get_or_run(configuration)
    path = Store(tmp_path).records / f"{other.run_id}.json"
    assert serve(configuration, "single") == other
    content = path.read_bytes()
    path.unlink()
    assert serve(configuration, "single") is None
    path.write_bytes(content)
    assert serve(configuration, "single") == other
    assert serve(configuration.model_copy(update={"seed": 1}), "single") is None
    assert serve(configuration, "control") is None


# Each with settings of its own: what one process has read once, it knows.
def test_what_cannot_say_the_hashes_of_data(
    made: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.runs.serving._data_by_settings", {})
    wrong = "0" * 64
    other_data = dict.fromkeys(made.provenance.data, wrong)
    cases = {
        "code": [changed(made, task_code=wrong)],
        "libraries": [changed(made, library_lock=wrong)],
        "protocol": [changed(made, protocol_version=0)],
        "two": [made, changed(made, data=other_data)],
    }
    for name, records in cases.items():
        for record in records:
            stored(record, tmp_path / name)
        assert known_data(asked(tmp_path / name)) is None, name
        assert serve(asked(tmp_path / name), "single") is None, name
    stored(made, tmp_path / "right")
    assert known_data(asked(tmp_path / "right", "tasks.validation_size=8")) is None
    assert known_data(asked(tmp_path / "right")) == made.provenance.data
    # Contradicted for the finding of records: a run is named by the data that were made for it.
    assert get_or_run(asked(tmp_path / "two")) == made


@pytest.mark.parametrize("cut", [True, False])
def test_a_record_that_was_edited_is_believed_nothing(
    made: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    monkeypatch.setattr("bench.runs.serving._data_by_settings", {})
    path = stored(made, tmp_path)
    text = path.read_text()
    test = made.provenance.data["test"]
    path.write_text(text[:-300] if cut else text.replace(test, "0" * 64))
    assert known_data(asked(tmp_path)) is None
    with pytest.raises(UserError, match=r"truncated|edited"):
        get_or_run(asked(tmp_path))
    path.unlink()
    assert get_or_run(asked(tmp_path)).provenance.data == made.provenance.data


def test_text_of_ones_own_is_known_by_itself(tmp_path: Path) -> None:
    """Committed records have these very settings, of a text that nobody else has."""
    stories = tmp_path / "stories.txt"
    stories.write_text("One day a cat sat.\n" * 50)
    of_stories = next(
        r for r in committed_records() if (r.task, r.preset) == ("babistories", "laptop")
    )
    words = ["tasks=babistories", "models=gpt2", "preset=laptop", f"store={tmp_path}"]
    words += ["tasks.corpus=local", f"tasks.stories={stories}"]
    configuration = compose(words)
    assert configuration.resolved()["tasks"] == of_stories.config["tasks"]
    assert known_data(configuration) is None
    without = {**configuration.tasks, "stories": None}
    assert known_data(configuration.model_copy(update={"tasks": without})) is None


def test_the_name_by_known_data_is_that_by_made_data(made: RunRecord, tmp_path: Path) -> None:
    stored(made, tmp_path)
    configuration = asked(tmp_path)
    assert identify(configuration, known_data(configuration)).all == identify(configuration).all
    assert read_record(Store(tmp_path).records / f"{made.run_id}.json") == made
