"""One number over seeds, read from run records, in which no failed run is lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from bench.records.numbers import by_data_seed, data_seed
from bench.records.schema import RunRecord
from core.statistics import (
    LEVEL,
    REAL,
    ROUNDING,
    SHARE,
    Interval,
    Items,
    Kind,
    interval_of,
    mean_of,
)

Read = Callable[[RunRecord], float | None]


@dataclass(frozen=True)
class Observation:
    """What one seed says about a number.

    Attributes:
        low, high: equal where the number is known; a run that gave none says only that it lies
            between them.
        failure: how a run without a number ended.
    """

    seed: int
    low: float
    high: float
    failure: str | None = None

    @property
    def known(self) -> bool:
        """Whether there is a single number."""
        return self.low == self.high


@dataclass(frozen=True)
class Sample:
    """A number over seeds.

    Attributes:
        deterministic: no seed enters it, so that one value is exact.
        data_seeds: whether an observation is the mean over the training seeds of one data seed. New
            data come with new training seeds and new items, so that the spread over data seeds
            holds the variances of all three.
        kind: what its intervals are made by.
        items: the test items that each seed was measured on, as far as the records hold them.
    """

    label: str
    observations: tuple[Observation, ...]
    deterministic: bool = False
    kind: Kind = REAL
    items: Items | None = None
    data_seeds: bool = False

    @property
    def values(self) -> list[float]:
        """The known numbers."""
        return [item.low for item in self.observations if item.known]

    @property
    def failures(self) -> list[str]:
        """One clause for each seed whose run gave no number."""
        return [
            f"{self.label} {'data seed' if self.data_seeds else 'seed'} {item.seed} {item.failure}"
            for item in self.observations
            if item.failure
        ]

    def possibilities(self) -> Iterator[list[float]]:
        """What the numbers may have been: every split of the unknown ones between the ends of
        their ranges. Between its ends an unknown number moves an interval less than at them."""
        unknown = [item for item in self.observations if not item.known]
        for raised in range(len(unknown) + 1):
            ends = [item.high for item in unknown[:raised]] + [
                item.low for item in unknown[raised:]
            ]
            yield self.values + ends

    def interval(self, values: Sequence[float], level: float) -> Interval | None:
        """The interval of the mean of some of the :meth:`possibilities`; a point if it is exact.

        Equal seeds do not tell how far others would lie, so they decide nothing. But below the
        level of a verdict, where it is asked what a control leans to, they lean to what they are;
        what ties with a limit lies on neither side of it.
        """
        if self.deterministic:
            return Interval(min(values), max(values))
        interval = interval_of(values, self.kind, self.items, level)
        if interval is None and level < LEVEL and len(values) > 1:
            return Interval(mean_of(values) - ROUNDING, mean_of(values) + ROUNDING)
        return interval


def latest(records: Iterable[RunRecord], key: Callable[[RunRecord], Hashable]) -> list[RunRecord]:
    """The record that was started last, of all with an equal ``key``; sorted by run id.

    A run that was made again, with newer code or another tuned setting, is not another seed.
    """
    newest: dict[Hashable, RunRecord] = {}
    for record in records:
        other = newest.setdefault(key(record), record)
        if other is not record and _started(other) <= _started(record):
            newest[key(record)] = record
    return sorted(newest.values(), key=attrgetter("run_id"))


def _started(record: RunRecord) -> tuple[str, str]:
    return record.provenance.started_at, record.run_id


def latest_of_task(
    records: Iterable[RunRecord], task: str, variant: Callable[[RunRecord], Hashable]
) -> list[RunRecord]:
    """All runs of a task and its predictors, the last made of each model, variant and seed."""
    runs = [record for record in records if record.task == task]
    return latest(runs, key=lambda r: (r.model, r.role, r.seed, r.label, variant(r)))


def by_seed(records: Iterable[RunRecord]) -> list[RunRecord]:
    """The latest run of each training seed of each data seed, in this order."""
    key = lambda r: (data_seed(r), r.seed)  # noqa: E731
    return sorted(latest(records, key), key=key)


def observe(
    label: str,
    records: Iterable[RunRecord],
    value: Read,
    kind: Kind = SHARE,
    diverged: float | None = None,
    items: Items | None = None,
    bounds: tuple[float, float] | None = None,
) -> Sample:
    """One observation for each seed, or for each data seed where there are several; of several
    records of one seed the last one made counts.

    Args:
        value: reads the number; None where the record lacks it.
        kind: what sort of number it is.
        diverged: the number that a diverged run stands for; without it, it may have been anything.
            A failure must not support a claim: give the worst value for the model that a claim
            favours, and nothing for its rivals or where the claim is that a bad value is found.
        bounds: range of the number for the runs that gave none, where it is narrower than that of
            its kind.
    """
    parts = by_data_seed(by_seed(records))
    bounds = bounds or (kind.low, kind.high)
    by_part = [_observed(runs, value, bounds, diverged) for runs in parts]
    if len(parts) > 1:
        means = (_mean(runs, part) for runs, part in zip(parts, by_part, strict=True))
        return Sample(label, tuple(means), kind=kind, items=items, data_seeds=True)
    runs = [record for part in parts for record in part]
    deterministic = bool(runs) and all(record.role == "baseline" for record in runs)
    observations = tuple(observation for part in by_part for observation in part)
    return Sample(label, observations, deterministic, kind, items)


def _mean(runs: Sequence[RunRecord], observations: Sequence[Observation]) -> Observation:
    """One observation of a data seed: the mean over its training seeds."""
    lost = [f"run {seed.seed} {seed.failure}" for seed in observations if seed.failure]
    low = mean_of([seed.low for seed in observations])
    high = mean_of([seed.high for seed in observations])
    return Observation(data_seed(runs[0]), low, high, "; ".join(lost) or None)


def _observed(
    runs: Sequence[RunRecord], value: Read, bounds: tuple[float, float], diverged: float | None
) -> list[Observation]:
    """One observation for each run."""
    low, high = bounds
    observations = []
    for record in runs:
        seed = record.seed
        number = value(record) if record.outcome == "ok" else None
        if number is not None and math.isfinite(number):
            observations.append(Observation(seed, float(number), float(number)))
        elif record.outcome == "diverged" and diverged is not None:
            observations.append(Observation(seed, diverged, diverged, how_it_ended(record)))
        else:
            observations.append(Observation(seed, low, high, how_it_ended(record)))
    return observations


def how_it_ended(record: RunRecord) -> str:
    """The end of a run that gave no number, as a clause: "diverged (loss not finite at step 3)"."""
    ending = {
        "ok": "has no such number in its record",
        "diverged": "diverged",
        "out_of_memory": "ran out of memory",
        "interrupted": "was interrupted",
        "failed": "failed",
    }[record.outcome]
    return f"{ending} ({record.cause})" if record.cause else ending
