"""Repeats within one record, where a measurement draws its trials itself; and facts, which no
random number enters.

Example: the accuracies of all trials of all seeds, each on 64 tokens of its own::

    def rules(records):
        yield within(drawn("accuracy", pooled(RUNS.of(records), "accuracy"), SHARE, 64), low=0.9)

    over_trials(each(rules, "mean accuracy at least 0.9"), RUNS.of, "measured accuracy")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from bench.records.schema import RunRecord
from core.statistics import REAL, Items, Kind
from reproduce.claims.grammar import Drawn, Records, Rule
from reproduce.claims.observations import Observation, Sample, how_it_ended
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED, Finding, every

EXACT = -1  # in the place of a seed, where no random number enters
Found = TypeVar("Found")


def sample(label: str, values: Sequence[float], kind: Kind = REAL, items: float = 0.0) -> Sample:
    """A number over independent trials.

    Args:
        items: on how many test items of its own each trial is measured, if that is known.
    """
    observations = tuple(Observation(trial, value, value) for trial, value in enumerate(values))
    # The spread over trials holds that of their items, so these have no variance of their own.
    trial_items = Items(int(items * len(observations)), 0.0) if items else None
    return Sample(label, observations, kind=kind, items=trial_items)


def drawn(label: str, values: Sequence[float], kind: Kind = REAL, items: float = 0.0) -> Drawn:
    """Such a sample where the grammar takes a number that is still to be read."""
    return Drawn(label, lambda _: sample(label, values, kind, items))


def exact(label: str, value: float, kind: Kind = REAL) -> Drawn:
    """A number that no seed enters."""
    value_sample = Sample(label, (Observation(EXACT, value, value),), deterministic=True, kind=kind)
    return Drawn(label, lambda _: value_sample)


def paired(label: str, columns: Iterable[Sequence[float | None]], kind: Kind = REAL) -> Drawn:
    """The first of two lists minus the second, trial by trial; a trial in which one of them has no
    number is left out."""
    pairs = zip(*columns, strict=True)
    return drawn(label, [x - y for x, y in pairs if x is not None and y is not None], kind)


def finished(records: Records) -> list[RunRecord]:
    """Those with a result."""
    return [record for record in records if record.outcome == "ok"]


def pooled(records: Sequence[RunRecord], name: str) -> list[float]:
    """The trials of an array of one number each, of all seeds in turn."""
    by_seed = sorted(records, key=lambda record: record.seed)
    return [value for record in by_seed for value in record.arrays.get(name, [])]


def over_trials(rule: Rule, of: Callable[[Records], list[RunRecord]], noun: str) -> Rule:
    """A rule on the trials of some runs.

    How many seeds would settle it is said in seeds of the command. A run without a result may have
    held any trials, so that nothing is settled without it.

    Args:
        of: finds the runs.
        noun: what is missing where they hold no trials.
    """

    def judge(records: Records, level: float) -> Finding:
        runs = of(records)
        finding = rule.judge(records, level)
        if not finished(runs) or (finding.verdict == UNDECIDED and not finding.seeds):
            return missing(noun, runs or records)
        if failures := lost(runs):
            evidence = "; ".join([finding.evidence, *failures])
            return replace(finding, verdict=UNDECIDED, evidence=evidence, seeds_needed=None)
        return in_seeds(finding, runs)

    return replace(rule, judge=judge)


def fact(
    text: str,
    noun: str,
    read: Callable[[Records], Found | None],
    judge: Callable[..., Finding],
    **numbers: float,
) -> Rule:
    """What holds or does not, without an interval.

    Args:
        text: of the rule, with its ``numbers`` in braces.
        noun: what is missing where ``read`` finds nothing.
        judge: decides on what was read, by the same numbers.
    """

    def test(records: Records, level: float) -> Finding:
        facts = read(records)
        return judge(facts, **numbers) if facts else missing(noun, records)

    return Rule(text.format(**numbers), test, numbers)


def settled(holds: bool, evidence: str, seeds: int = 1) -> Finding:
    """Reproduced or contradicted."""
    return Finding(REPRODUCED if holds else CONTRADICTED, evidence, seeds)


def in_seeds(finding: Finding, records: Sequence[RunRecord]) -> Finding:
    """A finding over trials, with the number that would settle it counted in seeds.

    A command makes whole seeds, each a record with several trials.
    """
    if finding.seeds_needed is None:
        return finding
    trials = finding.seeds / len({record.seed for record in records})
    return replace(finding, seeds_needed=math.ceil(finding.seeds_needed / trials))


def missing(noun: str, records: Sequence[RunRecord] = ()) -> Finding:
    """Nothing was measured; runs that failed are named."""
    return Finding(UNDECIDED, "; ".join([f"no {noun} among the records", *lost(records)]), 0)


def lost(records: Records) -> list[str]:
    """How each run without a result ended."""
    return [
        f"{record.label} seed {record.seed} {how_it_ended(record)}"
        for record in records
        if record.outcome != "ok"
    ]


def largest_of(
    parts: Callable[[Records], Iterable[tuple[float, Rule]]], noun: str, text: str
) -> Rule:
    """Every rule holds, as in ``grammar.each``; of too many to tell the evidence of all.

    Args:
        parts: finds the rules in the records, each with a size, such as an error.
        noun: what they are, in words; the evidence is that of the largest, and of all that fail.
    """

    def judge(records: Records, level: float) -> Finding:
        by_size = sorted(parts(records), key=lambda part: -part[0])
        finding = every([partial(rule.judge, records) for _, rule in by_size], level)
        if not by_size:
            return finding
        first, *others = (rule.judge(records, level) for _, rule in by_size)
        failing = [other.evidence for other in others if other.verdict != REPRODUCED]
        largest = f"the largest of {len(by_size)} {noun}: {first.evidence}"
        return replace(finding, evidence="; ".join([largest, *failing]))

    return Rule(text, judge)
