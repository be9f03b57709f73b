"""Two models in one table: their difference by seed and by test item, what they are set to, and
what they cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.records.numbers import by_data_seed, data_seed, items_of, kind_of
from bench.records.record_files import is_record
from bench.records.schema import RunRecord, read_record
from bench.records.store import Store, committed_path
from core.errors import UserError
from core.statistics import CHANGE, REAL, SHARE, Interval, difference_interval, interval_of, mean_of
from leaderboards.contents import OpenBoard, Row
from leaderboards.render import count, number, quantity, shown_label
from leaderboards.tables.grouping import measured
from leaderboards.tables.summaries import YOURS, flatten
from leaderboards.views.charts import (
    GREY,
    Spec,
    colour_of,
    data,
    layer,
    layered,
    nominal,
    quantitative,
)
from leaderboards.views.tables import RankedTable, contents_of, most_telling_first, tables

LOCAL_STORE = Path("runs")
BARS = 40  # of the picture of differences by item
DASHED = {"strokeDash": [3, 3], "color": GREY}  # the line of no difference


@dataclass(frozen=True)
class PairedDifferences:
    """Differences of a minus b over seeds, or over test items, that both have.

    Attributes:
        names: the seed, or the place of the item, of each value.
        interval: 95 % of their mean; None where there are less than two, or all are equal.
    """

    names: tuple[str, ...]
    values: tuple[float, ...]
    mean: float
    interval: Interval | None


@dataclass(frozen=True)
class RowComparison:
    """Two rows of one table.

    Attributes:
        together: the interval of the difference over independent seeds and, where both were
            measured on the same items, over these: the one by which claims are judged.
        missing: why there is no difference by seed or item; "" where there is.
    """

    a: Row
    b: Row
    difference: float | None
    together: Interval | None
    by_seed: PairedDifferences | None
    by_item: PairedDifferences | None
    missing: str

    @property
    def verdict(self) -> str:
        """A sentence that says which of the two is ahead."""
        if self.difference is None:
            return "One of them has no number here."
        unit = f" {self.a.unit}" if self.a.unit else ""
        difference = f"{self.a.metric}: {_signed(self.difference)}{unit} for {self.a.label}"
        if self.together is None:
            return f"{difference}; nothing says how sure that is."
        span = f"95 % interval {_signed(self.together.low)} to {_signed(self.together.high)}"
        if self.together.low <= 0 <= self.together.high:
            return f"{difference} ({span}): not settled which of them is better."
        better = (self.difference > 0) == (self.a.direction == "maximise")
        has_direction = self.a.direction is not None
        who = (self.a if better else self.b).label
        return f"{difference} ({span})" + (f": {who} is better." if has_direction else ".")


def common_tables(board: OpenBoard, a: str, b: str) -> list[RankedTable[Row]]:
    """The headline tables that both models are in, the most telling first."""
    common = []
    for table in tables(board.summary(kind="measured", model=[a, b])):
        if {row.model for row in table.measured} == {a, b}:
            common.append(table)
    return most_telling_first(common)


def compare(board: OpenBoard, a: Row, b: Row) -> RowComparison:
    """The difference of two rows, from the files of their records where these are at hand."""
    if failed := [row for row in (a, b) if row.outcome != "ok"]:
        reason = (
            f"{shown_label(failed[0])} has no score here: {failed[0].cause or failed[0].outcome}."
        )
        return RowComparison(a, b, None, None, None, None, reason)
    runs = [_files_of(board, row) for row in (a, b)]
    difference = a.mean - b.mean if a.mean is not None and b.mean is not None else None
    if difference is None:
        return RowComparison(a, b, None, None, None, None, "")
    if not all(runs):
        absent = "The files of these records are not on this machine."
        return RowComparison(a, b, difference, None, None, None, absent)
    metric, kind = a.metric, kind_of(a.task, a.metric)
    values = [_of_each_seed(records, metric) for records in runs]
    items = items_of(runs[0], metric), items_of(runs[1], metric)
    together = difference_interval(values[0], values[1], kind, items)
    by_item = _by_item(runs, metric)
    missing = "" if by_item else "The records hold no number for each test item of this metric."
    return RowComparison(a, b, difference, together, _by_seed(runs, metric), by_item, missing)


def _of_each_seed(runs: Sequence[RunRecord], metric: str) -> list[float]:
    """What counts as independent: the mean of each data seed, where there are several, as for the
    intervals of the board and of claims; else the number of each training seed."""
    numbers = []
    for part in by_data_seed(runs):
        numbers.append([measured(record)[metric] for record in part])
    return list(map(mean_of, numbers)) if len(numbers) > 1 else numbers[0]


def _by_seed(runs: Sequence[Sequence[RunRecord]], metric: str) -> PairedDifferences | None:
    """Over the training seeds that both have, of one data seed each."""
    a, b = _by_seeds(runs[0], metric), _by_seeds(runs[1], metric)
    common_seeds = sorted(a.keys() & b.keys())
    several = len({data for data, _ in common_seeds}) > 1
    names = [f"{seed}, data seed {data}" if several else str(seed) for data, seed in common_seeds]
    return _pairs(names, [a[key] - b[key] for key in common_seeds], runs[0])


def _by_seeds(records: Sequence[RunRecord], metric: str) -> dict[tuple[int, int], float]:
    """Data seed and training seed -> what the run measured."""
    return {(data_seed(record), record.seed): measured(record)[metric] for record in records}


def _by_item(runs: Sequence[Sequence[RunRecord]], metric: str) -> PairedDifferences | None:
    """Over the items of all data seeds that both have."""
    a = {data_seed(part[0]): part for part in by_data_seed(runs[0])}
    b = {data_seed(part[0]): part for part in by_data_seed(runs[1])}
    names: list[str] = []
    differences: list[float] = []
    for seed in sorted(a.keys() & b.keys()):
        items_a, items_b = items_of(a[seed], metric), items_of(b[seed], metric)
        if items_a is None or items_b is None or items_a.values is None or items_b.values is None:
            return None
        if items_a.drawn != items_b.drawn or items_a.count != items_b.count:
            return None
        names += [f"{seed}/{place}" for place in range(items_a.count)]
        differences += [x - y for x, y in zip(items_a.values, items_b.values, strict=True)]
    return _pairs(names, differences, runs[0])


def _pairs(
    names: Sequence[str], values: Sequence[float], runs: Sequence[RunRecord]
) -> PairedDifferences | None:
    if not values:
        return None
    share = kind_of(runs[0].task, runs[0].headline.name) is SHARE
    interval = interval_of(values, CHANGE if share else REAL)
    return PairedDifferences(tuple(names), tuple(values), mean_of(values), interval)


def _files_of(board: OpenBoard, row: Row) -> list[RunRecord]:
    """The records of a row as they lie in the project or in the store here, if they are those of
    the board: the board's own lines are without the numbers of each test item."""
    files = []
    for record in board.records(row.task, run_id=row.run_ids):
        if (record.origin == YOURS) != (row.origin == YOURS):
            continue  # one's own may have the name of a committed one
        if Path(record.run_id).name != record.run_id:
            continue  # a board of others names no other folder
        for path in (
            committed_path(record.run_id, record.task, record.preset),
            Store(LOCAL_STORE).record_folder(record.role) / f"{record.run_id}.json",
        ):
            if not is_record(path):
                continue
            try:
                candidate = read_record(path)
            except UserError:
                continue
            hashes = (record.sha256, json.loads(record.content)["content_sha256"])
            if candidate.content_hash() in hashes:
                files.append(candidate)
                break
    return files


def differing_settings(board: OpenBoard, a: Row, b: Row) -> list[dict[str, str]]:
    """The settings in which the first runs of two rows differ; "–" where one has no such."""
    contents = contents_of(board, (a, b))
    of_a = dict(flatten(contents.get(a.run_ids[0], {}).get("config", {})))
    of_b = dict(flatten(contents.get(b.run_ids[0], {}).get("config", {})))
    lines = []
    for key in {**of_a, **of_b}:
        if of_a.get(key) != of_b.get(key):
            value_a, value_b = str(of_a.get(key, "–")), str(of_b.get(key, "–"))
            lines.append({"setting": key, "a": value_a, "b": value_b})
    return lines


def costs(a: Row, b: Row) -> list[dict[str, str]]:
    """What both cost, side by side."""
    return [
        {"cost": name, "a": written(a), "b": written(b)}
        for name, written in (
            ("parameters", lambda row: count(row.parameters)),
            ("training FLOPs", lambda row: quantity(row.training_flops)),
            ("training steps", lambda row: count(row.training_steps)),
            ("state", lambda row: quantity(row.state_bytes, "B")),
            ("seconds", lambda row: quantity(row.wall_seconds, "s")),
            ("peak memory", lambda row: quantity(row.peak_memory_bytes, "B")),
            ("trials in tuning", lambda row: count(row.trials)),
            ("mark", lambda row: row.mark or "–"),
            ("note", lambda row: row.note or "–"),
        )
    ]


def seeds_chart(comparison: RowComparison, dark: bool = False) -> Spec:
    """The difference of each seed, with their mean and its interval."""
    pairs = comparison.by_seed
    assert pairs is not None
    ink = colour_of(comparison.a.model, dark)
    points = []
    for name, value in zip(pairs.names, pairs.values, strict=True):
        points.append({"seed": f"seed {name}", "difference": value})
    mean: Spec = {"seed": "mean", "difference": pairs.mean}
    if pairs.interval:
        mean |= {"low": pairs.interval.low, "high": pairs.interval.high}
    x = quantitative("difference", title=[f"{comparison.a.label} minus", comparison.b.label])
    y = nominal("seed", sort=None, title=None)
    place = {"x": x, "y": y}
    tooltip = [nominal("seed"), quantitative("difference", format="+.4f")]
    span = {"x": quantitative("low"), "x2": "high", "y": y}
    centre = layer("point", {**place, "tooltip": tooltip}, size=120, color=ink, shape="diamond")
    dots = layer("point", {**place, "tooltip": tooltip}, size=80, color=ink, filled=True)
    return layered(
        [
            layer("rule", {"x": x}, **DASHED) | {"data": data([{"difference": 0}])},
            layer("rule", span, strokeWidth=2, color=ink) | {"data": data([mean])},
            centre | {"data": data([mean])},
            dots | {"data": data(points)},
        ],
        height={"step": 28},
    )


def items_chart(comparison: RowComparison, dark: bool = False) -> Spec:
    """How the differences of the test items are spread, with their mean and its interval."""
    pairs = comparison.by_item
    assert pairs is not None
    ink = colour_of(comparison.a.model, dark)
    low, high = min(pairs.values), max(pairs.values)
    width = (high - low) / BARS or 1.0
    tally = [0] * BARS
    for value in pairs.values:
        tally[min(int((value - low) / width), BARS - 1)] += 1
    bars = []
    for place, count_here in enumerate(tally):
        if count_here:
            start = low + place * width
            bars.append({"from": start, "to": start + width, "items": count_here, "zero": 0})
    title = [f"{comparison.a.label} minus", f"{comparison.b.label}, by test item"]
    heights = {
        "x": quantitative("from", title=title, scale={"zero": False}),
        "x2": "to",
        "y": quantitative("zero", title="test items"),
        "y2": "items",
        "tooltip": [quantitative(key) for key in ("from", "to", "items")],
    }
    zero = layer("rule", {"x": quantitative("from")}, **DASHED)
    layers = [
        layer("rect", heights, color=ink, opacity=0.7) | {"data": data(bars)},
        zero | {"data": data([{"from": 0.0}])},
    ]
    if pairs.interval:
        span = {"x": quantitative("from"), "x2": "to"}
        ends = {"from": pairs.interval.low, "to": pairs.interval.high}
        layers.append(layer("rect", span, color=ink, opacity=0.25) | {"data": data([ends])})
    return layered(layers, height=220)


def difference_in_words(pairs: PairedDifferences | None, unit: str) -> str:
    """A mean difference with its interval, in words."""
    if pairs is None:
        return ""
    span = "no interval"
    if pairs.interval:
        span = f"95 % interval {_signed(pairs.interval.low)} to {_signed(pairs.interval.high)}"
    count = len(pairs.values)
    return f"{_signed(pairs.mean)} over {count} {unit}{'s' * (count != 1)} of both ({span})"


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'}{number(abs(value))}"
