"""The making of one run of a measurement, which builds its models itself and keeps no weights."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from bench.ground.errors import UserError
from bench.ground.progress import Report
from bench.records.identity import Identity
from bench.records.schema import Cost, Outcome, Role, RunRecord, Study
from bench.runs.recording import failure, make_record
from bench.training.building import (
    build_measurement,
    kept_random_state,
    model_builder,
    resolve_device,
)
from bench.training.memory import peak_memory
from bench.training.training import set_numerics
from tasks.interface import Evaluation, Split
from tasks.measurement import Diverged, Refused


class MeasuringRun:
    """One run of a measurement on its way to a record.

    Args:
        work: folder of what a failure leaves.
    """

    def __init__(self, identity: Identity, work: Path, report: Report) -> None:
        self.identity, self.work, self.report = identity, work, report
        self.configuration = identity.configuration
        self.measurement = build_measurement(self.configuration)
        self.device = resolve_device(self.configuration.device)
        self.description = f"{self.configuration.label} seed {self.configuration.seed}"

    def make(self, role: Role, study: Study | None) -> RunRecord:
        """Measure both splits, or validation alone for a trial."""
        evaluations: dict[str, Evaluation] = {}
        outcome: Outcome = "ok"
        cause: str | None = None
        started = time.perf_counter()
        splits: list[Split] = ["validation"] if role == "trial" else ["validation", "test"]
        with peak_memory(self.device) as memory, kept_random_state(self.device):
            try:
                for split in splits:
                    evaluations[split] = self.measure(split)
            except UserError:
                raise
            except Refused as error:
                raise UserError(str(error)) from None
            except Diverged as error:
                outcome, cause = "diverged", str(error)
            except Exception as error:
                outcome, cause = failure(error, self.work)
        if outcome == "ok":
            cause = _without_headline(evaluations, self.measurement.headline.name)
            outcome = "diverged" if cause else "ok"
        cost = _cost(evaluations).model_copy(
            update={
                "wall_seconds": time.perf_counter() - started,
                "peak_memory_bytes": memory.peak,
            }
        )
        return make_record(
            self.identity,
            self.measurement,
            evaluations,
            role=role,
            study=study,
            outcome=outcome,
            cause=cause,
            cost=cost,
        )

    def measure(self, split: Split) -> Evaluation:
        """The whole protocol on one split."""

        def report(description: str, done: int, total: int) -> None:
            self.report(f"{self.description}, {split}: {description}", done, total)

        set_numerics(self.configuration.training.threads)
        build = model_builder(self.configuration, self.device)
        seed = self.configuration.seed
        return self.measurement.measure(build, split, seed, self.device, report)


def _without_headline(evaluations: Mapping[str, Evaluation], name: str) -> str | None:
    """What diverged of a measurement that has other numbers, but not the one it is ranked by."""
    for measured in evaluations.values():
        lost = measured.arrays.get("diverged")
        if lost and name not in measured.metrics:
            return str(lost[0])
    return None


def _cost(evaluations: Mapping[str, Evaluation]) -> Cost:
    found = next(iter(evaluations.values()), None)
    sizes = found.metrics if found else {}
    state = sizes.get("state_bytes")
    return Cost(
        parameters=int(sizes.get("parameters", 0)),
        state_bytes=None if state is None else int(state),
    )
