"""What a metric follows from in the same record, as the card of its task says (``card.follows``).

Each entry names a metric, one of ``TAKES``, the place of the numbers that it is taken of, and how
near the metric must lie to what is taken::

    follows:
      accuracy: {mean: per_sequence.accuracy, within: 1.0e-6}

``only_with`` limits an entry to some settings of the task, ``only_of`` to some predictors; ``at``
takes of a curve the point whose x is that setting. A metric may have a list of entries: all hold of
whatever was trained or measured, and of a predictor those whose numbers it has, at least one.

What no entry speaks of is taken as it is named: a metric is the mean of the items of its name, and
what a curve of its name ends in, or that curve's mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from typing import Any

from bench.records.schema import RunRecord
from ground.errors import UserError
from ground.statistics import mean_of
from leaderboards.checks.naming import card_of

TAKES: dict[str, Callable[[list[float]], float]] = {  # a number of a list, as cards call it
    "mean": mean_of,
    "last": lambda values: values[-1],
    "middle": lambda values: values[len(values) // 2],
    "largest": max,
    "first in units of the mean": lambda values: values[0] / (mean_of(values) or 1.0),
}
SECTIONS = ("per_sequence", "curves", "arrays", "metrics")
MANY_ITEMS = 100
EXACT = 1e-6  # of sums in another order


@dataclass(frozen=True)
class Follows:
    """What a metric follows from.

    Attributes:
        take: one of ``TAKES``.
        place: "SECTION.NAME"; a ``*`` in the name stands for any letters.
        within: how far the metric may lie from it, in times of it where it is larger than 1.
        only_with: setting of the task -> the values with which this holds.
        only_of: labels of the predictors of which this holds; none are all records.
        at: of a curve, setting of the task whose value is the one x that counts; "" is all of it.
    """

    metric: str
    take: str
    place: str
    within: float
    only_with: Mapping[str, Any] = field(default_factory=dict, hash=False)
    only_of: tuple[str, ...] = ()
    at: str = ""

    def holds_for(self, record: RunRecord) -> bool:
        """Whether the record is one that this is about."""
        given = record.config["tasks"]
        if self.only_of and (record.role != "baseline" or record.label not in self.only_of):
            return False
        return all(given.get(key) in allowed for key, allowed in self.only_with.items())

    def values(self, record: RunRecord) -> list[list[float]]:
        """The lists of numbers at the place, as far as the record holds any: all curves or items of
        that name, each row of an array, or the metrics of that name together."""
        section, _, pattern = self.place.partition(".")
        x = record.config["tasks"].get(self.at)
        held: dict[str, Mapping[str, Any]] = {
            "per_sequence": record.per_sequence,
            "curves": {
                name: [y for here, y in zip(curve.x, curve.y, strict=True) if here == x]
                if self.at
                else curve.y
                for name, curve in record.curves.items()
            },
            "arrays": record.arrays,
            "metrics": record.metrics.get("test", {}),
        }
        found = [value for name, value in held[section].items() if fnmatch(name, pattern)]
        if section == "metrics":
            found = [found]
        if section == "arrays":
            found = [row for array in found if isinstance(array, list) for row in array]
        return [row for row in found if row and isinstance(row, list) and all(map(_is_number, row))]

    def lacking(self, record: RunRecord) -> str | None:
        """What a record lacks to be checked by this."""
        missing = self.metric not in record.metrics.get("test", {})
        if not missing and self.values(record):
            return None
        place = f"metrics.test.{self.metric}" if missing else self.place
        return f"it has no {place}, by which its {self.metric} is checked"

    def contradicted(self, record: RunRecord) -> str | None:
        """How a record says otherwise, where it says anything. What has not learned is right in few
        sequences, by chance: the weights of these do not even out."""
        found, lists = record.metrics.get("test", {}).get(self.metric), self.values(record)
        if not lists or found is None:
            return None
        expected, count = min(
            ((TAKES[self.take](values), len(values)) for values in lists),
            key=lambda one: abs(one[0] - found),
        )
        few = max(1.0, MANY_ITEMS / count) ** 0.5  # of which unequal weights even out less
        if record.role == "control":  # has learned nothing
            few *= 2
        if abs(found - expected) <= self.within * few * max(1.0, abs(expected)):
            return None
        of = f"the {self.take} of {self.place}"
        return f"its metrics.test.{self.metric} is {found}, and {of} {expected:g}"


def derives(record: RunRecord, metric: str) -> bool:
    """Whether the card says what the metric follows from, and the record holds that."""
    entries = [one for one in stated(record.task) if one.metric == metric]
    return any(one.holds_for(record) and one.values(record) for one in entries)


def agrees(record: RunRecord) -> str | None:
    """A metric is what its card says that it follows from; of what its card does not speak of, the
    mean of its items, and the end or the mean of its curve."""
    if record.outcome != "ok" or record.role == "trial":
        return None
    entries = [one for one in stated(record.task) if one.holds_for(record)]
    lacking = {one: one.lacking(record) for one in entries}
    if record.role == "baseline":  # has some of the numbers that a model has
        given = {one.metric for one in entries if lacking[one] is None}
        lacking = {
            one: why
            for one, why in lacking.items()
            if one.metric in record.metrics.get("test", {}).keys() - given
        }
    whys = (*lacking.values(), *(one.contradicted(record) for one in entries), *_as_named(record))
    return next(filter(None, whys), None)


def _as_named(record: RunRecord) -> Iterator[str | None]:
    """What contradicts a metric among the items and curves that have its name."""
    spoken_of = {one.place for one in stated(record.task)}
    for metric in record.metrics.get("test", {}):
        if f"per_sequence.{metric}" not in spoken_of:
            yield Follows(metric, "mean", f"per_sequence.{metric}", EXACT).contradicted(record)
        if f"curves.{metric}" not in spoken_of:
            ways = [Follows(metric, take, f"curves.{metric}", EXACT) for take in ("last", "mean")]
            whys = [way.contradicted(record) for way in ways]
            yield whys[0] if all(whys) else None
        yield _not_on_its_curve(record, metric)


def _not_on_its_curve(record: RunRecord, metric: str) -> str | None:
    """A metric "NAME/x" is a point of the curve NAME, or of one of the curves NAME_by_SOMETHING."""
    name, slash, x = metric.rpartition("/")
    points = [
        y
        for curve, line in record.curves.items()
        if slash and (curve == name or curve.startswith(f"{name}_by_"))
        for here, y in zip(line.x, line.y, strict=True)
        if f"{here:g}" == x
    ]
    found = record.metrics["test"][metric]
    if not points or any(abs(y - found) <= EXACT * max(1.0, abs(y)) for y in points):
        return None
    return f"its metrics.test.{metric} is {found}, and its curve has {points[0]:g} there"


@cache
def stated(task: str) -> tuple[Follows, ...]:
    """What the card of a task says.

    Raises:
        UserError: an entry is none, in one sentence.
    """
    return tuple(
        _read(task, metric, entry)
        for metric, given in card_of(task).get("follows", {}).items()
        for entry in (given if isinstance(given, list) and given else [given])
    )


def _read(task: str, metric: str, entry: Any) -> Follows:
    given = dict(entry) if isinstance(entry, Mapping) else {}
    only_with, within = given.pop("only_with", {}), given.pop("within", None)
    only_of, at = given.pop("only_of", []), given.pop("at", "")
    (take, place), *more = given.items() or [("", "")]
    section, _, name = str(place).partition(".")
    lists = isinstance(only_with, Mapping) and all(
        isinstance(values, list) for values in (*only_with.values(), only_of)
    )
    sound = _is_number(within) and lists and name and not more and isinstance(at, str)
    if take in TAKES and section in SECTIONS and sound:
        return Follows(metric, take, str(place), float(within), only_with, tuple(only_of), at)
    raise UserError(
        f"tasks/{task}.yaml: card.follows.{metric} is not like {{mean: per_sequence.accuracy, "
        f"within: 1.0e-6}}: one of {', '.join(TAKES)}, of {' or '.join(SECTIONS)}.NAME, and within"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


RULES = (agrees,)
