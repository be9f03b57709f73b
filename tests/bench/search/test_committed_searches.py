"""What was made on another machine is served as it is, and goes into no record of this one."""

from pathlib import Path

import pytest

from bench.records.schema import RunRecord, read_record, read_records, write_record
from bench.records.store import Store
from bench.runs.get_or_run import get_or_run
from bench.search.driver import run_plan
from bench.search.jobs import Job
from core.progress import silent
from leaderboards import build
from tests.configurations import compose, make_plan

RUN = ["tasks=in_context_regression", "models=gpt2", "preset=smoke", "device=cpu"]
COMMITTED_SEEDS = 1


def sweep(store: Path, *words: str) -> list[RunRecord]:
    """The final runs of a sweep that may serve committed records."""
    plan = make_plan([*RUN, f"store={store}", "committed=true", *words])
    (result,) = run_plan(plan, silent).models
    return result.records


def own(store: Path) -> list[RunRecord]:
    """The records of models that a store has."""
    return [one for one in read_records([Store(store).records]) if one.role != "baseline"]


@pytest.fixture(scope="module", autouse=True)
def _is_served(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Other libraries have other identities, and nothing is served there."""
    store = tmp_path_factory.mktemp("served")
    if own(store) or any(r.study is None for r in sweep(store)) or own(store):
        pytest.skip("no committed search is of the libraries that are here")


def test_a_run_that_is_made_here_takes_no_search_of_another_machine(tmp_path: Path) -> None:
    (served,) = sweep(tmp_path)
    setting = served.config["training"]["lr"]
    words = [*RUN, f"store={tmp_path}", f"training.lr={setting}", "committed=false"]
    record = get_or_run(compose(words))
    # As another processor would round it, and the training make of it.
    validation = {name: 1.1 * value for name, value in record.metrics["validation"].items()}
    metrics = {**record.metrics, "validation": validation}
    curve = record.curves["validation_loss"]
    ended = curve.model_copy(update={"y": [*curve.y[:-1], validation["loss"]]})
    changes = {"metrics": metrics, "curves": {**record.curves, "validation_loss": ended}}
    path = write_record(record.model_copy(update=changes), Store(tmp_path).records)
    before = path.read_bytes()
    finals = {one.seed: one for one in sweep(tmp_path, f"seeds={COMMITTED_SEEDS + 1}")}
    assert sorted(finals) == [*range(COMMITTED_SEEDS + 1)]
    assert path.read_bytes() == before
    assert finals[0] == read_record(path)
    made = {one.seed: one for one in own(tmp_path)}
    assert sorted(made) == [0, COMMITTED_SEEDS]
    assert [(one.role, one.study, one.cost.tuning_trials) for one in made.values()] == [
        ("single", None, 0),
        ("final", None, 0),
    ]
    board = [f"records={Store(tmp_path).records}", f"output={tmp_path / 'board.parquet'}"]
    assert build.main(board) == 0


def test_a_search_of_this_store_goes_by_runs_of_this_store(tmp_path: Path) -> None:
    """Its best setting is that of a committed record, whose numbers may be of another machine."""
    space = "sweep.search_space={training.lr:[1e-2,5.0]}"
    words = (space, "n_trials=2", "seeds=2", "choose_over=first_seed", "sweep.extend=0")
    finals = sweep(tmp_path, *words)
    assert {one.config["training"]["lr"] for one in finals} == {1e-2}
    assert own(tmp_path) == finals
    trials = {one.run_id: one for one in read_records([Store(tmp_path).trials])}
    study = finals[0].study
    assert study is not None
    assert {trial.run_id for trial in study.trials} == trials.keys()
    for trial in study.trials:
        record = trials[trial.run_id or ""]
        if record.outcome == "diverged":  # as a rate of 5 may, by the last digits of its sums
            assert trial.value is None
        else:
            assert trial.value == record.metrics["validation"][record.headline.name]
    assert finals[0].weights_sha256 == trials[finals[0].run_id].weights_sha256


def test_trials_and_finals_of_a_search_are_never_served_from_elsewhere(tmp_path: Path) -> None:
    configuration = compose([*RUN, f"store={tmp_path}", "committed=true"])
    study = next(one.study for one in sweep(tmp_path) if one.study)
    assert not Job("trial 0", configuration, "trial").configuration.committed
    assert not Job("final run", configuration, "final", study).configuration.committed
    assert Job("final run", configuration, "final").configuration.committed
