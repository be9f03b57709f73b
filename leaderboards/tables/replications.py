"""Runs that were made once more: beside which row they stand, and whether seeds explain what they
differ by. All that is known of a machine is what its records say: processor and system."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bench.records.numbers import kind_of
from core.statistics import ROUNDING, Interval, Kind, deviation_of, half_width, mean_of
from core.statistics import over_seeds as part_over_seeds
from leaderboards.checks.seeds import missing_seeds
from leaderboards.tables.grouping import SettingRecords, one_of_each
from leaderboards.tables.lines import Replication
from leaderboards.tables.status import Check, VerificationStatuses
from leaderboards.tables.summaries import OFF_THE_BOARD, YOURS, RecordSummary, hash_of

VERIFIED = "verified"  # origin of a run that leaderboards.verify made again


class SplitRuns(NamedTuple):
    """The runs that a board is made of, and those that belong to a row of these: their numbers are
    shown beside that row and never change it.

    Attributes:
        yours: one's own of what is committed.
        unverified: sent for what is there, and not run again.
    """

    ranked: list[RecordSummary]
    yours: list[RecordSummary]
    unverified: list[RecordSummary]


def split_by_origin(
    summaries: Iterable[RecordSummary], statuses: VerificationStatuses
) -> SplitRuns:
    """Sort runs by whether they may change a row. Of a setting of which nobody may be ranked, what
    was sent is a row of its own."""
    on_board = [summary for summary in summaries if summary.role not in OFF_THE_BOARD]
    others = [summary for summary in on_board if summary.origin != YOURS]
    committed = {summary.content for summary in others}  # the same record is no run of its own
    yours = [s for s in on_board if s.origin == YOURS and s.content not in committed]
    yours = without_failures_of_older_code(yours)
    may_rank = [summary for summary in others if statuses.may_rank(summary)]
    sent = [summary for summary in others if not statuses.may_rank(summary)]
    yours_beside, new_settings = _by_family(yours, may_rank)
    ranked = may_rank + new_settings
    sent_beside, sent_settings = _by_family(sent, ranked)
    ranked_runs = {(summary.identity, summary.seed) for summary in ranked}
    new_seeds = [s for s in sent_beside if (s.identity, s.seed) not in ranked_runs]
    return SplitRuns(ranked + sent_settings, one_of_each(yours_beside), one_of_each(new_seeds))


def without_failures_of_older_code(yours: Sequence[RecordSummary]) -> list[RecordSummary]:
    """One's own runs but for settings of which every run failed, where a later run of the same
    model on the same task has other code: what was mended since. Beside a run that went well a
    failed one says that seeds differ, and stays."""
    by_identity: dict[str, list[RecordSummary]] = defaultdict(list)
    by_model: dict[tuple[str, ...], list[RecordSummary]] = defaultdict(list)
    for summary in yours:
        by_identity[summary.identity].append(summary)
        by_model[_model_of(summary)].append(summary)
    shown = []
    for runs in by_identity.values():
        last = max(run.started_at for run in runs)
        later = [other for other in by_model[_model_of(runs[0])] if other.started_at > last]
        is_mended = any(_code_of(other) != _code_of(runs[0]) for other in later)
        if not is_mended or any(run.outcome != "failed" for run in runs):
            shown += runs
    return shown


def _model_of(summary: RecordSummary) -> tuple[str, ...]:
    """A model on a task, by the place of its class: two files may have classes of one name."""
    return summary.task, summary.model, str(summary.facts.setting.get("models._target_"))


def _code_of(summary: RecordSummary) -> tuple[str, str]:
    return str(summary.facts.setting.get("model code")), summary.task_code


def _by_family(
    summaries: Iterable[RecordSummary], among: Iterable[RecordSummary]
) -> tuple[list[RecordSummary], list[RecordSummary]]:
    """The summaries whose setting some others have too, and the rest."""
    families = {summary.beside_data for summary in among}
    beside: list[RecordSummary] = []
    rest: list[RecordSummary] = []
    for summary in summaries:
        (beside if summary.beside_data in families else rest).append(summary)
    return beside, rest


def entries_beside(
    entries: Sequence[SettingRecords], beside: Sequence[RecordSummary], kind: str
) -> dict[int, SettingRecords]:
    """Number of an entry -> the entry of other runs of the same setting, where there are any."""
    by_identity: dict[str, list[int]] = defaultdict(list)
    by_family: dict[str, list[int]] = defaultdict(list)
    for number, entry in enumerate(entries):
        for identity in {summary.identity for summary in entry.summaries}:
            by_identity[identity].append(number)
        by_family[entry.first.beside_data].append(number)
    summaries_by_number: dict[int, list[RecordSummary]] = defaultdict(list)
    for summary in sorted(beside, key=lambda s: (s.data_seed, s.seed, s.run_id)):
        # Of a data seed that the board lacks it is a run of the same setting nevertheless.
        for number in by_identity.get(summary.identity) or by_family[summary.beside_data][:1]:
            summaries_by_number[number].append(summary)
    entry_by_number = {}
    for number, runs in summaries_by_number.items():
        # Their seeds may go on from those of the setting.
        all_runs = [*entries[number].summaries, *runs]
        note = missing_seeds((summary.data_seed, summary.seed) for summary in all_runs)
        notes = (note,) if note else ()
        entry_by_number[number] = replace(
            entries[number], summaries=tuple(runs), beside=kind, notes=notes
        )
    return entry_by_number


def replications(entry: SettingRecords, beside: SettingRecords) -> list[Replication]:
    """The runs of an entry with those that were made once more under the same identity and seed."""
    summary_by_run = {(summary.identity, summary.seed): summary for summary in entry.summaries}
    values = [s.value for s in entry.summaries if s.outcome == "ok" and s.value is not None]
    explained = one_more(values, kind_of(entry.first.task, entry.first.metric))
    pairs = []
    for other in beside.summaries:
        if summary := summary_by_run.get((other.identity, other.seed)):
            pairs.append(_pair(entry, summary, other, explained))
    return pairs


def verified_again(
    entries: Iterable[SettingRecords], statuses: VerificationStatuses
) -> list[Replication]:
    """What ``leaderboards.verify`` found where it made runs of these entries again, whether they
    passed or not; a record that stands in several tables counts in the first."""
    seen: set[str] = set()
    reruns = []
    for entry in entries:
        for summary in entry.summaries:
            checks = [] if summary.content in seen else statuses.about(summary).checks
            seen.add(summary.content)
            for check in checks:
                if check.level == "re-run" and check.made:
                    reruns.append(_checked(entry, summary, check))
    return reruns


def _checked(entry: SettingRecords, summary: RecordSummary, check: Check) -> Replication:
    outcome, recorded = check.outcome or summary.outcome, summary.value
    bounded = recorded is not None and check.bound is not None
    blank = _pair(entry, summary, replace(summary, origin=VERIFIED, weights=None), None)
    return replace(
        blank,
        other_machine=", ".join(part for part in (check.device, check.system) if part),
        other_outcome=outcome,
        other_value=check.found,
        same_numbers=(outcome, hash_of(check.metrics)) == (summary.outcome, summary.tested),
        same_weights=None,
        low=recorded - check.bound if bounded else None,  # type: ignore[operator]
        high=recorded + check.bound if bounded else None,  # type: ignore[operator]
        outside=check.is_outside,
        by=check.by,
    )


def _pair(
    entry: SettingRecords, summary: RecordSummary, other: RecordSummary, explained: Interval | None
) -> Replication:
    return Replication(
        task=summary.task,
        preset=summary.preset,
        variant=entry.variant,
        group=entry.group,
        model=summary.model,
        label=summary.label,
        setting=entry.name,
        metric=summary.metric,
        direction=summary.direction,
        seed=summary.seed,
        data_seed=summary.data_seed,
        run_id=summary.run_id,
        other_run_id=other.run_id,
        origin=other.origin,
        machine=summary.machine,
        other_machine=other.machine,
        outcome=summary.outcome,
        other_outcome=other.outcome,
        value=summary.value,
        other_value=other.value,
        same_numbers=summary.numbers == other.numbers,
        same_weights=summary.weights == other.weights if summary.weights or other.weights else None,
        low=explained.low if explained else None,
        high=explained.high if explained else None,
        outside=_outside(summary, other, explained),
    )


def one_more(values: Sequence[float], kind: Kind) -> Interval | None:
    """The interval of 95 % for one more seed (Student's prediction interval); None where fewer than
    two seeds, or equal ones, tell nothing of the spread."""
    deviation = deviation_of(values)
    if len(values) < 2 or deviation <= ROUNDING:
        return None
    _, freedom = part_over_seeds(deviation, len(values))
    half = half_width([(deviation**2 * (1 + 1 / len(values)), freedom)])
    mean = mean_of(values)
    return Interval(max(kind.low, mean - half), min(kind.high, mean + half))


def _outside(
    summary: RecordSummary, other: RecordSummary, explained: Interval | None
) -> bool | None:
    """Whether the other run is none that seeds explain; None where nobody can tell."""
    if summary.numbers == other.numbers:
        return False
    if summary.outcome != other.outcome:
        return True
    if explained is None or other.value is None:
        return None
    return not explained.low <= other.value <= explained.high


@dataclass(frozen=True)
class OneMachine:
    """What one machine gave for the runs of a setting, beside what the board has for them."""

    name: str
    runs: int
    same: int  # of them with the very numbers
    mean_difference: float | None
    largest_difference: float | None  # in absolute value


@dataclass(frozen=True)
class Replicated:
    """What all replications of one setting say together.

    Attributes:
        machines: different processors and systems, that of the board's runs with them.
        confirmed: runs that gave the very numbers.
        outside: runs that gave what seeds do not explain.
        each: the machines of the replications, by name.
    """

    machines: int
    runs: int
    confirmed: int
    outside: int
    each: tuple[OneMachine, ...]


def summarised(lines: Sequence[Replication]) -> Replicated:
    """The replications of one setting, or of as many as are of interest, together."""
    by_machine: dict[str, list[Replication]] = defaultdict(list)
    for line in lines:
        by_machine[line.other_machine].append(line)
    names = {line.machine for line in lines} | set(by_machine)
    # A machine whose system nobody has told is any of the same processor.
    different = [n for n in names if not any(other.startswith(f"{n}, ") for other in names)]
    machines = []
    for name, runs in sorted(by_machine.items()):
        differences = [run.difference for run in runs if run.difference is not None]
        machine = OneMachine(
            name=name,
            runs=len(runs),
            same=sum(run.same_numbers for run in runs),
            mean_difference=mean_of(differences) if differences else None,
            largest_difference=max(map(abs, differences), default=None),
        )
        machines.append(machine)
    return Replicated(
        machines=len(different),
        runs=len(lines),
        confirmed=sum(line.same_numbers for line in lines),
        outside=sum(line.outside is True for line in lines),
        each=tuple(machines),
    )
