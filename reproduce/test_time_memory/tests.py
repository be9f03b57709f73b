"""Tests of what is claimed of memories at test time, as functions of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from bench.records.schema import RunRecord
from reproduce.judging.claims import Finding, describe_mean, difference_above, every, mean_within
from reproduce.test_time_memory.records import (
    DELTA,
    HEBB,
    KERNEL,
    LOOKS,
    NEAREST,
    NUMBERS,
    RIDGE,
    WEIGHTS,
    runs_of,
    sample,
)

NEWEST, OLDEST = "recall_newest_quarter", "recall_oldest_quarter"
NEW, STALE, KEPT = "overwrite_new", "overwrite_stale", "overwrite_untouched"
INFINITY = float("inf")

Case = tuple[str, str, str]  # memory, setting, metric


def within(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    models: Sequence[str],
    metric: str,
    variants: Sequence[str] = ("",),
    bounds: tuple[float, float] = (-1.0, 1.0),
) -> Finding:
    """The mean of a metric lies between "low" and "high" for each of the memories and settings."""
    low, high = numbers.get("low", -INFINITY), numbers.get("high", INFINITY)
    return every(
        [
            partial(mean_within, sample(records, m, metric, variant, bounds), low, high)
            for m in models
            for variant in variants
        ]
    )


def between_old_and_new(
    records: Sequence[RunRecord], numbers: Mapping[str, float], models: Sequence[str]
) -> Finding:
    """Old and new values are each found at times, nothing else is, and the other keys are kept."""
    tests = []
    for model in models:
        new, stale, kept = (sample(records, model, metric) for metric in (NEW, STALE, KEPT))
        both = sample(records, model, NEW, bounds=(0.0, 2.0), plus=STALE)
        tests += [
            partial(mean_within, new, numbers["low"], numbers["high"]),
            partial(mean_within, stale, numbers["low"], numbers["high"]),
            partial(mean_within, both, numbers["both"], INFINITY),
            partial(mean_within, kept, numbers["kept"], INFINITY),
        ]
    return every(tests)


def overwritten(
    records: Sequence[RunRecord], numbers: Mapping[str, float], models: Sequence[str]
) -> Finding:
    """New values are found, old ones are not, and the other keys are kept."""
    tests = []
    for model in models:
        new, stale, kept = (sample(records, model, metric) for metric in (NEW, STALE, KEPT))
        tests += [
            partial(mean_within, new, numbers["new"], INFINITY),
            partial(mean_within, stale, -INFINITY, numbers["stale"]),
            partial(mean_within, kept, numbers["kept"], INFINITY),
        ]
    return every(tests)


def oldest_first(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The delta rule has the newest quarter and not the oldest; the sum, where it is so full that
    it loses some, has as much of one as of the other."""
    newest, oldest = (sample(records, DELTA, quarter) for quarter in (NEWEST, OLDEST))
    new, old = (sample(records, HEBB, f"{quarter}_most") for quarter in (NEWEST, OLDEST))
    return every(
        [
            partial(difference_above, newest, oldest, numbers["gap"]),
            partial(mean_within, new, -INFINITY, numbers["loss"]),
            partial(difference_above, new, old, -numbers["even"]),
            partial(difference_above, old, new, -numbers["even"]),
        ]
    )


def most_fragile(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Ridge recalls clean keys, and with noisy ones less than each other memory that does so. A run
    without a number recalls none of its clean keys."""
    clean, noisy = "recall_noise_0", "recall_noise_1"
    ridge = sample(records, RIDGE, noisy)
    tests = [partial(mean_within, sample(records, RIDGE, clean), numbers["exact"], INFINITY)]
    left_out = []
    for model in LOOKS:
        recalls = [item.low for item in sample(records, model, clean).observations]
        if model == RIDGE or not recalls:
            continue
        if sum(recalls) / len(recalls) >= numbers["clean"]:
            tests.append(partial(difference_above, sample(records, model, noisy), ridge, 0.0))
        else:
            left_out.append(runs_of(records, model)[0].label)
    if len(tests) == 1:  # nothing recalls as ridge does
        return every([])
    finding = every(tests)
    names = ", ".join(left_out) or "none"
    return replace(
        finding, evidence=f"{finding.evidence}; left out, since they recall fewer: {names}"
    )


def higher(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    pairs: Sequence[tuple[Case, Case]],
) -> Finding:
    """Of each pair the first number is more than "margin" above the second."""
    tests = []
    for better, worse in pairs:
        a, b = (
            sample(records, model, metric, variant, (-1.0, 1.0))
            for model, variant, metric in (better, worse)
        )
        tests.append(partial(difference_above, a, b, numbers["margin"]))
    return every(tests)


def exceptions(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Retrieval and kernel regression recall what breaks a pattern, and never answer the rule."""
    tests = []
    for model in (NEAREST, KERNEL):
        recalled = sample(records, model, "exceptions_recalled", NUMBERS)
        ruled = sample(records, model, "exceptions_answered_by_rule", NUMBERS)
        tests += [
            partial(mean_within, recalled, numbers["low"], INFINITY),
            partial(mean_within, ruled, -INFINITY, numbers["rule"]),
        ]
    return every(tests)


def memorised(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    experiment: str,
    variant: str,
    count: int | None = None,
) -> Finding:
    """The README's network recalls at least "low" of so many sequences; the evidence also says
    which share of the trainings diverged, and so recall nothing."""
    suffix = "" if count is None else f"_{count}"
    recall = sample(records, WEIGHTS, f"{experiment}_recall{suffix}", variant)
    finding = mean_within(recall, numbers["low"])
    diverged = sample(records, WEIGHTS, f"{experiment}{suffix}_diverged", variant)
    if not diverged.values:
        return finding
    return replace(
        finding, evidence=f"{finding.evidence}; share diverged {describe_mean(diverged)}"
    )
