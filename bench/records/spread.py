"""How far a run that is made again may lie from the recorded one.

The same run on another processor adds numbers in another order, and training makes a large
difference of a small one: at worst the run is as good as one of another seed. So the difference of
two runs of one seed is held against that of two seeds, ``t √2 s``: s is the deviation over seeds,
and t the quantile of Student's distribution with the degrees of freedom behind s.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from bench.records.identity import beside_data, canonical_record
from bench.records.schema import RunRecord
from core.amounts import amount
from core.statistics import deviation_of, student_quantile

LEVEL = 0.99  # of runs again that seeds explain lie within
SEEDS = 3  # of a setting that are enough for a spread of its own
ROUNDING = 1e-6  # of a number of size 1, where nothing is drawn
Run = tuple[str, int]  # identity and seed


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
    record = canonical_record(record)  # seeds that were made by equal code are seeds of one setting
    rounding = ROUNDING * max(1.0, abs(record.headline.value or 0.0))
    if record.role == "baseline":
        return Spread(rounding, "rounding: a predictor draws nothing")
    # Identity and seed -> value, by setting and by what is a setting but for the data.
    by_identity: dict[str, dict[Run, float]] = defaultdict(dict)
    by_setting: dict[str, dict[Run, float]] = defaultdict(dict)
    for other in others:
        value = other.headline.value
        if _are_comparable(record, other) and value is not None:
            other = canonical_record(other)
            for group in (by_identity[other.identity], by_setting[beside_data(other)]):
                group.setdefault((other.identity, other.seed), value)
    samples = [list(group.values()) for group in by_setting.values() if len(group) > 1]
    settings = f"{amount(len(samples), 'setting')} of its task"
    for group in (by_identity[record.identity], by_setting[beside_data(record)]):
        values = list(group.values())
        if len(values) >= SEEDS and deviation_of(values):
            samples, settings = [values], "its setting"
            break
    freedom, squares = 0, 0.0
    for values in samples:
        freedom += len(values) - 1
        squares += (len(values) - 1) * deviation_of(values) ** 2
    if not freedom:
        return Spread(rounding, "rounding: no setting of its task and preset has two seeds")
    deviation = math.sqrt(squares / freedom)
    bound = student_quantile(LEVEL, freedom) * math.sqrt(2) * deviation
    source = f"a deviation of {deviation:.2g} over {freedom + len(samples)} seeds of {settings}"
    return Spread(max(bound, rounding), source)


def _are_comparable(record: RunRecord, other: RunRecord) -> bool:
    """Whether they share task, preset and kind; a control is made to be bad, so it tells nothing of
    what is trained."""
    return (
        (record.task, record.preset, record.headline.name)
        == (other.task, other.preset, other.headline.name)
        and other.role != "baseline"
        and (record.role == "control") == (other.role == "control")
    )
