"""Configuration: strict, layered, and open to models of other packages."""

from pathlib import Path

import pytest

from bench.config import ROOT, choices, compose
from bench.errors import UserError
from tests.conftest import Command

BASE = ["tasks=regbench", "models=gpt2"]


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
            for model in compose([f"tasks={task}", "models=gpt2", f"preset={preset}"]).sweep.models:
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
        ([*BASE, "training=3"], "is not a group of keys"),
        ([*BASE, "training.lr=fast"], "training.lr='fast' is not a number"),
        ([*BASE, "training.lr=-1"], "training.lr=-1.0 cannot be used"),
        ([*BASE, "seed=-1"], "seed=-1 cannot be used"),
        ([*BASE, "training.precision=float8"], "'float32' or 'bfloat16'"),
        ([*BASE, "+training.new=1"], "one value is set for one known key"),
        ([*BASE, "training.lr=1,2"], "one value is set for one known key"),
        ([*BASE, "not-a-setting"], "settings are written key=value"),
        (["models=gpt2"], "choose a task with tasks=NAME; tasks: regbench"),
        (["tasks=regbench"], "choose a model with models=NAME; models: "),
        (["tasks=regbenhc", "models=gpt2"], "did you mean 'regbench'? tasks: "),
        (["tasks=regbench", "models=gtp2"], "did you mean 'gpt2'? models: "),
        (["tasks=regbench", "models=[gpt2,lstm]"], "see bench.sweep"),
        ([*BASE, "preset=huge"], "there is no preset 'huge': valid names: gpu, laptop, paper"),
        (["tasks=regbench", "models._target_=nowhere.Model"], "cannot import 'nowhere.Model'"),
        (["tasks=regbench", "models._target_=torch.nn.NoModel"], "has no class 'NoModel'"),
        (["tasks=regbench", "models._target_=Model"], "give package.module.Class"),
    ],
)
def test_a_mistake_is_one_sentence_that_helps(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        compose(words)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


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
    assert composed.models == {
        "_target_": "foreign_models.Mine",
        "width": preset_width,
        "depth": 5,
    }
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
        ["-m", "bench.speed", "--help"],
        ["-m", "reproduce"],
        ["-m", "leaderboards.build", "--help"],
    ],
)
def test_asking_what_there_is_imports_nothing_heavy(run_command: Command, words: list[str]) -> None:
    heavy = ("torch", "lightning", "mlflow", "datasets", "pandas", "scipy")
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


def test_the_list_names_every_task_model_and_preset(run_command: Command) -> None:
    listing = run_command("-m", "bench").stdout
    for group in ("tasks", "models", "preset"):
        for name in choices(group):
            assert f"  {name}" in listing
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


def test_epochs_that_are_asked_for_replace_the_steps_of_the_preset() -> None:
    assert compose(BASE).training.steps is not None
    asked = compose([*BASE, "training.epochs=3"]).training
    assert (asked.steps, asked.epochs) == (None, 3)
    with pytest.raises(UserError, match="not a whole number"):
        compose([*BASE, "tasks.training_automata=20.5"])
