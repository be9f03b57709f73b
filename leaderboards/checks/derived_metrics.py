"""What a metric follows from in the same record, as the card of its task says (``card.follows``).

Each entry names a metric, one of ``TAKES``, the place of the numbers that it is taken of, and how
near the metric must lie to what is taken::

    follows:
      accuracy: {mean: per_sequence.accuracy, within: 1.0e-6}

``only_with`` limits an entry to some settings of the task, ``only_of`` to some predictors. Of a
curve, ``at`` takes the point of one x, a number or the value of a setting, and ``over`` those
between two x, ``[low, high]`` or the setting that holds both. Items may count
unequally in a metric, such as by their lengths, which no record holds: ``weights`` is the
coefficient of variation of these weights. A metric may have a list of entries:
all hold of whatever was trained or measured, and of a predictor those whose numbers it has, at
least one.

A ``*`` in the name of a metric stands for any letters: the entry is of every metric of the record
that is called so, each ``*`` of its place for the same letters, and ``at: "*"`` for the number that
the last one stands for. ``{samples[-1]}`` in a place is that item of a list among the settings.

What no entry speaks of is taken as it is named: a metric is the mean of the items of its name, what
a curve of its name ends in, or that curve's mean, and the mean of the list of its name in arrays.

What takes several curves, or more than a setting, is worked out in ``derived_by_code.py``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache, lru_cache
from typing import Any

from bench.records.schema import RunRecord
from core.errors import UserError
from leaderboards.checks.naming import card_of
from leaderboards.checks.points import (
    EXACT,
    TAKES,
    Expected,
    Points,
    contradicted,
    distance,
    inside,
    points_of,
    weighted_unequally,
)

SECTIONS = ("per_sequence", "curves", "arrays", "metrics")
ITEM = re.compile(r"\{(\w+)\[(-?\d+)\]\}")  # of a list of the settings, in a place
EVERYWHERE = (-math.inf, math.inf)
NOWHERE = (math.nan, math.nan)


@dataclass(frozen=True)
class DerivedMetric:
    """What a metric follows from.

    Attributes:
        take: one of ``TAKES``.
        place: "SECTION.NAME"; a ``*`` in the name stands for any letters.
        within: how far the metric may lie from it, in times of it where it is larger than 1.
        only_with: setting of the task -> the values with which this holds.
        only_of: labels of the predictors of which this holds; none are all records.
        at, over: as the card has them; "" is all of a curve.
        weights: how unequally items count, as their coefficient of variation; 0: all alike.
        span: the x of a curve between which its points count, once these are known.
    """

    metric: str
    take: str
    place: str
    within: float
    only_with: Mapping[str, Any] = field(default_factory=dict, hash=False)
    only_of: tuple[str, ...] = ()
    at: str | float = ""
    over: str | tuple[float, float] = ""
    weights: float = 0.0
    span: tuple[float, float] = EVERYWHERE

    def of(self, record: RunRecord) -> Iterator[DerivedMetric]:
        """This with the names and numbers of a record: once for each metric that it is about."""
        settings = record.config["tasks"]
        try:
            place = ITEM.sub(lambda item: _plain(settings[item[1]][int(item[2])]), self.place)
        except (IndexError, KeyError, TypeError):  # the list of this record has no such item
            return
        named = re.compile(re.escape(self.metric).replace(r"\*", "(.*)"))
        for metric in record.metrics.get("test", {}) if "*" in self.metric else [self.metric]:
            if match := named.fullmatch(metric):
                span = self._span(settings, match.groups())
                if span is None:
                    continue
                place_of_metric = place
                for letters in match.groups():
                    place_of_metric = place_of_metric.replace("*", letters, 1)
                yield replace(self, metric=metric, place=place_of_metric, span=span)

    def _span(
        self, settings: Mapping[str, Any], stars: Sequence[str]
    ) -> tuple[float, float] | None:
        """Between which x points count; None where ``*`` should be a number, and is none."""
        ends: Any = self.over or EVERYWHERE
        if self.at == "*":
            try:
                ends = [float(stars[-1])] * 2
            except ValueError:
                return None
        elif self.at != "":
            ends = [settings.get(self.at) if isinstance(self.at, str) else self.at] * 2
        elif isinstance(ends, str):
            ends = settings.get(ends)
        sound = isinstance(ends, Sequence) and len(ends) == 2 and all(map(_is_number, ends))
        return (ends[0], ends[1]) if sound else NOWHERE

    def holds_for(self, record: RunRecord) -> bool:
        """Whether the record is one that this is about."""
        settings = record.config["tasks"]
        if self.only_of and (record.role != "baseline" or record.label not in self.only_of):
            return False
        return all(settings.get(key) in allowed for key, allowed in self.only_with.items())

    def values(self, record: RunRecord) -> list[Points]:
        """The numbers at the place, as far as the record holds any: all curves or items of that
        name, each row of an array, or the metrics of that name together. Points that are of no
        curve have their places as x."""
        section, _, pattern = self.place.partition(".")
        held: dict[str, Mapping[str, Any]] = {
            "per_sequence": record.per_sequence,
            "curves": record.curves,
            "arrays": record.arrays,
            "metrics": record.metrics.get("test", {}),
        }
        matching = [value for name, value in held[section].items() if _matches(name, pattern)]
        if section == "metrics":
            matching = [matching]
        if section == "arrays":
            arrays = [array for array in matching if isinstance(array, list)]
            matching = []
            for array in arrays:  # a list of numbers is one row
                matching += [array] if _are_numbers(array) else array
        lists = []
        for value in matching:
            points: Points = []
            if section == "curves":
                points = inside(points_of(value), *self.span)
            elif _are_numbers(value):
                points = list(enumerate(value))
            if points:
                lists.append(points)
        return lists

    def lacking(self, record: RunRecord) -> str | None:
        """What a record lacks to be checked by this."""
        if self.values(record):
            return None
        missing = self.metric not in record.metrics.get("test", {})
        place = f"metrics.test.{self.metric}" if missing else self.place
        return f"it has no {place}, by which its {self.metric} is checked"

    def contradicted(self, record: RunRecord) -> str | None:
        """How a record says otherwise, where it says anything."""
        value, lists = record.metrics.get("test", {}).get(self.metric), self.values(record)
        if not lists:
            return None
        expected = min(map(self._expected, lists), key=lambda candidate: distance(value, candidate))
        low, high = self.span
        where = f" at {low:g}" if low == high else f" from {low:g} to {high:g}"
        by = f"the {self.take} of {self.place}{'' if self.span == EVERYWHERE else where}"
        if self.weights:
            by += ", whatever its items weigh,"
        return contradicted(self.metric, value, expected, by, self.within)

    def _expected(self, points: Points) -> Expected:
        return (
            weighted_unequally(points, self.weights) if self.weights else TAKES[self.take](points)
        )


def derives(record: RunRecord, metric: str) -> bool:
    """Whether the card says what the metric follows from, and the record holds that."""
    return any(entry.metric == metric and entry.values(record) for entry in _entries_for(record))


def agrees(record: RunRecord) -> str | None:
    """A metric is what its card says that it follows from; of what its card does not speak of, the
    mean of its items or of its array, and the end or the mean of its curve."""
    if record.outcome != "ok" or record.role == "trial":
        return None
    entries = _entries_for(record)
    lacking = [(entry.metric, entry.lacking(record)) for entry in entries]
    if record.role == "baseline":  # has some of the numbers that a model has
        checked = {metric for metric, reason in lacking if reason is None}
        unchecked = record.metrics.get("test", {}).keys() - checked
        lacking = [(metric, reason) for metric, reason in lacking if metric in unchecked]
    for _, reason in lacking:
        if reason:
            return reason
    for entry in entries:
        if reason := entry.contradicted(record):
            return reason
    return next(filter(None, _as_named(record)), None)


def _entries_for(record: RunRecord) -> list[DerivedMetric]:
    """What the card says of this record."""
    entries: list[DerivedMetric] = []
    for statement in entries_of_card(record.task):
        if statement.holds_for(record):
            entries += statement.of(record)
    return entries


def _as_named(record: RunRecord) -> Iterator[str | None]:
    """What contradicts a metric among the items, curves and arrays that have its name."""
    spoken_of: set[str] = set()
    for statement in entries_of_card(record.task):
        spoken_of.update(entry.place for entry in statement.of(record))
    for metric in record.metrics.get("test", {}):
        for section, held in (("per_sequence", record.per_sequence), ("arrays", record.arrays)):
            if _are_numbers(held.get(metric)) and f"{section}.{metric}" not in spoken_of:
                yield DerivedMetric(metric, "mean", f"{section}.{metric}", EXACT).contradicted(
                    record
                )
        if f"curves.{metric}" not in spoken_of:
            candidates = [
                DerivedMetric(metric, take, f"curves.{metric}", EXACT) for take in ("last", "mean")
            ]
            reasons = [candidate.contradicted(record) for candidate in candidates]
            yield reasons[0] if all(reasons) else None
        yield _not_on_its_curve(record, metric)


def _not_on_its_curve(record: RunRecord, metric: str) -> str | None:
    """A metric "NAME/x" is a point of the curve NAME, or of one of the curves NAME_by_SOMETHING."""
    name, slash, x = metric.rpartition("/")
    value = record.metrics["test"][metric]
    others = []
    for curve, line in record.curves.items():
        if not slash or not (curve == name or curve.startswith(f"{name}_by_")):
            continue
        for position, y in zip(line.x, line.y, strict=True):
            if f"{position:g}" == x:
                if abs(y - value) <= EXACT * max(1.0, abs(y)):
                    return None
                others.append(y)
    if not others:
        return None
    return f"its metrics.test.{metric} is {value}, and its curve has {others[0]:g} there"


@cache
def entries_of_card(task: str) -> tuple[DerivedMetric, ...]:
    """What the card of a task says.

    Raises:
        UserError: an entry is none, in one sentence.
    """
    statements = []
    for metric, entries in card_of(task).get("follows", {}).items():
        for entry in entries if isinstance(entries, list) and entries else [entries]:
            statements.append(_read_entry(task, metric, entry))
    return tuple(statements)


def _read_entry(task: str, metric: str, entry: Any) -> DerivedMetric:
    left = dict(entry) if isinstance(entry, Mapping) else {}
    only_with, within = left.pop("only_with", {}), left.pop("within", None)
    only_of, at, over = left.pop("only_of", []), left.pop("at", ""), left.pop("over", "")
    weights = left.pop("weights", 0.0)
    (take, place), *more = left.items() or [("", "")]
    section, _, name = str(place).partition(".")
    lists = isinstance(only_with, Mapping) and all(
        isinstance(values, list) for values in (*only_with.values(), only_of)
    )
    if isinstance(over, list) and len(over) == 2 and all(map(_is_number, over)):
        over = (over[0], over[1])
    spans = isinstance(over, str | tuple) and (isinstance(at, str) or _is_number(at))
    weighs = _is_number(weights) and weights >= 0 and (take == "mean" or not weights)
    sound = _is_number(within) and lists and spans and weighs and name and not more
    if take in TAKES and section in SECTIONS and sound and (at != "*" or "*" in metric):
        taken = metric, take, str(place), float(within)
        return DerivedMetric(*taken, only_with, tuple(only_of), at, over, float(weights))
    raise UserError(
        f"tasks/{task}.yaml: card.follows.{metric} is not like {{mean: per_sequence.accuracy, "
        f"within: 1.0e-6}}: one of {', '.join(TAKES)}, of {' or '.join(SECTIONS)}.NAME, and within"
    )


@lru_cache(maxsize=2**16)  # the names of all records, in each of which every pattern is looked for
def _matches(name: str, pattern: str) -> bool:
    return fnmatch(name, pattern)


def _plain(value: Any) -> str:
    """A setting as it stands in a name."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _are_numbers(values: Any) -> bool:
    """Whether something is a list of numbers, of which a record has thousands."""
    return isinstance(values, list) and {*map(type, values)} <= {int, float}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


RULES = (agrees,)
