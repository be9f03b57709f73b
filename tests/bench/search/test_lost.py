"""Runs that no worker survives: nothing is chosen without them, and the next sweep makes them."""

from dataclasses import replace
from pathlib import Path

import optuna
import psutil
import pytest

from bench.executors import processes
from bench.executors.interface import ATTEMPTS, Done
from bench.executors.processes import InProcess
from bench.records.schema import read_records
from bench.records.store import Store
from bench.search import driver
from bench.search.driver import records_of
from bench.search.model_search import ModelSearch
from bench.search.plan import Entry
from bench.search.remaining.pace import Pace
from core.errors import RUN_FAILED, UserError
from core.progress import silent
from tests.bench.conftest import SWEEP, outcome
from tests.bench.processes import workers_of
from tests.bench.search.test_choice import LR, RATES, WORDS, Trainings
from tests.bench.search.test_drivers import two_drivers
from tests.configurations import compose, make_plan

ERRORS = [(0.2, 0.2, 0.2), (0.3, 0.3, 0.3), (0.4, 0.4, 0.4)]
DEATH = f"its worker died {ATTEMPTS} times, at last killed by SIGKILL"


class Dying(InProcess):
    """An executor whose workers do not survive some runs."""

    def __init__(self, deadly, trainings):
        super().__init__(trainings)
        self.deadly = deadly

    def wait(self):
        ticket, job = self._waiting[0]
        if not self.deadly(job):
            return super().wait()
        self._waiting.popleft()
        return Done(ticket, death=DEATH)


def model_search(folder, *words, model="lstm", storage=None, rates=RATES[:3]):
    entry = Entry(
        compose([*WORDS, f"models={model}", f"store={folder}", *words]), {LR: list(rates)}
    )
    return ModelSearch(entry, storage or optuna.storages.InMemoryStorage(), Store(folder))


def drive(model_searches, deadly, rates=RATES):
    trainings = Trainings(ERRORS, None, rates)
    driver._drive(model_searches, Dying(deadly, trainings), Pace(silent, ""))
    for each in model_searches:
        each.finish(driver._is_blocked(each, model_searches))
    return trainings.made


@pytest.mark.processes
@pytest.mark.bitwise
def test_a_sweep_without_one_trial_chooses_nothing_and_the_next_is_as_if_undisturbed(
    tmp_path, undisturbed, monkeypatch
):
    # How often a job is tried is asked by the tests of the pool; here one death is the last.
    monkeypatch.setattr(processes, "ATTEMPTS", 1)
    store, killed = tmp_path / "store", set()

    def kill_all(description, done, total):
        workers = workers_of(psutil.Process())
        if "trial 0" in description and done < total and not killed:
            killed.update(worker.pid for worker in workers)
            for worker in workers:
                worker.kill()

    words = [*SWEEP, f"store={store}"]
    with pytest.raises(UserError) as caught:
        records_of(make_plan([*words, "workers=1"]), kill_all)
    assert caught.value.exit_code == RUN_FAILED
    said = str(caught.value)
    assert "trial 0 (training.lr=" in said
    assert "its worker died 1 times, at last killed by SIGKILL" in said
    assert "the same command tries it again" in said
    assert len(killed) == 1
    finals = {r.model for r in read_records([store / "records"]) if r.role == "final"}
    assert len(finals) == 1  # the other model is complete
    assert len(list((store / "trials").glob("*.json"))) == 5
    assert outcome(store, records_of(make_plan(words), silent)) == undisturbed


def test_a_lost_final_run_takes_no_other_with_it(tmp_path):
    one = model_search(tmp_path)
    drive([one], lambda job: job.role == "final" and job.configuration.seed == 0)
    assert [record.seed for record in one.result.records] == [1, 2]
    assert one.result.cause.startswith(f"final run, seed 0, was lost ({DEATH})")
    assert one.result.lost == [one.result.cause]


def test_a_lost_run_with_another_seed_is_told_and_nothing_is_chosen(tmp_path):
    one = model_search(tmp_path, "sweep.choose_over=all_seeds")
    drive([one], lambda job: job.role == "trial" and job.configuration.seed == 2)
    assert one.result.setting is None
    assert "best so far, seed 2, was lost" in one.result.cause


def test_no_model_gets_final_runs_in_a_space_that_a_lost_trial_may_let_grow(tmp_path):
    both = [model_search(tmp_path, "sweep.extend=1")]
    both.append(model_search(tmp_path, "sweep.extend=1", model="mamba"))
    made = drive(both, lambda job: job.configuration.model == "lstm" and is_best(job))
    assert {role for role, *_ in made} == {"trial"}
    assert len(made) == 5  # all but the lost one
    assert [bool(one.result.lost) for one in both] == [True, False]
    assert "how far its grid grows is not known" in both[1].result.cause


def test_a_guest_that_lost_a_trial_holds_nobody_else(tmp_path):
    guest = model_search(tmp_path, "sweep.extend=1")
    guest.entry = replace(guest.entry, guest=True)
    other = model_search(tmp_path, "sweep.extend=1", model="mamba")
    drive([guest, other], lambda job: job.configuration.model == "lstm" and is_best(job))
    assert (len(guest.result.records), len(other.result.records)) == (0, 3)
    assert guest.result.lost


def is_best(job):
    return job.configuration.training.lr == RATES[0]


def test_a_trial_that_another_driver_lost_is_waited_for_as_one_s_own(tmp_path: Path) -> None:
    one, other, _ = two_drivers(tmp_path)
    theirs = other.study.ask()
    other.study.tell_lost(theirs, DEATH)
    made = drive([one], lambda job: False)
    assert [role for role, *_ in made] == ["trial"] * 2
    (said,) = one.result.lost
    assert said.startswith(f"trial {theirs.number} ({LR}={RATES[0]}) was lost ({DEATH})")


def test_a_trial_of_a_driver_that_was_stopped_is_made_by_the_one_that_goes_on(
    tmp_path: Path,
) -> None:
    one, other, _ = two_drivers(tmp_path)
    other.pending.append((other.study.ask(), other.configuration))
    other.interrupt()  # as at Ctrl-C
    made = drive([one], lambda job: False)
    assert [role for role, *_ in made] == ["trial"] * 3 + ["final"] * 3
    assert one.result.setting == {LR: RATES[0]}
