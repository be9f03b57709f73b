"""What a reader must know of the records of one row, though nothing of it is impossible.

Two settings of which one has no effect train the same weights. A trial and its final run were made
on two processors. Nobody is refused for that; it stands beside the row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from bench.config.questions import QUESTIONS
from bench.config.samplers import key_of
from bench.records.code import is_own
from bench.records.schema import RunRecord, Study
from leaderboards.checks.studies import not_as_chosen
from leaderboards.checks.training import is_trained

MEASURED = "state bytes"  # of a guest, by its question of the examination
SIZES = ("parameters", "position_parameters", "state_bytes")


def coincidences(records: Sequence[RunRecord]) -> list[str]:
    """What is notable of the records of one row, each in a clause."""
    notes = [clause for clause in map(not_as_chosen, records) if clause]
    if notes:
        notes = [f"{', '.join(notes)}, as runs on different machines have it"]
    notes += [*_in_buffers(records), *_declared_state(records)]
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


def _in_buffers(records: Iterable[RunRecord]) -> Iterator[str]:
    """What a model has learned beside its parameters, by the seed that changed most."""
    costs = [record.cost for record in records if record.cost.changed_buffers]
    if not costs:
        return
    cost = max(costs, key=lambda cost: cost.changed_buffers or 0)
    changed = cost.changed_buffers or 0
    more = ", more than these" if changed > cost.parameters else ""
    yield (
        f"beside its {cost.parameters:,} parameters training changed {changed:,} numbers in "
        f"buffers{more}"
    )


def _declared_state(records: Iterable[RunRecord]) -> Iterator[str]:
    """Whether the size of the state of a stranger's model is what that says, and nothing else."""
    for record in records:
        if record.outcome != "ok" or record.cost.state_bytes is None or not is_trained(record):
            continue
        before = record.examination.before if record.examination else []
        if not is_own(str(record.config["models"].get("_target_"))) and MEASURED not in before:
            yield QUESTIONS[MEASURED].note
            return


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
