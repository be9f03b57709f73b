"""Configuration: strict, layered, and open to models of other packages."""

import math
import shlex
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from bench import train
from bench.__main__ import main as tell
from bench.config.command_line import read, read_each
from bench.config.groups import choices
from bench.config.limits import infinite_numbers
from bench.search.plan import some_model
from core.errors import OK, UserError
from core.files import ROOT
from core.words import word
from tests.configurations import compose, make_plan
from tests.conftest import Command

BASE = ["tasks=regbench", "models=gpt2"]


def test_a_word_is_quoted_as_the_sentence_says(tmp_path: Path) -> None:
    """What a shell and Hydra make of the advice is the value that was meant."""
    for name in ("a(b", "a,b", "[x", "it's {", 'say "so" (', "a\\b,"):
        with pytest.raises(UserError) as refused:
            compose([*BASE, f"store={name}"])
        advice = shlex.split(str(refused.value).rpartition("as they are: ")[2])
        assert compose([*BASE, *advice]).store == Path.cwd() / name


def test_command_line_over_preset_over_task_over_defaults() -> None:
    smoke = compose(BASE)
    assert smoke.preset == "smoke"
    assert compose([*BASE, "preset=paper"]).resolved() != smoke.resolved()
    own = compose([*BASE, "training.lr=0.125", "models.width=32", "seed=0"])
    assert own.training.lr == 0.125
    assert own.models["width"] == 32
    assert own.models["layers"] == smoke.models["layers"]


def test_every_task_composes_with_every_preset_and_its_own_default_models() -> None:
    for task in choices("tasks"):
        for preset in choices("preset"):
            words = [f"tasks={task}", f"preset={preset}"]
            for model in compose([*words, f"models={some_model(read(words))}"]).sweep.models:
                composed = compose([f"tasks={task}", f"models={model}", f"preset={preset}"])
                assert composed.label


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            [*BASE, "training.lrr=1"],
            "there is no setting 'training.lrr': did you mean 'training.lr'",
        ),
        ([*BASE, "models.widht=1"], "did you mean 'models.width'"),
        ([*BASE, "sed=1"], "there is no setting 'sed': did you mean 'seed'"),
        ([*BASE, "training=3"], "is a group of settings: set one of them, such as training.steps"),
        ([*BASE, "training={lr:3}"], "'training' is a group of settings"),
        ([*BASE, "training.lr=true"], "training.lr=True is not a number"),
        ([*BASE, "training.warmup_steps=true"], "true and false are no values of it"),
        ([*BASE, "training.bias_correction=0.5"], "is not a true or false value"),
        ([*BASE, "training.lr=inf"], "training.lr=inf cannot be used: input should be a finite"),
        ([*BASE, "training.initial_lr=nan"], "training.initial_lr=nan cannot be used"),
        ([*BASE, "training.weight_decay=inf"], "training.weight_decay=inf cannot be used"),
        ([*BASE, "tasks.strings=[1,inf]"], "tasks.strings=inf is not finite"),
        ([*BASE, "models.dropout=nan"], "models.dropout=nan cannot be used"),
        ([*BASE, "sweep.search_space={training.lr:[nan]}"], "training.lr=nan is not finite"),
        ([*BASE, "training.betas=[2,3]"], "training.betas[0]=2 cannot be used"),
        ([*BASE, "training.betas=[0.9]"], "training.betas[1] is missing"),
        ([*BASE, "training.threads=100000"], "less than or equal to 1024"),
        ([*BASE, "store="], "the store needs a name"),
        ([*BASE, f"store={__file__}"], "is a file: the store is a folder"),
        ([*BASE, "store='${oc.env:NOPE}'"], "which is not looked up here"),
        ([*BASE, "models.width=0"], "models.width=0 cannot be used: width is 1 or more"),
        (["tasks=regbench", "models=lstm", "models.width=-4"], "models.width=-4 cannot be used"),
        (["tasks=regbench", "models=s4d", "models.layers=0"], "layers is 1 or more"),
        (["tasks=regbench", "models=mamba", "models.expand=0"], "expand is 1 or more"),
        (["tasks=regbench", "models=memory_mosaic", "models.heads=0"], "heads is 1 or more"),
        ([*BASE, "training.learning_rate=1"], "did you mean 'training.lr'?"),
        ([*BASE, "d_model=64"], "did you mean 'models.width'?"),
        ([*BASE, "modells.widht=64"], "did you mean 'models.width'?"),
        ([*BASE, "training.optimizer=adam"], "valid names: training.batch_size, training.betas"),
        (["tasks=regbench", "models=gla", "models.rank=0"], "rank is 1 or more"),
        (["tasks=regbench", "models=gla", "models.temperature=0"], "a temperature is above 0"),
        (["tasks=regbench", "models=mamba2", "models.head_width=-1"], "head_width is 1 or more"),
        (
            ["tasks=regbench", "models=linear_transformer", "models.score_dropout=1.5"],
            "models.score_dropout=1.5 cannot be used: score_dropout is a prob",
        ),
        ([*BASE, "models.dropout=1"], "models.dropout=1.0 cannot be used: dropout is a prob"),
        ([*BASE, "models.dropout=-0.1"], "models.dropout=-0.1 cannot be used"),
        ([*BASE, "models.layers=100000000"], "layers are at most 1000"),
        (["tasks=regbench", "models=builtins.dict"], "does not say what its constructor takes"),
        ([*BASE, "training.lr=fast"], "training.lr='fast' is not a number"),
        ([*BASE, "training.lr=-1"], "training.lr=-1.0 cannot be used"),
        ([*BASE, "seed=-1"], "seed=-1 cannot be used"),
        ([*BASE, "training.precision=float8"], "'float32' or 'bfloat16'"),
        ([*BASE, "+training.new=1"], "one value is set for one known key"),
        ([*BASE, "training.lr=1,2"], "one value is set for one known key"),
        ([*BASE, "not-a-setting"], "settings are written key=value"),
        (["models=gpt2"], "choose a task with tasks=NAME; tasks: "),
        (["tasks=regbench"], "choose a model with models=NAME; models: "),
        (["tasks=regbenhc", "models=gpt2"], "did you mean 'regbench'? python -m bench lists"),
        (["tasks=regbench", "models=gtp2"], "did you mean 'gpt2'? python -m bench lists"),
        (["tasks=regbench", "models=Transformer"], "did you mean 'gpt2'? python -m bench lists"),
        (["tasks=regbench", "models=./net.py"], "and no class in it: give ./net.py:CLASS"),
        (["tasks=regbench", "models=[gpt2,lstm]"], "see bench.sweep"),
        (
            ["tasks=regbench", "models=zzz"],
            "', and python -m bench lists them all; one of your own",
        ),
        (["models=gpt2"], "tasks: attention, attention_descent, babistories and "),
        (["tasks=regbench"], "more, python -m bench lists them all"),
        ([*BASE, "preset=samll"], "did you mean 'smoke'? valid names: gpu, laptop, paper, smoke"),
        ([*BASE, "preset=huge"], "there is no preset 'huge': valid names: gpu, laptop, paper"),
        (["tasks=regbench", "models._target_=nowhere.Model"], "cannot import 'nowhere.Model'"),
        (["tasks=regbench", "models._target_=nowhere.Mamba"], "a name of its own"),
        (["tasks=regbench", "models._target_=torch.nn.NoModel"], "has no class 'NoModel'"),
        (["tasks=regbench", "models._target_=models.gpt2.GTP2"], "the nearest is 'GPT2'"),
        (["tasks=regbench", "models._target_=base64.Model"], "no class 'Model': it defines none"),
        (["tasks=regbench", "models._target_=Model"], "no place of a class: give package.module"),
        ([*BASE, "models._target_=..x.Y"], "'..x.Y' is no place of a class"),
        ([*BASE, "models._target_=null"], "models._target_=None is not a word"),
        ([*BASE, "tasks._target_=null"], "tasks._target_=None is not a word"),
        (["tasks=regbench", "models=../gpt2"], "'../gpt2' is no place of a class"),
        ([*BASE, "tasks.training_automata=100000000000"], "counts are at most 10,000,000,000"),
        ([*BASE, "tasks.states=[1,1000000000000]"], "counts are at most 10,000,000,000"),
        ([*BASE, f"tasks.test_size={10**400}"], "counts are at most"),
        ([*BASE, "models.heads=1000000000000"], "models.heads=1000000000000 cannot be used"),
        ([*BASE, f"training.steps={10**26}"], "less than or equal to 10000000000"),
        (
            [*BASE, "training.steps=9", "training.epochs=2"],
            "training.epochs=2 has no effect beside",
        ),
        (
            [*BASE, "training.warmup_steps=9", "training.warmup_fraction=0.2"],
            "training.warmup_fraction=0.2 has no effect beside training.warmup_steps=9",
        ),
        (
            ["tasks=bigram", "models=gpt2", "tasks.text=book.txt"],
            "has no effect with tasks.source=tiny_shakespeare: it is read with tasks.source=text",
        ),
        (
            [*BASE, "sweep.search_space={training.lr:[1e-3,3e-3"],
            "brackets are not closed, ]} at the end: 'sweep.search_space={training.lr:[1e-3,3e-3]}",
        ),
        ([*BASE, "training.betas=[0.9,0.99"], "a bracket is not closed, ] at the end: '"),
        ([*BASE, "store=a(b"], """as they are: 'store="a(b"'"""),
        ([*BASE, "store=a,b"], """as they are: 'store="a,b"'"""),
        (
            [*BASE, "sweep.search_space={training.lr:1e-3,3e-4,models.layers:[2,4]}"],
            "with commas between: 'sweep.search_space={training.lr:[1e-3,3e-4],models.layers:[2,4]",
        ),
        ([*BASE, f"seed={'9' * 5000}"], "cannot read 'seed=999"),
        ([*BASE, f"seed={'[' * 2000}"], "cannot read 'seed=[[["),
    ],
)
def test_a_mistake_is_one_sentence_that_helps(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        compose(words)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_words_are_read_back_as_they_were() -> None:
    for value in (
        "/a b/c=d,e",
        "1e3",
        "true",
        'say "so"',
        0.1,
        3,
        True,
        None,
        ["x", 2],
        "näh",
        "a\\b",
        "c\\",
    ):
        ((_, value_read),) = read_each([word("tasks.key", value)])
        assert value_read == value
        assert type(value_read) is type(value)


@pytest.mark.parametrize("key", ["preset", "training.lr", "a_1.b2", "true", "a.null"])
@pytest.mark.parametrize(
    "value",
    [
        *("laptop", "_x1", "e5", "Nano", "true", "FALSE", "null", "None", "inf", "NaN"),
        *("0", "7", "12345678901234567890", "007", "1_000", "-3", "1e5", "x-1", "x.y", ""),
    ],
)
def test_a_plain_word_is_read_as_hydra_reads_it(key: str, value: str) -> None:
    word_read = f"{key}={value}"
    try:
        override = OverridesParser.create().parse_override(word_read)
    except HydraException:
        with pytest.raises(UserError, match="cannot read"):
            read_each([word_read])
        return
    ((key_read, value_read),) = read_each([word_read])
    expected = override.key_or_group, override.value()
    assert repr((key_read, value_read)) == repr(expected)


def test_infinite_numbers_are_found_wherever_they_are() -> None:
    tree = {"a": {"b": [1.0, [math.inf]], "c": "inf"}, "d": (2, -math.inf), "e": math.nan, "f": 1}
    found = list(infinite_numbers(tree))
    assert [place for place, _ in found] == ["a.b", "d", "e"]
    assert not any(math.isfinite(number) for _, number in found)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            "class Mine:\n    def __init__(self, s, clip=float('inf')): ...",
            "models.clip=inf is not",
        ),
        ("def Mine(): ...", "is not a class"),
    ],
)
def test_a_class_of_another_package_may_be_unfit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, sentence: str
) -> None:
    name = f"unfit_{abs(hash(source))}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match=sentence):
        compose(["tasks=regbench", f"models._target_={name}.Mine"])


def test_a_model_of_another_package_takes_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "foreign_models.py").write_text(
        "class Mine:\n    def __init__(self, specification, width=48, depth=3): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ["tasks=regbench", "models._target_=foreign_models.Mine", "models.depth=5"]
    composed = compose(words)
    assert composed.model == composed.label == "Mine"
    # The preset speaks to every model that knows the key; here to `width` alone.
    preset_width = compose(BASE).models["width"]
    assert composed.models == {"_target_": "foreign_models.Mine", "width": preset_width, "depth": 5}
    with pytest.raises(UserError, match=r"did you mean .models\.depth."):
        compose([*words, "models.deptth=1"])


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "bench"],
        ["-m", "bench.train", "--help"],
        ["-m", "bench.evaluate", "--help"],
        ["-m", "bench.generate", "--help"],
        ["-m", "bench.prompts", "--help"],
        ["-m", "bench.sweep", "--help"],
        ["-m", "bench.prepare", "--help"],
        ["-m", "bench.speed", "--help"],
        ["-m", "bench.training_speed", "--help"],
        ["-m", "bench.gpu", "--help"],
        ["-m", "tasks.text.recipe", "--help"],
        ["-m", "reproduce"],
        ["-m", "leaderboards.build", "--help"],
    ],
)
def test_asking_what_there_is_imports_nothing_heavy(run_command: Command, words: list[str]) -> None:
    heavy = ["torch", "lightning", "mlflow", "datasets", "pandas", "scipy", "ray", "psycopg"]
    if words[-1] == "--help":
        heavy += ["numpy", "hydra", "optuna"]
    if words[-1] == "--help" and words[1] != "bench.speed":  # which reads it off its settings
        heavy += ["pydantic"]
    probe = (
        "import runpy, sys\n"
        f"sys.argv = ['x', *{words[2:]!r}]\n"
        "try:\n"
        f"    runpy.run_module({words[1]!r}, run_name='__main__', alter_sys=True)\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        f"print('IMPORTED', [name for name in {heavy!r} if name in sys.modules])\n"
    )
    done = run_command("-c", probe)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("IMPORTED []")


def test_mistakes_end_without_a_traceback(run_command: Command) -> None:
    done = run_command("-m", "bench.train", "tasks=regbench", "models=gpt3")
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no model 'gpt3'")
    assert "Traceback" not in done.stderr
    assert run_command("-m", "bench", "dokter").returncode == 2
    near = run_command("-m", "bench", "rwkv4_as_realesed")
    assert (near.returncode, "rwkv4_as_released" in near.stderr) == (2, True)
    whole = run_command("-m", "bench", "rwkv4_as_released").stdout
    assert "the decay has the wrong sign" in whole
    assert "source: RegBench code" in whole
    doctor = run_command("-m", "bench", "doctor", "foo")
    assert (doctor.returncode, doctor.stderr.count("\n")) == (2, 1)
    assert "doctor takes no settings, got 'foo'" in doctor.stderr


@pytest.mark.parametrize(
    "key", ["sweep.seeds", "seeds", "n_trials", "workers", "executor", "ray.num_cpus", "dry_run"]
)
def test_settings_of_a_sweep_are_not_dropped_by_a_single_run(key: str) -> None:
    with pytest.raises(UserError, match=f"'{key}' is a setting of bench.sweep"):
        train.main([*BASE, f"{key}=3"])


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("multi_query_recall", ["tasks.pairs=[4]", "preset=laptop: ", "training.steps=600"]),
        ("multi_query_recall", ["sweep: search_space={training.lr:[0.001,0.003,0.01]}"]),
        ("gla", ["what it is: Gated linear attention", "settings: models.width=128"]),
        ("smoke", ["sweep: choose_over=first_seed"]),
    ],
)
def test_all_is_told_of_a_name(name: str, parts: list[str], capsys) -> None:
    assert tell([name]) == OK
    told = " ".join(capsys.readouterr().out.split())
    for part in parts:
        assert part in told


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (["sweep", "tasks=mad"], "python -m bench.sweep tasks=mad"),
        (["bench.train"], "python -m bench.train"),
        (["reproduce", "table3"], "python -m reproduce table3"),
        (["leaderboards.build"], "python -m leaderboards.build"),
    ],
)
def test_a_command_in_the_place_of_a_name_is_told(words: list[str], written: str) -> None:
    with pytest.raises(UserError, match=f"is a command of its own: write {written}$"):
        tell(words)


def test_what_a_task_or_model_is_comes_first_in_the_list(capsys) -> None:
    assert tell([]) == OK
    told = " ".join(capsys.readouterr().out.split())
    assert "multi_query_recall Multi-query recall: Multi-query associative recall (MQAR)" in told
    assert "gla GLA: Gated linear attention in pre-norm residual blocks" in told
    assert "``" not in told
    assert ":class:" not in told
    assert "A MemoryUnit that trains the other matrices alone" in told


def test_the_list_names_every_task_model_and_preset(run_command: Command) -> None:
    listing = run_command("-m", "bench").stdout
    for group in ("tasks", "models", "preset"):
        for name in choices(group):
            assert f"  {name}" in listing
    assert max(map(len, listing.splitlines())) <= 100
    assert (ROOT / "tasks" / "regbench.yaml").exists()


@pytest.mark.parametrize(
    "word",
    [
        "tasks.presets.smoke.training.lr=0.1",
        "preset.name=paper",
        "tasks.sweep.n_trials=3",
        "models.card.label=Other",
    ],
)
def test_what_describes_a_task_or_model_cannot_be_set(word: str) -> None:
    with pytest.raises(UserError, match="there is no setting"):
        compose([*BASE, word])


@pytest.mark.parametrize(
    "words",
    [["training.devices=2"], ["sweep.search_space={training.devices:[1,2]}"]],
    ids=["for all", "searched"],
)
def test_a_pool_of_workers_does_not_share_trainings(words: list[str]) -> None:
    with pytest.raises(UserError, match=r"training\.devices=2 .* workers=2 .* leave one of them"):
        make_plan(["tasks=regbench", "models=[gpt2]", "workers=2", *words])


def test_epochs_that_are_asked_for_replace_the_steps_of_the_preset() -> None:
    assert compose(BASE).training.steps is not None
    asked = compose([*BASE, "training.epochs=3"]).training
    assert (asked.steps, asked.epochs) == (None, 3)
    with pytest.raises(UserError, match="not a whole number"):
        compose([*BASE, "tasks.training_automata=20.5"])
