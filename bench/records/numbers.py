"""What the numbers of a record are: their kind, and the test items that they were measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from math import fsum

from bench.config.groups import task_card
from bench.records.schema import RunRecord
from core.components import Components, Table, components, residual_of
from core.statistics import KINDS, REAL, Items, Kind, Mean, deviation_of, mean_interval, mean_of


@cache
def kind_of(task: str, metric: str) -> Kind:
    """The kind of a metric, as the card of its task states it under ``numbers``; a real number of
    unknown range where no card does.

    Example: ``kind_of("regbench", "tvd")`` is a share.
    """
    for name, patterns in _numbers_of_card(task).items():
        if any(fnmatch(metric, pattern) for pattern in patterns):
            return KINDS[name]
    return REAL


@cache  # a card takes a hundredth of a second to read, and a board has hundreds of metrics
def _numbers_of_card(task: str) -> Mapping[str, Sequence[str]]:
    numbers: Mapping[str, Sequence[str]] = task_card(task).get("numbers", {})
    return numbers


def data_seed(record: RunRecord) -> int:
    """The seed that a run's data were drawn with; 0 where its task draws none."""
    return int(record.config.get("tasks", {}).get("data_seed") or 0)


def by_data_seed(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """The runs of each data seed, in the order of these."""
    runs: dict[int, list[RunRecord]] = {}
    for record in records:
        runs.setdefault(data_seed(record), []).append(record)
    return [runs[seed] for seed in sorted(runs)]


def over_seeds(
    records: Sequence[RunRecord],
    values: Sequence[float | None],
    metric: str = "",
    curve: bool = False,
) -> Mean:
    """Mean and interval of a number of the runs of one row.

    Data of another seed bring new training seeds and new test items with them. Runs of several data
    seeds therefore count as one number each: the spread of these holds the variances between data
    seeds, between training seeds within them, and of items (the nested analysis of variance).

    Args:
        values: one for each record; None where a run gave none.
        curve: they are of one point of a curve, whose items no record holds.
    """
    items = items_of(records, metric) if metric and not curve else None
    return over_seeds_and_items(records, values, metric, items)


def over_seeds_and_items(
    records: Sequence[RunRecord], values: Sequence[float | None], metric: str, items: Items | None
) -> Mean:
    """:func:`over_seeds` where the items are known already."""
    kind = kind_of(records[0].task, metric) if records else REAL
    parts = by_data_seed(records)
    if len(parts) < 2:
        return mean_interval(values, kind, items)
    value_by_run = {r.run_id: v for r, v in zip(records, values, strict=True) if v is not None}
    values_by_data = []
    for part in parts:
        of_part = [value_by_run[run.run_id] for run in part if run.run_id in value_by_run]
        values_by_data.append(of_part)
    return over_seeds_by_data(values_by_data, kind, items)


def over_seeds_by_data(
    values: Sequence[Sequence[float]], kind: Kind, items: Items | None = None
) -> Mean:
    """:func:`over_seeds` of the numbers of the runs of each data seed, of a known kind."""
    if len(values) == 1:
        return mean_interval(values[0], kind, items)
    return mean_interval([mean_of(part) if part else None for part in values], kind, items)


def items_of(records: Sequence[RunRecord], metric: str, minus: str = "") -> Items | None:
    """The test items behind a metric of one row; None where the records hold no number for each,
    or where not all runs of a data seed were measured on the same ones.

    Args:
        minus: a second metric of the same items, which is subtracted from the first.
    """
    parts = by_data_seed(records)
    if len(parts) > 1:
        return drawn_anew([items_of(part, metric, minus) for part in parts])
    rows = _table(records, metric, minus)
    drawn = {record.provenance.data.get("test", "") for record in records}
    if rows is None or len(drawn) > 1:
        return None
    totals = map(fsum, zip(*rows, strict=True))  # thousands of columns: no call for each
    runs = len(rows)
    items = tuple([total / runs for total in totals])
    count = len(items)
    variance = deviation_of(items) ** 2 / count
    return Items(count, variance, residual_of(rows), "test sequences", items, drawn.pop())


def drawn_anew(items: Sequence[Items | None]) -> Items | None:
    """The items of several data seeds: the spread over these holds their variance."""
    counted = [part for part in items if part is not None]
    if len(counted) < len(items):
        return None
    name = f"{counted[0].name} of {len(counted)} data seeds"
    return Items(sum(part.count for part in counted), 0.0, name=name)


def components_of(records: Sequence[RunRecord], metric: str) -> Components | None:
    """What the printed mean of a metric varies by; None where the records do not say."""
    tables = [_table(part, metric) for part in by_data_seed(records)]
    usable = [table for table in tables if table and len(table) > 1 and len(table[0]) > 1]
    return components(usable) if usable and len(usable) == len(tables) else None


def _table(records: Sequence[RunRecord], metric: str, minus: str = "") -> Table | None:
    """Runs that ended well by test items."""
    finished = [record for record in records if record.outcome == "ok"]
    rows = [record.per_sequence.get(metric, []) for record in finished]
    if minus:
        less = [record.per_sequence.get(minus, []) for record in finished]
        rows = [
            [a - b for a, b in zip(*pair, strict=True)] for pair in zip(rows, less, strict=True)
        ]
    return rows if rows and rows[0] and len({len(row) for row in rows}) == 1 else None
