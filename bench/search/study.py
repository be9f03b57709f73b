"""The search for one model's best setting: an Optuna study that one driver owns.

Search spaces are finite (a list of values for each key), so settings are drawn without repetition:
trial i of every sampler but TPE is the i-th setting of a fixed sequence, whatever the budget, the
number of workers and however often the sweep was interrupted. The proposals of TPE depend on which
trials have ended. A budget that covers the whole space runs all of it once; after a larger budget,
a smaller one sees its own first trials and nothing of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bench.config.samplers import (
    TPE_STARTUP_TRIALS,
    Setting,
    choice_of,
    describe_sampler,
    grid,
    key_of,
    quasi_random_order,
    random_order,
)
from bench.config.search_space import Space
from bench.records.schema import FINISHED, Headline, Outcome, RunRecord, Study, Trial
from bench.search.jobs import describe_loss
from core.seeding import derive_seed

if TYPE_CHECKING:
    from bench.search.coordinator import Coordinator

Result = TypeVar("Result")


class SeedResult(NamedTuple):
    """What a setting came to with one seed, on validation; None without a number."""

    value: float | None
    loss: float | None


OverSeeds = Mapping[str, Sequence[SeedResult]]  # key of a setting -> what it came to with each seed
TPE_PROPOSALS = 20  # until one is new; then the next setting of the random order is taken
_DIRECTIONS = {"maximise": StudyDirection.MAXIMIZE, "minimise": StudyDirection.MINIMIZE}

optuna.logging.set_verbosity(optuna.logging.WARNING)


class ModelStudy:
    """The trials of one model in one study.

    Args:
        name: states what is held fixed, so that changed settings never share a study.
        space: key -> values; may be empty, which is one setting.
        reach: all values of the keys that may get more, so that all spaces up to it are one study.
        coordinator: of all drivers of the study; None where this process is its only writer.
        budget: trials, that is different settings; more than the space holds means all of it.
        headline: the task's; its value on the validation split is what a trial is told.
    """

    def __init__(
        self,
        storage: optuna.storages.BaseStorage,
        name: str,
        *,
        space: Mapping[str, Sequence[Any]],
        budget: int,
        sampler: str,
        seed: int,
        headline: Headline,
        reach: Space | None = None,
        coordinator: Coordinator | None = None,
    ) -> None:
        self.name, self.space, self.sampler, self.seed = name, space, sampler, seed
        self.reach = reach or {}
        self.headline = headline
        self.direction = _DIRECTIONS[headline.direction]
        self.study = optuna.create_study(
            study_name=name, storage=storage, direction=self.direction, load_if_exists=True
        )
        self._grid = {key_of(setting): place for place, setting in enumerate(grid(space))}
        self.budget = min(budget, len(self._grid))
        self._coordinator = coordinator
        self._mine: set[int] = set()  # trials that this process was given
        self._alone(self._recover)

    def _alone(self, act: Callable[[], Result]) -> Result:
        """What ``act`` gives, while no other driver changes the study."""
        return self._coordinator.alone(act) if self._coordinator else act()

    def _recover(self, failed_too: bool = True) -> None:
        """Queue again every trial of the budget that did not come to an end of its own.

        Args:
            failed_too: those that ended by a fault of the machine, beside those that are lost.
        """
        # Each is judged once: its driver may be taken for dead from one moment to the next.
        lost = [trial.number for trial in self._attempts() if self._is_lost(trial)]
        for trial in self.latest():
            outcome = trial.user_attrs.get("outcome")
            failed = trial.state == TrialState.FAIL and outcome not in FINISHED
            if (failed_too and failed) or trial.number in lost or self._is_given_up(trial):
                # Queue first: killed in between, the sweep finds the retry already there.
                self._enqueue(trial.user_attrs["setting"], retry_of=trial.number)
        for number in lost:
            self.study.tell(number, state=TrialState.FAIL)

    def _is_lost(self, trial: FrozenTrial) -> bool:
        """Whether a trial runs, and nobody has it."""
        if trial.state != TrialState.RUNNING or trial.number in self._mine:
            return False
        driver, coordinator = trial.user_attrs.get("driver"), self._coordinator
        return (
            coordinator is None
            or driver in (None, coordinator.name)
            or not coordinator.alive(driver)
        )

    def _is_given_up(self, trial: FrozenTrial) -> bool:
        """Whether the driver of a trial was stopped, and those that go on can make it."""
        notes, failed = trial.user_attrs, trial.state == TrialState.FAIL
        stopped = failed and notes.get("outcome") == "interrupted" and not notes.get("lost")
        return stopped and self._coordinator is not None

    def waits(self) -> bool:
        """Whether trials of the budget run elsewhere, or are queued; those of a driver that died or
        was stopped are queued again here."""
        if self._coordinator is None:
            return False
        if self._elsewhere() or any(map(self._is_given_up, self.latest())):
            self._alone(lambda: self._recover(failed_too=False))
        return bool(self._elsewhere()) or self._waiting()

    def _elsewhere(self) -> list[FrozenTrial]:
        running = (t for t in self.latest() if t.state == TrialState.RUNNING)
        return [trial for trial in running if trial.number not in self._mine]

    def _enqueue(self, setting: Setting, **notes: Any) -> None:
        self.study.enqueue_trial(setting, user_attrs={"setting": setting, **notes})

    def _attempts(self) -> list[FrozenTrial]:
        trials = self.study.get_trials(deepcopy=False)
        return [trial for trial in trials if "setting" in trial.user_attrs]

    def latest(self) -> list[FrozenTrial]:
        """The last attempt at each setting of the budget, in the order of first attempts."""
        last = {key_of(trial.user_attrs["setting"]): trial for trial in self._attempts()}
        return [trial for key, trial in last.items() if key in self._grid][: self.budget]

    def ask(self) -> optuna.Trial | None:
        """The next trial, which is then running; None while or once the budget is given out."""
        return self._alone(self._ask)

    def _ask(self) -> optuna.Trial | None:
        if not self._waiting():
            setting = self._propose()
            if setting is None:
                return None
            self._enqueue(setting)
        while self._waiting():
            trial = self.study.ask(self._distributions())
            if any(trial.number == attempt.number for attempt in self.latest()):
                if self._coordinator:
                    trial.set_user_attr("driver", self._coordinator.name)
                self._mine.add(trial.number)
                return trial
            # Queued by a sweep with a larger budget, which queues it again when it comes back.
            self.tell_failure(trial, "interrupted", "beyond the number of trials asked for")
        return None

    def _waiting(self) -> bool:
        return any(trial.state == TrialState.WAITING for trial in self.latest())

    def _distributions(self) -> dict[str, Any]:
        values = {**self.space, **self.reach}  # Optuna lets no study change them
        return {key: CategoricalDistribution(list(values[key])) for key in values}

    def _propose(self) -> Setting | None:
        tried = self._grid.keys() & {key_of(t.user_attrs["setting"]) for t in self._attempts()}
        if len(tried) >= self.budget:
            return None
        if self.sampler == "tpe":
            proposed = self._propose_by_tpe(tried)
            if proposed is not None:
                return proposed
        return next(setting for setting in self._sequence() if key_of(setting) not in tried)

    def _sequence(self) -> Iterator[Setting]:
        if self.sampler == "grid":
            return iter(grid(self.space))
        if self.sampler == "qmc":
            return quasi_random_order(self.space)
        return iter(random_order(self.space, self.seed))

    def _propose_by_tpe(self, tried: set[str]) -> Setting | None:
        """A proposal that depends on the trials so far alone, not on this process's history: asked
        of a copy in memory, where repetitions that TPE proposes leave no trace."""
        seed = derive_seed(self.seed, "tpe", len(tried)) % 2**32
        sampler = optuna.samplers.TPESampler(n_startup_trials=TPE_STARTUP_TRIALS, seed=seed)
        copy = optuna.create_study(sampler=sampler, direction=self.direction)
        copy.add_trials(self._attempts())
        for _ in range(TPE_PROPOSALS):
            params = copy.ask(self._distributions()).params
            setting = {key: params[key] for key in self.space}
            if key_of(setting) in self._grid.keys() - tried:
                return setting
        return None

    def tell(self, trial: optuna.Trial, record: RunRecord) -> None:
        """End a trial with its record: its value, or failed with the cause in its attributes."""
        validation = record.metrics.get("validation", {})
        value = validation.get(self.headline.name)
        outcome, cause = record.outcome, record.cause
        if outcome == "ok" and value is None:
            outcome, cause = "diverged", f"{self.headline.name} on validation is not a number"
        notes = {"run_id": record.run_id, "outcome": outcome}
        if outcome == "ok":
            self._end(trial, value, **notes, loss=validation.get("loss"))
        else:
            self._end(trial, None, **notes, cause=cause or outcome)

    def tell_failure(self, trial: optuna.Trial, outcome: Outcome, cause: str) -> None:
        """End a trial without a value."""
        self._end(trial, None, outcome=outcome, cause=cause)

    def tell_lost(self, trial: optuna.Trial, death: str) -> None:
        """End a trial that no worker survived."""
        self._end(trial, None, outcome="interrupted", cause=death, lost=True)

    def lost(self) -> list[str]:
        """Which trials no worker survived, here or at another driver; the next sweep makes them. A
        fault of the machine says nothing of a setting, so nothing is chosen without them."""
        sentences = []
        for trial in self.latest():
            notes = trial.user_attrs
            if trial.state == TrialState.FAIL and notes.get("lost"):
                setting = ", ".join(f"{key}={value}" for key, value in notes["setting"].items())
                name = f"trial {trial.number}" + (f" ({setting})" if setting else "")
                sentences.append(describe_loss(name, notes["cause"]))
        return sentences

    def _end(self, trial: optuna.Trial, value: float | None, **notes: Any) -> None:
        # Another driver may have taken it for lost, and then has the setting: its record is there.
        with suppress(optuna.exceptions.UpdateFinishedTrialError):
            for name, note in notes.items():
                trial.set_user_attr(name, note)
            state = TrialState.FAIL if value is None else TrialState.COMPLETE
            self.study.tell(trial, value, state=state, skip_if_finished=True)
        self._mine.discard(trial.number)

    def best(self, over_seeds: OverSeeds | None = None) -> Setting | None:
        """The setting with the best headline on validation; of equals the one with the lower loss,
        then the first of the grid. None if no trial gave a number.

        Args:
            over_seeds: of settings that were trained with all seeds, whose means count then.
        """
        sign = -1 if self.direction == StudyDirection.MAXIMIZE else 1

        def rank(trial: FrozenTrial) -> tuple[float, float, int]:
            key = key_of(trial.user_attrs["setting"])
            results = (over_seeds or {}).get(key, [_result_of(trial)])
            value = _mean([result.value for result in results], sign)
            return value, _mean([result.loss for result in results]), self._grid[key]

        complete = [t for t in self.latest() if t.state == TrialState.COMPLETE]
        return min(complete, key=rank).user_attrs["setting"] if complete else None

    def seen(self, setting: Setting) -> SeedResult:
        """What the trial of a setting came to."""
        results = (_result_of(t) for t in self.latest() if t.user_attrs["setting"] == setting)
        return next(results, SeedResult(None, None))

    def failures(self) -> list[str]:
        """Why trials have no value, for each of them."""
        failed = [trial for trial in self.latest() if trial.state == TrialState.FAIL]
        return [str(trial.user_attrs.get("cause")) for trial in failed]

    def finished(self) -> int:
        """Trials that have come to an end."""
        return sum(trial.state.is_finished() for trial in self.latest())

    def describe(self, over_seeds: OverSeeds | None = None) -> Study:
        """What a record says about the search."""
        over_seeds = over_seeds or {}
        return Study(
            name=self.name,
            sampler=describe_sampler(self.sampler, self.seed),
            optuna=optuna.__version__,
            search_space={key: list(values) for key, values in self.space.items()},
            selected_by=choice_of(self.headline.name, self.headline.direction, bool(over_seeds)),
            trials=[_describe_trial(t, over_seeds) for t in self.latest() if t.state.is_finished()],
        )


def _result_of(trial: FrozenTrial) -> SeedResult:
    return SeedResult(trial.value, trial.user_attrs.get("loss"))


def _mean(values: Sequence[float | None], sign: int = 1) -> float:
    """Times ``sign``; infinite where one is missing, which counts as the worst."""
    numbers = [value for value in values if value is not None]
    return sign * fmean(numbers) if len(numbers) == len(values) else math.inf


def _describe_trial(trial: FrozenTrial, over_seeds: OverSeeds) -> Trial:
    notes = trial.user_attrs
    return Trial(
        number=trial.number,
        parameters=notes["setting"],
        value=trial.value,
        outcome=notes.get("outcome", "interrupted"),
        run_id=notes.get("run_id"),
        retry_of=notes.get("retry_of"),
        over_seeds=[seen.value for seen in over_seeds.get(key_of(notes["setting"]), ())],
    )
