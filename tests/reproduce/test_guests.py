"""A model of somebody else's package in the figures of this project, by one word."""

import json
from functools import cache
from pathlib import Path

import pytest

from bench.config import groups
from bench.config.groups import choices, contenders, with_guests
from bench.records.schema import Headline, read_records, write_record
from core.errors import OK, RUN_FAILED, UserError
from reproduce import experiment
from reproduce.__main__ import reproductions
from reproduce.command import main
from reproduce.console import guest_lines
from reproduce.plotting import models
from reproduce.plotting.models import label
from reproduce.plotting.panels import Picture
from tests.configurations import make_plan
from tests.reproduce.plans import in_words
from tests.reproduce.records import regbench

FIGURES = reproductions()
PACKAGE = '''
from torch import nn


class MyModel(nn.Module):
    """A recurrent network without any of this project's words."""

    def __init__(self, specification, *, channels=8):
        super().__init__()
        self.embed = nn.Embedding(specification.vocabulary, channels)
        self.mix = nn.GRU(channels, channels, batch_first=True)
        self.read = nn.Linear(channels, specification.output_size)

    def forward(self, inputs):
        return self.read(self.mix(self.embed(inputs))[0])
'''
GUEST = "models=+a_package.MyModel"
SHORT = ["training.steps=2", "seeds=1", "n_trials=1", "tasks.validation_size=8"]
SHORT += ["tasks.test_size=8", "training.batch_size=2", "device=cpu"]
SHORT += ["tasks.strings=[2,3]", "tasks.string_length=[1,6]"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user stands: a folder with a package of his own. There are two contenders."""
    (tmp_path / "a_package").mkdir()
    (tmp_path / "a_package" / "__init__.py").write_text(PACKAGE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(groups, "_by_cards", lambda task, preset: ("gpt2", "memory_mosaic"))
    # What is remembered of two contenders is for no later test to find.
    monkeypatch.setattr(experiment, "_cost_of", cache(experiment._cost_of.__wrapped__))
    return tmp_path


@pytest.mark.long
def test_a_guest_is_drawn_and_tabulated_beside_the_contenders_and_no_claim_is_about_it(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model in ("MyModel", "gpt2", "memory_mosaic"):
        for size in (100, 500):
            write_record(regbench(model, 0, size, 0.3, 0.2), package / "made/records")
    made = ["records=made/records", "store=made"]
    for figure, count, words in (("figure9", 2, made), ("table3", 2, SHORT)):
        assert main([figure, GUEST, *words], FIGURES) == OK
        said = capsys.readouterr().out
        assert "models=+a_package.MyModel" in said
        own = [line for line in said.splitlines() if line.startswith("MyModel (not committed), ")]
        store = package / ("made" if words is made else "runs")
        runs = list(read_records([store / "records"]))
        means = {f"{r.headline.value:.4g}" for r in runs if r.model == "MyModel"}
        assert own
        assert all(line.endswith(", mean of 1 run") for line in own)
        assert {line.split("accuracy ")[1].partition(",")[0] for line in own} <= means
        (folder,) = (store / "reproductions" / figure).iterdir()
        picture = Picture.read(folder / "curves.json")
        drawn = [t for t in picture.panels[0].traces if "MyModel (not committed)" in t.name]
        assert sum(len(t.x) for t in drawn if t.seeds) == count
        legend = [trace.entry for trace in drawn] if picture.legend == "below" else []
        named = [*picture.panels[0].x.categories, *legend]
        assert "MyModel (not committed)" in named  # in words
        assert (folder / "figure.png").stat().st_size > 10_000
        names = (folder / "records.txt").read_text().split()
        judged = json.loads((folder / "verdicts.json").read_text())["records"]
        assert {name for name in names if name not in judged} == {
            name for name in names if "MyModel" in name
        }
    table, _, _ = (folder / "table.md").read_text().partition("\n\n")  # notes on models follow
    rows = table.splitlines()
    assert len([row for row in rows if row.startswith("| MyModel (not committed) |")]) == 1
    assert [row.count("|") for row in rows] == [rows[0].count("|")] * len(rows)

    # The same records are enough, and the figure of the contenders alone is as it was.
    assert main(["table3", GUEST, "records=runs/records", "store=again"], FIGURES) == OK
    (again,) = (package / "again" / "reproductions" / "table3").iterdir()
    assert "MyModel (not committed)" in (again / "curves.json").read_text()
    assert main(["table3", "records=runs/records", "store=plain"], FIGURES) == OK
    plain = package / "plain" / "reproductions" / "table3" / "smoke"
    assert "MyModel" not in (plain / "curves.json").read_text()
    verdicts = [json.loads((one / "verdicts.json").read_text()) for one in (again, plain)]
    assert verdicts[0]["claims"] == verdicts[1]["claims"]
    assert {r.model for r in read_records([Path("runs/records")])} >= {"MyModel", "gpt2"}

    # What is left to run is counted, and not said to be in a plan that has no guests.
    capsys.readouterr()
    assert main(["table3", GUEST, *SHORT, "seeds=2", "dry_run=true"], FIGURES) == OK
    left = capsys.readouterr().out.splitlines()[-1]
    assert "runs of this figure have no record" in left
    assert "python -m reproduce evidence" not in left


def test_a_guest_s_line_is_the_mean_for_each_value_of_what_a_figure_varies(package: Path) -> None:
    headline = Headline(name="accuracy", direction="maximise")
    runs = [
        regbench(model, seed, size, 0, 0, headline=headline.model_copy(update={"value": value}))
        for model, size, values in (("MyModel", 100, (0.2, 0.4)), ("MyModel", 500, (0.7, 0.9)))
        for seed, value in enumerate(values)
    ]
    runs.append(regbench("gpt2", 0, 100, 0, 0, headline=headline.model_copy(update={"value": 1.0})))
    varied = ("tasks.training_automata", "tasks.variant")  # the second is one for all
    with with_guests(["a_package.MyModel"]):
        found = guest_lines(runs, varied)
    assert found == [
        "MyModel (not committed), training_automata=100, accuracy 0.3, mean of 2 runs",
        "MyModel (not committed), training_automata=500, accuracy 0.8, mean of 2 runs",
    ]
    assert guest_lines(runs, varied) == []


@pytest.mark.parametrize("figure", ["bigram", "mad", "state_tracking", "in_context_regression"])
def test_figures_of_contenders_plan_a_guest(figure: str, package: Path) -> None:
    with with_guests(["a_package.MyModel"]):
        plan = FIGURES[figure].plan("smoke", None)
        entries = [
            e
            for words in in_words(plan.sweeps)
            for e in make_plan([*words, "preset=smoke"]).entries
        ]
    own = [entry for entry in entries if entry.guest]
    assert {entry.configuration.models["_target_"] for entry in own} == {"a_package.MyModel"}
    assert {entry.name for entry in own} == {"models._target_=a_package.MyModel"}
    assert label("MyModel") == "MyModel"
    assert contenders("regbench", "smoke") == ("gpt2", "memory_mosaic")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["figure9", "models=+gtp2"], "there is no model 'gtp2': did you mean 'gpt2'"),
        (["figure9", "models=+a_package"], r"one of your own is package\.Class"),
        (["figure9", f"model=+{GUEST.partition('+')[2]}"], "it is written models="),
        (["figure9", "models=+gpt2"], "takes part in regbench at preset smoke already"),
        (["figure9", "models=+a_package.NoModel"], "has no class 'NoModel'"),
        (["figure9", "models=+a_package.gpt2"], "give the class a name of its own"),
        (["figure9", "models=+a.B,+b.B"], "give the class a name of its own"),
        (["figure9", "models=a_package.MyModel"], r"models=\+MODEL adds a model"),
        (["figure5", GUEST], "this figure compares models that it names itself"),
        (["multi_query_recall", GUEST], "this figure compares models by models.width"),
    ],
)
def test_a_guest_that_cannot_take_part_is_a_sentence(
    words: list[str], sentence: str, package: Path
) -> None:
    with pytest.raises(UserError, match=sentence):
        main(words, FIGURES)


def test_one_word_adds_to_what_a_sweep_would_run(package: Path) -> None:
    smoke = ["tasks=regbench", "preset=smoke"]

    def names(*words: str) -> list[tuple[str, bool]]:
        plan = make_plan([*smoke, *words])
        return [(entry.configuration.model, entry.guest) for entry in plan.entries]

    own = [("gpt2", False), ("memory_mosaic", False)]
    assert names() == own
    assert names(GUEST) == [*own, ("MyModel", True)]
    assert names("models=+gla,+a_package.MyModel") == [*own, ("gla", True), ("MyModel", True)]
    assert names("models=[lstm,+gla]") == [("lstm", False), ("gla", True)]
    for words, served in (((), False), ((GUEST,), True), ((GUEST, "committed=false"), False)):
        plan = make_plan([*smoke, *words])
        assert {entry.configuration.committed for entry in plan.entries} == {served}
    measured = make_plan(["tasks=capacity", "models=+a_package.MyModel", "preset=smoke"])
    assert [entry.guest for entry in measured.entries].count(True) == 1
    assert "gla" in choices("models")


def test_a_card_that_cannot_be_drawn_is_refused_before_any_run(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = {"label": "GPT2", "source": "", "note": "", "colour": "grene"}
    monkeypatch.setattr(models, "model_card", lambda name: cards if name == "gpt2" else None)
    with pytest.raises(UserError, match="unknown colour 'grene': did you mean 'green'"):
        main(["figure9", *SHORT], FIGURES)
    assert not (package / "runs").exists()


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (("ok", "ok"), OK),
        (("ok", "failed"), OK),  # of one of two seeds
        (("failed", "failed"), RUN_FAILED),
        (("diverged", "diverged"), OK),  # a result
    ],
)
def test_a_model_all_of_whose_runs_failed_fails_the_command(
    outcomes: tuple[str, str], code: int, tmp_path: Path
) -> None:
    for seed, outcome in enumerate(outcomes):
        for model, own in (("gpt2", "ok"), ("lstm", outcome)):
            record = regbench(model, seed, 100, 0.5, 0.5, outcome=own)
            write_record(record, tmp_path / "records")
    words = ["figure9", f"records={tmp_path / 'records'}", f"store={tmp_path}"]
    assert main(words, FIGURES) == code
