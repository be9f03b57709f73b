"""What the numbers of a record are: their kind, and the test items that they were measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from functools import cache

from bench.records.schema import RunRecord
from ground.statistics import KINDS, REAL, Items, Kind, deviation_of, mean_of
from settings.config import card, choices


@cache
def kind_of(task: str, metric: str) -> Kind:
    """The kind of a metric, as the card of its task states it under ``numbers``; a real number of
    unknown range where no card does.

    Example: ``kind_of("regbench", "tvd")`` is a share.
    """
    for name, patterns in _stated(task).items():
        if any(fnmatch(metric, pattern) for pattern in patterns):
            return KINDS[name]
    return REAL


@cache  # a card takes a hundredth of a second to read, and a board has hundreds of metrics
def _stated(task: str) -> Mapping[str, Sequence[str]]:
    numbers: Mapping[str, Sequence[str]] = {}
    if task in choices("tasks"):
        numbers = card("tasks", task).get("numbers", {})
    return numbers


def items_of(records: Sequence[RunRecord], metric: str, minus: str = "") -> Items | None:
    """The test items behind a metric of some seeds of one setting; None where the records hold no
    number for each, or where not all seeds were measured on the same ones.

    Args:
        minus: a second metric of the same items, which is subtracted from the first.
    """
    kept = [record for record in records if record.outcome == "ok"]
    rows = [record.per_sequence.get(metric, []) for record in kept]
    if minus:
        less = [record.per_sequence.get(minus, []) for record in kept]
        rows = [
            [a - b for a, b in zip(*pair, strict=True)] for pair in zip(rows, less, strict=True)
        ]
    drawn = {record.provenance.data.get("test", "") for record in records}
    if not rows or not rows[0] or len({len(row) for row in rows}) > 1 or len(drawn) > 1:
        return None
    items = tuple(mean_of(column) for column in zip(*rows, strict=True))
    count = len(items)
    variance = deviation_of(items) ** 2 / count
    return Items(count, variance, _residual(rows, items), "test sequences", items, drawn.pop())


def _residual(rows: Sequence[Sequence[float]], items: Sequence[float]) -> float:
    """The variance of the mean that comes from chance in each seed and item: what is left of the
    table of seeds by items without the means of both."""
    seeds, count = len(rows), len(items)
    if seeds < 2 or count < 2:
        return 0.0
    centre = mean_of(items)
    squares = 0.0
    for row in rows:
        own = mean_of(row) - centre
        squares += sum((x - own - item) ** 2 for x, item in zip(row, items, strict=True))
    return squares / ((seeds - 1) * (count - 1)) / (seeds * count)
