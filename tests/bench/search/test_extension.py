"""A grid that grows where a best setting lies on its edge, against a loop written the long way."""

import itertools
import math
import random
from collections.abc import Callable

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.config.search_space import reach_of
from bench.executors.processes import InProcess
from bench.records.schema import RunRecord, Study, Trial
from bench.records.store import Store
from bench.search import driver
from bench.search.model_search import ModelSearch
from bench.search.plan import Entry
from bench.search.published import Chosen
from bench.search.remaining.pace import Pace
from bench.search.storage import open_storage
from core.progress import silent
from tests.configurations import compose, make_plan

LR, HEADS = "training.lr", "models.heads"
KEYS = {"gpt2": (LR, HEADS), "lstm": (LR,)}
TINY = ["tasks=three_moons", "device=cpu", "tasks.length=130", "tasks.sequences=2"]
TINY += ["tasks.contexts_every=16", "models.width=8", "models.layers=1", "seed=0"]
SPACES = (
    {LR: [1e-3, 1e-2]},
    {LR: [6e-3, 2e-3], HEADS: [2, 4]},
    {LR: [1e-3, 2e-3, 5e-3], HEADS: [1, 4, 2]},
    {LR: [3e-3], HEADS: [4, 8]},
)
REACH = {  # worked out by hand: up to two more on each side
    (1e-3, 1e-2): [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0],
    (6e-3, 2e-3): [2.2e-4, 6.7e-4, 2e-3, 6e-3, 1.8e-2, 5.4e-2],
    (1e-3, 2e-3, 5e-3): [2e-4, 4.5e-4, 1e-3, 2e-3, 5e-3, 1.1e-2, 2.5e-2],
    (64, 128, 256): [16, 32, 64, 128, 256, 512, 1024],
    (2, 4): [1, 2, 4, 8, 16],
    (1, 4, 2): [1, 2, 4, 8, 16],
    (4, 8): [1, 2, 4, 8, 16, 32],
}
Quality = Callable[[tuple[object, ...]], float | None]


@pytest.mark.parametrize(("values", "reach"), REACH.items())
def test_a_grid_goes_on_by_its_own_ratio(values, reach):
    assert reach_of({"key": values}, 2) == {"key": reach}
    assert reach_of({"key": values}, 0) == {}


@pytest.mark.parametrize("values", [[1, 2, 3, 4], [1e-3], [0.0, 0.1], [False, True], ["a", "b"]])
def test_what_is_no_geometric_grid_stays_as_it_is(values):
    assert reach_of({"key": values}, 2) == {}


class Trainings:
    """A made-up error for each model and setting; the process is killed after some of them."""

    def __init__(self, error: Quality, until: float = math.inf):
        self.error, self.until, self.made = error, until, []

    def __call__(self, job, report):
        if len(self.made) >= self.until:
            raise KeyboardInterrupt
        c = job.configuration
        heads = [c.models["heads"]] if c.model == "gpt2" else []
        setting = (c.model, c.training.lr, *heads)
        self.made.append((job.role, *setting))
        value = self.error(setting)
        fields = {"run_id": "x", "cause": "the loss was nan", "seed": c.seed, "metrics": {}}
        if value is None:
            return RunRecord.model_construct(outcome="diverged", **fields)
        fields["metrics"] = {"validation": {"error_after_max_period": value}}
        return RunRecord.model_construct(outcome="ok", **fields)


def sweep(space, extend, trainings, *, trials=10**6, storage=None, folder, guests=(), more=()):
    """The driver's own rounds over its own studies; only the trainings are made up."""
    words = [*TINY, f"store={folder}", f"sweep.extend={extend}", f"sweep.n_trials={trials}"]
    words += ["sweep.seeds=1", "sweep.sampler=grid", *more]
    storage = storage or optuna.storages.InMemoryStorage()
    model_searches = []
    for model, keys in KEYS.items():
        own = {key: values for key, values in space.items() if key in keys}
        if HEADS in keys and HEADS not in own:
            own[HEADS] = [2]
        entry = Entry(compose([f"models={model}", *words]), own, guest=model in guests)
        model_searches.append(ModelSearch(entry, storage, Store(folder)))
    driver._drive(model_searches, InProcess(trainings), Pace(silent, ""))
    return model_searches


def by_hand(space, extend, error, trials=10**6):
    """What is searched in the end, and the best of each model."""
    # Of equals the first of the grid is chosen: one that can grow is sorted, others are as given.
    grows = {key: extend > 0 and tuple(values) in REACH for key, values in space.items()}
    grids = {key: sorted(values) if grows[key] else values for key, values in space.items()}
    spaces = {
        model: [key for key in keys if key in grids or key == HEADS] for model, keys in KEYS.items()
    }
    left = {(key, side): extend for key in grids for side in (0, -1)}
    while True:
        best = {}
        for model, keys in spaces.items():
            tried = itertools.product(*(grids.get(key, [2]) for key in keys))
            values = {t: error((model, *t)) for t in tried}
            known = [t for t, value in values.items() if value is not None]
            best[model] = min(known, key=lambda t: values[t]) if known else None
        asked = set()
        for model, chosen in best.items():
            for key, value in zip(spaces[model], chosen or (), strict=chosen is not None):
                reach = REACH.get(tuple(space.get(key, ())), [])
                for side, step in ((0, -1), (-1, 1)):
                    if reach and value == grids[key][side] and left[key, side]:
                        place = reach.index(value) + step
                        if 0 <= place < len(reach):
                            asked.add((key, side, reach[place]))
        if not asked:
            return grids, best
        for key, side, value in asked:
            left[key, side] -= 1
            grids[key] = sorted([*grids[key], value])


def landscape(seed):
    """Errors with a slope along the learning rate for each model, ties, and divergence."""
    slopes = {model: random.Random(f"{seed}{model}").choice([-3, 0, 3]) for model in KEYS}

    def error(setting):
        draw = random.Random(f"{seed}{setting}")
        if draw.random() < 0.15:
            return None
        return 20 + round(slopes[setting[0]] * math.log10(setting[1])) + draw.randrange(4)

    return error


@given(st.integers(0, 10**6), st.sampled_from(SPACES), st.integers(0, 2))
@settings(max_examples=12, deadline=None)
def test_all_model_searches_end_with_the_grid_that_the_long_way_finds(
    tmp_path_factory, seed, space, extend
):
    folder = tmp_path_factory.getbasetemp() / "property"
    trainings = Trainings(error := landscape(seed))
    model_searches = sweep(space, extend, trainings, folder=folder)
    grids, best = by_hand(space, extend, error)
    for model_search in model_searches:
        study = model_search.study.describe()
        assert {k: sorted(v) for k, v in study.search_space.items() if k in grids} == {
            key: sorted(grids[key]) for key in study.search_space if key in grids
        }
        whole = math.prod(map(len, study.search_space.values()))
        assert len(study.trials) == model_search.result.trials == whole
        chosen = best[model_search.configuration.model]
        assert tuple((model_search.best() or {}).values()) == (chosen or ())
        for key, values in space.items():
            # At most so many new values on each side, and the best inside or the limit reached.
            below = sum(value < min(values) for value in grids[key])
            above = sum(value > max(values) for value in grids[key])
            for new, edge in ((below, 0), (above, -1)):
                assert new <= extend
                at_edge = model_search.best() and model_search.best().get(key) == grids[key][edge]
                reach = REACH.get(tuple(values), values)
                assert not at_edge or new == extend or grids[key][edge] == sorted(reach)[edge]
    trials = [made[1:] for made in trainings.made if made[0] == "trial"]
    assert len(trials) == len(set(trials))  # nothing is tried twice


@pytest.mark.parametrize("ending", ["interrupted", "killed"])
def test_a_sweep_that_is_stopped_between_and_within_rounds_ends_the_same(
    tmp_path, monkeypatch, ending
):
    def error(setting):  # gpt2 wants less than the grid has, lstm more
        return (1 if setting[0] == "gpt2" else -1) * math.log10(setting[1])

    def told(model_searches):
        studies = [model_search.study.describe() for model_search in model_searches]
        return [
            (study.search_space, {(*t.parameters.values(), t.value) for t in study.trials})
            for study in studies
        ]

    space = {LR: [2e-3, 6e-3]}
    undisturbed = sweep(space, 1, Trainings(error), folder=tmp_path)
    assert [len(c.study.describe().trials) for c in undisturbed] == [4, 4]
    made = []
    if ending == "killed":
        monkeypatch.setattr(ModelSearch, "interrupt", lambda self: None)
    for _ in range(9):
        trainings = Trainings(error, until=1)
        storage = open_storage("journal", tmp_path / "studies")
        try:
            model_searches = sweep(space, 1, trainings, storage=storage, folder=tmp_path)
        except KeyboardInterrupt:
            model_searches = None
        made += [one for one in trainings.made if one[0] == "trial"]
        if len(made) == 8:
            break
    assert model_searches is None
    last = Trainings(error)
    storage = open_storage("journal", tmp_path / "studies")
    assert told(sweep(space, 1, last, storage=storage, folder=tmp_path)) == told(undisturbed)
    assert len(set(made)) == len(made) == 8
    assert [role for role, *_ in last.made] == ["final", "final"]


@pytest.mark.parametrize(("guest", "widened"), [("lstm", {"lstm"}), ("gpt2", {"gpt2", "lstm"})])
def test_a_guest_follows_the_others_and_asks_nothing_of_them(tmp_path, guest, widened):
    def error(setting):  # gpt2 is best in the middle, lstm at the largest learning rate
        return abs(math.log10(setting[1] / 3e-3)) if setting[0] == "gpt2" else -setting[1]

    grid = [1e-3, 3e-3, 1e-2]
    trainings = Trainings(error)
    model_searches = sweep({LR: grid}, 2, trainings, folder=tmp_path, guests=[guest])
    for model_search in model_searches:
        own = model_search.study.describe().search_space[LR]
        more = 2 if model_search.configuration.model in widened else 0
        assert own[:3] == grid
        assert len(own) == 3 + more
        assert ("(not committed)" in model_search.result.label) == (
            model_search.configuration.model == guest
        )
    made = [(model, lr) for role, model, lr, *_ in trainings.made if role == "trial"]
    assert len(made) == len(set(made)) == 6 + 2 * len(widened)


def test_a_committed_search_is_served_though_a_rival_needs_more_values(tmp_path, monkeypatch):
    grid = [1e-3, 3e-3, 1e-2]
    trials = [
        Trial(number=number, parameters={LR: value}, value=1.0, outcome="ok")
        for number, value in enumerate(grid)
    ]
    how = {"name": "committed", "sampler": "grid", "optuna": "4", "selected_by": "first of equals"}
    study = Study(**how, search_space={LR: grid}, trials=trials)

    def committed(configuration, names, budget):
        return Chosen(study, {LR: 3e-3}) if configuration.model == "lstm" else None

    monkeypatch.setattr("bench.search.model_search.committed_search", committed)
    trainings = Trainings(lambda setting: -setting[1])  # the best is the largest learning rate
    words = ["committed=true"]
    grown, served = sweep({LR: grid}, 2, trainings, folder=tmp_path, more=words)
    assert (grown.space[LR][:3], grown.result.trials) == (grid, 5)
    assert (served.space[LR], served.result.trials) == (grid, 3)
    assert [one for one in trainings.made if one[1] == "lstm"] == [("final", "lstm", 3e-3)]


def test_a_part_of_the_grid_and_a_refused_value_widen_nothing(tmp_path):
    downwards = Trainings(lambda setting: setting[1])
    model_searches = sweep({LR: [1e-3, 1e-2]}, 2, downwards, trials=1, folder=tmp_path)
    assert {tuple(c.study.describe().search_space[LR]) for c in model_searches} == {(1e-3, 1e-2)}
    assert [c.result.trials for c in model_searches] == [1, 1]
    # A dropout of 1.2 is no probability: that trial has failed, and the sweep goes on.
    words = [*TINY, "models=lstm", f"store={tmp_path}", "extend=2", "seeds=1", "n_trials=9"]
    words.append("sweep.search_space={models.dropout:[0.3,0.6]}")
    (entry,) = make_plan(words).entries
    model_search = ModelSearch(entry, optuna.storages.InMemoryStorage(), Store(tmp_path))

    def upwards(job, report):
        value = {"error_after_max_period": 1 - job.configuration.models["dropout"]}
        fields = {"run_id": "x", "metrics": {"validation": value}, "cause": None, "seed": 0}
        return RunRecord.model_construct(outcome="ok", **fields)

    driver._drive([model_search], InProcess(upwards), Pace(silent, ""))
    described = model_search.study.describe()
    assert described.search_space == {"models.dropout": [0.3, 0.6, 1.2]}
    assert model_search.best() == {"models.dropout": 0.6}
    assert "dropout is a probability" in model_search.study.failures()[0]


def test_studies_of_sweeps_that_do_not_extend_keep_their_names(tmp_path):
    words = [*TINY, "models=lstm", f"store={tmp_path}"]
    storage = optuna.storages.InMemoryStorage()
    names = []
    for more in ([], ["extend=0"], ["extend=1"], ["extend=2"]):
        (entry,) = make_plan([*words, *more]).entries
        names.append(ModelSearch(entry, storage, Store(tmp_path)).study.name)
    assert names[0] == names[1]
    assert len(set(names)) == 3
