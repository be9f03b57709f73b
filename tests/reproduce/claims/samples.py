"""Constructed samples of a number over seeds."""

from dataclasses import replace
from typing import Any

from bench.records.schema import RunRecord
from core.statistics import REAL, Items, Kind
from reproduce.claims.observations import Observation, Sample
from tests.bench.records import make_record


def sample(
    *numbers: float,
    label: str = "model",
    deterministic: bool = False,
    kind: Kind = REAL,
    items: Items | None = None,
) -> Sample:
    known = [Observation(seed, value, value) for seed, value in enumerate(numbers)]
    return Sample(label, tuple(known), deterministic, kind, items)


def with_unknown(of: Sample, low: float = 0.0, high: float = 1.0) -> Sample:
    lost = Observation(len(of.observations), low, high, "failed")
    return replace(of, observations=(*of.observations, lost))


def record(
    seed: int,
    value: float | None = None,
    outcome: str = "ok",
    started: str = "2026-01-01",
    **changes: Any,
) -> RunRecord:
    provenance = make_record().provenance.model_copy(update={"started_at": started})
    metrics = {} if value is None else {"test": {"accuracy": value}}
    return make_record(
        seed=seed, outcome=outcome, metrics=metrics, provenance=provenance, **changes
    )


def accuracy(of: RunRecord) -> float | None:
    return of.metrics.get("test", {}).get("accuracy")
