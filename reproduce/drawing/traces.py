"""Traces read from run records, with what belongs to them: means, intervals, seeds, failed runs.

Example: the accuracy of a model against the number of pairs, and against training steps::

    by_pairs = {n: [run for run in runs if run.config["tasks"]["pairs"] == n] for n in (4, 8, 16)}
    over_seeds("LSTM", by_pairs, metric("accuracy"), mark="both", colour="lstm")
    curve_over_seeds("LSTM", runs, "validation_loss", colour="lstm")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from bench.records import numbers
from bench.records.schema import Curve, RunRecord
from core.statistics import Mean, mean_interval
from reproduce.claims.grammar import metric
from reproduce.claims.observations import by_seed
from reproduce.plotting.panels import Trace

Value = Callable[[RunRecord], float | None]
X = TypeVar("X", bound=float)
Summarise = Callable[[Sequence[float | None]], Mean]


def summary(runs: Sequence[RunRecord], value: str | Value) -> Mean:
    """Mean and interval over the seeds of one setting; of a metric by its kind and with its test
    items, as in verdicts."""
    read, name = (metric(value), value) if isinstance(value, str) else (value, "")
    return numbers.over_seeds(runs, list(map(read, runs)), name)


def over_seeds(
    name: str, runs_by_x: Mapping[X, Iterable[RunRecord]], value: str | Value, **look: Any
) -> Trace:
    """A number of every seed at every x, with means and intervals; x without a run are left out.

    Args:
        runs_by_x: of several runs of one seed at one x the last one made counts.
        value: a metric of the test split, or what reads the number: None where a run gave none;
            such a run is marked as failed.
        look: any other attribute of :class:`Trace`.
    """
    read = metric(value) if isinstance(value, str) else value
    values_by_x: dict[X, dict[int, float | None]] = {}
    means, failed = [], []
    for x, runs_at_x in runs_by_x.items():
        runs = by_seed(runs_at_x)
        if not runs:
            continue
        values_by_x[x] = {run.seed: read(run) for run in runs}
        means.append(summary(runs, value))
        if None in values_by_x[x].values():
            failed.append(x)
    return _points(name, values_by_x, means, failed=failed, **look)


def over_draws(
    name: str,
    values_by_x: Mapping[X, Sequence[float | None]],
    summarise: Summarise = mean_interval,
    **look: Any,
) -> Trace:
    """Numbers at every x that are no seeds of runs, such as draws within one run."""
    means = list(map(summarise, values_by_x.values()))
    return _points(name, {x: dict(enumerate(v)) for x, v in values_by_x.items()}, means, **look)


def _points(
    name: str,
    values_by_x: Mapping[X, Mapping[int, float | None]],
    means: Sequence[Mean],
    **look: Any,
) -> Trace:
    """Means at every x, and the number that each seed or trial has there."""
    by_seed: dict[str, list[float | None]] = {}
    for seed in sorted(set().union(*values_by_x.values())):
        by_seed[str(seed)] = [values.get(seed) for values in values_by_x.values()]
    return Trace(
        name=name,
        x=tuple(values_by_x),
        y=[mean.mean for mean in means],
        interval=[mean.interval for mean in means],
        seeds=by_seed,
        **{"mark": "both", **look},
    )


def curve_over_seeds(
    name: str,
    runs: Iterable[RunRecord],
    curve: str | Callable[[RunRecord], Curve | None],
    **look: Any,
) -> Trace:
    """A curve of every seed and their mean, at the x that all seeds have.

    Args:
        curve: its name in the records, or what reads it; None where a run has none.
    """
    y_by_seed: dict[int, dict[float, float | None]] = {}
    for run in by_seed(runs):
        of_run = run.curves.get(curve) if isinstance(curve, str) else curve(run)
        if of_run is not None and of_run.x:
            y_by_seed[run.seed] = dict(zip(of_run.x, of_run.y, strict=True))
    x = sorted(set.intersection(*map(set, y_by_seed.values()))) if y_by_seed else []
    seeds = {}
    for seed, values in y_by_seed.items():
        seeds[str(seed)] = [values[at] for at in x]
    means = list(map(_mean, zip(*seeds.values(), strict=True)))
    return Trace(name, x, means, seeds=seeds if len(seeds) > 1 else {}, **look)


def _mean(values: Sequence[float | None]) -> float | None:
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else None


def over_metrics(
    name: str, runs: Sequence[RunRecord], metrics: Mapping[int, str], **look: Any
) -> Trace:
    """Several metrics of the same runs, by their place on the axis, as one line: the mean of each
    with its interval. A metric that no run has is left out."""
    places, y, intervals = [], [], []
    for place, name_of_metric in metrics.items():
        mean = summary(runs, name_of_metric)
        if mean.mean is not None:
            places.append(place)
            y.append(mean.mean)
            intervals.append(mean.interval)
    return Trace(name, places, y, intervals, mark="both", **look)


def level(name: str, y: float, x: Sequence[float], **look: Any) -> Trace:
    """A horizontal line from the first x to the last, with an entry in the legend."""
    return Trace(name, x, [y] * len(x), **{"role": "reference", **look})


def published(name: str, points: Iterable[tuple[float, float | None]], **look: Any) -> Trace:
    """Published points, hollow and dashed."""
    known_points = [point for point in points if point[1] is not None]
    x, y = zip(*known_points, strict=True) if known_points else ((), ())
    return Trace(name, x, y, **{"role": "published", "mark": "both", **look})
