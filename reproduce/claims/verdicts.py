"""What runs say: verdicts, and the decisions on samples that lead to them.

A verdict has three values. "not enough evidence" is an honest answer: it says how many seeds would
settle the question. A run that gave no number is never dropped: either it counts as the worst
value, or a verdict stands only if it would be the same whatever that run had given. A question that
a preset does not ask has no verdict at all.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from core.effects import Effect, effect_of
from core.statistics import (
    COUNT,
    LEVEL,
    MAXIMUM_SEEDS,
    POWER,
    Interval,
    Items,
    Kind,
    difference_interval,
    interval_of,
    mean_of,
    over_seeds_and_items,
    paired_items,
    share_limits,
)
from reproduce.claims.observations import Sample
from reproduce.claims.settling import counted, fixed_of_difference, fixed_parts, more_seeds

Verdict = Literal["reproduced", "contradicted", "not enough evidence", "not asked here"]
REPRODUCED: Verdict = "reproduced"
CONTRADICTED: Verdict = "contradicted"
UNDECIDED: Verdict = "not enough evidence"
NOT_ASKED: Verdict = "not asked here"

At = Callable[[float], Verdict]

FEW = 10  # test items whose interval is called one of few


@dataclass(frozen=True)
class Finding:
    """What a test found.

    Attributes:
        seeds: seeds that were counted, failed ones included; of several models the fewest.
        seeds_needed: seeds (of each model) that would settle it with a probability of 80 % if
            spread and effect stay as they are; None where it is settled or cannot be computed.
        topic: of a question that is not asked, what the preset leaves out, such as "N = 500".
        asked_at: the preset that asks it.
        effect: how large the difference is that decides.
        at: the verdict of the same test at another level; without it, that has to be judged again.
    """

    verdict: Verdict
    evidence: str
    seeds: int
    seeds_needed: int | None = None
    topic: str = ""
    asked_at: str = ""
    effect: Effect | None = None
    at: At | None = field(default=None, compare=False, repr=False)


def not_asked(topic: str, reason: str, asked_at: str = "") -> Finding:
    """No verdict: the runs at hand are not what the claim speaks about."""
    return Finding(NOT_ASKED, reason, 0, None, topic, asked_at)


def mean_within(
    sample: Sample, low: float = -math.inf, high: float = math.inf, level: float = LEVEL
) -> Finding:
    """Is the mean over seeds between ``low`` and ``high``, ends included? The whole interval has to
    be inside for "reproduced" and outside for "contradicted"."""
    if not sample.observations:
        return no_runs(sample)

    def at(level: float) -> Verdict:
        intervals = (sample.interval(values, level) for values in sample.possibilities())
        return agreed(place_of(interval, low, high) for interval in intervals)

    verdict, needed, effect = at(level), None, None
    interval = sample.interval(sample.values, level) if sample.values else None
    if sample.values and low != high:
        effect = _from_end(sample, low, high)
    if verdict == UNDECIDED and not sample.failures and interval is not None:
        fixed = fixed_parts(over_seeds_and_items(sample.values, sample.kind, sample.items))
        needed = more_seeds((sample,), mean_of(sample.values), (low, high), level, fixed)
    evidence = with_failures(f"{sample.label} {describe_mean(sample, level)}", sample)
    return Finding(verdict, evidence, counted(sample), needed, effect=effect, at=at)


def _from_end(sample: Sample, low: float, high: float) -> Effect:
    """How far the mean is from the nearest end of what a claim allows. Where a number's own range
    ends, as a share does at 1, a claim allows what there is, and says nothing."""
    mean = mean_of(sample.values)
    finite = [end for end in (low, high) if math.isfinite(end)]
    inner_ends = [end for end in finite if end not in (sample.kind.low, sample.kind.high)]
    end = min(inner_ends or finite, key=lambda allowed: abs(mean - allowed))
    return effect_of(f"{sample.label} minus {end:g}", sample.values, [end], sample.kind.name)


def difference_above(
    a: Sample, b: Sample, margin: float = 0.0, level: float = LEVEL, together: Items | None = None
) -> Finding:
    """Is the mean of ``a`` more than ``margin`` above the mean of ``b``? A tie is not above."""
    exact = a.deterministic and b.deterministic

    def place(interval: Interval | None) -> Verdict:
        if exact and interval is not None and interval.high <= margin:
            return CONTRADICTED
        if interval is not None and interval.low <= margin < interval.high:
            return UNDECIDED
        return place_of(interval, margin, math.inf)

    return _difference(a, b, place, (margin,), level, together)


def difference_within(
    a: Sample,
    b: Sample,
    low: float,
    high: float,
    level: float = LEVEL,
    together: Items | None = None,
) -> Finding:
    """Is the mean of ``a`` minus the mean of ``b`` between ``low`` and ``high``?

    Args:
        together: the test items of this very difference, where both were measured on the same ones
            and the records hold its variance rather than a number for each.
    """
    return _difference(
        a, b, lambda interval: place_of(interval, low, high), (low, high), level, together
    )


def _difference(
    a: Sample,
    b: Sample,
    place: Callable[[Interval | None], Verdict],
    edges: Sequence[float],
    level: float,
    together: Items | None,
) -> Finding:
    """The verdict that ``place`` gives the interval of a - b; ``edges`` are where it changes."""
    if not a.observations or not b.observations:
        return no_runs(a, b)
    paired = together or paired_items(a.items, b.items)

    def at(level: float) -> Verdict:
        pairs = itertools.product(a.possibilities(), b.possibilities())
        return agreed(place(_interval(x, y, a, b, level, paired)) for x, y in pairs)

    verdict = at(level)
    if not a.values or not b.values:
        evidence = f"{a.label} {describe_mean(a, level)}, {b.label} {describe_mean(b, level)}"
        return Finding(verdict, with_failures(evidence, a, b), counted(a, b))
    difference = mean_of(a.values) - mean_of(b.values)
    interval = _interval(a.values, b.values, a, b, level, paired)
    items = paired or (a.items if a.items and b.items else None)
    evidence = (
        f"{a.label} {mean_of(a.values):.3f}, {b.label} {mean_of(b.values):.3f}: difference "
        f"{difference:+.3f}{in_words(interval, level, items, min(len(a.values), len(b.values)))}"
    )
    needed = None
    unsettled = verdict == UNDECIDED and not a.failures and not b.failures
    exact = a.deterministic and b.deterministic
    if unsettled and not exact and interval is not None:
        needed = more_seeds((a, b), difference, edges, level, fixed_of_difference(a, b, paired))
    effect = effect_of(f"{a.label} minus {b.label}", a.values, b.values, a.kind.name)
    evidence = with_failures(evidence, a, b)
    return Finding(verdict, evidence, counted(a, b), needed, effect=effect, at=at)


def every(tests: Sequence[Callable[[float], Finding]], level: float = LEVEL) -> Finding:
    """Does every test succeed? Each is a function of the level.

    Reproduced where each is reproduced at the full level: all of them have to succeed, so there is
    nothing to correct. Contradicted where one of them is at a level that is corrected for their
    number (Bonferroni), since any one of them may fail by chance. Otherwise not asked where one of
    them is not.
    """
    if not tests:
        return Finding(UNDECIDED, "there is nothing to compare with", 0)
    results = [test(level) for test in tests]
    parts = [at_levels(result, level, test) for result, test in zip(results, tests, strict=True)]

    def at(level: float) -> Verdict:
        strict = 1 - (1 - level) / len(parts)
        if any(part(strict) == CONTRADICTED for part in parts):
            return CONTRADICTED
        at_this_level = {part(level) for part in parts}
        if NOT_ASKED in at_this_level:
            return NOT_ASKED
        return REPRODUCED if at_this_level == {REPRODUCED} else UNDECIDED

    verdict = at(level)
    if verdict == NOT_ASKED:
        return next(finding for finding in results if finding.verdict == NOT_ASKED)
    findings = [finding for finding in results if finding.verdict != NOT_ASKED]
    # A part that is contradicted, but not surely enough, has no such number: nor has the whole.
    needed = [finding.seeds_needed for finding in findings if finding.verdict != REPRODUCED]
    known_seeds = [seeds for seeds in needed if seeds is not None]
    return Finding(
        verdict,
        "; ".join(finding.evidence for finding in findings),
        min(finding.seeds for finding in findings),
        max(known_seeds)
        if verdict == UNDECIDED and known_seeds and len(known_seeds) == len(needed)
        else None,
        effect=_of_parts(verdict, findings),
        at=at,
    )


def at_levels(finding: Finding, level: float, test: Callable[[float], Finding]) -> At:
    """The verdict of a test at any level, of which ``finding`` is what it found at one: judged
    again where the finding does not know, or where its verdict was changed afterwards."""
    if finding.at is not None and finding.at(level) == finding.verdict:
        return finding.at
    return lambda other: test(other).verdict


def _of_parts(verdict: Verdict, findings: Sequence[Finding]) -> Effect | None:
    """The smallest effect where all parts have to hold, the largest of those that contradict."""
    deciding = [
        finding.effect for finding in findings if finding.effect and finding.verdict == verdict
    ]
    with_deviation = [effect for effect in deciding if effect.standardised is not None] or deciding
    choose = max if verdict == CONTRADICTED else min
    sizes = lambda effect: abs(effect.standardised or effect.difference)  # noqa: E731
    return choose(with_deviation, key=sizes) if with_deviation else None


def share_of_seeds(
    sample: Sample, required: float, certain: float = 0.5, level: float = LEVEL
) -> Finding:
    """Do at least ``required`` of the seeds satisfy a predicate (an observation of 1)?

    Reproduced where the observed share is at least ``required`` and the lower of its exact limits
    is above ``certain``: a few seeds cannot certify a share of 0.8, only that success is no
    accident. Contradicted where the upper limit is below ``required``.
    """
    count = len(sample.observations)
    if not count:
        return no_runs(sample)

    def place(successes: int, of: int, level: float = level) -> Verdict:
        if of < 2 and not sample.deterministic:
            return UNDECIDED
        limits = share_limits(successes, of, level)
        if successes / of >= required and limits.low > certain:
            return REPRODUCED
        return CONTRADICTED if limits.high < required else UNDECIDED

    fewest = sum(item.low >= 1 for item in sample.observations)
    most = sum(item.high >= 1 for item in sample.observations)

    def at(level: float) -> Verdict:
        return agreed([place(fewest, count, level), place(most, count, level)])

    verdict = at(level)
    needed = None
    if verdict == UNDECIDED and fewest == most:
        needed = _shares_needed(place, fewest / count, count)
    limits = share_limits(fewest, count, level).low, share_limits(most, count, level).high
    unknown = f", {most - fewest} unknown" if most > fewest else ""
    evidence = (
        f"{sample.label}: {fewest} of {count} seeds{unknown} "
        f"({level:.0%} interval of the true share {limits[0]:.2f} to {limits[1]:.2f})"
    )
    of = f"share of seeds, {sample.label}, minus {required:g}"
    effect = effect_of(of, sample.values, [required], "share") if sample.values else None
    return Finding(verdict, with_failures(evidence, sample), count, needed, effect=effect, at=at)


def _shares_needed(place: Callable[[int, int], Verdict], share: float, least: int) -> int | None:
    """The smallest number of seeds that settles it with the power, if the share is the true one."""
    from scipy.special import bdtr, bdtrc  # the binomial distribution

    def chance(count: int) -> float:
        # Few successes contradict, many reproduce.
        numbers = range(count + 1)
        largest_contradicting = bisect_left(
            numbers, True, key=lambda k: place(k, count) != CONTRADICTED
        )
        smallest_reproducing = bisect_left(
            numbers, True, key=lambda k: place(k, count) == REPRODUCED
        )
        contradicting = largest_contradicting - 1
        return float(
            (bdtr(contradicting, count, share) if contradicting >= 0 else 0.0)
            + (bdtrc(smallest_reproducing - 1, count, share) if smallest_reproducing else 1.0)
        )

    return next((n for n in range(least + 1, MAXIMUM_SEEDS + 1) if chance(n) >= POWER), None)


def describe_mean(sample: Sample, level: float = LEVEL) -> str:
    """The mean over the seeds that gave a number, with its interval, in words."""
    if not sample.values:
        return "gave no number"
    interval = sample.interval(sample.values, level)
    words = in_words(interval, level, sample.items, len(sample.values))
    counted = sample.deterministic and sample.kind is COUNT
    return f"{mean_of(sample.values):{',.0f' if counted else '.3f'}}{words}"


def place_of(interval: Interval | None, low: float, high: float) -> Verdict:
    """Reproduced inside of ``low`` to ``high``, contradicted outside, open across an end."""
    if interval is None:
        return UNDECIDED
    if low <= interval.low and interval.high <= high:
        return REPRODUCED
    if interval.high < low or interval.low > high:
        return CONTRADICTED
    return UNDECIDED


def agreed(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that is the same whatever runs without a number may have given, if there is."""
    different = set(verdicts)
    return different.pop() if len(different) == 1 else UNDECIDED


def in_words(interval: Interval | None, level: float, items: Items | None, seeds: int) -> str:
    """An interval in brackets with what it covers, or why there is none."""
    if interval is None:
        if seeds < 2:
            return " (one seed: no interval)"
        if items is not None and items.count < 2:
            return f" ({items.count} of the {items.name}: no interval)"
        return " (no spread over seeds: no interval)"
    if interval.low == interval.high:
        return ""
    over = "" if items is None else f" over seeds and {items.count} {items.name}"
    warning = ", which are few" if items is not None and items.count < FEW else ""
    return f" ({level:.0%} interval{over}{warning} {interval.low:.3f} to {interval.high:.3f})"


def with_failures(evidence: str, *samples: Sample) -> str:
    """The evidence, and how each run ended that gave no number."""
    return "; ".join([evidence, *(clause for sample in samples for clause in sample.failures)])


def no_runs(*samples: Sample) -> Finding:
    """No evidence: a sample has no observations."""
    missing = [sample.label for sample in samples if not sample.observations]
    return Finding(UNDECIDED, f"no runs of {' and '.join(missing)}", 0)


def _interval(
    x: Sequence[float],
    y: Sequence[float],
    a: Sample,
    b: Sample,
    level: float,
    together: Items | None,
) -> Interval | None:
    if not a.deterministic and not b.deterministic:
        interval = difference_interval(x, y, a.kind, (a.items, b.items), level, together)
        if interval is not None or level >= LEVEL:
            return interval
    elif together is not None and min(len(x), len(y)) == 1:
        # What no seed enters moves with the test items, and so does the other, with the same ones.
        kind = Kind("difference", a.kind.low - a.kind.high, a.kind.high - a.kind.low)
        interval = interval_of([p - q for p in x for q in y], kind, together, level)
        if interval is not None:
            return interval
    of_a, of_b = a.interval(x, level), b.interval(y, level)
    if of_a is None or of_b is None:
        return None
    return Interval(of_a.low - of_b.high, of_a.high - of_b.low)
