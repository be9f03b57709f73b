"""What a metric follows from in the same record, as the card of its task says (``card.follows``).

Each entry names a metric, one of ``TAKES``, the place of the numbers that it is taken of, and how
near the metric must lie to what is taken::

    follows:
      accuracy: {mean: per_sequence.accuracy, within: 1.0e-6}

``only_with`` limits an entry to some settings of the task.
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
ABOUT = 0.05  # of means that weigh items by their length


@dataclass(frozen=True)
class Follows:
    """What a metric follows from.

    Attributes:
        take: one of ``TAKES``.
        place: "SECTION.NAME"; a ``*`` in the name stands for any letters.
        within: how far the metric may lie from it, in times of it where it is larger than 1.
        only_with: setting of the task -> the values with which this holds.
    """

    metric: str
    take: str
    place: str
    within: float
    only_with: Mapping[str, Any] = field(default_factory=dict)

    def holds_for(self, record: RunRecord) -> bool:
        """Whether the record has the settings that this is about."""
        given = record.config["tasks"]
        return all(given.get(key) in allowed for key, allowed in self.only_with.items())

    def values(self, record: RunRecord) -> list[list[float]]:
        """The lists of numbers at the place, as far as the record holds any: all curves or items of
        that name, each row of an array, or the metrics of that name together."""
        section, _, pattern = self.place.partition(".")
        held: dict[str, Mapping[str, Any]] = {
            "per_sequence": record.per_sequence,
            "curves": {name: curve.y for name, curve in record.curves.items()},
            "arrays": record.arrays,
            "metrics": record.metrics["test"],
        }
        found = [value for name, value in held[section].items() if fnmatch(name, pattern)]
        if section == "metrics":
            found = [found]
        if section == "arrays":
            found = [row for array in found if isinstance(array, list) for row in array]
        return [row for row in found if row and isinstance(row, list) and all(map(_is_number, row))]

    def contradicted(self, record: RunRecord) -> str | None:
        """How a record says otherwise. What has not learned is right in few sequences, by chance:
        the weights of these do not even out."""
        found, lists = record.metrics["test"].get(self.metric), self.values(record)
        if not lists or found is None:
            missing = f"metrics.test.{self.metric}" if lists else self.place
            why = f"it has no {missing}, by which its {self.metric} is checked"
            return None if record.role == "baseline" else why
        expected, count = min(
            ((TAKES[self.take](values), len(values)) for values in lists),
            key=lambda one: abs(one[0] - found),
        )
        few = max(1.0, MANY_ITEMS / count) ** 0.5  # of which unequal weights even out less
        if abs(found - expected) <= self.within * few * max(1.0, abs(expected)):
            return None
        of = f"the {self.take} of {self.place}"
        return f"its metrics.test.{self.metric} is {found}, and {of} {expected:g}"


def derives(record: RunRecord, metric: str) -> bool:
    """Whether the card says what the metric follows from, and the record holds that."""
    entries = [one for one in stated(record.task) if one.metric == metric]
    return any(one.holds_for(record) and one.values(record) for one in entries)


def agrees(record: RunRecord) -> str | None:
    """A metric is what the card says that it follows from, and any other that the items of a record
    have too is about their mean."""
    if record.outcome != "ok" or record.role in ("trial", "control"):
        return None
    return next(filter(None, (one.contradicted(record) for one in _about(record))), None)


def _about(record: RunRecord) -> Iterator[Follows]:
    entries = stated(record.task)
    yield from (one for one in entries if one.holds_for(record))
    others = record.per_sequence.keys() & record.metrics["test"].keys()
    for metric in others - {one.metric for one in entries}:
        yield Follows(metric, "mean", f"per_sequence.{metric}", ABOUT)


@cache
def stated(task: str) -> tuple[Follows, ...]:
    """What the card of a task says.

    Raises:
        UserError: an entry is none, in one sentence.
    """
    return tuple(_read(task, *one) for one in card_of(task).get("follows", {}).items())


def _read(task: str, metric: str, entry: Any) -> Follows:
    given = dict(entry) if isinstance(entry, Mapping) else {}
    only_with, within = given.pop("only_with", {}), given.pop("within", None)
    (take, place), *more = given.items() or [("", "")]
    section, _, name = str(place).partition(".")
    lists = isinstance(only_with, Mapping) and all(isinstance(v, list) for v in only_with.values())
    sound = _is_number(within) and lists and name and not more
    if take in TAKES and section in SECTIONS and sound:
        return Follows(metric, take, str(place), float(within), only_with)
    raise UserError(
        f"tasks/{task}.yaml: card.follows.{metric} is not like {{mean: per_sequence.accuracy, "
        f"within: 1.0e-6}}: one of {', '.join(TAKES)}, of {' or '.join(SECTIONS)}.NAME, and within"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


RULES = (agrees,)
