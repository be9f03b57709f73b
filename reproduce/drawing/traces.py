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
from reproduce.plotting import models
from reproduce.plotting.panels import Trace

Value = Callable[[RunRecord], float | None]
X = TypeVar("X", bound=float)
Summarise = Callable[[Sequence[float | None]], Mean]


def summary(runs: Sequence[RunRecord], value: str | Value) -> Mean:
    """Mean and interval over the seeds of one setting; of a metric by its kind and with its test
    items, as in verdicts."""
    read, name = (metric(value), value) if isinstance(value, str) else (value, "")
    return numbers.over_seeds(runs, [read(run) for run in runs], name)


def over_seeds(
    name: str,
    runs_by_x: Mapping[X, Iterable[RunRecord]],
    value: str | Value,
    summarise: Summarise | None = None,
    **look: Any,
) -> Trace:
    """A number of every seed at every x, with means and intervals; x without a run are left out.

    Args:
        runs_by_x: of several runs of one seed at one x the last one made counts.
        value: a metric of the test split, or what reads the number: None where a run gave none;
            such a run is marked as failed.
        summarise: gives mean and interval in another way than :func:`summary`.
        look: any other attribute of :class:`Trace`.
    """
    by_x = {x: by_seed(runs) for x, runs in runs_by_x.items()}
    by_x = {x: runs for x, runs in by_x.items() if runs}
    read = metric(value) if isinstance(value, str) else value
    found = {x: {run.seed: read(run) for run in runs} for x, runs in by_x.items()}
    means = [
        summarise(list(found[x].values())) if summarise else summary(runs, value)
        for x, runs in by_x.items()
    ]
    failed = tuple(x for x, values in found.items() if None in values.values())
    return _points(name, found, means, failed=failed, **look)


def over_draws(
    name: str,
    values_by_x: Mapping[X, Sequence[float | None]],
    summarise: Summarise = mean_interval,
    **look: Any,
) -> Trace:
    """Numbers at every x that are no seeds of runs, such as draws within one run."""
    means = [summarise(values) for values in values_by_x.values()]
    return _points(name, {x: dict(enumerate(v)) for x, v in values_by_x.items()}, means, **look)


def _points(
    name: str, found: Mapping[X, Mapping[int, float | None]], means: Sequence[Mean], **look: Any
) -> Trace:
    """Means at every x, and the number that each seed or trial has there."""
    seeds = sorted({seed for values in found.values() for seed in values})
    return Trace(
        name=name,
        x=tuple(found),
        y=[one.mean for one in means],
        interval=[one.interval for one in means],
        seeds={str(seed): [values.get(seed) for values in found.values()] for seed in seeds},
        **{"mark": "both", **look},
    )


def curve_over_seeds(
    name: str,
    runs: Iterable[RunRecord],
    curve: str | Callable[[RunRecord], Curve | None],
    summarise: Summarise | None = None,
    **look: Any,
) -> Trace:
    """A curve of every seed and their mean, at the x that all seeds have.

    Args:
        curve: its name in the records, or what reads it; None where a run has none.
        summarise: with it the mean has an interval at each x.
    """
    read = (lambda run: run.curves.get(curve)) if isinstance(curve, str) else curve
    every = {run.seed: read(run) for run in by_seed(runs)}
    found = {seed: one for seed, one in every.items() if one is not None and one.x}
    x = sorted(set.intersection(*(set(one.x) for one in found.values()))) if found else []
    values = {seed: dict(zip(one.x, one.y, strict=True)) for seed, one in found.items()}
    seeds = {seed: [of[place] for place in x] for seed, of in values.items()}
    columns = list(zip(*seeds.values(), strict=True))
    means = [(summarise or _mean)(column) for column in columns]
    return Trace(
        name=name,
        x=x,
        y=[one.mean for one in means],
        interval=[one.interval for one in means] if summarise else (),
        seeds={str(seed): values for seed, values in seeds.items()} if len(seeds) > 1 else {},
        **look,
    )


def _mean(values: Sequence[float | None]) -> Mean:
    known = [value for value in values if value is not None and math.isfinite(value)]
    mean = math.fsum(known) / len(known) if known else None
    return Mean(mean, None, None, len(known), len(values) - len(known))


def over_metrics(
    name: str, runs: Sequence[RunRecord], metrics: Mapping[int, str], **look: Any
) -> Trace:
    """Several metrics of the same runs, by their place on the axis, as one line: the mean of each
    with its interval. A metric that no run has is left out."""
    means = {x: summary(runs, one) for x, one in metrics.items()}
    known = {x: one for x, one in means.items() if one.mean is not None}
    y, intervals = [one.mean for one in known.values()], [one.interval for one in known.values()]
    return Trace(name, [*known], y, intervals, mark="both", **look)


def dots(
    runs_by_model: Mapping[str, Iterable[RunRecord]], value: str | Value, **look: Any
) -> list[Trace]:
    """A dot for each model at the places 0, 1, 2 … of an axis of categories, in its own colour."""
    return [
        over_seeds(
            models.label(model), {place: runs}, value, **{"mark": "dots", "colour": model, **look}
        )
        for place, (model, runs) in enumerate(runs_by_model.items())
    ]


def level(name: str, y: float, x: Sequence[float], **look: Any) -> Trace:
    """A horizontal line from the first x to the last, with an entry in the legend."""
    return Trace(name, x, [y] * len(x), **{"role": "reference", **look})


def published(name: str, points: Iterable[tuple[float, float | None]], **look: Any) -> Trace:
    """Published points, hollow and dashed."""
    known = [(x, y) for x, y in points if y is not None]
    return Trace(
        name,
        [x for x, _ in known],
        [y for _, y in known],
        **{"role": "published", "mark": "both", **look},
    )
