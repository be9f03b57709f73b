"""Sweeps on one device by the clock: ``python -m bench.gpu.sweeps``, a child of ``bench.gpu``.

First the seconds of a step of each model are measured. A sweep then has those rows that are
forecast to end in the time that is left, many processes at a time, and what is learned from it of
their common speed is the next forecast's. What the time cuts off keeps its checkpoints.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.config.command_line import Settings, read
from bench.gpu.pace import SECONDS_EACH
from bench.gpu.plans import ModelRow, TaskPlan, committed_records, look_up, read_plan
from bench.gpu.request import SweepsRequest, request_of
from bench.gpu.sharing import shared_gpu
from core.children import run_to_end
from core.errors import OK, command
from core.files import ROOT, write_atomically
from core.processes import module_command
from core.progress import duration
from core.words import command_line, word

# How many of W processes a device is taken for, until a sweep has told.
FIRST_GAIN = {"cpu": 1.0, "cuda": 0.5}
STARTS = 2  # a driver and its workers import one after the other
NOT_TIMED = "the time ended before its first steps were timed"
CUT_OFF = "the time ended while it was trained: the same command goes on from its checkpoints"


@dataclass
class SweepClock:
    """What is known of the speed of sweeps.

    Attributes:
        deadline: of ``time.monotonic``.
        gain: trainings' seconds alone over the seconds of the sweep that made them.
        start: seconds until a process trains.
        paces: model -> seconds of a step alone.
    """

    deadline: float
    gain: float
    start: float = 0.0
    paces: dict[str, float] = field(default_factory=dict)

    @property
    def left(self) -> float:
        """Seconds."""
        return self.deadline - time.monotonic()

    def alone(self, row: ModelRow) -> float:
        """Seconds of one training of a row, alone on the device."""
        return self.paces[row.model] * row.steps

    def work(self, rows: Sequence[ModelRow]) -> float:
        """Seconds of all missing trainings, one after the other."""
        return sum(self.alone(row) * row.trainings for row in rows)

    def forecast(self, rows: Sequence[ModelRow]) -> float:
        """Seconds of a sweep with these rows: their work, shared, and the longest training, in
        whose time others may be out of work."""
        return (
            STARTS * self.start + self.work(rows) / self.gain + max(self.alone(row) for row in rows)
        )


def train(settings: Settings) -> int:
    """Train what there is time for; the result says of each row what came of it."""
    request = request_of(settings, SweepsRequest)
    plan = read_plan(request)
    left = request.until - time.time()
    clock = SweepClock(time.monotonic() + left, FIRST_GAIN[request.device] * request.workers)
    sweeps: list[dict[str, Any]] = []
    with shared_gpu(request.mps and request.device == "cuda") as (environment, sharing):
        try:
            _train(plan, request, clock, environment, sweeps)
        finally:  # also where it is stopped
            result = {
                "workers": request.workers,
                "sharing": sharing,
                "seconds_of_a_step_alone": clock.paces,
                "gain_of_sharing": clock.gain,
                "sweeps": sweeps,
                "rows": [_described(row) for row in plan.rows],
            }
            write_atomically(request.output, (json.dumps(result, indent=1) + "\n").encode())
    return OK


def _described(row: ModelRow) -> dict[str, Any]:
    """A row as the result keeps it."""
    return {
        "row": row.title,
        "model": row.model,
        **row.conditions,
        "rates": list(row.rates),
        "stands": row.stands,
        "runs": row.runs_there,
        "left_since": None if row.stands else row.reason,
        "metrics": row.metrics,
    }


def _train(
    plan: TaskPlan,
    request: SweepsRequest,
    clock: SweepClock,
    environment: Mapping[str, str],
    sweeps: list[dict[str, Any]],
) -> None:
    committed = committed_records(plan)
    look_up(plan, request.store, committed)
    _measure_paces(plan, request, clock)
    while group := _next_group(plan.rows, clock):
        forecast, work = clock.forecast(group), clock.work(group)
        on_machine = [f"device={request.device}", word("store", str(request.store))]
        words = [*plan.sweep_words(group), f"workers={request.workers}", *on_machine]
        begin = time.monotonic()
        child = module_command("bench.sweep", words)
        ended = run_to_end(child, max(1.0, clock.left), ROOT, environment)
        seconds = time.monotonic() - begin
        for row in group:
            row.tried = True
            row.reason = CUT_OFF if ended.over_limit else f"no result: {ended.sentence}"
        look_up(plan, request.store, committed)
        if all(row.stands for row in group):
            clock.gain = work / seconds
        titles = [row.title for row in group]
        sweeps.append({"rows": titles, "forecast_seconds": forecast, "seconds": seconds})


def _measure_paces(plan: TaskPlan, request: SweepsRequest, clock: SweepClock) -> None:
    """The seconds of a step of each model that has a row to be trained. A process that ends at a
    model is followed by one for the models after it."""
    rows = [row for row in plan.rows if row.stands is None]
    waiting = list(dict.fromkeys(row.model for row in rows))
    output = request.output.with_name(f"{request.output.stem}_paces.json")
    for row in rows:
        row.reason = NOT_TIMED
    refused: dict[str, str] = {}
    while waiting and clock.left > 1:
        seconds_each = min(SECONDS_EACH, int(clock.left))
        output.unlink(missing_ok=True)
        request_words = {"models": waiting, "seconds_each": seconds_each, "output": str(output)}
        words = [*plan.run_words(rows[0]), f"device={request.device}"]
        words += [word(key, value) for key, value in request_words.items()]
        ended = run_to_end(module_command("bench.gpu.pace", words), clock.left, ROOT)
        measured = json.loads(output.read_bytes()) if output.exists() else {}
        clock.start = measured.pop("start", clock.start)
        for model, pace in measured.items():
            if isinstance(pace, str):
                refused[model] = pace
            else:
                clock.paces[model] = pace
        waiting = [model for model in waiting if model not in measured]
        if waiting and not ended.over_limit:
            refused[waiting.pop(0)] = f"its first steps did not end: {ended.sentence}"
    for row in rows:
        row.reason = refused.get(row.model, NOT_TIMED)


def _next_group(rows: Sequence[ModelRow], clock: SweepClock) -> list[ModelRow]:
    """Rows of the first sweep of which some are forecast to end in time, those with the fewest
    missing runs first. Each row that does not fit is told why."""
    waiting = [row for row in rows if not (row.stands or row.tried) and row.model in clock.paces]
    for sweep in sorted({row.sweep for row in waiting}):
        group: list[ModelRow] = []
        of_sweep = [row for row in waiting if row.sweep == sweep]
        for row in sorted(of_sweep, key=lambda row: row.trainings):
            if clock.forecast([*group, row]) <= clock.left:
                group.append(row)
            else:
                alone, left = clock.forecast([row]), max(0.0, clock.left)
                row.reason = (
                    f"{row.trainings} trainings, forecast to take {duration(alone)}, do not fit in "
                    f"the {duration(left)} that were left"
                )
        if group:
            return group
    return []


HELP = "usage: as a part of python -m bench.gpu, which gives its settings"
main = command_line(HELP, read, train)


if __name__ == "__main__":
    command(main)
