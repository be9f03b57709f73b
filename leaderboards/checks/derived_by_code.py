"""What several curves, or curves and settings, of a record tell of its metrics: what no card can
say (``derived_metrics.py`` has what cards say).

For each task a function does what the ``measure`` or ``evaluate`` of that task does once its
curves are there. It shares no code with the task, since that belongs to the identity of every
record and needs torch; the tests hold both against each other.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import pairwise

from bench.records.schema import RunRecord
from core.statistics import Interval, mean_of
from leaderboards.checks import of_memories, of_moons
from leaderboards.checks.points import (
    Fact,
    MissingPoints,
    Points,
    contradicted,
    inside,
    points_in,
    ys,
)

FACTS, CHOICES = 16 * 4, 8  # of the published factual recall
KNOWN = 0.99  # of what is asked, to count as recalled
COUNTED = 1000  # the last count of a scheme of weights
UNSHAPED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def agrees(record: RunRecord) -> str | None:
    """A metric is what the task works out of the curves and arrays of the record."""
    facts = DERIVED.get(record.task)
    if facts is None or record.outcome != "ok" or record.role == "trial":
        return None
    test = record.metrics.get("test", {})
    first_reason = None
    try:
        for fact in facts(record):
            reason = contradicted(fact.metric, test.get(fact.metric), *fact[1:])
            first_reason = first_reason or reason
    except MissingPoints as lacking:
        return str(lacking)
    except UNSHAPED:  # somebody else's numbers may have any shape
        return "its curves and arrays have not the shape that its metrics are worked out from"
    return first_reason


def _state_tracking(record: RunRecord) -> Iterator[Fact]:
    """Accuracy over the positions that each factor adds, and over all behind the training."""
    length, factors = (record.config["tasks"][name] for name in ("length", "factors"))
    name, longest = "accuracy_by_position", length * factors[-1]
    points = points_in(record, name)
    ends = [x for x, _ in points] == [1, longest] and points[0][1] == points[1][1]
    guessed = record.role == "baseline" and ends
    whole = len(points) == longest and all(x == n for n, (x, _) in enumerate(points, start=1))
    if not (whole or guessed):
        raise MissingPoints(f"its curves.{name} is not of all its {longest} positions")
    windows = {f"accuracy/{to}x": (start, to) for start, to in pairwise([0, *factors])}
    for metric, (start, to) in {"accuracy": (1, factors[-1]), **windows}.items():
        low, high = start * length + 1, to * length
        # A guess is as good anywhere, and told by both ends of its line.
        mean_accuracy = mean_of(ys(points if guessed else inside(points, low, high)))
        yield Fact(metric, mean_accuracy, f"the mean of curves.{name} from {low} to {high}")


def _factual_recall(record: RunRecord) -> Iterator[Fact]:
    """What each part makes of its curves or of its arrays."""
    settings, arrays = record.config["tasks"], record.arrays
    if settings["part"] == "phases":
        yield from _phases(record)
    elif settings["part"] == "facts_by_parameters":
        sizes, facts = arrays["parameters"], arrays["facts"]
        products = sum(size * fact for size, fact in zip(sizes, facts, strict=True))
        facts_per_parameter = products / (sum(size * size for size in sizes) or 1.0)
        by = "the slope of arrays.facts by arrays.parameters"
        yield Fact("facts_per_parameter", facts_per_parameter, by)
    else:
        shares: list[float] = []
        sizes_that_know: list[int] = []
        rows = zip(arrays["attention_parameters"], arrays["accuracy"], strict=True)
        for attention, row in rows:
            for mlp, share in zip(arrays["mlp_parameters"], row, strict=True):
                shares.append(share)
                if share >= KNOWN:
                    sizes_that_know.append(4 * attention + 2 * mlp)
        least = min(sizes_that_know, default=0)
        facts_per_parameter = settings["subjects"] * settings["relations"] / least if least else 0.0
        by = f"the least size that has {KNOWN} in arrays.accuracy"
        yield Fact("parameters", float(least), by)
        by = f"the facts for each parameter at {by}"
        yield Fact("facts_per_parameter", facts_per_parameter, by)
        yield Fact("accuracy", mean_of(shares), "the mean of arrays.accuracy")


def _phases(record: RunRecord) -> Iterator[Fact]:
    """How many facts a parameter knows in the end, and the plateau before."""
    names = ("accuracy", "relation_accuracy", "loss")
    facts, relations, losses = (points_in(record, name) for name in names)
    facts_per_parameter = FACTS * facts[-1][1] / record.metrics["test"]["parameters"]
    by = f"{FACTS} times the last of curves.accuracy for each parameter"
    yield Fact("facts_per_parameter", facts_per_parameter, by)
    longest, start = 0.0, None
    for (step, fact), (_, relation), (_, loss) in zip(facts, relations, losses, strict=True):
        if relation > KNOWN and fact < 0.2 and abs(loss - math.log(CHOICES)) < 0.05:
            start = step if start is None else start
            longest = max(longest, step - start)
        else:
            start = None
    yield Fact("plateau_steps", longest, f"the longest stretch of curves.loss at ln {CHOICES}")


def _training_dynamics(record: RunRecord) -> Iterator[Fact]:
    """The largest distance of a margin from the law, at the steps that have a metric, and whether
    any draw forgets: the curves are those of the worst one."""
    gaps = []
    for metric, margin in record.metrics["test"].items():
        if metric.startswith("margin/"):
            token, _, step = metric.removeprefix("margin/").partition(",t=")
            gaps.append(abs(margin - dict(points_in(record, f"law/{token}"))[float(step)]))
    yield Fact("margin_gap", max(gaps), "the largest distance of its margins from curves.law/*")
    for part in ("forgetting", "forgetting_orthogonal"):
        loss, error = (ys(points_in(record, f"{part}/{name}")) for name in ("loss", "error"))
        forgets = loss[-1] < loss[0] and error[-1] > error[0]
        share_that_forgets = Interval(1 / record.config["tasks"]["draws"], 1.0) if forgets else 0.0
        yield Fact(part, share_that_forgets, f"what the worst draw of curves.{part}/* leaves")


def _weighting_schemes(record: RunRecord) -> Iterator[Fact]:
    """These curves are means over trials, or have some of the counts alone: both leave room."""
    of_weights, of_descent = (
        ys(points_in(record, f"approximation/{name}")) for name in ("weights", "descent")
    )
    pairs = list(zip(of_weights, of_descent, strict=True))
    least, most = mean_of([abs(a - b) for a, b in pairs]), mean_of([a + b for a, b in pairs])
    by = "the range that curves.approximation/* leave"
    yield Fact("approximation_gap", Interval(least, most), by)
    for name in record.curves:
        if name.startswith("weights/"):
            slope = _slope_between(points_in(record, name))
            by = f"the log-log slope that curves.{name} leaves"
            yield Fact(name.replace("weights", "exponent", 1), slope, by)


def _slope_between(points: Points) -> Interval:
    """The log-log slope of a rising y over all counts, of which the points are some."""
    counts, logs = [x for x, _ in points], [math.log(y) for _, y in points]
    if (counts[0], counts[-1]) != (1, COUNTED):
        raise ValueError
    along = [math.log(count) for count in range(1, COUNTED + 1)]
    centre = mean_of(along)
    away = [x - centre for x in along]
    ends = []
    for count, weight in enumerate(away, start=1):
        after = bisect_left(counts, count)
        before = after if counts[after] == count else after - 1
        ends.append(sorted((weight * logs[before], weight * logs[after])))
    total = math.fsum(weight**2 for weight in away)
    return Interval(*(math.fsum(side) / total for side in zip(*ends, strict=True)))


DERIVED: dict[str, Callable[[RunRecord], Iterator[Fact]]] = {
    "factual_recall": _factual_recall,
    "state_tracking": _state_tracking,
    "test_time_memory": of_memories.facts,
    "three_moons": of_moons.facts,
    "training_dynamics": _training_dynamics,
    "weighting_schemes": _weighting_schemes,
}
RULES = (agrees,)
