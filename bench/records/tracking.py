"""MLflow as a view of the records: one MLflow run for each, written after the record is safe.

Everything is logged in a few batches at the end, so tracking costs nothing during training; a
failure here is told and never loses the run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from bench.records.schema import RunRecord
from bench.records.store import Store
from ground.errors import UserError

METRICS_PER_BATCH = 1000  # MLflow refuses more in one call


def track(record: RunRecord, path: Path, store: Store) -> None:
    """Log a record to ``MLFLOW_TRACKING_URI``, or to SQLite in the store; never raises."""
    try:
        _log(record, path, store)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        print(f"MLflow did not take {record.run_id} ({first}); its record is safe", file=sys.stderr)


def create_store(store: Store) -> None:
    """Create the SQLite file before any worker starts: processes race on a fresh one.

    Raises:
        UserError: the store cannot be used.
    """
    try:
        _client(store).search_experiments(max_results=1)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"MLflow cannot use its store ({first}): set MLFLOW_TRACKING_URI to one that works, "
            "unset it for SQLite in the store, or leave tracking=mlflow out"
        ) from None


def _client(store: Store) -> Any:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow.tracking import MlflowClient

    address = os.environ.get("MLFLOW_TRACKING_URI")
    if address is None:
        store.root.mkdir(parents=True, exist_ok=True)
        address = f"sqlite:///{(store.root / 'mlflow.db').resolve()}"
    return MlflowClient(tracking_uri=address)


def _experiment(client: Any, name: str, store: Store) -> str:
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        folder = (store.root / "mlflow-artifacts").resolve().as_uri()
        try:
            return str(client.create_experiment(name, artifact_location=folder))
        except MlflowException:  # another worker was faster
            experiment = client.get_experiment_by_name(name)
    return str(experiment.experiment_id)


def _log(record: RunRecord, path: Path, store: Store) -> None:
    client = _client(store)
    from mlflow.entities import Metric, Param, RunTag

    name = f"{record.task}/{record.preset}"
    identifier = _experiment(client, name, store)
    run = client.create_run(identifier, run_name=record.run_id)
    parameters = [
        Param(f"{section}.{key}", str(value)[:6000])
        for section, values in record.config.items()
        for key, value in values.items()
    ]
    tags = {
        "outcome": record.outcome,
        "cause": record.cause or "",
        "identity": record.identity,
        "role": record.role,
        "seed": str(record.seed),
        "commit": record.provenance.commit or "",
        "dirty": str(record.provenance.dirty),
    }
    metrics = [
        Metric(f"{split}/{name.replace(',', '_')}", value, 0, 0)
        for split, values in record.metrics.items()
        for name, value in values.items()
    ]
    metrics += [
        Metric(name, y, 0, int(x))
        for name in ("training_loss", "validation_loss")
        if name in record.curves
        for x, y in zip(record.curves[name].x, record.curves[name].y, strict=True)
    ]
    tag_list = [RunTag(key, value[:5000]) for key, value in tags.items()]
    client.log_batch(run.info.run_id, params=parameters[:100], tags=tag_list)
    for start in range(0, len(metrics), METRICS_PER_BATCH):
        client.log_batch(run.info.run_id, metrics=metrics[start : start + METRICS_PER_BATCH])
    client.log_artifact(run.info.run_id, str(path))
    client.set_terminated(run.info.run_id, "FINISHED" if record.outcome == "ok" else "FAILED")
