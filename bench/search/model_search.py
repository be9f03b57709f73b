"""One model on its way through a sweep: trials, the best of them over all seeds, final runs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import optuna

from bench.config.groups import NOT_COMMITTED
from bench.config.samplers import Setting, key_of
from bench.config.search_space import Space, reach_of
from bench.config.settings import ALL_SEEDS, Configuration
from bench.executors.interface import Done, Executor
from bench.records.identity import Identity
from bench.records.provenance import sha256_of
from bench.records.schema import FINISHED, Cost, RunRecord, read_record, write_record
from bench.records.store import Store
from bench.runs.serving import headline_of, identify, known_data
from bench.runs.together import by_shape, most_together, together_of
from bench.search.jobs import Job, JobStack, describe_loss
from bench.search.plan import JOURNAL, Entry
from bench.search.published import Chosen, committed_search, wider_search
from bench.search.study import ModelStudy, SeedResult
from core.errors import UserError

if TYPE_CHECKING:
    from bench.search.coordinator import Coordinator

Trials = Sequence[optuna.Trial | None]
Item = TypeVar("Item")


class Stage(IntEnum):
    """How far a model may go: trials, the best of them with all seeds, final runs."""

    TRIALS = 0
    REPEATS = 1
    FINALS = 2


@dataclass
class ModelResult:
    """What a sweep found for one model.

    Attributes:
        setting: the best on validation; None if no trial gave a number.
        records: of the final runs, one for each seed that came to a record.
        cause: why a run or all trials have none; None if all is well.
        trials: how many the setting was chosen from.
        failures: why some of them gave no number, for each of those.
        lost: which runs no worker survived, and how to go on, for each of those.
    """

    label: str
    trials: int
    setting: Setting | None = None
    records: list[RunRecord] = field(default_factory=list)
    cause: str | None = None
    failures: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


class ModelSearch:
    """One model on its way through a sweep.

    After the trials, each with the first seed, the best setting is trained with all seeds, and from
    then on its mean counts; as long as another setting looks better than that, it gets them too. So
    no setting is chosen for a lucky seed, and seeds are spent where it matters.
    """

    def __init__(
        self,
        entry: Entry,
        storage: optuna.storages.BaseStorage,
        store: Store,
        coordinator: Coordinator | None = None,
    ) -> None:
        self.entry, self.store = entry, store
        configuration = self.configuration = entry.configuration
        sweep, seed = configuration.sweep, configuration.seed

        def names_of(space: Space, *more: Any) -> list[str]:
            """What a search over a space is called, by every code that is proven equal."""
            # Searched keys are not held fixed: whatever their defaults are, the study is the same.
            first = entry.at({key: values[0] for key, values in space.items()})
            fixed = identify(first, known_data(first))
            fixed_parts = [list(space.items()), sweep.sampler, seed, *more]
            name = "-".join([configuration.task, configuration.model, configuration.preset])
            return [f"{name}-{sha256_of([identity, *fixed_parts])[:12]}" for identity in fixed.all]

        reach = [sweep.extend] if sweep.extend else []
        # A storage may serve several stores by turns.
        shared = sweep.storage != JOURNAL and coordinator is None
        store_path = [str(store.root.resolve())] if shared else []
        names = names_of(entry.space, *reach, *store_path)
        existing_names = optuna.get_all_study_names(storage)
        self.open_study = partial(
            ModelStudy,
            storage,
            next((name for name in names if name in existing_names), names[0]),
            sampler=sweep.sampler,
            seed=seed,
            headline=headline_of(configuration),
            reach=reach_of(entry.space, sweep.extend),
            coordinator=coordinator,
        )
        self.study = self.open_study(space=entry.space, budget=sweep.n_trials)
        self.committed: Chosen | None = None  # in the place of trials
        if configuration.committed and not self.study.latest():
            budget = sweep.n_trials if sweep.n_trials < entry.settings else None
            searched_names = names_of(entry.space, *reach) if store_path else names
            self.committed = committed_search(configuration, searched_names, budget)
            if self.committed is None and budget is None:
                self.committed = wider_search(
                    configuration,
                    entry.space,
                    lambda space: [*names_of(space), *names_of(space, *reach)],
                )
        mark = f" ({NOT_COMMITTED})" if entry.guest else ""
        self.result = ModelResult(f"{configuration.label}{mark}", self.study.budget)
        self.running: dict[int, list[tuple[Job, optuna.Trial | None]]] = {}
        self.pending: list[tuple[optuna.Trial, Configuration]] = []  # that no worker has yet
        self.finals: deque[Job] | None = None  # None until the trials have ended
        self.finals_ended = 0
        self.over_seeds: dict[str, list[SeedResult]] = {}  # of settings that got all seeds
        self.repeats: deque[Job] = deque()  # of the best setting, with the other seeds
        self.repeats_asked = self.repeats_ended = 0
        self._cannot_repeat = False  # since one of them came to no end of its own

    @property
    def space(self) -> Space:
        """What the search for this model covers."""
        return self.committed.study.search_space if self.committed else self.study.space

    @property
    def runs(self) -> int:
        """Trials and runs with all seeds, as far as the space has grown."""
        trials = 0 if self.committed else self.study.budget
        return self.configuration.sweep.finals + trials + self.repeats_asked

    def best(self) -> Setting | None:
        """The best setting so far; None if no trial gave a number."""
        return self.committed.setting if self.committed else self.study.best(self.over_seeds)

    def extend_space(self, space: Space, stage: Stage) -> None:
        """Search all of ``space``, and go as far as a stage: a space that may still grow is no
        place for the runs of later ones. A committed search is served as it is: that a rival needs
        more values trains nobody again whose records are there, and the table names its trials."""
        searched = {key: space[key] for key in self.entry.space}
        if self.committed is None and self.space != searched:
            settings = math.prod(map(len, searched.values()))
            self.study = self.open_study(space=searched, budget=settings)
        trials = len(self.committed.study.trials) if self.committed else self.study.budget
        self.stage, self.result.trials = stage, trials

    def start(self, ticket: int, executor: Executor) -> bool:
        """Submit this model's next job; False if there is none now."""
        trials = [] if self.committed else self._next_trials()
        if trials:
            jobs = [Job(f"trial {trial.number}", chosen, "trial") for trial, chosen in trials]
            self._submit(ticket, jobs, [trial for trial, _ in trials], executor)
            return True
        under_way = any(job.role == "trial" for job, _ in chain(*self.running.values()))
        may_repeat = self.stage >= Stage.REPEATS and not under_way and not self.repeats
        if may_repeat and not self.waits():
            self.repeats.extend(self._plan_repeats())
        if self.repeats:
            self._submit_next(ticket, self.repeats, executor)
            return True
        if under_way or self.stage < Stage.FINALS or self.waits() or self.is_stuck:
            return False
        self.finals = deque(self._plan_finals()) if self.finals is None else self.finals
        if not self.finals:
            return False
        self._submit_next(ticket, self.finals, executor)
        return True

    def _plan_repeats(self) -> list[Job]:
        """The best setting with all seeds but that of its trial; none where it has them, or where
        there is nothing to choose from."""
        setting, sweep = self.best(), self.configuration.sweep
        alone = self.committed or sweep.finals < 2 or len(self.study.latest()) < 2
        if sweep.choose_over != ALL_SEEDS or alone or setting is None or self.is_stuck:
            return []
        if (key := key_of(setting)) in self.over_seeds:
            return []
        _, *others = self.entry.at(setting).final_runs()
        self.repeated = [self.study.seen(setting), *(SeedResult(None, None) for _ in others)]
        self.over_seeds[key] = self.repeated
        self.repeats_asked += len(others)
        return [Job("best so far", run, "trial") for run in others]

    def waits(self) -> bool:
        """Whether trials of this model are under way elsewhere, or queued."""
        return not self.committed and self.study.waits()

    def is_over(self) -> bool:
        """Whether its final runs have been planned, or cannot be. The trials of others may have
        ended since it was last asked to start one."""
        return self.stage == Stage.FINALS and (self.finals is not None or self.is_stuck)

    @property
    def is_stuck(self) -> bool:
        """Whether nothing can be chosen, until the sweep is run again."""
        return self._cannot_repeat or bool(not self.committed and self.study.lost())

    def lost(self) -> list[str]:
        """Runs that no worker survived, trials of other drivers too."""
        return [*self.result.lost, *([] if self.committed else self.study.lost())]

    def finish(self, is_blocked: bool) -> None:
        """Say what was lost, once all that can be made has been, and why a model is held."""
        self.result.lost = self.lost()
        reason = "; ".join(self.result.lost)
        if is_blocked and not reason:
            reason = "how far its grid grows is not known while a run of another model is lost"
        self.result.cause = self.result.cause or reason or None

    def _submit_next(self, ticket: int, jobs: deque[Job], executor: Executor) -> None:
        """The first of some jobs, and those that are trained with it."""
        chosen = _pop_at(jobs, self._together([job.configuration for job in jobs]))
        self._submit(ticket, chosen, [None] * len(chosen), executor)

    def _submit(self, ticket: int, jobs: Sequence[Job], trials: Trials, executor: Executor) -> None:
        self.running[ticket] = list(zip(jobs, trials, strict=True))
        executor.submit(ticket, jobs[0] if len(jobs) == 1 else JobStack(tuple(jobs)))

    def _next_trials(self) -> list[tuple[optuna.Trial, Configuration]]:
        """The next trial, and those that are trained with it: of those to come the first that have
        its shape, wherever in the grid they are."""
        while len(self.pending) < self.ahead and (trial := self.study.ask()):
            try:
                self.pending.append((trial, self.entry.at(trial.user_attrs["setting"])))
            except UserError as error:  # a value that the space grew to
                self.study.tell_failure(trial, "failed", str(error))
        places = self._together([chosen for _, chosen in self.pending])
        return _pop_at(self.pending, places)

    def _together(self, runs: Sequence[Configuration]) -> list[int]:
        """Places of the first of these runs and of those that are trained with it."""
        if self.most == 1 or not runs:
            return [*range(len(runs))][:1]
        alike = by_shape(runs)[0]
        return alike[: together_of(self.configuration, len(alike))]

    @property
    def ahead(self) -> int:
        """Trials among which those of one shape are looked for: all, but where what comes next
        depends on what came out."""
        adapts = self.most == 1 or self.configuration.sweep.sampler == "tpe"
        return self.most if adapts else self.study.budget

    @cached_property
    def most(self) -> int:
        """Most runs that are trained together."""
        if self.configuration.sweep.stack is None:
            return 1  # most_together asks for the device
        return most_together(self.configuration)

    def take_result(self, done: Done) -> None:
        """Take in what came of a job."""
        jobs = self.running.pop(done.ticket)
        answers = done.value if isinstance(done.value, list) else [done.value] * len(jobs)
        for (job, trial), answer in zip(jobs, answers, strict=True):
            refused = isinstance(answer, UserError)
            cause = str(answer) if refused else None
            if trial is not None and done.death is not None:
                self.study.tell_lost(trial, done.death)
                continue
            if done.death is not None:
                cause = describe_loss(f"{job.name}, seed {job.configuration.seed},", done.death)
                self.result.lost.append(cause)
            if trial is not None and cause is not None:
                self.study.tell_failure(trial, "failed", cause)
            elif trial is not None:
                self.study.tell(trial, answer)
            elif job.role == "trial":
                self._end_repeat(job, answer, cause)
            else:
                self.finals_ended += 1
                if cause is None:
                    records = [*self.result.records, answer]
                    self.result.records = sorted(records, key=lambda record: record.seed)
                    cause = answer.cause
                self.result.cause = self.result.cause or cause

    def _end_repeat(self, job: Job, answer: Any, cause: str | None) -> None:
        """Take in the number of a setting with one more seed. A training that diverges counts as
        the worst; after a fault of the machine nothing is chosen, until the sweep is run again."""
        self.repeats_ended += 1
        if cause is not None or answer.outcome not in FINISHED:
            self.result.cause, self._cannot_repeat = cause or answer.cause, True
        elif answer.outcome == "ok":
            place = job.configuration.seed - self.configuration.seed
            validation = answer.metrics.get("validation", {})
            value = validation.get(self.study.headline.name)
            self.repeated[place] = SeedResult(value, validation.get("loss"))

    def interrupt(self) -> None:
        """Leave no trial running in the study; the next sweep queues them again."""
        running = [trial for _, trial in chain(*self.running.values())]
        for trial in [*running, *(trial for trial, _ in self.pending)]:
            if trial is not None:
                self.study.tell_failure(trial, "interrupted", "the sweep was stopped")
        self.running.clear()
        self.pending.clear()
        self.repeats.clear()
        self.over_seeds.clear()

    def ended(self) -> int:
        """Runs that have ended, those of earlier sweeps included."""
        return self.study.finished() + self.repeats_ended + self.finals_ended

    def _plan_finals(self) -> Iterator[Job]:
        setting = self.result.setting = self.best()
        self.result.failures = (self.committed or self.study).failures()
        if setting is None:
            self._keep_failure()
            return
        # Of trials made here; a committed search stands in its own record.
        study = None if self.committed else self.study.describe(self.over_seeds)
        best = self.entry.at(setting)
        names: set[str] = set()
        for run in best.of_each_data_seed():
            names.update(identify(run, known_data(run)).all)
        self._supersede(names)
        for final in best.final_runs():
            yield Job("final run", final, "final", study)

    def _keep_failure(self) -> None:
        """A model without any number is a row with its cause: that of its last trial."""
        study, last = self.study.describe(), self.study.latest()[-1].user_attrs
        count = len(study.trials)
        failed = "its only trial failed" if count == 1 else f"all {count} trials failed, the last"
        cause = f"{failed}: {last.get('cause')}"
        configuration = self.entry.at(last["setting"])
        identity = identify(configuration)
        path = self.store.trials / f"{identity.run_id(configuration.seed)}.json"
        # There is none if the model refused the setting.
        record = read_record(path) if path.exists() else self._empty_record(identity)
        changes = {
            "role": "final",
            "outcome": last["outcome"],
            "cause": cause,
            "study": study,
            "cost": record.cost.model_copy(update={"tuning_trials": len(study.trials)}),
        }
        record = record.model_copy(update=changes)
        self._supersede([record.identity])
        write_record(record, self.store.records)
        self.result.cause = cause
        self.result.records.append(record)

    def _empty_record(self, identity: Identity) -> RunRecord:
        configuration = identity.configuration
        return RunRecord(
            run_id=identity.run_id(configuration.seed),
            identity=identity.identity,
            seed=configuration.seed,
            task=configuration.task,
            model=configuration.model,
            label=configuration.label,
            preset=configuration.preset,
            outcome="failed",
            headline=self.study.headline,
            config=configuration.resolved(),
            cost=Cost(),
            provenance=identity.provenance,
        )

    def _supersede(self, identities: Collection[str]) -> None:
        """Make trials of the study's final records of other settings, for a later choice."""
        c = self.configuration
        for path in sorted(self.store.records.glob(f"{c.task}-{c.model}-{c.preset}-*.json")):
            record = read_record(path)
            if record.study is None or record.study.name != self.study.name:
                continue
            if record.identity not in identities:
                if not (self.store.trials / path.name).exists():
                    trial = record.model_copy(update={"role": "trial", "study": None})
                    write_record(trial, self.store.trials)
                folder = self.store.root / "superseded"
                folder.mkdir(exist_ok=True)
                path.replace(folder / f"{path.stem}.record")  # no reader of *.json finds it


def _pop_at(items: MutableSequence[Item], places: Sequence[int]) -> list[Item]:
    """The items at some places, in ascending order, which are taken out of the others."""
    taken = [items[place] for place in places]
    for place in reversed(places):
        del items[place]
    return taken
