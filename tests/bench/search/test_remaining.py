"""What a sweep says before its first run: what is left to make, and for how long."""

from pathlib import Path

import pytest

from bench.config.groups import choices, task_card
from bench.config.settings import Configuration
from bench.records.schema import Cost, write_record
from bench.records.store import Store
from bench.search.driver import run_plan
from bench.search.remaining.left import Remaining, seconds_on_record
from bench.sweep import main
from core.errors import OK
from core.progress import silent
from reproduce.__main__ import reproductions
from tests.bench.conftest import TINY
from tests.bench.records import make_record
from tests.configurations import make_plan

GUEST = "models=+./gated.py:Gated"
FILE = """
from torch import nn


class Gated(nn.Module):
    def __init__(self, specification, width=8):
        super().__init__()
        self.embedding = nn.Embedding(specification.vocabulary, width)
        self.mixer = nn.GRU(width, width, batch_first=True)
        self.read_out = nn.Linear(width, specification.output_size)

    def forward(self, inputs):
        return self.read_out(self.mixer(self.embedding(inputs))[0])
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "gated.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_guest_hears_why_its_rivals_are_trained_and_what_else_it_can_do(here: Path) -> None:
    words = ["tasks=multi_query_recall", "preset=laptop", "device=cpu", "workers=1", GUEST]
    remaining = Remaining.of(make_plan(words))
    others = [entry for entry in remaining.plan.entries if not entry.guest]
    why, what = remaining.beginning()
    assert why.startswith("no committed row has these settings (tasks.pairs=[4]")
    assert "the committed ones have tasks.pairs=[2,4,8]" in why
    assert f"so {len(others)} other models are trained here too, after yours, about " in why
    assert "; models=./gated.py:Gated trains yours alone; " in why
    assert f"python -m reproduce multi_query_recall preset=laptop {GUEST} is the comp" in why
    assert what.startswith(f"multi_query_recall, preset laptop: {len(remaining.missing)} runs of ")
    # Of those that are committed, the guest alone is left.
    served = Remaining.of(make_plan([*words, "tasks.pairs=[2,4,8]"]))
    assert {run.configuration.model for run in served.missing} == {"Gated"}
    (only,) = served.beginning()
    every = sum(map(len, served.runs.values()))
    assert f": {len(served.missing)} of {every} runs of 1 model to make (" in only


def test_the_comparison_of_a_task_is_a_figure_that_takes_guests() -> None:
    figures = {task: task_card(task).get("comparison") for task in choices("tasks")}
    experiments = reproductions()
    named = {task: experiments[figure] for task, figure in figures.items() if figure}
    assert "multi_query_recall" in named
    for task, experiment in named.items():
        plan = experiment.plan("laptop", None)
        assert {settings["tasks"] for settings in plan.sweeps} >= {task}


def test_the_guest_is_trained_first_and_served_runs_are_in_no_count(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tasks=multi_query_recall", "device=cpu", "training.steps=4", "n_trials=1", "seeds=2"]
    words += ["models=[lstm,+./gated.py:Gated]", "models.width=8", "sweep.search_space={}"]
    words += ["store=mine", "workers=0", "committed=false"]
    said: list[str] = []
    reports: list[tuple[str, int, int]] = []

    def report(description: str, done: int, total: int) -> None:
        reports.append((description, done, total))

    run_plan(make_plan(words), report, said.append)
    sentence, note = said  # before anybody waits
    assert "most of its rows get no rank" in note
    assert "the same words and preset=laptop" in note
    assert ": 6 runs of 2 models to make (2 × trial, 4 × final run; 4 trainings), " in sentence
    models = [text.split(" seed")[0] for text, *_ in reports if " seed " in text]
    assert list(dict.fromkeys(models)) == ["Gated", "LSTM"]
    counts = [(done, total) for text, done, total in reports if text == "runs of the sweep"]
    assert counts[0] == (0, 6)
    assert counts[-1] == (6, 6)
    said.clear()
    reports.clear()
    run_plan(make_plan(words), report, said.append)  # everything is served
    assert not said
    assert not [text for text, *_ in reports if text == "runs of the sweep"]
    each = "each of its 6 runs has a record, and nothing is trained"
    told = Remaining.of(make_plan(words)).beginning("sweep 1 of 2", "tasks.x=1")
    assert told == [f"sweep 1 of 2, tasks.x=1, preset smoke: {each}"]
    run_plan(make_plan([*words, "seeds=3"]), report, said.append, "sweep 1 of 2", "tasks.x=1")
    begun = "sweep 1 of 2, tasks.x=1, preset smoke: 2 of 8 runs of 2 models to make (2 × final run)"
    assert said[0].startswith(begun)
    assert "about " in said[0]
    assert said[0].endswith(" on an idle machine, at the speed of the runs on record")
    counts = [(done, total) for text, done, total in reports if text == "runs of sweep 1 of 2"]
    assert counts[-1] == (2, 2)
    assert {total for _, total in counts} == {2}
    capsys.readouterr()
    assert main([*words, "dry_run=true", "seeds=3"]) == OK
    shown = " ".join(capsys.readouterr().out.split())
    served = "every run of this sweep has a record in mine/: nothing would be trained"
    assert shown.endswith(served)
    assert "training time" not in shown
    assert main([*words, "dry_run=true", "seeds=4"]) == OK
    assert (
        "2 of the 10 runs of this sweep have no record in mine/: 2 × final run"
        in capsys.readouterr().out
    )


def test_the_time_of_a_run_is_that_of_all_its_starts(tmp_path: Path) -> None:
    words: dict[str, object] = {
        "tasks": "three_moons",
        "models": "memory_unit",
        "preset": "gpu",
        "device": "cpu",
    }
    words |= {"store": str(tmp_path), "sweep.workers": 0}
    three = Configuration.of(words).with_(training_steps=100, training_restarts=3)
    run_id = "three_moons-memory_unit-gpu-0123456789ab-s0"
    cost = Cost(training_steps=300, wall_seconds=30.0)  # of all starts, as records have them
    write_record(make_record(run_id=run_id, cost=cost), Store(tmp_path).records)
    assert seconds_on_record([three]) == pytest.approx(30)
    assert seconds_on_record([three.with_(training_restarts=1)]) == pytest.approx(10)
    assert seconds_on_record([three, three.with_(seed=1)]) == pytest.approx(60)


def test_who_asks_for_nothing_is_told_nothing(here: Path) -> None:
    words = [*TINY, "models=lstm", "n_trials=1", "seeds=1", "workers=0", "sweep.search_space={}"]
    (model,) = run_plan(make_plan(words), silent).models
    assert model.records
