"""Mistakes on the command line of ``bench.evaluate``; real evaluations are in test_runs."""

from pathlib import Path

import pytest

from bench import evaluate
from bench.records.schema import RunRecord, write_record
from bench.training.storage import read_weights
from core.errors import UserError
from tests.bench.records import make_record
from tests.configurations import compose


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    config = compose(["tasks=regbench", "models=gpt2"]).resolved()
    record = make_record(weights_sha256="0" * 64, config=config)
    write_record(record, tmp_path / "records")
    return record


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["store={store}"], "no run is named"),
        (["run=", "store={store}"], "no run is named"),
        (["run={id}", "store="], "store= is empty"),
        (["run={id}", "store={store}/none"], "there is no store at"),
        (["run={id}", "store={store}/records/{id}.json"], "is a file: give the folder"),
        (["run={store}/records/other.json"], "there is no file"),
        (["run=other", "store={store}"], "no run in .* has 'other' in its id"),
        (["run={id}", "store={store}", "device=foo"], "device=foo is unknown: valid names: auto"),
        (["run={id}", "store={store}", "dvice=cpu"], "there is no setting 'dvice'"),
        (["run={id}", "store={store}", "tasks.states=[1]"], "tasks.states is part of the record"),
        (["run={id}", "store={store}", "tasks=regbench"], "trains its own models"),
        (["run={id}", "store={store}"], "the weights .* are missing"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, record: RunRecord, words: list[str], sentence: str
) -> None:
    filled = [word.format(store=tmp_path, id=record.run_id) for word in words]
    with pytest.raises(UserError, match=sentence) as caught:
        evaluate.main(filled)
    assert "\n" not in str(caught.value)


def test_a_committed_record_without_weights_is_for_verify(
    tmp_path: Path, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(record, tmp_path / "committed" / record.task)
    monkeypatch.setattr("bench.runs.saved.COMMITTED", tmp_path / "committed")
    (tmp_path / "mine" / "records").mkdir(parents=True)
    with pytest.raises(UserError, match=f"leaderboards.verify {record.run_id} makes the run again"):
        evaluate.main([f"run={record.run_id}", f"store={tmp_path / 'mine'}"])


@pytest.mark.parametrize("given", [[], ["tasks.wiki=null"], ["tasks.windows=9"]])
def test_local_stories_ask_for_local_articles_at_once(tmp_path: Path, given: list[str]) -> None:
    words = ["tasks=babistories", "models=gpt2", "tasks.corpus=local"]
    run = make_record(task="babistories", config=compose(words).resolved())
    write_record(run, tmp_path / "records")
    base = [f"run={run.run_id}", f"store={tmp_path}", "tasks=wikipedia"]
    with pytest.raises(UserError, match=r"local stories.* give tasks\.wiki=PATH") as caught:
        evaluate.main([*base, *given])
    assert "\n" not in str(caught.value)
    # Whoever names the articles is not asked: what is missing now are the stories themselves.
    for named in ("tasks.wiki=w.txt", "tasks.articles=grammar"):
        with pytest.raises(UserError, match="the corpus 'local' needs a path"):
            evaluate.main([*base, named])


def test_settings_of_another_version_are_one_sentence(tmp_path: Path) -> None:
    config = compose(["tasks=regbench", "models=gpt2"]).resolved()
    config["training"] = {"lr": 1e-3}  # fewer settings than there are now
    old = make_record(weights_sha256="0" * 64, config=config)
    write_record(old, tmp_path / "records")
    with pytest.raises(UserError, match=r"settings of another version: training.steps is missing"):
        evaluate.main([f"run={old.run_id}", f"store={tmp_path}"])


def test_a_deleted_record_is_told_and_other_weights_are_not_blamed_on_it(
    tmp_path: Path, record: RunRecord
) -> None:
    (tmp_path / "records" / f"{record.run_id}.json").unlink()
    for run in (record.run_id, str(tmp_path / "records" / f"{record.run_id}.json")):
        with pytest.raises(UserError, match=r"no run in .* it holds no record|there is no file"):
            evaluate.main([f"run={run}", f"store={tmp_path}"])
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"other")
    with pytest.raises(UserError, match=r"delete the folder .*, and the record if it is still"):
        read_weights(weights, "0" * 64)
