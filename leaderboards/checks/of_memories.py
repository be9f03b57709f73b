"""What the curves and the matrix of the battery of memories tell, as
``tasks/test_time_memory/battery.py`` and ``experiments.py`` have it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise, takewhile

from bench.records.schema import RunRecord
from core.statistics import mean_of
from leaderboards.checks.points import Fact, MissingPoints, Points, points_in, slope, ys

RECALLED = 0.99  # of what was written, for a memory to hold it
HELD = (RECALLED, 0.5)


def facts(record: RunRecord) -> Iterator[Fact]:
    """What the metrics of a record of the battery, or of the experiments with integers, have to
    be."""
    if record.config["tasks"]["material"] == "integers":
        yield from _experiments(record)
        return
    lost = {cause.partition(":")[0] for cause in record.arrays["diverged"]}
    for part, facts_of_part in _PARTS.items():
        try:
            yield from facts_of_part(record)
        except MissingPoints:
            if part not in lost:  # to numbers that are not finite, before it had a curve
                raise


def _by_count(points: Points, metric: str, curve: str) -> Iterator[Fact]:
    for count, recall in points:
        yield Fact(f"{metric}_{count:.0f}", recall, f"curves.{curve} at {count:.0f}")


def _capacity(record: RunRecord) -> Iterator[Fact]:
    recalls, numbers, state = (
        points_in(record, f"{name}_by_count") for name in ("recall", "numbers", "bytes")
    )
    yield from _by_count(recalls, "recall", "recall_by_count")
    most = max(count * recall for count, recall in recalls)
    yield Fact("items_recalled_most", most, "the largest x times y of curves.recall_by_count")
    for level in HELD:
        by = f"the x at which curves.recall_by_count falls below {level:g}"
        yield Fact(f"items_at_{level:g}", falls_below(recalls, level), by)
    yield Fact("parameters", numbers[-1][1], "the last of curves.numbers_by_count")
    yield Fact("state_bytes", state[-1][1], "the last of curves.bytes_by_count")
    (smallest, first), (largest, last) = state[0], state[-1]
    yield Fact(
        "write_bytes", (last - first) / (largest - smallest), "the rise of curves.bytes_by_count"
    )
    bits = []
    for (count, recall), (_, size) in zip(recalls, numbers, strict=True):
        if size:
            bits.append(count * recall * math.log2(count) / size)
    by = "the largest N log2 N of what is recalled by curves.numbers_by_count"
    yield Fact("bits_per_parameter", max(bits, default=None), by)


def falls_below(points: Points, level: float) -> float | None:
    """The x where y first falls below ``level``, log-linear between two points; None where it never
    does, or is below from the start."""
    for (left, high), (right, low) in pairwise(points):
        if high < level:
            return None
        if low < level:
            return math.exp(math.log(left) + (high - level) / (high - low) * math.log(right / left))
    return None


def _recency(record: RunRecord) -> Iterator[Fact]:
    quarters = ys(points_in(record, "recall_by_age"))
    yield Fact("recall_oldest_quarter", quarters[0], "the first of curves.recall_by_age")
    yield Fact("recall_newest_quarter", quarters[-1], "the last of curves.recall_by_age")


def _forgetting(record: RunRecord) -> Iterator[Fact]:
    if "forgetting_matrix" not in record.arrays:
        raise MissingPoints("it has no arrays.forgetting_matrix, by which its metrics are checked")
    for replay, rows in record.arrays["forgetting_matrix"].items():
        suffix, last = "" if replay == "0" else f"_replay_{replay}", rows[-1]
        by = f"what arrays.forgetting_matrix tells of it at {replay}"
        yield Fact(f"final_recall{suffix}", mean_of(last), by)
        transferred, forgotten = [], []
        for batch in range(len(rows) - 1):
            best = max(row[batch] for row in rows[:-1])
            transferred.append(last[batch] - rows[batch][batch])
            forgotten.append(best - last[batch])
        yield Fact(f"backward_transfer{suffix}", mean_of(transferred), by)
        yield Fact(f"forgetting{suffix}", mean_of(forgotten), by)


def _noise(record: RunRecord) -> Iterator[Fact]:
    points = points_in(record, "recall_by_noise")
    for strength, recall in points:
        by = f"curves.recall_by_noise at {strength:g}"
        yield Fact(f"recall_noise_{strength:g}", recall, by)
    area = math.fsum((b - a) * (low + high) / 2 for (a, low), (b, high) in pairwise(points))
    width = points[-1][0] - points[0][0]
    yield Fact("noise_area", area / width, "the mean height of curves.recall_by_noise")


def _scaling(record: RunRecord) -> Iterator[Fact]:
    """The curve has a point for each width that has a metric, in their order."""
    settings, test = record.config["tasks"], record.metrics["test"]
    if not settings["widths"] or settings["material"] != "vectors":
        return
    points = points_in(record, "items_by_numbers")
    names = [f"items_at_{RECALLED}_width_{width}" for width in settings["widths"]]
    measured_names = [name for name in names if name in test]
    for name, (_, items) in zip(measured_names, points, strict=True):
        yield Fact(name, items, "its point of curves.items_by_numbers")
    yield Fact("slope_items_by_numbers", slope(points), "the slope of curves.items_by_numbers")


def _lengths(record: RunRecord) -> Iterator[Fact]:
    settings = record.config["tasks"]
    for length in settings["lengths"] if settings["material"] == "numbers" else ():
        name = f"recall_by_stem_{length}"
        by_stem = ys(points_in(record, name))
        yield Fact(f"recall_length_{length}", by_stem[-1], f"the last of curves.{name}")
        half = by_stem[max(1, length // 2) - 1]
        yield Fact(f"recall_half_stem_{length}", half, f"the middle of curves.{name}")


_PARTS = {
    "capacity": _capacity,
    "recency": _recency,
    "forgetting": _forgetting,
    "noise": _noise,
    "scaling": _scaling,
    "lengths": _lengths,
}


def _experiments(record: RunRecord) -> Iterator[Fact]:
    """Recalls of each count, and the headline: their mean over the experiments, in the end."""
    headlines = []
    for name in record.config["tasks"]["experiments"]:
        if name in _ENDS:
            headlines.append(mean_of([record.metrics["test"][metric] for metric in _ENDS[name]]))
            continue
        curve = f"{name}_recall"
        points = points_in(record, curve)
        headlines.append(points[-1][1])
        if name == "one":
            yield Fact(curve, points[-1][1], f"the last of curves.{curve}")
        else:
            yield from _by_count(points, curve, curve)
        if name == "capacity":
            held = [count for count, _ in takewhile(lambda point: point[1] >= RECALLED, points)]
            by = f"the last x up to which curves.{curve} is {RECALLED} or more"
            yield Fact(name, held[-1] if held else 0.0, by)
    yield Fact("recall", mean_of(headlines), "the mean of its experiments, in the end,")


_ENDS = {
    "stream": ["stream_recall"],
    "forgetting": ["forgetting_first_after", "forgetting_second_after"],
}
