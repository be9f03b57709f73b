"""What the trainings of a plan would take on a device, each alone and as stacks.

Nothing is trained: a step of each shape is counted (:mod:`bench.roofline.training`) and put on the
device's rates (:mod:`bench.roofline.seconds`). Seconds are of trainings, with their validations
where these could be counted; the evaluation at a run's end and the time of workers to start are not
in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

from bench.config.samplers import tried
from bench.config.settings import LARGEST_STACK, Configuration
from bench.roofline.devices import HERE, NOTHING, Device, Span, device_like, total
from bench.roofline.here import measure_here
from bench.roofline.schedule import Chain
from bench.roofline.seconds import seconds, without_launches
from bench.roofline.training import CountedTraining, Counter
from bench.runs.together import MOST_ON_A_GPU, by_shape, shape_of, together_of
from bench.search.plan import Entry
from bench.training.building import build_task, resolve_device
from core.errors import UserError


@dataclass(frozen=True)
class Training:
    """One training on a device, alone.

    Attributes:
        seconds: with its validations.
        bare: the same as if launches and the making of batches took no time.
        elsewise: in other precisions that the device has rates for, both of these.
        flops: forward and backward, without validations.
        memory: bytes of tensors.
    """

    seconds: Span
    bare: Span
    elsewise: Mapping[str, tuple[Span, Span]]
    flops: float
    tokens: float
    parameters: int
    memory: float

    def plus(self, other: Training) -> Training:
        """Both, one after the other, on the same device: sums, and the larger model."""
        elsewise = {}
        for precision, (seconds_there, bare_there) in other.elsewise.items():
            alone, bare = self.elsewise[precision]
            elsewise[precision] = alone.plus(seconds_there), bare.plus(bare_there)
        return Training(
            self.seconds.plus(other.seconds),
            self.bare.plus(other.bare),
            elsewise,
            self.flops + other.flops,
            self.tokens + other.tokens,
            max(self.parameters, other.parameters),
            max(self.memory, other.memory),
        )


@dataclass(frozen=True)
class Forecast:
    """The trainings of one model of a sweep.

    Attributes:
        alone: device-seconds if each is trained alone.
        stacked: with ``sweep.stack=stack``, as the driver puts stacks together: of trials of one
            shape, and of final runs whose batches have one shape.
        bare: as if launches took no time; less than this no stack takes.
        elsewise: precision -> ``alone`` and ``bare`` in it.
        chain: of the schedule, each alone.
        stack: most trainings together.
        memory: of the largest training alone.
        refused: trials that cannot be made.
    """

    alone: Span
    stacked: Span
    bare: Span
    elsewise: Mapping[str, tuple[Span, Span]]
    chain: Chain
    stack: int
    flops: float
    tokens: float
    parameters: tuple[int, int]
    memory: float
    stacked_memory: float
    refused: int = 0


class Forecaster:
    """Forecasts for one device; what is counted of one model serves others of its shape."""

    def __init__(self, device: Device, make_data: bool = True) -> None:
        self.device = device
        self.counter = Counter(device.name == HERE, make_data)
        self._known: dict[tuple[str, int], Training] = {}

    def training(self, configuration: Configuration, together: int = 1) -> Training:
        """One training; of ``together`` as one, the share of each.

        Raises:
            UserError: it cannot be counted, or the device has no rate for its precision.
        """
        shape = shape_of(configuration) or json.dumps(configuration.resolved(), sort_keys=True)
        if (shape, together) not in self._known:
            self._known[shape, together] = self._training(configuration, together)
        return self._known[shape, together]

    def _training(self, configuration: Configuration, together: int) -> Training:
        counted, device = self.counter.count(configuration), self.device
        precision = configuration.training.precision
        if precision not in device.corners:
            precisions = ", ".join(device.corners)
            raise UserError(f"{device.label} has no rates for {precision}: it has {precisions}")
        spans = {name: self._seconds(counted, name, together) for name in device.corners}
        alone, bare = spans.pop(precision)
        return Training(
            alone,
            bare,
            spans,
            counted.step.flops * counted.steps,
            counted.tokens * counted.steps,
            counted.parameters,
            counted.memory * together,
        )

    def _seconds(
        self, counted: CountedTraining, precision: str, together: int
    ) -> tuple[Span, Span]:
        """Seconds of a training, and of its work alone."""
        device = self.device
        update = counted.stacked_update() if together > 1 else counted.update
        batch_making = Span(*(counted.batch_seconds,) * 3)
        step = seconds(counted.step, device, precision, together).plus(batch_making)
        step = step.plus(seconds(update, device, precision, together))
        bare_step = without_launches(counted.step, device, precision)
        trained = step.times(counted.steps / together), bare_step.times(counted.steps)
        if counted.check is None:
            return trained
        # Validation is each member's own.
        checks = seconds(counted.check, device, precision).times(counted.checks)
        bare = without_launches(counted.check, device, precision).times(counted.checks)
        return trained[0].plus(checks), trained[1].plus(bare)

    def model(self, entry: Entry) -> Forecast:
        """All trials and final runs of one model.

        Raises:
            UserError: none of them can be made.
        """
        configuration = entry.configuration
        sweep = configuration.sweep
        settings = tried(entry.space, sweep.sampler, sweep.n_trials, configuration.seed)
        trials: list[Configuration] = []
        costs: list[Training] = []
        refusal: UserError | None = None
        for setting in settings:
            try:
                trial = entry.at(setting)
                costs.append(self.training(trial))
                trials.append(trial)
            except UserError as error:
                refusal = error
        if not costs:
            raise refusal or UserError(f"{configuration.label} has no trial")
        alone = [cost.seconds for cost in costs]
        lows, likelies, highs = zip(*alone, strict=True)
        # Which setting the search chooses is not known: the first final run has its weights.
        final = Span(min(lows), sum(likelies) / len(costs), max(highs))
        finals = [final] * (sweep.finals - 1)
        of_trials = reduce(Training.plus, costs)
        with_finals = 1 + len(finals) / len(costs)
        stacked, together = self._stacked(trials, configuration)
        ends = total(finals)
        most = self._most(configuration)
        if most > 1 and len(finals) > 1 and _one_shape_of_batches(trials[0].final_runs()):
            stack = self._most(configuration, len(finals))
            faster = self.training(trials[0], stack).seconds.likely / alone[0].likely
            ends = ends.times(min(1.0, faster))
        elsewise = {}
        for precision, (in_precision, bare) in of_trials.elsewise.items():
            elsewise[precision] = in_precision.times(with_finals), bare.times(with_finals)
        return Forecast(
            alone=of_trials.seconds.plus(total(finals)),
            stacked=stacked.plus(ends),
            bare=of_trials.bare.times(with_finals),
            elsewise=elsewise,
            chain=[alone, finals],
            stack=together,
            flops=of_trials.flops * with_finals,
            tokens=of_trials.tokens * with_finals,
            parameters=(min(cost.parameters for cost in costs), of_trials.parameters),
            memory=of_trials.memory,
            stacked_memory=of_trials.memory * together,
            refused=len(settings) - len(costs),
        )

    def _most(self, configuration: Configuration, present: int = LARGEST_STACK) -> int:
        """How many of ``present`` runs of one shape are trained together."""
        if shape_of(configuration) is None:
            return 1
        if self.device.assumed and configuration.sweep.stack in (None, "auto"):
            return min(MOST_ON_A_GPU, present)
        return together_of(configuration, present)

    def _stacked(
        self, trials: Sequence[Configuration], configuration: Configuration
    ) -> tuple[Span, int]:
        """Device-seconds of trials in stacks, where stacking is expected to be faster; and the
        largest stack."""
        total_seconds, largest = NOTHING, 1
        for places in by_shape(trials):
            waiting = [trials[place] for place in places]
            while waiting:
                size = self._most(configuration, len(waiting))
                members, waiting = waiting[:size], waiting[size:]
                alone = self.training(members[0]).seconds
                in_stack = self.training(members[0], len(members)).seconds if members[1:] else alone
                if in_stack.likely >= alone.likely:
                    in_stack = alone
                else:
                    largest = max(largest, len(members))
                total_seconds = total_seconds.plus(in_stack.times(len(members)))
        return total_seconds, largest


def _one_shape_of_batches(runs: Sequence[Configuration]) -> bool:
    """Whether the first batches of all of them are of one shape."""
    shapes = set()
    for run in runs:
        batch = build_task(run).training_batch(run.seed, 0, run.training.batch_size)
        shapes.add(batch.inputs.shape)
    return len(shapes) == 1


@lru_cache
def forecaster_of(name: str, threads: int = 1, device: str = "auto") -> Forecaster:
    """The forecaster of a device of the cards, or of this machine, whose rates are measured then.

    Raises:
        UserError: there is none of that name.
    """
    if name != HERE:
        return Forecaster(device_like(name))
    return Forecaster(measure_here(resolve_device(device), threads))
