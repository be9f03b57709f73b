"""A sweep whose trials are trained together: the records of one that trains each alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.config.settings import Configuration
from bench.records.schema import RunRecord, read_record
from bench.runs import fresh, together
from bench.runs.together import most_together, shape_of, together_of
from bench.search.driver import records_of
from bench.training import stack
from core.errors import UserError
from core.progress import silent
from tests.configurations import compose, make_plan

SWEEP = [
    "tasks=multi_query_recall",
    "preset=smoke",
    "models=gpt2",
    "tasks.data_seed=5",
    "training.steps=6",
    "training.validate_every=3",
    "data_seeds=3",
]
SPACE = ["models.width=8", "sweep.search_space={training.lr:[1e-3,1e-2,1e30]}", "n_trials=3"]


def swept(folder: Path, *words: str) -> list[RunRecord]:
    records = records_of(make_plan([*SWEEP, f"store={folder}", *words]), silent)
    return [record for record in records if record.role == "final"]


def test_a_stacked_sweep_has_the_records_of_one_alone(tmp_path: Path) -> None:
    single = swept(tmp_path / "alone", *SPACE)
    stacked = swept(tmp_path / "stacked", *SPACE, "stack=4")
    assert [r.run_id for r in stacked] == [r.run_id for r in single]
    assert [r.identity for r in stacked] == [r.identity for r in single]
    for one, other in zip(stacked, single, strict=True):
        assert one.metrics["test"]["loss"] == pytest.approx(other.metrics["test"]["loss"], rel=1e-4)
        assert one.study is not None
        assert other.study is not None
        assert [t.outcome for t in one.study.trials] == [t.outcome for t in other.study.trials]
        assert "diverged" in {trial.outcome for trial in one.study.trials}
        assert one.cost.stacked == (3 if one.seed == 0 else 2)  # of the trials, of the finals
        assert other.cost.stacked is None
        assert one.cost.training_flops == other.cost.training_flops
    kept = json.loads((tmp_path / "alone" / "records" / f"{single[0].run_id}.json").read_text())
    assert "stacked" not in kept["cost"]  # records alone are what they were, byte for byte


def test_trials_of_one_shape_are_found_wherever_in_the_grid_they_are(tmp_path: Path) -> None:
    grid = "sweep.search_space={training.lr:[1e-3,3e-3,1e-2],models.width:[8,16]}"
    swept(tmp_path, grid, "n_trials=6", "stack=4", "sampler=grid")
    trials = [read_record(path) for path in (tmp_path / "trials").glob("*.json")]
    widths = [trial.config["models"]["width"] for trial in trials]
    assert sorted(widths) == [8, 8, 8, 16, 16, 16]
    assert [trial.cost.stacked for trial in trials] == [3] * 6  # neighbours in the grid differ
    final, *_ = [read_record(path) for path in (tmp_path / "records").glob("*-gpt2-*.json")]
    assert final.study is not None
    numbers = {trial.number: trial.parameters for trial in final.study.trials}
    assert [numbers[n]["models.width"] for n in range(6)] == [8, 16] * 3  # as each alone has them


def configured(*words: str) -> Configuration:
    return compose(["tasks=regbench", "models=gpt2", "preset=smoke", *words])


@pytest.mark.parametrize("other", ["executor=ray", "storage=postgresql://host/studies"])
def test_stacks_are_refused_where_others_make_the_runs(other: str) -> None:
    with pytest.raises(UserError) as refused:
        configured("sweep.stack=auto", f"sweep.{other}")
    named = "executor=ray" if "ray" in other else "a storage that drivers share"
    assert str(refused.value) == f"sweep.stack=auto does not go with {named}: leave one out"


def test_runs_of_one_shape_differ_in_seeds_rates_and_decay_alone() -> None:
    shape = shape_of(configured())
    for word in ("seed=3", "tasks.data_seed=1", "training.lr=1", "training.weight_decay=0"):
        assert shape_of(configured(word)) == shape
    for word in ("models.width=32", "training.steps=9", "training.betas=[0.9,0.99]", "store=x"):
        assert shape_of(configured(word)) != shape
    for word in ("training.micro_batch_size=2", "training.compile=true"):
        assert shape_of(configured(word)) is None


def test_auto_stacks_where_it_was_measured_to_be_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = [
        ("gpt2", 2, 0.9, (0.8, 1.1)),
        ("gpt2", 4, 1.01, (0.99, 1.02)),  # one of four pairs of blocks was slower, or more
        ("lstm", 3, 1.1, (1.05, 1.2)),
        ("lstm", 5, 1.2, (1.1, 1.3)),
        ("lstm", 7, 1.15, (1.1, 1.2)),
    ]
    named = ("task", "preset", "model", "together", "factor", "quartiles")
    rows = [dict(zip(named, ("regbench", "smoke", *row), strict=True)) for row in measured]
    (tmp_path / "stacked.json").write_text(json.dumps({"factors": rows}))
    monkeypatch.setattr(together, "MEASURED", tmp_path / "stacked.json")
    assert most_together(configured("sweep.stack=auto", "device=cpu")) == 1
    lstm = configured("sweep.stack=auto", "device=cpu", "models=lstm")
    assert most_together(lstm) == 5
    # Only as many as were measured together, and of those the ones that gain most.
    assert [together_of(lstm, present) for present in range(1, 9)] == [1, 1, 3, 3, 5, 5, 5, 5]
    assert [together_of(configured("sweep.stack=3"), present) for present in (1, 2, 9)] == [1, 2, 3]
    assert most_together(configured("sweep.stack=3")) == 3
    assert most_together(configured()) == 1


def test_auto_counts_those_that_are_left_to_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three were measured together; with a record of one there, two are left."""
    row = {"task": "regbench", "preset": "smoke", "model": "lstm", "together": 3}
    measured = {"factors": [{**row, "factor": 1.2, "quartiles": [1.1, 1.3]}]}
    (tmp_path / "stacked.json").write_text(json.dumps(measured))
    monkeypatch.setattr(together, "MEASURED", tmp_path / "stacked.json")
    asked: list[int] = []
    monkeypatch.setattr(stack, "fit_together", lambda members, *_: asked.append(len(members)) or {})
    words = ("models=lstm", "sweep.stack=auto", "device=cpu", f"store={tmp_path}")
    runs = [(configured(*words, f"seed={seed}"), "trial") for seed in range(3)]
    fresh.train_together(runs, silent)
    real = fresh.pending_run

    def without_the_first(configuration: Configuration, *rest: Any) -> Any:
        return real(configuration, *rest) if configuration.seed else None

    monkeypatch.setattr(fresh, "pending_run", without_the_first)
    fresh.train_together(runs, silent)
    assert asked == [3]
