"""What a run costs on one core, from the seconds that records say others took.

Training alone is counted, as records count it; evaluation comes on top. Where no run of that size
was made, the nearest by FLOPs stands in: a step's FLOPs are taken in proportion to sequences times
positions times layers times width squared (Kaplan et al. 2020, arXiv 2001.08361, section 2.1:
6 FLOPs for each parameter and token). A preset for GPUs is costed by FLOPs and a stated rate.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.records.schema import FINISHED, RunRecord
from evidence.runs import PlannedRun
from evidence.shelf import training_key
from judging.controls import is_twin
from settings.settings import Configuration

GPU_PRESETS = ("gpu", "paper")
GPU_RATE = 1e13  # FLOP/s that small models sustain; the range of the estimate spans a factor 9
# How far an estimate may be off, either way.
BY_STEPS, BY_FLOPS, BY_RATE, BY_NOTHING = 1.5, 2.5, 3.0, 10.0
PREDICTORS = 10  # about so many has a task
SIZES = {"layers": 1, "width": 2}  # of a model -> power in the FLOPs of a step


@dataclass(frozen=True)
class Cost:
    """Seconds on one core, or on one GPU, with the range they are expected in.

    Attributes:
        sources: where they come from; empty where the very setting was measured.
    """

    seconds: float = 0.0
    low: float = 0.0
    high: float = 0.0
    sources: tuple[str, ...] = ()

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.seconds + other.seconds,
            self.low + other.low,
            self.high + other.high,
            tuple(dict.fromkeys([*self.sources, *other.sources])),
        )


class Speeds:
    """What was measured, ready to be asked for the cost of a run."""

    def __init__(self, records: Iterable[RunRecord]) -> None:
        self._measured: dict[str, list[RunRecord]] = defaultdict(list)
        self._of_task: dict[tuple[str, bool], list[RunRecord]] = defaultdict(list)
        for record in records:
            if record.outcome in FINISHED and not is_twin(record):  # one step is mostly the start
                self._measured[training_key(record.config, 0)].append(record)
                self._of_task[record.task, record.role == "baseline"].append(record)
        self._known: dict[str, Cost] = {}

    def of(self, run: PlannedRun) -> Cost:
        """The cost of one run."""
        configuration = run.configuration
        own = training_key(configuration.resolved(), 0)
        key = f"{run.role == 'baseline'} {configuration.preset} {own}"
        if key not in self._known:
            self._known[key] = self._cost(configuration, run.role == "baseline")
        return self._known[key]

    def together(self, runs: Iterable[PlannedRun], paid: Iterable[str] = ()) -> Cost:
        """The cost of runs, of which each training is paid once and those ``paid`` not at all."""
        done, total = set(paid), Cost()
        for run in runs:
            if run.training not in done:
                done.add(run.training)
                total += self.of(run)
        return total

    def _cost(self, configuration: Configuration, predictors: bool) -> Cost:
        found = self._of_task[configuration.task, predictors]
        if predictors:
            if not found:
                return _around(10.0, BY_NOTHING, f"predictors of {configuration.task}, unmeasured")
            together = math.fsum(record.cost.wall_seconds for record in found)
            all_of_them = together / len({record.identity for record in found}) * PREDICTORS
            return Cost(all_of_them, all_of_them, all_of_them)
        same = self._measured.get(training_key(configuration.resolved(), 0))
        if same and configuration.preset not in GPU_PRESETS:
            seconds = [record.cost.wall_seconds for record in same]
            return Cost(median(seconds), min(seconds), max(seconds))
        if configuration.takes is not None:
            return self._measurement(configuration, found)
        return self._training(configuration)

    def _measurement(self, configuration: Configuration, found: list[RunRecord]) -> Cost:
        """A measurement counts no FLOPs: the seconds of its neighbours are all there is."""
        own = [record for record in found if record.model == configuration.model]
        near = sorted(own or found, key=lambda record: record.run_id)
        if not near:
            return _around(60.0, BY_NOTHING, f"{configuration.task}: never measured, a minute each")
        seconds = median(r.cost.wall_seconds for r in near)
        here = near[0].preset == configuration.preset
        factor = BY_FLOPS if here else BY_NOTHING
        return _around(seconds, factor, f"{configuration.task} as {near[0].run_id}")

    def _training(self, configuration: Configuration) -> Cost:
        resolved = configuration.resolved()
        trained = [
            record
            for (_, baseline), records in self._of_task.items()
            for record in records
            if not baseline and record.cost.training_flops and record.cost.training_steps
        ]
        if not trained:
            return _around(60.0, BY_NOTHING, "no training was measured, a minute each")
        work = _work(resolved)

        def distance(record: RunRecord) -> tuple[bool, bool, bool, float, str]:
            return (
                record.model != configuration.model,
                record.task != configuration.task,
                record.preset != configuration.preset,
                abs(math.log(work / _work(record.config))),
                record.run_id,
            )

        nearest = min(trained, key=distance)
        cost, ratio = nearest.cost, work / _work(nearest.config)
        steps = _steps(resolved, nearest) * configuration.training.restarts
        scaled = steps / cost.training_steps * ratio
        if configuration.preset in GPU_PRESETS:
            flops = (cost.training_flops or 0.0) * scaled
            source = f"FLOPs as {nearest.run_id}, at {GPU_RATE:.0e} FLOP/s"
            return _around(flops / GPU_RATE, BY_RATE, source)
        same = ratio == 1.0 and distance(nearest)[:3] == (False, False, False)
        factor = BY_STEPS if same else BY_FLOPS
        source = f"{'seconds a step' if same else 'FLOPs'} as {nearest.run_id}"
        return _around(cost.wall_seconds * scaled, factor, source)


def _around(seconds: float, factor: float, source: str = "") -> Cost:
    return Cost(seconds, seconds / factor, seconds * factor, (source,) if source else ())


def _work(config: Mapping[str, Any]) -> float:
    """FLOPs of a step, but for a constant."""
    tasks, models, training = (config[part] for part in ("tasks", "models", "training"))
    size = training.get("batch_size", 1) * _number(tasks.get("length"))
    return size * math.prod(_number(models.get(name)) ** power for name, power in SIZES.items())


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else 1.0


def _steps(resolved: Mapping[str, Any], nearest: RunRecord) -> float:
    """Steps of one training; how many an epoch has is known from a run with epochs."""
    training, other = resolved["training"], nearest.config["training"]
    if training["steps"] is not None:
        return float(training["steps"])
    each = nearest.cost.training_steps / other.get("restarts", 1) / (other.get("epochs") or 1)
    return each * training["epochs"] * other["batch_size"] / training["batch_size"]
