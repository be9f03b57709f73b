"""What a reader must know of the records of one row, though nothing of it is impossible.

Two settings of which one has no effect train the same weights. A trial and its final run were made
on two processors. Nobody is refused for that; it stands beside the row.
"""

from __future__ import annotations

from collections import defaultdict
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
    seeds_by_weights: dict[str | None, set[int]] = defaultdict(set)
    for record in trained:
        seeds_by_weights[record.weights_sha256].add(record.seed)
    equal: list[int] = []
    for seeds in seeds_by_weights.values():
        equal += seeds if len(seeds) > 1 else []
    if equal:
        notes.append(f"its seeds {', '.join(map(str, sorted(equal)))} have the same weights")
    return notes


def _tell_of_several_searches(records: Iterable[RunRecord]) -> bool:
    """Whether two seeds tell of a trial of one search on one processor, which came to the same best
    value, and say otherwise what it came to. An accelerator rounds otherwise each time."""
    studies: dict[tuple[str, float | None, str], list[Study]] = defaultdict(list)
    for record in records:
        if record.study is not None and record.provenance.device_class == "cpu":
            values = [trial.value for trial in record.study.trials if trial.value is not None]
            choose = max if record.headline.direction == "maximise" else min
            best = choose(values, default=None)
            studies[record.provenance.device, best, record.study.name].append(record.study)
    for alike in studies.values():
        for study, other in combinations(alike, 2):
            if _differ(study, other):
                return True
    return False


def _differ(study: Study, other: Study) -> bool:
    """Whether two accounts of a search differ in a trial that both tell of. One may have been
    written when the search had gone on, or was chosen from over all seeds."""
    trial_by_setting = {key_of(trial.parameters): trial for trial in other.trials}
    for trial in study.trials:
        same = trial_by_setting.get(key_of(trial.parameters), trial)
        if (trial.value, trial.outcome) != (same.value, same.outcome):
            return True
    return False
