"""What is open at a preset, what would decide it, and in which order: most verdicts an hour first.

The survey reads records and configurations alone. It makes no data, no step and no connection.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from bench.config.command_line import shown
from bench.records.identity import one_of_each
from bench.records.store import Store
from bench.runs.catalog import RecordCatalog
from core.errors import UserError
from core.words import by_name
from reproduce.claims.claims import Claim, ClaimResult, Closed
from reproduce.claims.controls import is_untrained, without_untrained
from reproduce.claims.grammar import Records
from reproduce.claims.verdicts import NOT_ASKED, REPRODUCED, UNDECIDED
from reproduce.experiment import Experiment
from reproduce.obtaining import refuse_two_settings
from reproduce.planned import PlannedRun, planned, without_record
from reproduce.planning.cost import ExpectedCost, Speeds
from reproduce.planning.reading import chosen_by, reads
from reproduce.request import Request

PRESETS = ("smoke", "laptop", "gpu", "paper")  # each larger than the one before
OPEN = (UNDECIDED, NOT_ASKED)
A_MOMENT = 1.0  # seconds: what costs nothing is put in order by the verdicts it brings


@dataclass(frozen=True)
class Candidate:
    """Runs that would decide claims of one reproduction.

    Attributes:
        settings: of ``python -m reproduce``, beside the figure's name.
        runs: those that have no record yet.
        claims: names of the claims that they may decide.
    """

    figure: str
    settings: Mapping[str, Any]
    runs: tuple[PlannedRun, ...]
    claims: frozenset[str]

    @property
    def shown(self) -> str:
        """The command's words, without those about where and how it runs."""
        named = {k: v for k, v in self.settings.items() if k in ("preset", "seeds")}
        return " ".join([self.figure, *(shown(key, value) for key, value in named.items())])

    @property
    def key(self) -> str:
        """Equal for the same runs."""
        return f"{self.figure} {self.settings}"


@dataclass(frozen=True)
class Step:
    """A candidate in its place: what it adds to those before it.

    Attributes:
        claims: that none before it decides.
        runs: how many none before it makes.
    """

    candidate: Candidate
    claims: tuple[str, ...]
    runs: int
    cost: ExpectedCost


@dataclass(frozen=True)
class Review:
    """One reproduction at one preset: its verdicts by the records at hand, and its plan's runs.

    Attributes:
        judged: the records that the verdicts are by, untrained runs included.
        note: why records of the store could not be judged with the committed ones.
        committed: claims that the committed records decide by themselves.
    """

    figure: str
    reproduction: Experiment
    request: Request
    results: tuple[ClaimResult, ...]
    runs: tuple[PlannedRun, ...]
    judged: Records = ()
    note: str = ""
    committed: frozenset[str] = frozenset()

    @property
    def verdicts(self) -> dict[str, str]:
        """Claim -> verdict; none is decided before all runs are there."""
        waiting = {result.claim.name for result in self.open}
        by_claim: dict[str, str] = {}
        for result in self.results:
            by_claim[result.claim.name] = result.finding.verdict
        for name in waiting:
            if by_claim[name] not in OPEN:
                by_claim[name] = UNDECIDED
        return by_claim

    @property
    def open(self) -> list[ClaimResult]:
        """Claims without a decided verdict that the preset itself asks. A part of the runs decides
        nothing: who stops at the first decision finds some that fall by chance."""
        preset = self.request.view.preset
        # What a smaller preset asks too has no runs at this one: they are not made yet.
        presets = ("", *PRESETS[: PRESETS.index(preset) + 1])

        def is_open(result: ClaimResult) -> bool:
            finding = result.finding
            if finding.verdict == NOT_ASKED:
                return finding.asked_at in presets
            partly = bool(self.missing) and result.claim.name not in self.committed
            return partly or finding.verdict == UNDECIDED

        return [result for result in self.results if is_open(result)]

    @cached_property
    def missing(self) -> list[PlannedRun]:
        """Runs of the plan without a record."""
        return without_record(self.runs)

    def asks(self, claim: Claim) -> bool:
        """Whether the request has the words without which its runs say nothing of a claim."""
        choices = chosen_by(claim).items()
        return all(self.request.passed_on.get(f"tasks.{key}") == value for key, value in choices)

    def decision(self, claim: Claim) -> Closed | None:
        """The decision by which a claim gets no more seeds at this preset, if there is one."""
        return (claim.closed or {}).get(self.request.view.preset)

    def may_decide(self, result: ClaimResult) -> bool:
        """Whether a run that is missing can decide an open claim. Of one that was judged and stayed
        open these are runs of the tasks that it was judged by, since those of another size or
        corpus are rows of other claims, and of the models that it reads; and controls only where it
        lacks nothing else."""
        finding = result.finding
        if finding.verdict != UNDECIDED or not finding.seeds:
            return bool(self.missing)
        tasks = {_of_task(record.config["tasks"]) for record in self.judged}
        of_tasks = []
        for run in self.missing:
            if _of_task(run.configuration.resolved()["tasks"]) in tasks:
                of_tasks.append(run)
        runs = [run for run in of_tasks if run.role not in ("control", "baseline")]
        if runs and reads(result, self.reproduction, self.judged, runs):
            return True
        if not of_tasks:
            return False
        return replace(result.claim, control=None).finding(self.judged).verdict == REPRODUCED


class Survey:
    """All reproductions at one preset by the records at hand when it was made.

    Attributes:
        WANTED: what the runs of a candidate decide, in words.

    Args:
        settings: for every reproduction, by its name; "preset" and "store" among them.
        device_like: what runs cost is estimated for this device; None is by records of this one's.
    """

    WANTED: ClassVar[str] = "open claims"

    def __init__(
        self,
        reproductions: Mapping[str, Experiment],
        settings: Mapping[str, Mapping[str, Any]],
        preset: str,
        store: Path,
        device_like: str | None = None,
    ) -> None:
        self._reproductions, self.settings = reproductions, settings
        self.preset, self.store, self.device_like = preset, store, device_like
        self.catalog = RecordCatalog(preset, Store(store))
        gc.freeze()  # records are kept to the end: the collector need not walk them again
        self.speeds = Speeds(self.catalog.every)
        if device_like is not None:
            speeds_elsewhere = by_name("reproduce.planning.elsewhere:SpeedsElsewhere")
            self.speeds = speeds_elsewhere(self.catalog.every, device_like)
        self._of_figures = without_untrained(self.catalog.committed)
        self._untrained = list(filter(is_untrained, self.catalog.committed))
        self._catalogs = {preset: self.catalog}
        self._runs: dict[str, list[PlannedRun]] = {}
        self.reviews = {name: self._review(name) for name in reproductions}

    def _review(self, name: str) -> Review:
        reproduction = self._reproductions[name]
        request = Request.of(self.settings[name], name, reproduction)
        changed = bool(request.view.overrides)
        judged = _with_untrained(reproduction, self._of_figures, self._untrained)
        results = () if changed else _judged(reproduction, judged)
        decided = frozenset(r.claim.name for r in results if r.finding.verdict not in OPEN)
        has_local = self._draws_on_local(reproduction)
        if results and len(decided) == len(results) and not has_local:
            return Review(name, reproduction, request, results, ())  # its plan is not looked at
        runs = tuple(planned(request.plan(reproduction), self.catalog, reproduction.control))
        note = ""
        if changed or has_local:
            judged, note = self._with_local(reproduction, runs, changed)
            results = _judged(reproduction, judged)
        return Review(name, reproduction, request, results, runs, judged, note, decided)

    def _draws_on_local(self, reproduction: Experiment) -> bool:
        """Whether a record of the store belongs to it, beside those that are committed or in the
        place of one."""
        local_ids = set(map(id, self.catalog.local))
        records = [*self.catalog.committed, *self.catalog.local]
        if not local_ids:
            return False
        return not local_ids.isdisjoint(map(id, selected_by(reproduction, records)))

    def _with_local(
        self, reproduction: Experiment, runs: Sequence[PlannedRun], changed: bool
    ) -> tuple[Records, str]:
        """What is committed and what the store has of the plan, any seed of it; and why only the
        plan's runs, where they do not fit what is committed.

        Args:
            changed: other settings than those of the preset, which the committed runs have.
        """
        names = _identities(runs)
        records = [*self.catalog.committed, *self.catalog.local]
        of_plan = [record for record in records if record.identity in names]
        if changed:
            return selected_by(reproduction, one_of_each(of_plan)), ""
        merged = one_of_each([*self.catalog.committed, *of_plan])
        try:
            refuse_two_settings(
                reproduction.select(without_untrained(merged)), reproduction.variant_of
            )
        except UserError as error:
            return selected_by(reproduction, one_of_each(of_plan)), str(error)
        return selected_by(reproduction, merged), ""

    @property
    def verdicts(self) -> dict[tuple[str, str], str]:
        """Figure and claim -> verdict."""
        verdicts = {}
        for name, review in self.reviews.items():
            for claim, verdict in review.verdicts.items():
                verdicts[name, claim] = verdict
        return verdicts

    @cached_property
    def candidates(self) -> list[Candidate]:
        """For each reproduction with open claims the runs that its plan misses; where none is
        missing, as many further seeds as would settle a claim, once."""
        candidates: list[Candidate] = []
        for review in self.reviews.values():
            candidates += self._candidates(review)
        return candidates

    def _candidates(self, review: Review) -> list[Candidate]:
        settings = self.settings[review.figure]
        candidates = []
        results = [result for result in review.open if review.asks(result.claim)]
        decided = frozenset(r.claim.name for r in results if review.may_decide(r))
        if decided:
            candidates.append(Candidate(review.figure, settings, tuple(review.missing), decided))
        left = [r for r in results if r.claim.name not in decided and not review.decision(r.claim)]
        if not left or self._was_extended(review):
            return candidates
        needed = {r.claim.name: r.finding.seeds_needed for r in left}
        for seeds in sorted({number for number in needed.values() if number is not None}):
            more = {**settings, "seeds": seeds}
            runs = without_record(self.runs_of(review.figure, more))
            settled = {n for n, number in needed.items() if number and number <= seeds}
            candidates.append(Candidate(review.figure, more, tuple(runs), frozenset(settled)))
        return candidates

    def _was_extended(self, review: Review) -> bool:
        """Whether a reproduction has more seeds than its plan already. Who adds seeds until a claim
        falls finds some that fall by chance, so they are added once."""
        names = _identities(review.runs)
        last = max(run.configuration.seed for run in review.runs)
        return any(self._last_seed.get(name, -1) > last for name in names)

    @cached_property
    def _last_seed(self) -> dict[str, int]:
        """Identity -> the last seed that there is a record of."""
        seeds: dict[str, int] = {}
        for record in (*self.catalog.committed, *self.catalog.local):
            seeds[record.identity] = max(record.seed, seeds.get(record.identity, 0))
        return seeds

    def runs_of(self, figure: str, settings: Mapping[str, Any]) -> list[PlannedRun]:
        """The runs of a reproduction with other settings than those of the survey."""
        key = f"{figure} {settings}"
        if key not in self._runs:
            self._runs[key] = self._runs_of(figure, settings)
        return self._runs[key]

    def _runs_of(self, figure: str, settings: Mapping[str, Any]) -> list[PlannedRun]:
        reproduction = self._reproductions[figure]
        request = Request.of(settings, figure, reproduction)
        preset = request.view.preset
        if preset not in self._catalogs:
            self._catalogs[preset] = RecordCatalog(preset, Store(self.store))
        catalog = self._catalogs[preset]
        return planned(request.plan(reproduction), catalog, reproduction.control)


def in_order(survey: Survey, candidates: Sequence[Candidate]) -> list[Step]:
    """The candidates by verdicts an hour, the most first. What one decides or trains is neither
    counted nor paid again in those after it."""
    left, steps = list(candidates), []
    paid, run_keys, decided = set(survey.catalog.weights), set[str](), set[tuple[str, str]]()

    def step(candidate: Candidate) -> Step:
        claims = tuple(sorted(c for c in candidate.claims if (candidate.figure, c) not in decided))
        runs = [run for run in candidate.runs if run.key not in run_keys]
        return Step(candidate, claims, len(runs), survey.speeds.together(runs, paid))

    def rank(possible: Step) -> tuple[float, float, str]:
        seconds = max(possible.cost.seconds, A_MOMENT)
        return -len(possible.claims) / seconds, seconds, possible.candidate.shown

    while left:
        best = min((step(candidate) for candidate in left), key=rank)
        left.remove(best.candidate)
        paid |= {run.training for run in best.candidate.runs}
        run_keys |= {run.key for run in best.candidate.runs}
        decided |= {(best.candidate.figure, claim) for claim in best.claims}
        if best.claims:
            steps.append(best)
    return steps


def _identities(runs: Iterable[PlannedRun]) -> set[str]:
    """All names that the records of runs may have."""
    return set().union(*(run.identities for run in runs))


def selected_by(reproduction: Experiment, records: Records) -> Records:
    """The records that belong to a reproduction, and its untrained runs."""
    return _with_untrained(
        reproduction, without_untrained(records), list(filter(is_untrained, records))
    )


def _with_untrained(reproduction: Experiment, runs: Records, untrained: Records) -> Records:
    """The runs that belong to a reproduction, with those of some untrained ones that are theirs."""
    selected = reproduction.select(runs)
    return [*selected, *reproduction.control.untrained_runs(selected, untrained)]


def _judged(reproduction: Experiment, chosen: Records) -> tuple[ClaimResult, ...]:
    """What the claims say; a plan asks neither at which level they stand nor when they were set."""
    return tuple(ClaimResult(claim, claim.finding(chosen)) for claim in reproduction.claims)


def _of_task(settings: Mapping[str, Any]) -> str:
    """Equal for tasks that differ in nothing but the seed of their data."""
    compared = {key: value for key, value in settings.items() if key != "data_seed"}
    return json.dumps(compared, sort_keys=True)
