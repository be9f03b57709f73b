"""What a record measured and cost: known, in its range, and what else in the record says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from typing import Any

from bench.records.numbers import kind_of
from bench.records.schema import RunRecord
from ground.statistics import mean_of
from leaderboards.checks.naming import card_of

METRIC = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,=/-]{0,199}")
LARGEST_INTEGER = 2**63 - 1
LARGEST_COST = 1e30  # more floating-point operations than any machine has made
LONGEST_RUN = 1e9  # seconds, some 30 years
FASTEST = 1e19  # floating-point operations a second, ten times those of the fastest computer
LARGEST_SEED = 2**32 - 1  # that a run can have
MANY_ITEMS = 100
ROUNDING = 1e-6  # of sums in another order
ABOUT = 0.05  # of means that weigh items by their length
TAKES: dict[str, Callable[[list[float]], float]] = {  # a number of a list, as cards call it
    "mean": mean_of,
    "last": lambda values: values[-1],
    "middle": lambda values: values[len(values) // 2],
    "largest": max,
    "first in units of the mean": lambda values: values[0] / (mean_of(values) or 1.0),
}


def _metrics(record: RunRecord) -> str | None:
    """The headline is the task's, and every number one that its card knows, within its range."""
    stated, headline = card_of(record.task), record.headline
    known = {"unit": "", **stated["headline"]} if "headline" in stated else {}
    for key, value in known.items():
        if getattr(headline, key) != value:
            return f"its headline.{key} is {getattr(headline, key)!a:.80}, not {value!a}"
    named = [(f"metrics.{split}", values) for split, values in record.metrics.items()]
    lists = [(f"{place}.{k}", k, [v]) for place, values in named for k, v in values.items()]
    lists += [(f"per_sequence.{k}", k, values) for k, values in record.per_sequence.items()]
    for place, name, values in lists:
        kind = kind_of(record.task, name)
        if not METRIC.fullmatch(name) or not _is_stated(record.task, name):
            return f"its {place[:80]!a} is a metric that the task's card does not know"
        wrong = [v for v in values if not kind.low - ROUNDING <= v <= kind.high + ROUNDING]
        if wrong:
            return f"its {place} is {wrong[0]:g}, and no {kind.name}"
    if set(record.metrics) - {"validation", "test"}:
        return "its metrics are of another split than validation and test"
    split = "validation" if record.role == "trial" else "test"
    if headline.value != record.metrics.get(split, {}).get(headline.name):
        return f"its headline.value is {headline.value}, and not its {split} metric {headline.name}"
    if record.outcome != "ok" and headline.value is not None:
        return f"its outcome is {record.outcome}, and its headline.value {headline.value}"
    if (record.outcome == "ok") != (record.cause is None):
        return f"its outcome is {record.outcome}, and its cause {record.cause!a:.80}"
    return None


@cache
def _is_stated(task: str, metric: str) -> bool:
    """Whether the card of a task knows a metric; a card that says nothing of numbers knows all."""
    patterns = [p for some in card_of(task).get("numbers", {}).values() for p in some]
    return not patterns or any(fnmatch(metric, pattern) for pattern in patterns)


def follows(record: RunRecord) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The metrics that the card derives from what else the record holds, and how, only for the
    settings of the task that it names; any other metric that the items have too is about their
    mean."""
    stated = card_of(record.task).get("follows", {})
    for metric, how in stated.items():
        given = record.config["tasks"]
        if all(given.get(key) in allowed for key, allowed in how.get("only_with", {}).items()):
            yield metric, how
    for metric in record.per_sequence.keys() - stated.keys():
        yield metric, {"mean": f"per_sequence.{metric}", "within": ABOUT}


def derived(record: RunRecord) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The metrics for which the record holds what they follow from."""
    for metric, how in follows(record):
        _, place = next(iter(how.items()))
        if any(_values(record, place)):
            yield metric, how


def _follows(record: RunRecord) -> str | None:
    """A metric is what the card says that it follows from, in the same record. What has not learned
    is right in few sequences, by chance: the weights of these do not even out."""
    if record.outcome != "ok" or record.role in ("trial", "control"):
        return None
    for metric, how in follows(record):
        take, place = next(iter(how.items()))
        lists = [values for values in _values(record, place) if values]
        found = record.metrics["test"].get(metric)
        if not lists and record.role != "baseline":
            return f"it has no {place}, which its {metric} follows from"
        if not lists or found is None:
            continue
        expected, count = min(
            ((TAKES[take](values), len(values)) for values in lists),
            key=lambda one: abs(one[0] - found),
        )
        few = max(1.0, MANY_ITEMS / count) ** 0.5  # of which unequal weights even out less
        if abs(found - expected) > float(how["within"]) * few * max(1.0, abs(expected)):
            return f"its metrics.test.{metric} is {found}, and the {take} of {place} {expected:g}"
    return None


def _values(record: RunRecord, place: str) -> list[list[float]]:
    """The lists of numbers at a place: all curves or items of that name, each row of an array, or
    the metrics of that name together. A ``*`` in the place stands for any letters."""
    section, _, pattern = place.partition(".")
    held: dict[str, Mapping[str, Any]] = {
        "per_sequence": record.per_sequence,
        "curves": {name: curve.y for name, curve in record.curves.items()},
        "arrays": record.arrays,
        "metrics": record.metrics["test"],
    }
    found = [value for name, value in held[section].items() if fnmatch(name, pattern)]
    if section == "metrics":
        return [found]
    if section == "arrays":
        found = [row for array in found if isinstance(array, list) for row in array]
    return [row for row in found if isinstance(row, list) and all(map(_is_number, row))]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _curves(record: RunRecord) -> str | None:
    for name, curve in record.curves.items():
        if len(curve.x) != len(curve.y):
            return f"its curve {name[:80]!a} has more x than y, or fewer"
        kind = kind_of(record.task, name)
        if not all(kind.low - ROUNDING <= y <= kind.high + ROUNDING for y in curve.y):
            return f"its curve {name[:80]!a} holds a number that is no {kind.name}"
    return None


def _items(record: RunRecord) -> str | None:
    """Every sequence of the test set has its numbers, and of several test sets every one."""
    size = record.config["tasks"].get("test_size")
    if not isinstance(size, int) or size < 1:
        return None
    for name, values in record.per_sequence.items():
        if len(values) % size:
            return (
                f"its per_sequence.{name} has {len(values)} items, and its tasks.test_size {size}"
            )
    return None


def _cost(record: RunRecord) -> str | None:
    cost = record.cost
    if not 0 <= record.seed <= LARGEST_SEED:
        return f"its seed is not between 0 and {LARGEST_SEED}"
    for name, value in cost:
        if value is not None and not 0 <= value <= LARGEST_COST:
            return f"its cost.{name} is negative or larger than anything costs"
        if isinstance(value, int) and value > LARGEST_INTEGER:
            return f"its cost.{name} is larger than 64 bits hold"
    work = cost.training_flops or 0.0
    if cost.wall_seconds > LONGEST_RUN or (work and work > FASTEST * cost.wall_seconds):
        return f"its cost.wall_seconds is {cost.wall_seconds:g}, which no machine takes for it"
    if cost.stacked is not None and cost.stacked < 1:
        return "its cost.stacked is less than the run itself"
    if record.role == "baseline" and (cost.parameters or cost.state_bytes):
        return "its cost has parameters or state_bytes, and a predictor has none"
    if cost.position_parameters > cost.parameters:
        return "its cost.position_parameters are more than its parameters"
    trials = len(record.study.trials) if record.study else 0
    if cost.tuning_trials != trials:
        return f"its cost.tuning_trials is {cost.tuning_trials}, and its study has {trials}"
    return None


RULES = (_metrics, _cost, _curves, _items, _follows)
