"""Repeats within one record: a measurement draws its trials itself, and each is an observation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from bench.records.schema import RunRecord
from reproduce.judging.claims import Finding
from reproduce.judging.observations import Observation, Sample, how_it_ended

EXACT = -1  # in the place of a seed, where no random number enters


def sample(label: str, values: Sequence[float]) -> Sample:
    """A number over independent trials."""
    found = tuple(Observation(trial, value, value) for trial, value in enumerate(values))
    return Sample(label, found)


def exact(label: str, value: float) -> Sample:
    """A number that no seed enters."""
    return Sample(label, (Observation(EXACT, value, value),), deterministic=True)


def pooled(records: Sequence[RunRecord], name: str) -> list[float]:
    """The trials of an array of one number each, of all seeds in turn."""
    by_seed = sorted(records, key=lambda record: record.seed)
    return [value for record in by_seed for value in record.arrays.get(name, [])]


def in_seeds(finding: Finding, records: Sequence[RunRecord]) -> Finding:
    """A finding over trials, whose number that would settle it is said in seeds of the command:
    each of them is a record with several trials."""
    if finding.seeds_needed is None:
        return finding
    trials = finding.seeds / len({record.seed for record in records})
    return replace(finding, seeds_needed=math.ceil(finding.seeds_needed / trials))


def missing(what: str, records: Sequence[RunRecord] = ()) -> Finding:
    """Nothing was measured; runs that failed are named."""
    lost = [
        f"{record.label} seed {record.seed} {how_it_ended(record)}"
        for record in records
        if record.outcome != "ok"
    ]
    return Finding("not enough evidence", "; ".join([f"no {what} among the records", *lost]), 0)
