"""What must not satisfy a claim: another model in its place, or the network before its training.

A claim is reproduced only where it holds and its control fails. A control fails where its own rule
was judged from runs that gave numbers, and is not reproduced: one that was not run proves nothing.
Nor is it enough that a control has too few runs to pass: it must not pass at ``LEANING`` either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bench.records.schema import RunRecord
from bench.search.plan import make_plan
from ground.words import word
from judging.fairness import is_trained
from judging.grammar import Records, Rule
from judging.presets import flat
from judging.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Finding
from settings.seeded import compose_seeded
from settings.settings import Configuration

STEP = "training.steps=1"
# A control without any effect passes a test for "more than 0" at this level once in ten times.
LEANING = 0.8
FEWEST = 3  # seeds of a system by hand, which may have others than the claim
# What a twin lends to the run in whose place it stands.
MEASURED = ("outcome", "cause", "headline", "metrics", "per_sequence", "curves", "arrays")


def is_twin(record: RunRecord) -> bool:
    """Whether a record belongs to a control alone: no figure, table or board shows it."""
    return record.role == "control"


def without_twins(records: Iterable[RunRecord]) -> list[RunRecord]:
    """The records that figures are made of and claims are about."""
    return [record for record in records if not is_twin(record)]


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

    def configurations(self, *words: Iterable[Sequence[str]]) -> list[Configuration]:
        """There are no twins."""
        return []

    def twins(self, runs: Records, pool: Iterable[RunRecord]) -> list[RunRecord]:
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
        return self.rule.judge(without_twins(records), level)

    def check(self, finding: Finding, rule: Rule, records: Records, level: float) -> Finding:
        """What is left of a reproduced claim: a test that its control passes tells nothing."""
        if finding.verdict != REPRODUCED:
            return finding
        test = partial(self.judged, rule, records)
        return _beside(finding, self.label, test, level, min(finding.seeds, FEWEST))


@dataclass(frozen=True, eq=False)
class Untrained:
    """The network before its training: for each run a twin of one step with the same seed, whose
    numbers stand in the run's place. What was searched stays at the first value of its grid.

    Attributes:
        keys: task or model -> the words that make a twin of a measurement, which trains by itself.
            A measurement without any has no twin.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    label: str = "the untrained network"

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
        """What the claim's own test says of the twins, as if they were the runs."""
        found = self.in_place(records)
        if all(record.role == "baseline" for record in found):
            return Finding(UNDECIDED, "no runs", 0)
        return rule.judge(found, level)

    def check(self, finding: Finding, rule: Rule, records: Records, level: float) -> Finding:
        """What is left of a reproduced claim: a test that its control passes tells nothing. A
        contradiction says where the control contradicts the claim as well, and its numbers: beside
        them a reader sees whether the network had learned anything."""
        without = not self.keys and not any(map(is_trained, without_twins(records)))
        if without:  # nothing that the engine trained has no twin
            return finding
        test = partial(self.judged, rule, records)
        if finding.verdict == REPRODUCED:
            return _beside(finding, self.label, test, level, finding.seeds)
        if finding.verdict != CONTRADICTED or (own := test(level)).verdict != CONTRADICTED:
            return finding
        label = f"{self.label[:1].upper()}{self.label[1:]}"
        so = f"{finding.evidence}. {label} contradicts it too ({own.evidence})"
        return replace(finding, evidence=so)

    def in_place(self, records: Records) -> list[RunRecord]:
        """Predictors as they are, and every run that has a twin with what the twin measured: its
        settings stay, since a rule asks for them. A twin that failed says nothing."""
        found = []
        for run, twin in self._pairs(records):
            if twin is run:
                found.append(run)
            elif twin is not None and twin.outcome == "ok":
                found.append(run.model_copy(update={k: getattr(twin, k) for k in MEASURED}))
        return found

    def twins(self, runs: Records, pool: Iterable[RunRecord]) -> list[RunRecord]:
        """Those of a pool that are twins of these runs, sorted by run id."""
        pairs = self._pairs([*runs, *filter(is_twin, pool)])
        found = {twin.run_id: twin for run, twin in pairs if twin is not None and twin is not run}
        return [found[run_id] for run_id in sorted(found)]

    def _pairs(self, records: Records) -> Iterator[tuple[RunRecord, RunRecord | None]]:
        """Each run with its twin, if it has one; a predictor is its own."""
        pool: dict[tuple[str, str, str, int], list[RunRecord]] = defaultdict(list)
        for record in filter(is_twin, records):
            pool[_place(record)].append(record)
        for run in without_twins(records):
            if run.role == "baseline":
                yield run, run
            else:
                of_run = (one for one in pool[_place(run)] if self._is_twin_of(one, run))
                yield run, next(of_run, None)

    def _is_twin_of(self, twin: RunRecord, run: RunRecord) -> bool:
        """Whether they differ in nothing but the length of the training and what was searched."""
        keys = (word.partition("=")[0] for word in self._words(run.task, run.model))
        free = {*keys, *(run.study.search_space if run.study else ())}
        own, other = flat(run.config, run.config), flat(twin.config, twin.config)
        same_data = run.provenance.data == twin.provenance.data or bool(
            {run.task, run.model} & self.keys.keys()
        )
        return same_data and all(other.get(k) == v for k, v in own.items() if k not in free)

    def _words(self, task: str, model: str, usual: str = STEP) -> list[str]:
        return self.keys.get(task, self.keys.get(model, usual)).split()

    def configurations(
        self, runs: Iterable[Sequence[str]], sweeps: Iterable[Sequence[str]]
    ) -> list[Configuration]:
        """The twins of these command lines, each once: of single runs, and of each model of a sweep
        with as many seeds as its final runs."""
        found: dict[str, Configuration] = {}
        for words in runs:
            found |= self._of(words, swept=False)
        for words in sweeps:
            plan = make_plan(words)
            for entry in (one for one in plan.entries if not one.guest):  # none judges a guest
                first = [word(key, values[0]) for key, values in entry.space.items()]
                found |= self._of([*entry.words, *first], swept=True)
        return list(found.values())

    def _of(self, words: Sequence[str], swept: bool) -> dict[str, Configuration]:
        usual = compose_seeded(words)
        by_itself = usual.takes is not None
        short = self._words(usual.task, usual.model, "" if by_itself else STEP)
        if not short:
            return {}
        first = compose_seeded([*words, *short])
        runs = first.final_runs() if swept else [first]
        return {f"{one.task} {one.model} {one.seed} {one.resolved()}": one for one in runs}


UNTRAINED = Untrained()
AnyControl = Control | Untrained | NoControl


def _beside(
    finding: Finding, label: str, test: Callable[[float], Finding], level: float, seeds: int
) -> Finding:
    """What is left of a reproduced claim beside its control, which needs as many seeds.

    Args:
        test: of the control, at a level.
    """
    verdict, own = UNDECIDED, test(level)
    if own.verdict == REPRODUCED:
        so = "holds too, so that the claim tells nothing"
    elif own.verdict == NOT_ASKED:
        so = f"could not be judged ({own.evidence})"
    elif own.seeds == 0:
        so = "was not run"
    elif own.seeds < seeds:
        so = f"was run for {own.seeds} of {seeds} seeds only"
    elif own.verdict == CONTRADICTED:
        verdict, so = REPRODUCED, f"fails as it must ({own.evidence})"
    elif test(min(level, LEANING)).verdict == REPRODUCED:
        so = f"does not surely fail: it would pass at {LEANING:.0%} ({own.evidence})"
    else:
        verdict, so = REPRODUCED, f"does not pass, as it must not ({own.evidence})"
    evidence = f"{finding.evidence}. The control, {label}, {so}"
    return replace(finding, verdict=verdict, evidence=evidence)


def _place(record: RunRecord) -> tuple[str, str, str, int]:
    return record.task, record.model, record.preset, record.seed
