"""What a run costs on one core, from the seconds that records say others took.

Training alone is counted, as records count it; evaluation comes on top. Where no run of that size
was made, the nearest by FLOPs stands in: a step's FLOPs are taken in proportion to sequences times
positions times layers times width squared (Kaplan et al. 2020, arXiv 2001.08361, section 2.1:
6 FLOPs for each parameter and token). Where a task was run at other presets alone, it lends its
FLOPs, and the pace is that of the model's steps of that size in any task: steps of a tiny preset
are mostly overhead. A preset for GPUs is costed by FLOPs and a stated rate.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from bench.config.settings import Configuration
from bench.records.schema import FINISHED, RunRecord
from bench.runs.catalog import training_key
from core.screen import console
from reproduce.claims.controls import is_untrained
from reproduce.planned import PlannedRun

GPU_PRESETS = ("gpu", "paper")
# FLOP/s of nine small trainings at once on one H200, the median over six models of RegBench and
# two sizes (docs/measurements/regbench_h200_trials.json); the estimate's range holds all six.
GPU_RATE = 4.6e12
RATES = (
    "time: of training alone on one core of an idle machine, by the seconds that records "
    "took; a range where no run of that size was measured. GPU time: FLOPs at "
    f"{GPU_RATE:.1e} a second, an estimate: one H200 came to that with nine small trainings at "
    "once."
)
# How far an estimate may be off, either way.
BY_STEPS, BY_FLOPS, BY_RATE, BY_NOTHING = 1.5, 2.5, 4.0, 10.0
PREDICTORS = 10  # about so many has a task
SIZES = {"layers": 1, "width": 2}  # of a model -> power in the FLOPs of a step


@dataclass(frozen=True)
class ExpectedCost:
    """Seconds on one core, or on one GPU, with the range they are expected in.

    Attributes:
        sources: where they come from; empty where the very setting was measured.
    """

    seconds: float = 0.0
    low: float = 0.0
    high: float = 0.0
    sources: tuple[str, ...] = ()

    def __add__(self, other: ExpectedCost) -> ExpectedCost:
        return ExpectedCost(
            self.seconds + other.seconds,
            self.low + other.low,
            self.high + other.high,
            tuple(dict.fromkeys([*self.sources, *other.sources])),
        )


class RunKind(NamedTuple):
    """What runs of about the same pace have in common."""

    task: str
    model: str
    preset: str


class StepSize(NamedTuple):
    """What the FLOPs of a run's step are in proportion to.

    Attributes:
        task: the class of its task, which says what ``length`` means.
        length: of a sequence, as the task's settings have it.
        tokens: of a sequence that count in the loss; 1 of a run that was not made.
        work: for each position of all sequences.
    """

    task: str
    length: float
    tokens: float
    work: float

    @classmethod
    def of(cls, record: RunRecord) -> StepSize:
        """The size of a step of a run."""
        sequences = record.cost.training_steps * record.config["training"].get("batch_size", 1)
        tokens = max(1.0, record.cost.training_tokens / sequences)
        return cls.asked(record.config)._replace(tokens=tokens)

    @classmethod
    def asked(cls, config: Mapping[str, Any]) -> StepSize:
        """The size of a step of a run that was not made."""
        task = config["tasks"]
        return cls(str(task.get("_target_")), _number(task.get("length")), 1.0, _work(config))

    def over(self, other: StepSize) -> float:
        """FLOPs of a step, in those of another run's step."""
        length, theirs = self.length, other.length
        if self.task != other.task:  # they measure length in other words, or in none
            theirs = other.tokens
            length = length if length > 1 else theirs
        return length / theirs * self.work / other.work


class SimilarRun(NamedTuple):
    """A run, and the work of another one by it.

    Attributes:
        same: whether it has the model, the task and the preset of the other.
        ratio: FLOPs of the other's step, in those of a step of this run.
        flops: of the other's step.
        steps: of the other.
        trained: all runs that were to choose from.
    """

    record: RunRecord
    same: bool
    ratio: float
    flops: float
    steps: float
    trained: list[RunRecord]


class Speeds:
    """What was measured, ready to be asked for the cost of a run."""

    def __init__(self, records: Iterable[RunRecord]) -> None:
        self._measured: dict[str, list[RunRecord]] = defaultdict(list)
        self._of_task: dict[tuple[str, bool], list[RunRecord]] = defaultdict(list)
        for record in records:
            # The one step of an untrained run is mostly its start.
            if record.outcome in FINISHED and not is_untrained(record):
                self._measured[training_key(record.config, 0)].append(record)
                self._of_task[record.task, record.role == "baseline"].append(record)
        self._trained: list[RunRecord] = []
        for (_, baseline), runs in self._of_task.items():
            if not baseline:
                self._trained += [
                    r for r in runs if r.cost.training_flops and r.cost.training_steps
                ]
        self._of_kind: dict[RunKind, list[tuple[RunRecord, StepSize]]] = defaultdict(list)
        # Of runs whose steps are of one size the first stands for all.
        first = {
            (RunKind(r.task, r.model, r.preset), StepSize.of(r)): r
            for r in sorted(self._trained, key=lambda r: r.run_id, reverse=True)
        }
        for (kind, size), record in first.items():
            self._of_kind[kind].append((record, size))
        self._close: dict[tuple[str, ...], list[tuple[RunRecord, StepSize]]] = {}
        # Without their steps, which differ.
        self._nearest: dict[tuple[RunKind, StepSize], SimilarRun] = {}
        self._pace: dict[tuple[str, float], RunRecord] = {}
        self._known: dict[str, ExpectedCost] = {}
        self._asked: dict[
            tuple[str, str], ExpectedCost
        ] = {}  # by the run, to look up what is known

    def print_basis(self, runs: Sequence[PlannedRun]) -> None:
        """Say what the costs of runs rest on."""
        console().print(RATES, soft_wrap=True)

    def of(self, run: PlannedRun) -> ExpectedCost:
        """The cost of one run."""
        configuration = run.configuration
        run_key = configuration.preset, run.key
        if run_key not in self._asked:
            setting_key = f"0 {configuration.setting}"
            key = f"{run.role == 'baseline'} {configuration.preset} {setting_key}"
            if key not in self._known:
                self._known[key] = self._cost(configuration, setting_key, run.role == "baseline")
            self._asked[run_key] = self._known[key]
        return self._asked[run_key]

    def together(self, runs: Iterable[PlannedRun], paid: Iterable[str] = ()) -> ExpectedCost:
        """The cost of runs, of which each training is paid once and those ``paid`` not at all."""
        done, total = set(paid), ExpectedCost()
        for run in runs:
            if run.training not in done:
                done.add(run.training)
                total += self.of(run)
        return total

    def _cost(self, configuration: Configuration, key: str, predictors: bool) -> ExpectedCost:
        runs = self._of_task[configuration.task, predictors]
        if predictors:
            if not runs:
                return _around(10.0, BY_NOTHING, f"predictors of {configuration.task}, unmeasured")
            seconds_so_far = math.fsum(record.cost.wall_seconds for record in runs)
            seconds_of_all = seconds_so_far / len({record.identity for record in runs}) * PREDICTORS
            return ExpectedCost(seconds_of_all, seconds_of_all, seconds_of_all)
        same = self._measured.get(key)
        if same and configuration.preset not in GPU_PRESETS:
            seconds = [record.cost.wall_seconds for record in same]
            return ExpectedCost(median(seconds), min(seconds), max(seconds))
        if configuration.takes is not None:
            return self._measurement(configuration, runs)
        return self._training(configuration)

    def _measurement(self, configuration: Configuration, runs: list[RunRecord]) -> ExpectedCost:
        """A measurement counts no FLOPs: the seconds of its neighbours are all there is."""
        of_model = [record for record in runs if record.model == configuration.model]
        near = sorted(of_model or runs, key=lambda record: record.run_id)
        if not near:
            return _around(60.0, BY_NOTHING, f"{configuration.task}: never measured, a minute each")
        seconds = median(r.cost.wall_seconds for r in near)
        same_preset = near[0].preset == configuration.preset
        factor = BY_FLOPS if same_preset else BY_NOTHING
        return _around(seconds, factor, f"{configuration.task} as {near[0].run_id}")

    def nearest_by_work(self, configuration: Configuration) -> SimilarRun | None:
        """The run whose steps tell the FLOPs of a configuration's; None if nothing was trained."""
        if not self._trained:
            return None
        resolved = configuration.resolved()
        step = StepSize.asked(resolved)
        key = RunKind(configuration.task, configuration.model, configuration.preset), step
        if key not in self._nearest:  # trainings of other lengths and rates have steps of its size
            alike, same = self._nearest_of(*key)
            ratio, flops = step.over(StepSize.of(alike)), _flops(step, alike)
            self._nearest[key] = SimilarRun(alike, same, ratio, flops, math.nan, self._trained)
        nearest = self._nearest[key]
        steps = _steps(resolved, nearest.record) * configuration.training.restarts
        return nearest._replace(steps=steps)

    def _nearest_of(self, kind: RunKind, step: StepSize) -> tuple[RunRecord, bool]:
        """The run whose steps are most like those of a kind and a size, and whether it is of that
        kind."""

        def nearest(*first: str) -> RunRecord:
            """By what is first compared, then by the size of a step."""
            close = self._closest({name: str(getattr(kind, name)) for name in first})
            gaps = ((abs(math.log(step.over(size))), record) for record, size in close)
            return min(gaps, key=lambda gap: (gap[0], gap[1].run_id))[1]

        of_model, of_task = nearest("model", "task", "preset"), nearest("task", "model", "preset")
        if of_task.task != kind.task:  # never run: as many as it has in the middle of others
            runs_of_model = [r for r in self._trained if r.model == of_task.model]
            runs_of_model.sort(key=lambda r: (_flops(step, r), r.run_id))
            of_task = runs_of_model[len(runs_of_model) // 2]
        alike = of_model if _is_of_kind(of_model, kind) else of_task
        return alike, _is_of_kind(alike, kind)

    def _closest(self, wanted: Mapping[str, str]) -> list[tuple[RunRecord, StepSize]]:
        """Runs of the kinds that have most of what is wanted; what is first counts first."""
        key = (*wanted, *wanted.values())
        if key not in self._close:
            kinds_by_difference: dict[tuple[bool, ...], list[RunKind]] = defaultdict(list)
            for kind in self._of_kind:
                differs = tuple(getattr(kind, name) != value for name, value in wanted.items())
                kinds_by_difference[differs].append(kind)
            self._close[key] = []
            for kind in kinds_by_difference[min(kinds_by_difference)]:
                self._close[key] += self._of_kind[kind]
        return self._close[key]

    def _training(self, configuration: Configuration) -> ExpectedCost:
        nearest = self.nearest_by_work(configuration)
        if nearest is None:
            return _around(60.0, BY_NOTHING, "no training was measured, a minute each")
        alike, runs_alike, ratio, flops, steps, trained = nearest
        if configuration.preset in GPU_PRESETS:
            source = f"FLOPs as {alike.run_id}, at {GPU_RATE:.1e} FLOP/s"
            return _around(steps * flops / GPU_RATE, BY_RATE, source)
        if runs_alike:
            source = f"{'seconds a step' if ratio == 1.0 else 'FLOPs'} as {alike.run_id}"
            seconds = alike.cost.wall_seconds / alike.cost.training_steps * ratio
            return _around(steps * seconds, BY_STEPS if ratio == 1.0 else BY_FLOPS, source)

        key = configuration.model, flops
        if key not in self._pace:
            self._pace[key] = _of_that_size(trained, *key)
        pace = self._pace[key]
        seconds = flops * pace.cost.wall_seconds / (pace.cost.training_flops or math.inf)
        is_measured = (alike.task, pace.model) == (configuration.task, configuration.model)
        source = f"FLOPs as {alike.run_id}, pace as {pace.run_id}"
        return _around(steps * seconds, BY_FLOPS if is_measured else BY_NOTHING, source)


def _of_that_size(trained: Iterable[RunRecord], model: str, flops: float) -> RunRecord:
    """The run with the pace of such steps: of this model if there is one, whatever its task. A step
    too small to fill the processor is no measure of a larger one."""

    def gap(record: RunRecord) -> tuple[bool, float, str]:
        each = (record.cost.training_flops or 0.0) / record.cost.training_steps
        return record.model != model, abs(math.log(flops / each)), record.run_id

    return min(trained, key=gap)


def _is_of_kind(record: RunRecord, kind: RunKind) -> bool:
    """Whether a run is one of this model on this task at this preset."""
    return (record.task, record.model, record.preset) == kind


def _around(seconds: float, factor: float, source: str = "") -> ExpectedCost:
    return ExpectedCost(seconds, seconds / factor, seconds * factor, (source,) if source else ())


def _flops(step: StepSize, record: RunRecord) -> float:
    """FLOPs of a step of a size, from the step of a record."""
    cost = record.cost
    own_step = (cost.training_flops or 0.0) / cost.training_steps
    return own_step * step.over(StepSize.of(record))


def _work(config: Mapping[str, Any]) -> float:
    """FLOPs of a step for each position of a sequence, but for a constant."""
    models, training = config["models"], config["training"]
    sizes = [_number(models.get(name)) ** power for name, power in SIZES.items()]
    return float(training.get("batch_size", 1) * math.prod(sizes))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else 1.0


def _steps(resolved: Mapping[str, Any], nearest: RunRecord) -> float:
    """Steps of one training; how many an epoch has is known from a run with epochs."""
    training, other = resolved["training"], nearest.config["training"]
    if training["steps"] is not None:
        return float(training["steps"])
    each = nearest.cost.training_steps / other.get("restarts", 1) / (other.get("epochs") or 1)
    return each * training["epochs"] * other["batch_size"] / training["batch_size"]
