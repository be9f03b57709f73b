"""Published statements as objects that runs can confirm or refute.

A verdict has three values. "not enough evidence" is an honest answer: it says how many seeds would
settle the question. A run that gave no number is never dropped: either it counts as the worst
value, or a verdict stands only if it would be the same whatever that run had given.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bench.ground.statistics import (
    MAXIMUM_SEEDS,
    Interval,
    difference_interval,
    mean_interval,
    seeds_needed,
)
from bench.records.schema import RunRecord
from reproduce.judging.observations import Sample

Verdict = Literal["reproduced", "contradicted", "not enough evidence"]
REPRODUCED: Verdict = "reproduced"
CONTRADICTED: Verdict = "contradicted"
UNDECIDED: Verdict = "not enough evidence"

LEVEL = 0.95


@dataclass(frozen=True)
class Finding:
    """What a test found.

    Attributes:
        seeds: seeds that were counted, failed ones included; of several models the fewest.
        seeds_needed: seeds (of each model) that would settle it if spread and effect stay as they
            are; None where it is settled or cannot be computed.
    """

    verdict: Verdict
    evidence: str
    seeds: int
    seeds_needed: int | None = None


Test = Callable[[Sequence[RunRecord], Mapping[str, float]], Finding]


@dataclass(frozen=True)
class Tolerance:
    """When a claim counts as reproduced: numbers, and a sentence with their names in braces."""

    template: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence with its numbers."""
        return self.template.format(**self.numbers)


@dataclass(frozen=True)
class Claim:
    """A published statement.

    Attributes:
        name: a few words.
        source: paper, section, figure or table.
        sentence: what is claimed, in our words.
        test: reads the records that bear on it, with the numbers of the tolerance.
    """

    name: str
    source: str
    sentence: str
    tolerance: Tolerance
    test: Test

    def judge(self, records: Sequence[RunRecord]) -> ClaimResult:
        """The verdict on this claim: a pure function of ``records``."""
        return ClaimResult(self, self.test(records, self.tolerance.numbers))


@dataclass(frozen=True)
class ClaimResult:
    """A claim and what the runs say about it."""

    claim: Claim
    finding: Finding

    def to_json(self) -> dict[str, Any]:
        """The entry of a verdict file."""
        return {
            "name": self.claim.name,
            "source": self.claim.source,
            "sentence": self.claim.sentence,
            "tolerance": self.claim.tolerance.text,
            "verdict": self.finding.verdict,
            "evidence": self.finding.evidence,
            "seeds": self.finding.seeds,
            "seeds_needed": self.finding.seeds_needed,
        }


def mean_within(
    sample: Sample, low: float = -math.inf, high: float = math.inf, level: float = LEVEL
) -> Finding:
    """Is the mean over seeds between ``low`` and ``high``? The whole interval has to be inside for
    "reproduced" and outside for "contradicted"."""
    if not sample.observations:
        return no_runs(sample)
    verdict = agreed(
        place_of(_mean_interval(values, sample.deterministic, level), low, high)
        for values in sample.possibilities()
    )
    needed = None
    if verdict == UNDECIDED and not sample.failures and len(sample.values) > 1:
        edges = [edge for edge in (low, high) if math.isfinite(edge)]
        gap = min(abs(_mean(sample.values) - edge) for edge in edges)
        needed = seeds_needed(_deviation(sample), gap=gap, level=level)
    evidence = f"{sample.label} {describe_mean(sample, level)}"
    return Finding(verdict, _with_failures(evidence, sample), _count(sample), needed)


def difference_above(a: Sample, b: Sample, margin: float = 0.0, level: float = LEVEL) -> Finding:
    """Is the mean of ``a`` more than ``margin`` above the mean of ``b``? Decided by Welch's
    interval of the difference over independent seeds; where no seed enters either, exactly."""
    if not a.observations or not b.observations:
        return no_runs(a, b)
    exact = a.deterministic and b.deterministic

    def place(interval: Interval | None) -> Verdict:
        if exact and interval is not None and interval.high <= margin:
            return CONTRADICTED  # a tie, too, is not above
        return place_of(interval, margin, math.inf)

    verdict = agreed(
        place(_difference(x, y, a, b, level))
        for x, y in itertools.product(a.possibilities(), b.possibilities())
    )
    if not a.values or not b.values:
        evidence = f"{a.label} {describe_mean(a, level)}, {b.label} {describe_mean(b, level)}"
        return Finding(verdict, _with_failures(evidence, a, b), _count(a, b))
    difference = _mean(a.values) - _mean(b.values)
    interval = _difference(a.values, b.values, a, b, level)
    evidence = (
        f"{a.label} {_mean(a.values):.3f}, {b.label} {_mean(b.values):.3f}: "
        f"difference {difference:+.3f}{_in_words(interval, level)}"
    )
    needed = None
    unsettled = verdict == UNDECIDED and not a.failures and not b.failures
    if unsettled and not exact and interval is not None:
        spread = [_deviation(sample) for sample in (a, b) if not sample.deterministic]
        gap = difference - margin
        needed = seeds_needed(*spread, gap=gap, level=level)
    return Finding(verdict, _with_failures(evidence, a, b), _count(a, b), needed)


def every(tests: Sequence[Callable[[float], Finding]], level: float = LEVEL) -> Finding:
    """Does every test succeed? Each is a function of the level.

    Reproduced where each is reproduced at the full level: all of them have to succeed, so there is
    nothing to correct. Contradicted where one of them is at a level that is corrected for their
    number (Bonferroni), since any one of them may fail by chance.
    """
    if not tests:
        return Finding(UNDECIDED, "there is nothing to compare with", 0)
    findings = [test(level) for test in tests]
    strict = 1 - (1 - level) / len(tests)
    verdict: Verdict = UNDECIDED
    if any(test(strict).verdict == CONTRADICTED for test in tests):
        verdict = CONTRADICTED
    elif all(finding.verdict == REPRODUCED for finding in findings):
        verdict = REPRODUCED
    needed = [finding.seeds_needed for finding in findings if finding.verdict == UNDECIDED]
    known = [seeds for seeds in needed if seeds is not None]
    return Finding(
        verdict,
        "; ".join(finding.evidence for finding in findings),
        min(finding.seeds for finding in findings),
        max(known) if verdict == UNDECIDED and known and len(known) == len(needed) else None,
    )


def share_of_seeds(
    sample: Sample, required: float, certain: float = 0.5, level: float = LEVEL
) -> Finding:
    """Do at least ``required`` of the seeds satisfy a predicate (an observation of 1)?

    Reproduced where the observed share is at least ``required`` and its exact lower limit is above
    ``certain``: a few seeds cannot certify a share of 0.8, only that success is no accident.
    Contradicted where its exact upper limit is below ``required``. See :func:`share_limits`.
    """
    count = len(sample.observations)
    if not count:
        return no_runs(sample)

    def place(successes: int, of: int) -> Verdict:
        if of < 2 and not sample.deterministic:
            return UNDECIDED
        if successes / of >= required and _at_least(successes, of, certain) < 1 - level:
            return REPRODUCED
        at_most = 1 - _at_least(successes + 1, of, required)
        return CONTRADICTED if at_most < 1 - level else UNDECIDED

    fewest = sum(item.low >= 1 for item in sample.observations)
    most = sum(item.high >= 1 for item in sample.observations)
    verdict = agreed([place(fewest, count), place(most, count)])
    needed = None
    if verdict == UNDECIDED and fewest == most:
        larger = range(count + 1, MAXIMUM_SEEDS + 1)
        settled = (n for n in larger if place(round(fewest / count * n), n) != UNDECIDED)
        needed = next(settled, None)
    limits = share_limits(fewest, count, level).low, share_limits(most, count, level).high
    unknown = f", {most - fewest} unknown" if most > fewest else ""
    evidence = (
        f"{sample.label}: {fewest} of {count} seeds{unknown} "
        f"({level:.0%} limits of the true share: {limits[0]:.2f} and {limits[1]:.2f})"
    )
    return Finding(verdict, _with_failures(evidence, sample), count, needed)


def share_limits(successes: int, count: int, level: float = LEVEL) -> Interval:
    """Lower and upper limit of a share, each exact at ``level`` by itself (Clopper and Pearson)."""

    def solve(needed: int, target: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            below = _at_least(needed, count, middle) < target
            low, high = (middle, high) if below else (low, middle)
        return low

    lower = 0.0 if successes == 0 else solve(successes, 1 - level)
    upper = 1.0 if successes == count else solve(successes + 1, level)
    return Interval(lower, upper)


def describe_mean(sample: Sample, level: float = LEVEL) -> str:
    """The mean over the seeds that gave a number, with its interval, in words."""
    if not sample.values:
        return "gave no number"
    interval = _mean_interval(sample.values, sample.deterministic, level)
    return f"{_mean(sample.values):.3f}{_in_words(interval, level)}"


def place_of(interval: Interval | None, low: float, high: float) -> Verdict:
    """Reproduced inside of ``low`` to ``high``, contradicted outside, open across an end."""
    if interval is None:
        return UNDECIDED
    if low < interval.low and interval.high < high:
        return REPRODUCED
    if interval.high < low or interval.low > high:
        return CONTRADICTED
    return UNDECIDED


def agreed(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that is the same whatever runs without a number may have given, if there is."""
    different = set(verdicts)
    return different.pop() if len(different) == 1 else UNDECIDED


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _deviation(sample: Sample) -> float:
    return mean_interval(sample.values).deviation or 0.0


def _mean_interval(values: Sequence[float], deterministic: bool, level: float) -> Interval | None:
    if deterministic:
        return Interval(min(values), max(values))
    return mean_interval(values, level).interval


def _difference(
    x: Sequence[float], y: Sequence[float], a: Sample, b: Sample, level: float
) -> Interval | None:
    if not a.deterministic and not b.deterministic:
        return difference_interval(x, y, level).interval
    of_a = _mean_interval(x, a.deterministic, level)
    of_b = _mean_interval(y, b.deterministic, level)
    if of_a is None or of_b is None:
        return None
    return Interval(of_a.low - of_b.high, of_a.high - of_b.low)


def _in_words(interval: Interval | None, level: float) -> str:
    if interval is None:
        return " (one seed: no interval)"
    if interval.low == interval.high:
        return ""
    return f" ({level:.0%} interval {interval.low:.3f} to {interval.high:.3f})"


def _with_failures(evidence: str, *samples: Sample) -> str:
    return "; ".join([evidence, *(clause for sample in samples for clause in sample.failures)])


def _count(*samples: Sample) -> int:
    counts = [len(sample.observations) for sample in samples if not sample.deterministic]
    return min(counts, default=1)


def no_runs(*samples: Sample) -> Finding:
    """No evidence: a sample has no observations."""
    missing = [sample.label for sample in samples if not sample.observations]
    return Finding(UNDECIDED, f"no runs of {' and '.join(missing)}", 0)


def _at_least(successes: int, count: int, share: float) -> float:
    """Probability of ``successes`` or more of ``count``."""
    return math.fsum(
        math.comb(count, k) * share**k * (1 - share) ** (count - k)
        for k in range(successes, count + 1)
    )
