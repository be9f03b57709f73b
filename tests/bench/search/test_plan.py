"""What a sweep's words mean, and what they may search."""

import pytest

from bench.search.sweeping import note_on_trials
from bench.sweep import main
from core.errors import OK, USAGE, UserError
from core.words import word
from tests.configurations import compose, make_plan

REGBENCH = ["tasks=regbench", "device=cpu"]


def test_plan_reads_short_names_and_fixes_what_is_stated():
    plan = make_plan(["tasks=three_moons", "models=gpt2,lstm", "models.heads=4", "n_trials=7"])
    gpt2, lstm = (entry.configuration for entry in plan.entries)
    assert plan.settings.n_trials == gpt2.sweep.n_trials == 7
    assert gpt2.models["heads"] == 4
    assert "heads" not in lstm.models  # a key that one of the models has is no mistake
    fixed = make_plan(["tasks=three_moons", "models=lstm", "training.lr=0.5"])
    assert "training.lr" not in fixed.entries[0].space
    assert fixed.entries[0].at({}).training.lr == 0.5
    words = ["executor=ray", "ray.address=head:6399", "ray.num_gpus=0.25", "workers=3"]
    ray = make_plan(["tasks=three_moons", "models=lstm", *words]).settings
    assert (ray.executor, ray.ray.address, ray.ray.num_gpus) == ("ray", "head:6399", 0.25)
    assert (ray.workers, ray.ray.num_cpus) == (3, 1.0)
    for address in ("auto", "local", "ray://head:10001", "[::1]:6379"):  # all that Ray takes
        words = ["tasks=three_moons", "models=lstm", "executor=ray", word("ray.address", address)]
        assert make_plan(words).settings.ray.address == address
    listed = make_plan(["tasks=three_moons"]).entries
    assert [entry.configuration.model for entry in listed] == plan.settings.models


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["models=gpt2"], "choose a task"),
        (["tasks=three_moons", "models=[gpt2,lstn]"], "did you mean 'lstm'"),
        (["tasks=three_moons", "models=[lstm,lstm]"], "list of different names"),
        (["tasks=three_moons", "models=lstm", "models.headz=2"], "no model of this sweep has"),
        (["tasks=three_moons", "models=lstm", "n_trials=none"], "n_trials"),
        (["tasks=three_moons", "models=all"], "leave models= out"),
        (["tasks=three_moons", "models=lstm", "dry_run=maybe"], "neither true nor false"),
        (["tasks=three_moons", "models=lstm", "dry=1"], "did you mean 'dry_run=true'"),
        (["tasks=three_moons", "models=lstm", "dryrun=true"], "did you mean 'dry_run=true'"),
        (
            ["tasks=three_moons", "models=lstm", "sweep.search_space={training.lr:[1e-3 3e-4]}"],
            r"a comma separates the values of a list, training.lr:\[1e-3,3e-4\]",
        ),
        (
            ["tasks=three_moons", "models=lstm", "sweep.search_space={training.lr:1e-3}"],
            r"a list in brackets, training.lr:\[0.001\]",
        ),
        (["tasks=three_moons", "models=lstm", "sampler=sobol"], "sampler"),
        (["tasks=three_moons", "models=lstm", "executor=slurm"], "'processes' or 'ray'"),
        (["tasks=three_moons", "models=lstm", "ray.num_gpus=1.5"], "a fraction of one GPU, or"),
        (["tasks=three_moons", "models=lstm", "ray.adress=a:1"], "did you mean"),
        (["tasks=three_moons", "models=lstm", "ray.address=127.0.0.1"], "it is HOST:PORT"),
        (["tasks=three_moons", "models=lstm", "ray.address=nonsense"], "it is HOST:PORT"),
        (["tasks=three_moons", "models=lstm", "ray.address=head:99999"], "it is HOST:PORT"),
        (["tasks=three_moons", "models=lstm", "ray.address=:6379"], "it is HOST:PORT"),
        (["tasks=three_moons", "models=lstm", "ray.address='::1'"], "it is HOST:PORT"),
        (["tasks=three_moons", "models=lstm", "ray.address='a b:1'"], "it is HOST:PORT"),
        (["tasks=three_moons", "models=lstm", "ray.address='http://x'"], "it is HOST:PORT"),
        (["tasks=three_moons", "models=lstm", "storage=postgres://h/d"], "with postgresql://"),
        (["tasks=three_moons", "models=lstm", "storage=postgres+a://h/d"], "with postgresql://"),
        (
            ["tasks=three_moons", "models=lstm", "executor=ray", "training.devices=2"],
            "executor=ray gives each training one",
        ),
        (
            ["tasks=three_moons", "models=lstm", "sweep.search_space={training.rate:[1]}"],
            "may hold models.KEY and training.KEY only",
        ),
        (
            ["tasks=three_moons", "models=lstm", "sweep.search_space={training.lr:[1,1]}"],
            "list of different",
        ),
    ],
)
def test_mistakes_are_one_sentence(words, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        make_plan(words)
    assert caught.value.exit_code == USAGE
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("models", "key", "hint"),
    [
        ("[gpt2,lstm]", "models.widht", "models.width"),
        ("[lstm]", "models.heads", "models."),  # gpt2 has heads, but does not take part
    ],
)
def test_searched_key_that_no_model_has_is_refused(models, key, hint):
    words = [*REGBENCH, f"models={models}", f"sweep.search_space={{{key}:[2,4]}}"]
    with pytest.raises(UserError, match=f"'{key}', which no model of this sweep has") as caught:
        make_plan(words)
    assert hint in str(caught.value).partition("has: ")[2]


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        ("{training.lr:[1,fast]}", "training.lr='fast' is not a number"),
        ("{training.lr:[1,true]}", "training.lr=True is not a number"),
        ("{training.lr:[1,inf]}", "training.lr=inf is not finite"),
        ("{training.lr:[1e-3],models.width:[8,16,0]}", "models.width=0 cannot be used"),
        ("{training.betas:[null]}", "training.betas"),
        ("{training.precision:[float32,float8]}", "'float32' or 'bfloat16'"),
    ],
)
def test_every_value_of_the_space_is_checked_before_anything_runs(space, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        make_plan([*REGBENCH, "models=[lstm]", f"sweep.search_space={space}"])
    assert "\n" not in str(caught.value)


def test_values_that_only_fit_together_are_no_mistake():
    space = "{training.weight_decay:[0],training.bias_correction:[true,false]}"
    (entry,) = make_plan([*REGBENCH, "models=lstm", f"sweep.search_space={space}"]).entries
    assert entry.settings == 2


def test_searched_key_is_for_the_models_that_have_it():
    space = "sweep.search_space={models.heads:[2,4]}"
    gpt2, lstm = make_plan([*REGBENCH, "models=[gpt2,lstm]", space]).entries
    assert list(gpt2.space) == ["models.heads"]
    assert not lstm.space


def test_space_of_the_task_may_have_keys_of_its_other_models(tmp_path):
    words = [*REGBENCH, "preset=paper", "models=[lstm]"]
    (lstm,) = make_plan(words).entries
    assert "models.heads" in lstm.configuration.sweep.search_space
    assert "models.heads" not in lstm.space
    task = tmp_path / "searching.py"
    space = {"models": ["gpt2", "lstm"], "search_space": {"models.haeds": [2, 4]}}
    task.write_text(f"class Searching:\n    sweep = {space}\n    def __init__(self): ...\n")
    with pytest.raises(UserError, match=r"did you mean .models[.]heads"):
        make_plan([f"tasks={task}:Searching", "models=[lstm]"])


def test_small_search_spaces_are_told_by_name():
    space = "sweep.search_space={models.heads:[2,4],training.lr:[1e-3,1e-4]}"
    words = [*REGBENCH, "models=[gpt2,lstm]", space]
    assert note_on_trials(make_plan([*words, "n_trials=4", "models.heads=2"])) == (
        "n_trials=4, but the search space has only 2 settings"
    )
    one = note_on_trials(make_plan(["tasks=multi_query_recall", "models=lstm", "preset=smoke"]))
    one_setting = "the search space has one setting at preset smoke (training.lr=0.01)"
    assert one == f"{one_setting}: nothing is tuned"
    some = note_on_trials(make_plan([*words, "n_trials=3"]))
    assert some == (
        "n_trials=3, but the search space of models=lstm has only 2 settings; 3 of 4 settings of "
        "models=gpt2 are tried; n_trials=4 tries all"
    )
    both = note_on_trials(make_plan([*words, "n_trials=50"]))
    assert both == "n_trials=50, but the search space has only 2 or 4 settings"


def test_all_of_a_grid_that_a_person_writes_is_tried_where_no_number_is_given():
    words = ["tasks=multi_query_recall", "models=lstm", "preset=smoke"]
    grid = [*words, "sweep.search_space={training.lr:[1e-3,3e-3,9e-3]}", "extend=2", "seeds=2"]
    whole = make_plan(grid)
    (entry,) = whole.entries
    assert whole.settings.n_trials == entry.configuration.sweep.n_trials == entry.settings == 3
    assert note_on_trials(whole) is None
    assert whole.runs == 3 + 2
    fewer = make_plan([*grid, "n_trials=1"])
    assert fewer.settings.n_trials == 1
    assert note_on_trials(fewer) == (
        "1 of 3 settings is tried; n_trials=3 tries all, which extend=2 needs"
    )
    assert whole.grows
    assert not fewer.grows
    drawn = make_plan([*grid, "sampler=random", "extend=0"])
    assert drawn.settings.n_trials == 1  # of the preset: a sample of a space needs its size
    assert note_on_trials(drawn) == "1 of 3 settings is tried; n_trials=3 tries all"
    two_sizes = "sweep.search_space={models.heads:[1,2],training.lr:[1e-3,1e-2]}"
    several = make_plan([*words, "models=[gpt2,lstm]", two_sizes])
    assert several.settings.n_trials == 4  # lstm has no heads, and two settings
    assert note_on_trials(several) is None


def test_a_grid_that_cannot_grow_is_told_where_a_person_wants_it_to(capsys):
    words = ["tasks=multi_query_recall", "models=lstm", "preset=smoke", "extend=2", "device=cpu"]
    uneven = [*words, "sweep.search_space={training.lr:[1e-3,2e-3,9e-3]}"]
    for grid in (words, uneven):  # one value, and three of unequal ratios
        told = note_on_trials(make_plan(grid))
        assert told is not None
        assert "extend=2 adds nothing: a grid that grows has two or" in told
    even = [*words, "sweep.search_space={training.lr:[1e-3,3e-3,9e-3]}"]
    promise = "extend=2: where a best setting lies on an edge"
    for grid, grows in ((even, True), ([*even, "n_trials=2"], False), (uneven, False)):
        assert make_plan(grid).grows == grows
        assert main([*grid, "dry_run=true"]) == OK
        assert (promise in " ".join(capsys.readouterr().out.split())) == grows


def test_of_a_key_that_is_given_twice_the_last_counts_as_for_a_single_run():
    twice = ["preset=smoke", "training.lr=0.2", "preset=laptop", "training.lr=0.1"]
    (entry,) = make_plan([*REGBENCH, "models=lstm", *twice]).entries
    assert entry.configuration == compose([*REGBENCH, "models=lstm", *twice])
    assert (entry.configuration.preset, entry.configuration.training.lr) == ("laptop", 0.1)
    trials = make_plan([*REGBENCH, "models=lstm", "sweep.n_trials=2", "n_trials=3"])
    assert trials.settings.n_trials == 3


def test_two_classes_of_one_name_are_refused():
    words = [*REGBENCH, "models=[collections.OrderedDict,typing.OrderedDict]"]
    with pytest.raises(UserError, match=r"'typing\.OrderedDict' could not be told from"):
        make_plan(words)


def test_an_argument_without_a_default_is_asked_for_before_anything_runs():
    demanding = "tests.bench.training.test_building.Demanding"
    with pytest.raises(UserError, match=r"no default for channels: add models\.channels=VALUE"):
        make_plan([*REGBENCH, f"models=[gpt2,{demanding}]"])
    make_plan([*REGBENCH, f"models=[{demanding}]", "models.channels=4"])
    make_plan([*REGBENCH, f"models={demanding}", "sweep.search_space={models.channels:[2,4]}"])
