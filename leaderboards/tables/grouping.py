"""Records sorted into model settings and groups: which runs are seeds of one setting, and which
settings may be ranked together. Sorting reads summaries; the numbers come later."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from bench.records.equivalence import CodeStatus
from bench.records.schema import RunRecord
from core.errors import VERIFICATION_FAILED, UserError
from leaderboards.checks.coincidences import coincidences
from leaderboards.checks.seeds import missing_seeds
from leaderboards.tables.status import REPORTED, VerificationStatus
from leaderboards.tables.summaries import OFF_THE_BOARD, SUBMITTED, YOURS, RecordSummary
from reproduce.claims.fairness import IMPROVING, Mark, marks

# What makes a row fail, the gravest first.
SEVERITY = ("failed", "out_of_memory", "diverged", "interrupted", "ok")
# A number on text says nothing without the text, even where there is no other to tell it from.
ALWAYS_NAMED = ("corpus",)
UP_TO_ROUNDING: CodeStatus = "equal up to rounding"


@dataclass(frozen=True)
class SettingRecords:
    """A setting of the board, by its records: those of one identity, one for each seed, in the
    order of seeds; those of other data seeds follow.

    Attributes:
        name: what sets it apart from the label's other settings in its group.
        variant: which of the task's configurations it is, in words.
        line_group: the group without the training size.
        beside: of records that stand beside the row of their setting, what they are: the kind of
            their row.
        status: how far its records were checked.
        searched_elsewhere: whether no search chose it, and one of its model, of the same size,
            chose another setting.
        notes: what a reader must know of its runs beside those of other entries, in clauses.
    """

    summaries: tuple[RecordSummary, ...]
    name: str
    variant: str
    group: str
    line_group: str
    beside: str = ""
    status: VerificationStatus = REPORTED
    searched_elsewhere: bool = False
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> RecordSummary:
        """Any of the summaries: what they share is read from it."""
        return self.summaries[0]

    @property
    def origin(self) -> str:
        """Where its records are from: of each origin how many, where there are several."""
        counts = Counter(summary.origin for summary in self.summaries)
        if len(counts) == 1:
            return self.first.origin
        return ", ".join(f"{count} {origin}" for origin, count in counts.items())

    @property
    def made_from(self) -> str:
        """Hash of all that its rows and curves follow from, but for the words of the variant."""
        contents = [(summary.content, summary.origin) for summary in self.summaries]
        status = (self.status.words, self.status.verified)
        content = [self.group, self.name, self.beside, self.searched_elsewhere, status, contents]
        content += [list(self.notes)] if self.notes else []
        text = json.dumps(content)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def validation_loss(self) -> float:
        """Mean over seeds of the validation loss, by which settings are chosen."""
        losses = [s.validation_loss for s in self.summaries if s.validation_loss is not None]
        return sum(losses) / len(losses) if losses else float("inf")


@dataclass(frozen=True)
class Setting:
    """The records of one entry, under the one name that all equal code gives them."""

    entry: SettingRecords
    records: tuple[RunRecord, ...]

    @property
    def first(self) -> RunRecord:
        """Any of the records: what they share is read from it."""
        return self.records[0]

    @property
    def is_reference(self) -> bool:
        """A predictor without training: deterministic, shown beside the models, never ranked."""
        return self.first.role == "baseline"

    @property
    def ended_well(self) -> bool:
        """Whether every seed did."""
        return all(record.outcome == "ok" for record in self.records)

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """What it lacks for a fair ranking. Where no run came to an end, nothing still improved."""
        found = marks(self.records, searched_elsewhere=self.entry.searched_elsewhere)
        if any(record.outcome == "ok" for record in self.records):
            return found
        return tuple(mark for mark in found if mark.word != IMPROVING)

    @cached_property
    def note(self) -> str:
        """What a reader of its numbers must know beside its marks."""
        return "; ".join([*self.entry.notes, *coincidences(self.records)])

    @cached_property
    def metrics(self) -> set[str]:
        """Names of what was measured on the test split."""
        return set().union(*map(measured, self.records))

    def values(self, metric: str) -> list[float | None]:
        """One value for each seed, None for a seed that did not end well."""
        return [measured(r).get(metric) if r.outcome == "ok" else None for r in self.records]

    def outcome(self, metric: str) -> tuple[str, str | None]:
        """The gravest outcome over the seeds, and in how many of them and why."""
        total = len(self.records)
        counts = Counter(record.outcome for record in self.records)
        outcome = min(counts, key=SEVERITY.index)
        if outcome != "ok":
            reason = next((r.cause for r in self.records if r.outcome == outcome and r.cause), "")
            how_often = f"{outcome.replace('_', ' ')} in {counts[outcome]} of {total} seeds"
            return outcome, f"{how_often}: {reason}" if reason else how_often
        missing = self.values(metric).count(None)
        if missing:
            return "failed", f"no finite {metric} in {missing} of {total} seeds"
        return "ok", None


def measured(record: RunRecord) -> dict[str, float]:
    """What a record measured on the test split."""
    values = dict(record.metrics.get("test", {}))
    if record.headline.value is not None:
        values[record.headline.name] = record.headline.value
    return values


def arrange(summaries: Iterable[RecordSummary]) -> list[SettingRecords]:
    """The records of each setting, sorted as the board shows them, without trials and controls.

    Raises:
        UserError: two records claim the same identity and seed, so that a seed would count twice.
    """
    shown_runs = one_of_each(summary for summary in summaries if summary.role not in OFF_THE_BOARD)
    rows = _rows_of(shown_runs)
    # How long the models of each group, and of each curve by training size, were trained. Those
    # trained longer than others are not ranked with them, and what needs no training stands beside
    # each.
    lengths: dict[str, set[int]] = defaultdict(set)
    for summary in shown_runs:
        if not summary.is_reference:
            first = rows[summary.identity]
            lengths[first.group].add(summary.steps)
            lengths[first.line_group].add(summary.steps)
    by_identity: dict[tuple[str, str], list[RecordSummary]] = defaultdict(list)
    line_groups: dict[str, str] = {}
    for summary in shown_runs:
        first = rows[summary.identity]
        group, line_group = first.group, first.line_group
        steps_of_run = {summary.steps} if not summary.is_reference else lengths[group] or {0}
        for length in sorted(steps_of_run):
            group_of_length = f"{group}-{length}" if len(lengths[group]) > 1 else group
            split = len(lengths[line_group]) > 1
            line_groups[group_of_length] = f"{line_group}-{length}" if split else line_group
            by_identity[group_of_length, first.identity].append(summary)
    for same in by_identity.values():
        same.sort(key=lambda s: (s.data_seed, s.seed, s.run_id))
        for earlier, later in pairwise(same):
            if (earlier.identity, earlier.seed) == (later.identity, later.seed):
                raise UserError(
                    f"the records {earlier.run_id} and {later.run_id} have the same identity and "
                    "seed, so one run would count twice: leave one of them out",
                    VERIFICATION_FAILED,
                )
    groups = {group: same[0] for (group, _), same in sorted(by_identity.items())}
    variants = _variants(groups)
    names = _setting_names(by_identity)
    searched = {key: any(s.searched for s in same) for key, same in by_identity.items()}
    searched_models = {_model_of(key, by_identity[key]) for key in by_identity if searched[key]}
    entries = []
    for key, same in by_identity.items():
        group = key[0]
        searched_elsewhere = not searched[key] and _model_of(key, same) in searched_models
        entry = SettingRecords(
            tuple(same),
            names[key],
            variants[group],
            group,
            line_groups[group],
            searched_elsewhere=searched_elsewhere,
        )
        entries.append(entry)
    return _with_notes(sorted(entries, key=_order))


def _with_notes(entries: Sequence[SettingRecords]) -> list[SettingRecords]:
    """Places with what is notable of their runs: seeds that are missing, and the same weights or
    the same numbers as another entry of their table."""
    by_results: dict[tuple[str, str], list[SettingRecords]] = defaultdict(list)
    for entry in entries:
        for result in _results(entry):
            by_results[entry.group, result].append(entry)
    noted = []
    for entry in entries:
        names: set[str] = set()
        for result in _results(entry):
            for other in by_results[entry.group, result]:
                if other is not entry:
                    label = other.first.label
                    names.add(f"{label} ({other.name})" if other.name else label)
        missing = missing_seeds((summary.data_seed, summary.seed) for summary in entry.summaries)
        if missing and all(summary.origin == YOURS for summary in entry.summaries):
            missing += ", which the command of the others makes, with these numbers"
        notes = [missing]
        notes += [f"equal results to {', '.join(sorted(names))}"] if names else []
        if rounded := sum(summary.rounded for summary in entry.summaries):
            runs = "run" if rounded == 1 else "runs"
            notes.append(f"{rounded} {runs} by earlier code that is {UP_TO_ROUNDING}")
        noted.append(replace(entry, notes=tuple(filter(None, notes))))
    return noted


def _results(entry: SettingRecords) -> set[str]:
    """What its trained runs came to, each run by its weights and by all that it measured."""
    results: set[str] = set()
    for summary in entry.summaries:
        if summary.weights and summary.outcome == "ok":
            results |= {summary.weights, f"{summary.seed} {summary.numbers}"}
    return results


def _model_of(key: tuple[str, str], summaries: Sequence[RecordSummary]) -> tuple[str, str, str]:
    """A model and its size, on what it is ranked on: a search at another length of training says
    nothing of this one."""
    first = summaries[0]
    model_settings = {k: v for k, v in first.facts.setting.items() if k.startswith("models.")}
    return key[0], first.model, json.dumps(model_settings, sort_keys=True, default=str)


def one_of_each(summaries: Iterable[RecordSummary]) -> list[RecordSummary]:
    """Of the same run made by several states of equal code one: one that was sent after all others,
    then that of a search before another, then the first that was made, as far as dates tell."""
    ordered = sorted(
        summaries, key=lambda s: (s.origin == SUBMITTED, not s.searched, s.started_at, s.run_id)
    )
    first: dict[tuple[str, int], RecordSummary] = {}
    chosen = []
    for summary in ordered:
        other = first.setdefault((summary.identity, summary.seed), summary)
        # Two of one identity are not for this to judge.
        if other.own_identity == summary.own_identity:
            chosen.append(summary)
    return sorted(chosen, key=lambda summary: summary.run_id)


def _rows_of(summaries: Sequence[RecordSummary]) -> dict[str, RecordSummary]:
    """Identity -> the record whose row and group a run of it belongs to: its own, or that of the
    lowest data seed where runs differ in the data seed and in the hashes of the data alone. Of one
    data seed there may be one set of data only: text from two places has one data seed, too."""
    families: dict[str, dict[str, RecordSummary]] = defaultdict(dict)
    for summary in summaries:
        families[summary.beside_data].setdefault(summary.identity, summary)
    rows: dict[str, RecordSummary] = {}
    for family in families.values():
        seeds = {summary.data_seed for summary in family.values()}
        first = min(family.values(), key=lambda summary: summary.data_seed)
        joined = len(seeds) == len(family)
        rows |= dict.fromkeys(family, first) if joined else family
    return rows


def _order(entry: SettingRecords) -> tuple[Any, ...]:
    first = entry.first
    # Text and numbers in turn, so that 800 steps come before 2400.
    parts = re.split(r"(\d+)", entry.variant)
    variant = tuple(int(part) if n % 2 else part for n, part in enumerate(parts))
    return (
        first.task,
        first.preset,
        first.size or 0,
        variant,
        first.label,
        first.model,
        entry.name,
        first.identity,
    )


def _variants(groups: Mapping[str, RecordSummary]) -> dict[str, str]:
    """What sets each group apart from the others of its task and preset, in words."""
    families: dict[tuple[str, str], list[str]] = defaultdict(list)
    for group, summary in groups.items():
        families[summary.task, summary.preset].append(group)
    variants: dict[str, str] = {}
    for members in families.values():
        flat: list[Mapping[str, Any]] = []
        for group in members:
            # The steps of training are a setting where a group is of one length of several.
            _, split, steps = group.partition("-")
            length = {"training.steps": int(steps)} if split else {}
            flat.append({**groups[group].facts.task, **length})
        names = [[name] if (name := groups[group].size_name) else [] for group in members]
        always = [key for key in ALWAYS_NAMED if any(key in settings for settings in flat)]
        others = [key for key in _differing(flat) if key not in always and [key] not in names]
        differing = always + others
        texts = [_describe(settings, differing) for settings in flat]
        codes = [f"task code {groups[group].task_code[:6]}" for group in members]
        texts = _where_shared(texts, codes)
        sizes = [_describe(settings, name) for settings, name in zip(flat, names, strict=True)]
        texts = [_join(size, text) for size, text in zip(sizes, texts, strict=True)]
        # Other data or protocol version: only the hash can tell.
        texts = _where_shared(texts, [f"data {group[:6]}" for group in members])
        variants |= dict(zip(members, texts, strict=True))
    return variants


def _where_shared(texts: Sequence[str], additions: Sequence[str]) -> list[str]:
    """Equal texts with what tells them apart added, if it does."""
    together: dict[str, set[str]] = defaultdict(set)
    for text, addition in zip(texts, additions, strict=True):
        together[text].add(addition)
    told_apart = []
    for text, addition in zip(texts, additions, strict=True):
        told_apart.append(_join(text, addition) if len(together[text]) > 1 else text)
    return told_apart


def _join(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _setting_names(
    by_identity: Mapping[tuple[str, str], Sequence[RecordSummary]],
) -> dict[tuple[str, str], str]:
    families: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for key, summaries in by_identity.items():
        families[key[0], summaries[0].model, summaries[0].label].append(key)
    names = {}
    for members in families.values():
        flat = [by_identity[key][0].facts.setting for key in members]
        differing = _differing(flat)
        for key, settings in zip(members, flat, strict=True):
            names[key] = _describe(settings, differing)
    return names


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    values: dict[str, set[str]] = {}
    for flat in settings:
        for key in flat:
            values.setdefault(key, set())
    for key, different in values.items():
        different.update(repr(flat.get(key)) for flat in settings)
    return [key for key, different in values.items() if len(different) > 1]


def _describe(settings: Mapping[str, Any], keys: Sequence[str]) -> str:
    return ", ".join(f"{k.rpartition('.')[2]}={settings[k]}" for k in keys if k in settings)
