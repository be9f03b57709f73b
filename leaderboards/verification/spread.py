"""How far a run that is made again may lie from the recorded one.

The same run on another processor adds numbers in another order, and training makes a large
difference of a small one: at worst the run is as good as one of another seed. So the difference of
two runs of one seed is held against that of two seeds, ``t √2 s``: s is the deviation over seeds,
and t the quantile of Student's distribution with the degrees of freedom behind s.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.records.identity import settled
from bench.records.schema import RunRecord
from core.statistics import deviation_of, student_quantile
from leaderboards.tables.summaries import beside_data

LEVEL = 0.99  # of runs again that seeds explain lie within
SEEDS = 3  # of a setting that are enough for a spread of its own
ROUNDING = 1e-6  # of a number of size 1, where nothing is drawn


@dataclass(frozen=True)
class Spread:
    """The largest difference that is explained, and by what, in words."""

    bound: float
    source: str

    def holds(self, recorded: float | None, measured: float | None) -> bool:
        """Whether a headline that was found again is that of the record, as far as it is explained;
        a run without a headline has to have none again."""
        if recorded is None or measured is None:
            return recorded is measured
        return abs(measured - recorded) <= self.bound


def spread_of(record: RunRecord, others: Iterable[RunRecord]) -> Spread:
    """The spread of a record's headline over the seeds of its own setting, if there are three; else
    over its seeds of all data seeds, if these are three; else pooled over all settings of its task
    and preset that have two. Seeds that are all equal, as counted items may be, tell no spread.

    Args:
        others: records of its task that are trusted, the record itself or not.
    """
    record = settled(record)  # seeds that were made by equal code are seeds of one setting
    value = record.headline.value
    rounding = ROUNDING * max(1.0, abs(value or 0.0))
    if record.role == "baseline":
        return Spread(rounding, "rounding: a predictor draws nothing")
    alike = [settled(o) for o in others if _alike(record, o) and o.headline.value is not None]
    rows = _by(beside_data, alike)
    seed_groups = (_by(_identity, alike)[_identity(record)], rows[beside_data(record)])
    enough = next(
        (
            values_of_group
            for values_of_group in seed_groups
            if len(values_of_group) >= SEEDS and deviation_of(values_of_group)
        ),
        None,
    )
    samples = [enough] if enough else [values for values in rows.values() if len(values) > 1]
    freedom = sum(len(values) - 1 for values in samples)
    if not freedom:
        return Spread(rounding, "rounding: no setting of its task and preset has two seeds")
    squares = sum((len(values) - 1) * deviation_of(values) ** 2 for values in samples)
    deviation = math.sqrt(squares / freedom)
    bound = student_quantile(LEVEL, freedom) * math.sqrt(2) * deviation
    settings = "its setting" if enough else f"{len(samples)} settings of its task"
    source = f"a deviation of {deviation:.2g} over {freedom + len(samples)} seeds of {settings}"
    return Spread(max(bound, rounding), source)


def _identity(record: RunRecord) -> str:
    return record.identity


def _by(key: Callable[[RunRecord], str], records: Iterable[RunRecord]) -> dict[str, list[float]]:
    """The headlines of each group, those of one seed once."""
    groups: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
    for record in records:
        if record.headline.value is not None:
            groups[key(record)].setdefault((record.identity, record.seed), record.headline.value)
    values_by_group: dict[str, list[float]] = defaultdict(list)
    return values_by_group | {name: list(group.values()) for name, group in groups.items()}


def _alike(record: RunRecord, other: RunRecord) -> bool:
    """Whether they share task, preset and kind; a control is made to be bad, so it tells nothing of
    what is trained."""
    return (
        (record.task, record.preset, record.headline.name)
        == (other.task, other.preset, other.headline.name)
        and other.role != "baseline"
        and (record.role == "control") == (other.role == "control")
    )
