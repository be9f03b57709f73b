"""How a run ended and what it measured, as its record."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from bench.ground.files import write_atomically
from bench.records.identity import Identity
from bench.records.schema import Cost, Curve, Headline, Outcome, Restart, Role, RunRecord, Study
from tasks.interface import Evaluation, Task
from tasks.measurement import Measurement


def failure(error: Exception, work: Path) -> tuple[Outcome, str]:
    """How a run ended that stopped with ``error``; the details go to a file in ``work``.

    Raises:
        OSError: the error, if it is one: a full disk is no property of the model.
    """
    text = str(error).strip().splitlines()[0] if str(error).strip() else ""
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate" in text:
        return "out_of_memory", text or "out of memory"
    if isinstance(error, OSError):
        raise error
    log = work / "traceback.txt"
    write_atomically(log, traceback.format_exc().encode())
    return "failed", f"{type(error).__name__}: {text} (details in {log})"


def make_record(
    identity: Identity,
    task: Task | Measurement,
    evaluations: Mapping[str, Evaluation],
    *,
    role: Role,
    study: Study | None,
    outcome: Outcome,
    cause: str | None,
    cost: Cost,
    curves: Mapping[str, Curve] | None = None,
    restarts: Sequence[Restart] = (),
    weights_sha256: str | None = None,
) -> RunRecord:
    """The record of a run that has ended; ``curves`` are those of its training."""
    configuration = identity.configuration
    trials = len(study.trials) if study else 0
    fields = measured_fields(task, evaluations, "validation" if role == "trial" else "test")
    fields["curves"] = {**(curves or {}), **fields["curves"]}
    return RunRecord(
        run_id=identity.run_id(configuration.seed),
        identity=identity.identity,
        seed=configuration.seed,
        task=configuration.task,
        model=configuration.model,
        label=configuration.label,
        preset=configuration.preset,
        role=role,
        outcome=outcome,
        cause=cause,
        config=configuration.resolved(),
        cost=cost.model_copy(update={"tuning_trials": trials}),
        restarts=list(restarts),
        study=study,
        provenance=identity.provenance,
        weights_sha256=weights_sha256,
        **fields,
    )


def measured_fields(
    task: Task | Measurement, evaluations: Mapping[str, Evaluation], split: str
) -> dict[str, Any]:
    """Headline, metrics, per-sequence values, curves and arrays of a record; all but the metrics
    are those of ``split``. What is not finite is left out: a record holds numbers."""
    metrics = {
        name: {k: v for k, v in measured.metrics.items() if math.isfinite(v)}
        for name, measured in evaluations.items()
    }
    last = evaluations.get(split)
    value = metrics.get(split, {}).get(task.headline.name)
    return {
        "headline": Headline(
            name=task.headline.name,
            direction=task.headline.direction,
            unit=task.headline.unit,
            value=value,
        ),
        "metrics": metrics,
        "per_sequence": last.per_sequence if last else {},
        "curves": {k: Curve(**v) for k, v in last.curves.items()} if last else {},
        "arrays": last.arrays if last else {},
    }
