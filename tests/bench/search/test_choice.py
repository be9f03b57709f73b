"""Which setting a search chooses, against a choice that is worked out by hand."""

import statistics

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.config.samplers import key_of
from bench.executors.processes import InProcess
from bench.records.schema import RunRecord, read_records, write_record
from bench.records.store import Store
from bench.search import driver
from bench.search.model_search import ModelSearch
from bench.search.plan import Entry
from bench.search.remaining.pace import Pace
from core.progress import silent
from tests.bench.records import make_record
from tests.configurations import compose

LR = "training.lr"
RATES = (1e-3, 2e-3, 5e-3, 1e-2)
GROWN = (1e-3, 2e-3, 4e-3, 8e-3)
WORDS = ["models=lstm", "tasks=three_moons", "device=cpu", "tasks.length=130", "tasks.sequences=2"]
WORDS += ["tasks.contexts_every=16", "models.width=8", "models.layers=1", "sweep.seeds=3"]
WORDS += ["sweep.sampler=grid", "sweep.n_trials=9"]


FAULT = -1.0


class Trainings:
    """A made-up error for each rate and seed; None is a training that diverges."""

    def __init__(self, errors, losses, rates):
        self.errors, self.losses, self.rates, self.made = errors, losses or errors, rates, []

    def __call__(self, job, report):
        c = job.configuration
        place = self.rates.index(c.training.lr) if c.training.lr in self.rates else 0
        value, loss = self.errors[place][c.seed], self.losses[place][c.seed]
        self.made.append((job.role, c.training.lr, c.seed))
        fields = {"run_id": "x", "cause": "the loss was nan", "seed": c.seed, "metrics": {}}
        if value == FAULT:
            return RunRecord.model_construct(outcome="out_of_memory", **fields | {"cause": "full"})
        if value is None:
            return RunRecord.model_construct(outcome="diverged", **fields)
        fields["metrics"] = {"validation": {"error_after_max_period": value, "loss": loss}}
        return RunRecord.model_construct(outcome="ok", **fields)


def search(errors, folder, *words, losses=None, rates=None, all_rates=RATES):
    space = {LR: list(rates or RATES[: len(errors)])}
    entry = Entry(compose([*WORDS, f"store={folder}", *words]), space)
    model_search = ModelSearch(entry, optuna.storages.InMemoryStorage(), Store(folder))
    trainings = Trainings(errors, losses, all_rates)
    driver._drive([model_search], InProcess(trainings), Pace(silent, ""))
    return model_search, trainings.made


def by_hand(errors):
    """The setting that is chosen, and those that get all seeds."""
    worst = float("inf")
    tried = {n: row[0] for n, row in enumerate(errors) if row[0] is not None}
    repeated = set()
    while tried:
        best = min(tried, key=lambda n: (tried[n], n))
        if best in repeated:
            return best, repeated
        repeated.add(best)
        whole = None not in errors[best]
        tried[best] = statistics.fmean(errors[best]) if whole else worst
    return None, repeated


error = st.one_of(st.none(), st.integers(1, 9).map(float))


@settings(max_examples=60)
@given(errors=st.lists(st.tuples(error, error, error), min_size=2, max_size=4))
def test_the_best_over_all_seeds_is_chosen_and_no_more_is_trained_for_it(tmp_path_factory, errors):
    folder = tmp_path_factory.mktemp("store")
    model_search, made = search(errors, folder, "sweep.choose_over=all_seeds")
    best, repeated = by_hand(errors)
    if best is None:
        assert model_search.result.setting is None
        return
    assert model_search.result.setting == {LR: RATES[best]}
    trials = [(rate, seed) for role, rate, seed in made if role == "trial"]
    wanted = {(RATES[n], 0) for n in range(len(errors))}
    wanted |= {(RATES[n], seed) for n in repeated for seed in range(3)}
    assert sorted(trials) == sorted(wanted)  # each once
    finals = [(rate, seed) for role, rate, seed in made if role == "final"]
    assert finals == [(RATES[best], seed) for seed in range(3)]
    told = model_search.study.describe(model_search.over_seeds)
    assert told.selected_by.startswith("mean over seeds of ")
    for trial in told.trials:
        place = RATES.index(trial.parameters[LR])
        assert trial.over_seeds == (list(errors[place]) if place in repeated else [])
    scores = [trial.score for trial in told.trials if trial.score is not None]
    chosen = next(trial for trial in told.trials if trial.parameters == model_search.result.setting)
    assert chosen.score == (min(scores) if scores else None)
    assert model_search.ended() == model_search.runs


def test_a_lucky_first_seed_decides_only_where_that_is_asked_for(tmp_path):
    errors = [(0.30, 0.50, 0.50), (0.32, 0.33, 0.34), (0.50, 0.10, 0.10)]
    model_search, made = search(errors, tmp_path / "first", "sweep.choose_over=first_seed")
    assert model_search.result.setting == {LR: RATES[0]}
    assert len([one for one in made if one[0] == "trial"]) == 3
    assert model_search.study.describe(model_search.over_seeds).selected_by.startswith("error")
    model_search, made = search(errors, tmp_path / "all", "sweep.choose_over=all_seeds")
    assert model_search.result.setting == {LR: RATES[1]}
    got_all = {key: [one.value for one in seen] for key, seen in model_search.over_seeds.items()}
    assert got_all == {
        key_of({LR: RATES[0]}): [0.30, 0.50, 0.50],
        key_of({LR: RATES[1]}): [0.32, 0.33, 0.34],
    }


def test_nothing_is_chosen_after_a_fault_of_the_machine(tmp_path):
    errors = [(0.3, FAULT, 0.4), (0.5, 0.5, 0.5)]
    model_search, made = search(errors, tmp_path, "sweep.choose_over=all_seeds")
    assert model_search.result.setting is None
    assert model_search.result.cause == "full"
    assert not [one for one in made if one[0] == "final"]


def test_of_equals_the_mean_loss_decides(tmp_path):
    errors = [(0.5, 0.5, 0.5), (0.5, 0.5, 0.5)]
    losses = [(1.0, 3.0, 3.0), (2.0, 2.0, 2.0)]
    model_search, made = search(errors, tmp_path, "sweep.choose_over=all_seeds", losses=losses)
    assert model_search.result.setting == {LR: RATES[1]}
    assert len([one for one in made if one[0] == "trial"]) == 6


@pytest.mark.parametrize("seeds", [1, 2])
def test_one_setting_is_no_choice_and_one_seed_is_its_own_mean(tmp_path, seeds):
    words = ["sweep.choose_over=all_seeds", f"sweep.seeds={seeds}"]
    _, made = search([(0.3, 0.4, 0.5)], tmp_path / "one", *words)
    assert [role for role, *_ in made] == ["trial", *["final"] * seeds]
    _, made = search([(0.3, 0.4, 0.5), (0.5, 0.1, 0.1)], tmp_path / "two", *words)
    assert [role for role, *_ in made] == [*["trial"] * (1 + seeds), *["final"] * seeds]


def test_a_final_run_that_is_chosen_no_more_stays_a_trial_for_whoever_chooses_again(tmp_path):
    model_search, _ = search([(0.3, 0.4, 0.5), (0.5, 0.1, 0.1)], tmp_path)
    study = model_search.study.describe()
    final = make_record(task="three_moons", model="lstm", role="final", study=study, seed=1)
    write_record(final, tmp_path / "records")
    model_search._supersede([])
    assert not list((tmp_path / "records").glob("*.json"))
    (kept,) = read_records([tmp_path / "trials"])
    assert (kept.run_id, kept.role, kept.metrics) == (final.run_id, "trial", final.metrics)


def test_seeds_are_spent_after_the_grid_has_grown(tmp_path):
    """The best of the first grid lies on its edge, and gets no seeds; the best of the grown one
    does, and what wins with all seeds may let it grow again."""
    errors = [(0.9, 0.9, 0.9), (0.5, 0.5, 0.5), (0.4, 0.9, 0.9), (0.45, 0.45, 0.45)]
    words = ["sweep.choose_over=all_seeds", "sweep.extend=2"]
    model_search, made = search(errors, tmp_path, *words, rates=(1e-3, 2e-3), all_rates=GROWN)
    assert model_search.result.setting == {LR: GROWN[3]}
    repeated = [(rate, seed) for role, rate, seed in made if role == "trial" and seed]
    assert repeated == [(GROWN[n], seed) for n in (2, 3) for seed in (1, 2)]
