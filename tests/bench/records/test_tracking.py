"""MLflow as a view of the records: each of them once, whoever comes first and whoever is killed."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench import train
from bench.records.schema import read_record
from tests import commands
from tests.conftest import Command

# One creation was killed between two tables, another is killed on its way; then three processes
# track a record each, at the same moment.
AT_ONCE = """
import json, multiprocessing, os, sqlite3, sys, time
from pathlib import Path
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
import mlflow.store.tracking.sqlalchemy_store, mlflow.tracking
from bench.records.schema import write_record
from bench.records.store import Store
from bench.records.tracking import create_store, track
from tests.bench.records import make_record

store = Store(Path(sys.argv[1]))
context = multiprocessing.get_context("fork")  # what is imported need not be imported again

with sqlite3.connect(store.root / ".mlflow.db.partial") as half:
    half.execute("CREATE TABLE experiments (experiment_id INTEGER NOT NULL)")
half.close()

def size(path):
    try:
        return path.stat().st_size
    except FileNotFoundError:  # not there yet, or renamed by the other process since it was listed
        return 0

def begun():
    files = list(store.root.glob("*mlflow.db")) + list(store.root.glob(".mlflow.db.partial"))
    return any(size(path) > 100_000 for path in files)

creation = context.Process(target=create_store, args=(store,))
creation.start()
while creation.is_alive() and not begun():
    time.sleep(0.001)
creation.kill()
creation.join()

barrier = context.Barrier(3)
def track_one(seed):
    record = make_record(seed=seed, run_id=f"regbench-gpt2-smoke-{seed}")
    path = write_record(record, store.records)
    barrier.wait()
    track(record, path, store)

workers = [context.Process(target=track_one, args=(seed,)) for seed in range(3)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(json.dumps([creation.exitcode, *(worker.exitcode for worker in workers)]))
"""


def client(store: Path) -> Any:
    from mlflow.tracking import MlflowClient  # two seconds, which each worker would take

    return MlflowClient(tracking_uri=f"sqlite:///{store / 'mlflow.db'}")


@pytest.mark.long
@pytest.mark.processes
def test_a_fresh_store_takes_all_who_come_at_once(tmp_path: Path) -> None:
    done = commands.run("-c", AT_ONCE, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [-9, 0, 0, 0]
    experiments = [e.experiment_id for e in client(tmp_path).search_experiments()]
    runs = client(tmp_path).search_runs(experiments)
    assert sorted(run.data.tags["seed"] for run in runs) == ["0", "1", "2"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert not list(tmp_path.glob(".*"))


def test_a_served_record_is_tracked_once(run_here: Command, tmp_path: Path) -> None:
    words = ["tasks=regbench", "tasks.training_automata=64", "models=lstm", "models.width=16"]
    words += ["models.layers=1", "training.batch_size=8", "training.steps=5", f"store={tmp_path}"]
    assert run_here(train.main, *words).returncode == 0
    (path,) = (tmp_path / "records").glob("*.json")
    record, written = read_record(path), path.stat().st_mtime_ns

    def track() -> list:
        done = run_here(train.main, *words, "tracking=mlflow")
        assert done.returncode == 0, done.stderr
        assert "MLflow did not take" not in done.stderr
        experiment = client(tmp_path).get_experiment_by_name("regbench/smoke")
        assert experiment is not None
        return client(tmp_path).search_runs([experiment.experiment_id])

    (run,) = track()
    assert path.stat().st_mtime_ns == written  # it was served
    assert run.data.tags["identity"] == record.identity
    assert run.data.metrics["test/accuracy"] == record.metrics["test"]["accuracy"]
    assert run.data.params["models.width"] == "16"
    assert [same.info.run_id for same in track()] == [run.info.run_id]
    artifact = tmp_path / "mlflow-artifacts" / run.info.run_id / "artifacts" / path.name
    assert json.loads(artifact.read_text())["run_id"] == record.run_id

    client(tmp_path).update_run(run.info.run_id, status="RUNNING")  # killed before it was told
    (again,) = track()
    assert again.info.run_id == run.info.run_id
    assert again.info.status == "FINISHED"
    assert again.data.metrics == run.data.metrics
    losses = client(tmp_path).get_metric_history(run.info.run_id, "training_loss")
    assert [loss.value for loss in losses] == record.curves["training_loss"].y
