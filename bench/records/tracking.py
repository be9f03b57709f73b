"""MLflow as a view of the records: one MLflow run for each, written after the record is safe.

Everything is logged in a few batches at the end, so tracking costs nothing during training; a
failure here is told and never loses the run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

from bench.records.schema import RunRecord
from bench.records.store import Store
from core.errors import UserError


def track(record: RunRecord, path: Path, store: Store) -> None:
    """Log a record to ``MLFLOW_TRACKING_URI``, or to SQLite in the store, unless it is there;
    never raises."""
    try:
        mlflow_runs = _mlflow_runs()
        with mlflow_runs.opened(store) as client:
            mlflow_runs.log(record, path, store, client)
    except Exception as error:
        print(
            f"MLflow did not take {record.run_id} ({_in_short(error)}); its record is safe",
            file=sys.stderr,
        )


def create_store(store: Store) -> None:
    """Create the SQLite file before any worker starts, so that none of them waits for it.

    Raises:
        UserError: the store cannot be used.
    """
    try:
        with _mlflow_runs().opened(store) as client:
            client.search_experiments(max_results=1)
    except Exception as error:
        raise UserError(
            f"MLflow cannot use its store ({_in_short(error)}): set MLFLOW_TRACKING_URI to one "
            "that works, unset it for SQLite in the store, or leave tracking=mlflow out"
        ) from None


def _in_short(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _mlflow_runs() -> ModuleType:
    """What writes to MLflow, which takes two seconds to import."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read by MLflow as it is imported
    from bench.records import mlflow_runs

    return mlflow_runs
