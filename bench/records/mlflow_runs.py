"""Records as runs of MLflow: :mod:`bench.records.tracking` imports this where it is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient

from bench.records.schema import RunRecord
from bench.records.store import Store
from core.database import alone_at, sqlite_file

METRICS_PER_BATCH = 1000  # MLflow refuses more in one call


@contextmanager
def opened(store: Store) -> Iterator[Any]:
    """A client of the store of runs, which no other process uses meanwhile."""
    store.root.mkdir(parents=True, exist_ok=True)
    default = f"sqlite:///{(store.root / 'mlflow.db').resolve()}"
    address = os.environ.get("MLFLOW_TRACKING_URI", default)
    with alone_at(address, store.root):
        file = sqlite_file(address)
        if file is not None and not file.exists():
            # MLflow does not go on with tables whose making was killed: all of them or none.
            partial = file.with_name(f".{file.name}.partial")
            partial.unlink(missing_ok=True)
            MlflowClient(tracking_uri=f"sqlite:///{partial}").search_experiments(max_results=1)
            partial.replace(file)
        yield MlflowClient(tracking_uri=address)


def _experiment(client: Any, name: str, store: Store) -> str:
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        folder = (store.root / "mlflow-artifacts").resolve().as_uri()
        return str(client.create_experiment(name, artifact_location=folder))
    return str(experiment.experiment_id)


def _run(record: RunRecord, store: Store, client: Any) -> str | None:
    """The MLflow run of a record: a new one, that which a killed process left unfinished, or None
    if all is there."""
    experiment = _experiment(client, f"{record.task}/{record.preset}", store)
    tags = {"role": record.role, "outcome": record.outcome}  # a failed run may be made again
    wanted = [f"tags.{key} = '{value}'" for key, value in tags.items()]
    query = " and ".join([f"attributes.run_name = '{record.run_id}'", *wanted])
    runs = client.search_runs([experiment], query, max_results=1)
    if not runs:
        return str(client.create_run(experiment, tags=tags, run_name=record.run_id).info.run_id)
    return str(runs[0].info.run_id) if runs[0].info.status == "RUNNING" else None


def log(record: RunRecord, path: Path, store: Store, client: Any) -> None:
    """Write a record as an MLflow run, unless all of it is there."""
    run = _run(record, store, client)
    if run is None:
        return
    parameters = []
    for section, settings in record.config.items():
        for key, value in settings.items():
            parameters.append(Param(f"{section}.{key}", str(value)[:6000]))
    tags = {
        "cause": record.cause or "",
        "identity": record.identity,
        "seed": str(record.seed),
        "commit": record.provenance.commit or "",
        "dirty": str(record.provenance.dirty),
    }
    metrics = []
    for split, numbers in record.metrics.items():
        for name, number in numbers.items():
            metrics.append(Metric(f"{split}/{name.replace(',', '_')}", number, 0, 0))
    for name in ("training_loss", "validation_loss"):
        if curve := record.curves.get(name):
            points = zip(curve.x, curve.y, strict=True)
            metrics += [Metric(name, y, 0, int(x)) for x, y in points]
    tag_list = [RunTag(key, value[:5000]) for key, value in tags.items()]
    client.log_batch(run, params=parameters[:100], tags=tag_list)
    for start in range(0, len(metrics), METRICS_PER_BATCH):
        client.log_batch(run, metrics=metrics[start : start + METRICS_PER_BATCH])
    client.log_artifact(run, str(path))
    client.set_terminated(run, "FINISHED" if record.outcome == "ok" else "FAILED")
