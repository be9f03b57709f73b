"""What a record measured and cost: known, in its range, and what else in the record says of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch
from functools import lru_cache

from bench.records.numbers import kind_of
from bench.records.schema import RunRecord
from core.amounts import amount
from core.statistics import Kind
from leaderboards.checks.naming import card_of

METRIC = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,=/-]{0,199}")
LARGEST_INTEGER = 2**63 - 1
LARGEST_COST = 1e30  # more floating-point operations than any machine has made
LONGEST_RUN = 1e9  # seconds, some 30 years
FASTEST = 1e19  # floating-point operations a second, ten times those of the fastest computer
FASTEST_CPU = 1e16  # ten times those of the matrix units of one server's processors
SMALLEST_PROCESS = 64 * 2**20  # bytes of one that has loaded what computes
SMALLEST_WEIGHT = 1  # bytes; of a frozen one that is quantised
LARGEST_SEED = 2**32 - 1  # that a run can have
ROUNDING = 1e-6  # of sums in another order


def _metrics(record: RunRecord) -> str | None:
    """The headline is the task's, and every number one that its card knows, within its range."""
    stated, headline = card_of(record.task), record.headline
    stated_headline = {"unit": "", **stated["headline"]} if "headline" in stated else {}
    for key, value in stated_headline.items():
        if getattr(headline, key) != value:
            return f"its headline.{key} is {getattr(headline, key)!a:.80}, not {value!a}"
    named = [(f"metrics.{split}", values) for split, values in record.metrics.items()]
    lists = [(f"{place}.{k}", k, [v]) for place, values in named for k, v in values.items()]
    lists += [(f"per_sequence.{k}", k, values) for k, values in record.per_sequence.items()]
    for place, name, values in lists:
        kind = kind_of(record.task, name)
        if not METRIC.fullmatch(name) or not _is_known(record.task, name):
            return f"its {place[:80]!a} is a metric that the task's card does not know"
        if not all_in_range(values, kind):
            wrong = next(value for value in values if not is_in_range(value, kind))
            return f"its {place} is {wrong:g}, and no {kind.name}"
    if set(record.metrics) - {"validation", "test"}:
        return "its metrics are of another split than validation and test"
    split = "validation" if record.role == "trial" else "test"
    measured = record.metrics.get(split, {}).get(headline.name)
    if record.outcome == "ok" and headline.value != measured:
        return f"its headline.value is {headline.value}, and not its {split} metric {headline.name}"
    if record.outcome == "ok" and headline.value is None:
        return "its headline.value is missing, and its outcome is ok"
    if (record.outcome == "ok") != (record.cause is None):
        return f"its outcome is {record.outcome}, and its cause {record.cause!a:.80}"
    return None


def is_in_range(value: float, kind: Kind) -> bool:
    """Whether a number of this kind can be that, but for the rounding of sums."""
    return kind.low - ROUNDING <= value <= kind.high + ROUNDING


def all_in_range(values: Sequence[float], kind: Kind) -> bool:
    """:func:`is_in_range` of all values, of which a record has thousands."""
    low, high = kind.low - ROUNDING, kind.high + ROUNDING
    return all(map(low.__le__, values)) and all(map(high.__ge__, values))


@lru_cache(maxsize=4096)
def _is_known(task: str, metric: str) -> bool:
    """Whether the card of a task knows a metric; one that says nothing of numbers knows all."""
    patterns: list[str] = []
    for names in card_of(task).get("numbers", {}).values():
        patterns += names
    return not patterns or any(fnmatch(metric, pattern) for pattern in patterns)


def _curves(record: RunRecord) -> str | None:
    for name, curve in record.curves.items():
        if len(curve.x) != len(curve.y):
            return f"its curve {name[:80]!a} has more x than y, or fewer"
        kind = kind_of(record.task, name)
        if not all_in_range(curve.y, kind):
            return f"its curve {name[:80]!a} holds a number that is no {kind.name}"
    return None


def _items(record: RunRecord) -> str | None:
    """Every sequence of the test set has its numbers, and of several test sets every one."""
    size = record.config["tasks"].get("test_size")
    if not isinstance(size, int) or size < 1:
        return None
    may_lack_items = card_of(record.task).get("items") == "some"
    for name, values in record.per_sequence.items():
        if len(values) % size and not (may_lack_items and len(values) < size):
            items = amount(len(values), "item")
            return f"its per_sequence.{name} has {items}, and its tasks.test_size {size}"
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
    work, on_cpu = cost.training_flops or 0.0, record.provenance.device_class == "cpu"
    fastest = FASTEST_CPU if on_cpu else FASTEST
    if cost.wall_seconds > LONGEST_RUN or (
        record.outcome == "ok" and work > fastest * cost.wall_seconds
    ):
        return f"its cost.wall_seconds is {cost.wall_seconds:g}, which no machine takes for it"
    least = max(SMALLEST_WEIGHT * cost.parameters, SMALLEST_PROCESS if on_cpu else 0)
    if cost.peak_memory_bytes is not None and cost.peak_memory_bytes < least:
        return f"its cost.peak_memory_bytes is {cost.peak_memory_bytes}, in which nothing runs"
    if cost.stacked is not None and cost.stacked < 1:
        return "its cost.stacked is less than the run itself"
    if record.role == "baseline" and (cost.parameters or cost.state_bytes):
        return "its cost has parameters or state_bytes, and a predictor has none"
    trials = len(record.study.trials) if record.study else 0
    if cost.tuning_trials != trials:
        return f"its cost.tuning_trials is {cost.tuning_trials}, and its study has {trials}"
    return None


RULES = (_metrics, _cost, _curves, _items)
