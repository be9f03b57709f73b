"""Two drivers of one study, of which one dies or ends at any moment: nothing is chosen without its
trial."""

from collections.abc import Callable
from pathlib import Path

import optuna
import pytest

from bench.config.samplers import key_of
from bench.executors.processes import InProcess
from bench.records.schema import RunRecord
from bench.records.store import Store
from bench.search import driver
from bench.search.model_search import ModelSearch
from bench.search.plan import Entry
from bench.search.remaining.pace import Pace
from core.progress import silent
from tests.bench.search.test_choice import LR, RATES, WORDS, Trainings
from tests.configurations import compose

ERRORS = [(0.2, 0.2, 0.2), (0.3, 0.3, 0.3), (0.4, 0.4, 0.4)]
BEST = RATES[0]
MOMENTS = range(8)  # at which question whether the other driver is alive it is found to be over


class Coordinator:
    """What a driver is told of another one, which comes to its end at one of the questions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.questions = 0
        self.alive: Callable[[str], bool] = lambda driver: True

    def alone(self, act: Callable[[], object]) -> object:
        return act()


def two_drivers(folder: Path) -> tuple[ModelSearch, ModelSearch, Coordinator]:
    """One that is to be driven, and another one that has begun a trial."""
    storage = optuna.storages.InMemoryStorage()
    entry = Entry(compose([*WORDS, f"store={folder}"]), {LR: list(RATES[: len(ERRORS)])})
    coordinator = Coordinator("one")
    one = ModelSearch(entry, storage, Store(folder), coordinator)
    return one, ModelSearch(entry, storage, Store(folder), Coordinator("other")), coordinator


@pytest.mark.parametrize("dies", [True, False], ids=["dies", "ends"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_finals_wait_for_the_trial_of_a_driver_that_is_over(
    moment: int, dies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "SECONDS_BETWEEN_LOOKS", 0.0)
    one, other, coordinator = two_drivers(tmp_path)
    theirs = other.study.ask()
    assert theirs is not None
    assert theirs.params[LR] == BEST
    trainings = Trainings(ERRORS, None, RATES)

    def alive(name: str) -> bool:
        coordinator.questions += 1
        if coordinator.questions <= moment:
            return True
        if dies:
            return False
        if coordinator.questions == moment + 1:
            metrics = {"validation": {"error_after_max_period": ERRORS[0][0], "loss": 0.1}}
            made = {"outcome": "ok", "run_id": "x", "cause": None, "seed": 0, "metrics": metrics}
            other.study.tell(theirs, RunRecord.model_construct(**made))
        return True

    coordinator.alive = alive
    driver._drive([one], InProcess(trainings), Pace(silent, ""))
    assert coordinator.questions > moment
    assert one.result.setting == {LR: BEST}
    finals = [(rate, seed) for role, rate, seed in trainings.made if role == "final"]
    assert finals == [(BEST, seed) for seed in range(3)]
    trials = [rate for role, rate, _ in trainings.made if role == "trial"]
    assert len(trials) == len(set(trials))  # none twice
    assert (BEST in trials) == dies
    described = one.study.describe().trials
    assert {key_of(trial.parameters) for trial in described if trial.outcome == "ok"} == {
        key_of({LR: rate}) for rate in RATES[: len(ERRORS)]
    }
