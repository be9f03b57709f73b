"""The making of one run of a measurement, which builds its models itself and keeps no weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.records.identity import Identity
from bench.records.schema import Cost
from bench.runs.recording import Run
from bench.training.building import build_measurement, model_builder
from bench.training.seeding import seed_generators
from core.progress import Report
from core.seeding import derive_seed
from tasks.interface import Evaluation, Split
from tasks.measurement import Measurement


class MeasuringRun(Run):
    """One run of a measurement on its way to a record."""

    def __init__(self, identity: Identity, work: Path, report: Report) -> None:
        super().__init__(identity, work, report)
        self.task: Measurement = build_measurement(self.configuration)

    def measure(self, split: Split) -> Evaluation:
        def report(description: str, done: int, total: int) -> None:
            self.report(f"{self.description}, {split}: {description}", done, total)

        build = model_builder(self.configuration, self.device)
        seed = self.configuration.seed
        seed_generators(derive_seed(seed, "measurement", split), self.device)
        return self.task.measure(build, split, seed, self.device, report)

    def spent(self, evaluations: Mapping[str, Evaluation], seconds: float) -> dict[str, Any]:
        evaluation = next(iter(evaluations.values()), None)
        sizes = evaluation.metrics if evaluation else {}
        state = sizes.get("state_bytes")
        cost = Cost(
            parameters=int(sizes.get("parameters", 0)),
            state_bytes=None if state is None else int(state),
            wall_seconds=seconds,
        )
        return {"cost": cost}
