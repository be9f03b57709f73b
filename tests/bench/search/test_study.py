"""The search: what is drawn, in which order, and what survives a killed driver."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState

from bench.config.samplers import (
    describe_sampler,
    grid,
    quasi_random_order,
    radical_inverse,
    random_order,
    tried,
    tried_by,
)
from bench.records.schema import Headline, RunRecord
from bench.search.storage import open_storage
from bench.search.study import ModelStudy
from core.errors import UserError

SPACE = {"training.lr": [1e-3, 1e-4, 1e-5], "models.layers": [1, 2], "models.gate": ["a", None]}
ACCURACY = Headline(name="accuracy", direction="maximise")

spaces = st.dictionaries(
    st.sampled_from(["training.lr", "models.width", "models.layers", "models.heads"]),
    st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True),
    max_size=3,
)


def key(setting):
    return json.dumps(setting, sort_keys=True)


def test_what_was_tried_follows_from_what_a_record_calls_its_sampler():
    for sampler, seed in (("grid", 0), ("random", 7), ("qmc", 0)):
        described = describe_sampler(sampler, seed)
        kept = json.loads(json.dumps(SPACE, sort_keys=True))  # as a record keeps it
        assert tried(SPACE, sampler, 5, seed) in (tried_by(described, kept, 5) or ())
    assert tried_by(describe_sampler("tpe", 3), SPACE, 5) is None
    huge = {str(key): list(range(100)) for key in range(8)}  # is not worked out
    assert tried_by(describe_sampler("random", 0), huge, 5) is None
    assert tried_by(describe_sampler("grid", 0), huge, 5) is None
    assert tried_by(describe_sampler("qmc", 0), {"a": [*range(400)], "b": [*range(400)]}, 5) is None
    for other in ("an oracle's guess", "random without repetition, seed=", "grid, in order "):
        with pytest.raises(ValueError, match="there is no sampler"):
            tried_by(other, SPACE, 5)


def record(value, outcome="ok", loss=1.0, cause=None):
    metrics = {} if value is None else {"validation": {"accuracy": value, "loss": loss}}
    fields = {"run_id": f"run-{value}", "outcome": outcome, "metrics": metrics, "cause": cause}
    return RunRecord.model_construct(**fields)


def open_study(folder, budget=4, sampler="random", space=SPACE, seed=0):
    return ModelStudy(
        open_storage("journal", folder),
        "task-model-smoke-0123",
        space=space,
        budget=budget,
        sampler=sampler,
        seed=seed,
        headline=ACCURACY,
    )


def quality(setting):
    """A made-up truth: accuracy of a setting."""
    return 0.1 * setting["models.layers"] + setting["training.lr"]


def run_all(study, at_once=1):
    """Drive a study to its end with ``at_once`` trials in flight, the newest ending first."""
    flying = []
    while True:
        while len(flying) < at_once and (trial := study.ask()) is not None:
            flying.append(trial)
        if not flying:
            return
        trial = flying.pop()
        study.tell(trial, record(quality(trial.user_attrs["setting"])))


@given(spaces, st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_every_order_is_a_permutation_of_the_grid(space, seed):
    whole = [dict(zip(space, v, strict=True)) for v in itertools.product(*space.values())]
    assert grid(space) == whole
    for order in (random_order(space, seed), list(quasi_random_order(space))):
        assert sorted(map(key, order)) == sorted(map(key, whole))


def test_random_order_depends_on_the_seed_and_is_pinned():
    orders = {tuple(map(key, random_order(SPACE, seed))) for seed in range(5)}
    assert len(orders) == 5
    # Pinned: another order would make every published sweep another one.
    first = random_order(SPACE, 0)[0]
    assert first == {"training.lr": 1e-3, "models.layers": 2, "models.gate": "a"}


def test_radical_inverses_are_scipys_halton_sequence():
    from scipy.stats import qmc

    expected = qmc.Halton(3, scramble=False).random(50)
    ours = [[radical_inverse(index, base) for base in (2, 3, 5)] for index in range(50)]
    assert ours == [pytest.approx(point) for point in expected.tolist()]


def test_quasi_random_order_covers_each_half_early():
    """Its first four points in base 2 hit four of four cells, which random points rarely do."""
    space = {"training.lr": [1, 2, 3, 4], "models.layers": [1, 2, 3]}
    first = list(itertools.islice(quasi_random_order(space), 4))
    assert {setting["training.lr"] for setting in first} == {1, 2, 3, 4}
    assert {setting["models.layers"] for setting in first} == {1, 2, 3}


@pytest.mark.parametrize("sampler", ["random", "grid", "qmc"])
def test_settings_do_not_depend_on_the_number_of_workers(tmp_path, sampler):
    tried = []
    for at_once in (1, 3):
        study = open_study(tmp_path / str(at_once), budget=7, sampler=sampler)
        run_all(study, at_once)
        tried.append([trial.parameters for trial in study.describe().trials])
    assert tried[0] == tried[1]
    assert len(set(map(key, tried[0]))) == 7


@pytest.mark.parametrize("sampler", ["random", "grid", "qmc", "tpe"])
def test_large_budget_runs_the_whole_space_once(tmp_path, sampler):
    study = open_study(tmp_path, budget=1000, sampler=sampler)
    run_all(study, 2)
    parameters = [trial.parameters for trial in study.describe().trials]
    assert sorted(map(key, parameters)) == sorted(map(key, grid(SPACE)))


def test_larger_budget_goes_on_from_what_is_there(tmp_path):
    run_all(open_study(tmp_path / "two steps", budget=3))
    longer = open_study(tmp_path / "two steps", budget=6)
    run_all(longer)
    at_once = open_study(tmp_path / "one step", budget=6)
    run_all(at_once)
    assert longer.describe().trials == at_once.describe().trials


@pytest.mark.parametrize("sampler", ["random", "grid", "qmc", "tpe"])
@pytest.mark.parametrize("larger", [5, 1000])
def test_smaller_budget_is_answered_as_if_there_had_been_no_larger_one(tmp_path, sampler, larger):
    alone = open_study(tmp_path / "alone", budget=2, sampler=sampler)
    run_all(alone)
    run_all(open_study(tmp_path / "both", budget=larger, sampler=sampler))
    later = open_study(tmp_path / "both", budget=2, sampler=sampler)
    assert later.ask() is None
    assert later.describe() == alone.describe()
    assert later.best() == alone.best()
    assert later.finished() == 2


def test_retries_beyond_a_smaller_budget_wait_for_the_larger_one(tmp_path):
    first = open_study(tmp_path, budget=3)
    trials = [first.ask() for _ in range(3)]
    for trial in reversed(trials):  # the machine failed, the last one first
        first.tell(trial, record(None, "out_of_memory"))
    # The last setting's retry comes first in the queue, then this driver is killed as well.
    first._enqueue(trials[2].user_attrs["setting"], retry_of=trials[2].number)
    run_all(open_study(tmp_path, budget=2))
    assert open_study(tmp_path, budget=2).finished() == 2
    whole = open_study(tmp_path, budget=3)
    run_all(whole)
    described = whole.describe().trials
    assert [t.parameters for t in described] == random_order(SPACE, 0)[:3]
    assert [t.outcome for t in described] == ["ok"] * 3
    assert whole.failures() == []


def test_tpe_repeats_no_setting_and_is_repeatable_one_at_a_time(tmp_path):
    space = {f"models.k{i}": [0, 1, 2] for i in range(3)} | SPACE
    tried = []
    for name in ("a", "b"):
        study = open_study(tmp_path / name, budget=20, sampler="tpe", space=space)
        run_all(study)
        tried.append([trial.parameters for trial in study.describe().trials])
    assert tried[0] == tried[1]
    assert len(set(map(key, tried[0]))) == 20
    layers = [parameters["models.layers"] for parameters in tried[0]]
    assert layers[10:].count(2) > 5  # it has learnt which is better


def test_best_is_by_headline_then_loss_then_place_in_the_grid(tmp_path):
    study = open_study(tmp_path, budget=5, sampler="grid")
    answers = [(0.5, 1.0), (0.7, 2.0), (0.7, 1.5), (0.7, 1.5), (None, 0.0)]
    for value, loss in answers:
        trial = study.ask()
        outcome = "diverged" if value is None else "ok"
        study.tell(trial, record(value, outcome, loss, "the loss was nan"))
    assert study.ask() is None
    assert study.best() == grid(SPACE)[2]
    trials = study.describe().trials
    assert [trial.outcome for trial in trials] == ["ok"] * 4 + ["diverged"]
    assert trials[-1].value is None
    assert study.failures() == ["the loss was nan"]


def test_study_without_a_number_has_no_best(tmp_path):
    study = open_study(tmp_path, budget=2)
    while (trial := study.ask()) is not None:
        study.tell(trial, record(float("nan"), "diverged"))
    assert study.best() is None


def test_running_trials_are_failed_and_retried_after_a_crash(tmp_path):
    first = open_study(tmp_path, budget=4)
    done = first.ask()
    first.tell(done, record(0.1))
    lost = [first.ask(), first.ask()]  # and then the driver is killed

    second = open_study(tmp_path, budget=4)
    states = [trial.state for trial in second.study.get_trials()]
    assert TrialState.RUNNING not in states
    run_all(second)
    trials = second.describe().trials
    assert [t.parameters for t in trials] == random_order(SPACE, 0)[:4]
    retried = {t.retry_of: t.parameters for t in trials if t.retry_of is not None}
    assert retried == {t.number: t.user_attrs["setting"] for t in lost}

    third = open_study(tmp_path, budget=4)  # a second recovery finds nothing to do
    assert third.ask() is None
    assert third.describe() == second.describe()


@pytest.mark.parametrize(("outcome", "again"), [("diverged", False), ("out_of_memory", True)])
def test_failures_of_the_machine_are_tried_again_and_divergence_is_not(tmp_path, outcome, again):
    study = open_study(tmp_path, budget=1)
    study.tell(study.ask(), record(None, outcome))
    assert study.ask() is None  # not within the same sweep
    assert (open_study(tmp_path, budget=1).ask() is not None) == again


def test_unusable_database_is_one_sentence(tmp_path):
    for address in ("nonsense", f"sqlite:///{tmp_path}/no/such/folder.db"):
        with pytest.raises(UserError, match="database given by storage="):
            open_storage(address, tmp_path)


def test_sqlite_holds_a_study(tmp_path):
    storage = open_storage(f"sqlite:///{tmp_path}/studies.db", tmp_path)
    options = {"space": SPACE, "budget": 2, "sampler": "random", "seed": 0, "headline": ACCURACY}
    study = ModelStudy(storage, "name", **options)
    run_all(study)
    reopened = ModelStudy(storage, "name", **options)
    assert reopened.describe() == study.describe()
    assert reopened.ask() is None
