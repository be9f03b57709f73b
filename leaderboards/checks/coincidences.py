"""What a reader must know of the records of one row, though nothing of it is impossible.

Two settings of which one has no effect train the same weights. A trial and its final run were made
on two processors. Nobody is refused for that; it stands beside the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from bench.config.samplers import key_of
from bench.records.schema import RunRecord, Study
from leaderboards.checks.studies import not_as_chosen

SIZES = ("parameters", "position_parameters", "state_bytes")


def coincidences(records: Sequence[RunRecord]) -> list[str]:
    """What is notable of the records of one row, each in a clause."""
    notes = [clause for clause in map(not_as_chosen, records) if clause]
    if notes:
        notes = [f"{', '.join(notes)}, as runs on different machines have it"]
    if _tell_of_several_searches(records):
        notes.append("its seeds tell of one search with different numbers of its trials")
    trained = [record for record in records if record.weights_sha256 and record.outcome == "ok"]
    for name in SIZES:
        sizes = sorted({getattr(record.cost, name) or 0 for record in trained})
        if len(sizes) > 1:
            words = name.replace("_", " ")
            notes.append(f"its seeds have different {words} ({', '.join(map(str, sizes))})")
    if equal := _of_equal_weights(trained):
        notes.append(f"its seeds {', '.join(map(str, equal))} have the same weights")
    return notes


def _tell_of_several_searches(records: Iterable[RunRecord]) -> bool:
    """Whether two seeds tell of a trial of one search on one processor, which came to the same best
    value, and say otherwise what it came to. An accelerator rounds otherwise each time."""
    studies = [
        (record.provenance.device, _best(record), record.study)
        for record in records
        if record.study is not None and record.provenance.device_class == "cpu"
    ]
    return any(
        (device, best, study.name) == (other_device, other_best, other_study.name)
        and _differ(study, other_study)
        for (device, best, study), (other_device, other_best, other_study) in combinations(
            studies, 2
        )
    )


def _best(record: RunRecord) -> float | None:
    values = [t.value for t in record.study.trials if t.value is not None] if record.study else []
    choose = max if record.headline.direction == "maximise" else min
    return choose(values, default=None)


def _differ(study: Study, other: Study) -> bool:
    """Whether two accounts of a search differ in a trial that both tell of. One may have been
    written when the search had gone on, or was chosen from over all seeds."""
    trial_by_setting = {key_of(trial.parameters): trial for trial in other.trials}
    pairs = ((trial, trial_by_setting.get(key_of(trial.parameters))) for trial in study.trials)
    return any(
        (trial_a.value, trial_a.outcome) != (trial_b.value, trial_b.outcome)
        for trial_a, trial_b in pairs
        if trial_b is not None
    )


def _of_equal_weights(records: Iterable[RunRecord]) -> list[int]:
    """Seeds that another seed has the weights of."""
    seeds: dict[str, set[int]] = {}
    for record in records:
        seeds.setdefault(record.weights_sha256 or "", set()).add(record.seed)
    return sorted(seed for alike in seeds.values() if len(alike) > 1 for seed in alike)
