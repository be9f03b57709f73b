"""What must not satisfy a claim: another model in its place, or the network before its training.

A claim is reproduced only where it holds and its control fails. A control fails where its own rule
was judged from runs that gave numbers, and is not reproduced: one that was not run proves nothing.
Nor is it enough that a control has too few runs to pass: it must not pass at ``LEANING`` either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import is_
from typing import Any

from bench.config.command_line import read
from bench.config.settings import Configuration
from bench.records.schema import RunRecord
from bench.search.plan import SweepPlan
from reproduce.claims.fairness import is_trained
from reproduce.claims.grammar import Records, Rule
from reproduce.claims.presets import flat
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Finding

STEP: Mapping[str, Any] = {"training.steps": 1}
# A control without any effect passes a test for "more than 0" at this level once in ten times.
LEANING = 0.8
FEWEST = 3  # seeds of a system by hand, which may have others than the claim
# What an untrained run lends to the run in whose place it stands.
MEASURED = ("outcome", "cause", "headline", "metrics", "per_sequence", "curves", "arrays")


def is_untrained(record: RunRecord) -> bool:
    """Whether a record belongs to a control alone: no figure, table or board shows it."""
    return record.role == "control"


def without_untrained(records: Iterable[RunRecord]) -> list[RunRecord]:
    """The records that figures are made of and claims are about."""
    return [record for record in records if record.role != "control"]  # asked a million times


@dataclass(frozen=True)
class NoControl:
    """The claim has none, for a reason that its verdict shows."""

    reason: str

    @property
    def text(self) -> str:
        """What stands beside the tolerance of a claim."""
        return f"No control: {self.reason}"

    @property
    def parts(self) -> tuple[list[Any], Any]:
        """What it says and what judges it, by which a change of a claim is seen."""
        return [self.reason], None

    def check(self, finding: Finding, rule: Rule, records: Records, level: float) -> Finding:
        """The finding as it is."""
        return finding

    def untrained_runs_of(
        self, runs: Iterable[Configuration], sweeps: Iterable[SweepPlan]
    ) -> list[Configuration]:
        """There are no untrained runs."""
        return []

    def untrained_runs(self, runs: Records, pool: Iterable[RunRecord]) -> list[RunRecord]:
        """There are none."""
        return []


NOTHING_TRAINED = NoControl("no trained network enters it")
EACH_ITS_OWN = NoControl("every claim names one")  # of a figure: a claim without one is refused


@dataclass(frozen=True)
class Control:
    """A system by hand that must not satisfy a claim: a model known to lack the property, a
    context that tells nothing.

    Attributes:
        label: what it is, in words.
        rule: the claim's rule put to it.
    """

    label: str
    rule: Rule

    @property
    def text(self) -> str:
        """What stands beside the tolerance of a claim."""
        return f"Control: {self.label} must fail"

    @property
    def parts(self) -> tuple[list[Any], Any]:
        """What it says and what judges it, by which a change of a claim is seen."""
        return [self.label, self.rule.text, self.rule.numbers], self.rule.judge

    def judged(self, rule: Rule, records: Records, level: float) -> Finding:
        """What the test says of the control; ``rule``, the claim's, is put to what is trained."""
        return self.rule.judge(without_untrained(records), level)

    def check(self, finding: Finding, rule: Rule, records: Records, level: float) -> Finding:
        """What is left of a reproduced claim: a test that its control passes tells nothing."""
        if finding.verdict != REPRODUCED:
            return finding
        test = partial(self.judged, rule, records)
        return _beside(finding, self.label, test, level, min(finding.seeds, FEWEST))


@dataclass(frozen=True, eq=False)
class Untrained:
    """The network before its training: for each run one of one step with the same seed, whose
    numbers stand in the run's place. What was searched stays at the first value of its grid.

    Attributes:
        keys: task or model -> the words that leave a measurement untrained, which trains by itself.
            A measurement without any has no untrained run.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    label: str = "the untrained network"
    # Records, and those in their place: the claims of a figure ask of the same ones in turn.
    _last: list[Records] = field(default_factory=lambda: [(), ()], init=False, repr=False)

    def by(self, **keys: str) -> Untrained:
        """The same with words for measurements, by task or by model, as their steps are called."""
        return replace(self, keys={**self.keys, **keys})

    @property
    def text(self) -> str:
        """What stands beside the tolerance of a claim."""
        return f"Control: {self.label} must fail"

    @property
    def parts(self) -> tuple[list[Any], Any]:
        """What it says and what judges it, by which a change of a claim is seen."""
        return [self.label, dict(self.keys)], None

    def judged(self, rule: Rule, records: Records, level: float) -> Finding:
        """What the claim's own test says of the untrained runs, as if they were the runs."""
        in_place = self.in_place(records)
        if all(record.role == "baseline" for record in in_place):
            return Finding(UNDECIDED, "no runs", 0)
        return rule.judge(in_place, level)

    def check(self, finding: Finding, rule: Rule, records: Records, level: float) -> Finding:
        """What is left of a reproduced claim: a test that its control passes tells nothing. A
        contradiction says where the control contradicts the claim as well, and its numbers: beside
        them a reader sees whether the network had learned anything."""
        without = not self.keys and not any(map(is_trained, without_untrained(records)))
        if without:  # nothing that the engine trained has no untrained run
            return finding
        test = partial(self.judged, rule, records)
        if finding.verdict == REPRODUCED:
            return _beside(finding, self.label, test, level, finding.seeds)
        if finding.verdict != CONTRADICTED or (of_control := test(level)).verdict != CONTRADICTED:
            return finding
        label = f"{self.label[:1].upper()}{self.label[1:]}"
        so = f"{finding.evidence}. {label} contradicts it too ({of_control.evidence})"
        return replace(finding, evidence=so)

    def in_place(self, records: Records) -> list[RunRecord]:
        """Predictors as they are, and every run that has an untrained one with what that measured:
        its settings stay, since a rule asks for them. One that failed says nothing."""
        if len(records) == len(self._last[0]) and all(map(is_, records, self._last[0])):
            return [*self._last[1]]
        stood_in = []
        for run, untrained in self._pairs(records):
            if untrained is run:
                stood_in.append(run)
            elif untrained is not None and untrained.outcome == "ok":
                stood_in.append(run.model_copy(update={k: getattr(untrained, k) for k in MEASURED}))
        self._last[:] = [*records], [*stood_in]
        return stood_in

    def untrained_runs(self, runs: Records, pool: Iterable[RunRecord]) -> list[RunRecord]:
        """The records of a pool that are the untrained ones of these runs, sorted by run id."""
        tasks = {run.task for run in runs}
        pairs = self._pairs([*runs, *(r for r in pool if r.task in tasks and is_untrained(r))])
        untrained_by_id = {}
        for run, untrained in pairs:
            if untrained is not None and untrained is not run:
                untrained_by_id[untrained.run_id] = untrained
        return [untrained_by_id[run_id] for run_id in sorted(untrained_by_id)]

    def _pairs(self, records: Records) -> Iterator[tuple[RunRecord, RunRecord | None]]:
        """Each run with its untrained one, if it has one; a predictor is its own."""
        pool: dict[Place, list[RunRecord]] = defaultdict(list)
        for record in filter(is_untrained, records):
            pool[_place(record)].append(record)
        # Most of a pool is of other runs: settings are written out where a run asks.
        asked: dict[Place, list[tuple[RunRecord, Mapping[str, Any]]]] = {}
        for run in without_untrained(records):
            if run.role == "baseline":
                yield run, run
                continue
            place = _place(run)
            if place not in asked:
                asked[place] = [(u, flat(u.config, u.config)) for u in pool.get(place, ())]
            yield run, self._twin_among(asked[place], run) if asked[place] else None

    def _twin_among(
        self, untrained_runs: Iterable[tuple[RunRecord, Mapping[str, Any]]], run: RunRecord
    ) -> RunRecord | None:
        """The first that differs from a run in nothing but the length of the training and what was
        searched.

        Args:
            untrained_runs: each with its settings.
        """
        free = {*self._changes(run.task, run.model), *(run.study.search_space if run.study else ())}
        compared = flat(run.config, run.config)
        for key in free & compared.keys():
            del compared[key]
        # The settings that leave a measurement untrained may change its data.
        by_itself = bool({run.task, run.model} & self.keys.keys())
        for untrained, settings in untrained_runs:
            same_data = by_itself or run.provenance.data == untrained.provenance.data
            if same_data and all(settings.get(key) == v for key, v in compared.items()):
                return untrained
        return None

    @cached_property
    def _changes_by_name(self) -> dict[str, Mapping[str, Any]]:
        """Task or model -> the settings that leave a measurement untrained."""
        return {name: read(words.split()) for name, words in self.keys.items()}

    def _changes(self, task: str, model: str, usual: Mapping[str, Any] = STEP) -> Mapping[str, Any]:
        changes = self._changes_by_name
        return changes.get(task, changes.get(model, usual))

    def untrained_runs_of(
        self, runs: Iterable[Configuration], sweeps: Iterable[SweepPlan]
    ) -> list[Configuration]:
        """The untrained runs of these, each once: of single runs, and of each model of a sweep with
        as many seeds as its final runs."""
        untrained_by_run: dict[str, Configuration] = {}

        def add(untrained: Configuration) -> None:
            key = f"{untrained.task} {untrained.model} {untrained.seed} {untrained.setting}"
            untrained_by_run.setdefault(key, untrained)

        of_setting: dict[str, Configuration | None] = {}  # of its first seed
        for run in runs:
            key = f"{run.task} {run.model} {run.preset} {run.device} {run.setting}"
            if key not in of_setting:
                of_setting[key] = self._untrained_run_of(run)
            if (first := of_setting[key]) is not None:
                add(first.with_(seed=run.seed))
        for plan in sweeps:
            for entry in plan.entries:
                # No claim judges a guest.
                untrained = None if entry.guest else self._untrained_run_of(entry.at(entry.first()))
                for final in [] if untrained is None else untrained.final_runs():
                    add(final)
        return list(untrained_by_run.values())

    def _untrained_run_of(self, run: Configuration) -> Configuration | None:
        """What is made for a run; None of a measurement without settings that make it."""
        by_itself = run.takes is not None
        changes = self._changes(run.task, run.model, {} if by_itself else STEP)
        return run.with_(changes) if changes else None


UNTRAINED = Untrained()
AnyControl = Control | Untrained | NoControl
Place = tuple[str, str, str, int]  # task, model, preset and seed


def _beside(
    finding: Finding, label: str, test: Callable[[float], Finding], level: float, seeds: int
) -> Finding:
    """What is left of a reproduced claim beside its control, which needs as many seeds.

    Args:
        test: of the control, at a level.
    """
    verdict, of_control = UNDECIDED, test(level)
    if of_control.verdict == REPRODUCED:
        so = "holds too, so that the claim tells nothing"
    elif of_control.verdict == NOT_ASKED:
        so = f"could not be judged ({of_control.evidence})"
    elif of_control.seeds == 0:
        so = "was not run"
    elif of_control.seeds < seeds:
        so = f"was run for {of_control.seeds} of {seeds} seeds only"
    elif of_control.verdict == CONTRADICTED:
        verdict, so = REPRODUCED, f"fails as it must ({of_control.evidence})"
    elif test(min(level, LEANING)).verdict == REPRODUCED:
        so = f"does not surely fail: it would pass at {LEANING:.0%} ({of_control.evidence})"
    else:
        verdict, so = REPRODUCED, f"does not pass, as it must not ({of_control.evidence})"
    evidence = f"{finding.evidence}. The control, {label}, {so}"
    return replace(finding, verdict=verdict, evidence=evidence)


def _place(record: RunRecord) -> Place:
    return record.task, record.model, record.preset, record.seed
