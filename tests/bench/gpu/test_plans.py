"""What is trained by the clock: which rows stand, and what a sweep is forecast to take."""

import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.config.groups import choices
from bench.gpu.plans import (
    AUTOMATA,
    COMMITTED_ROW,
    ModelRow,
    TaskPlan,
    committed_records,
    look_up,
    planned_models,
    read_plan,
)
from bench.gpu.request import SweepsRequest
from bench.gpu.sweeps import SweepClock, _next_group
from tests.configurations import compose
from tests.conftest import ROOT

# | N | model | rates tried | chosen | accuracy | …: the table of docs/measurements/h200.md.
ROW_OF_THE_PAGE = re.compile(
    r"^\| ([\d,]+) \| ([^|]+) \| ([\d., ]+) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ to", re.MULTILINE
)


def plan_of(name: str, folder: Path, scale: float, models: Sequence[str] = ()) -> TaskPlan:
    values = {"device": "cpu", "workers": 2, "mps": False, "until": 1.0, "models": [*models]}
    places = {"store": folder, "output": folder / "output.json"}
    return read_plan(SweepsRequest(plan=name, scale=scale, **values, **places))


def test_rows_of_the_page_stand_and_are_not_trained_again(tmp_path: Path) -> None:
    plan = plan_of("regbench", tmp_path, 1.0)
    look_up(plan, tmp_path, committed_records(plan))
    names = planned_models()
    labels = {name: compose(["tasks=regbench", f"models={name}"]).label for name in names}
    rows = {(row.conditions[AUTOMATA], labels[row.model]): row for row in plan.rows}
    page = (ROOT / "docs" / "measurements" / "h200.md").read_text(encoding="utf-8")
    measured = ROW_OF_THE_PAGE.findall(page)
    assert len(measured) == 12
    for automata, label, rates, chosen, accuracy in measured:
        row = rows[int(automata.replace(",", "")), label]
        assert row.stands == COMMITTED_ROW
        assert row.metrics["accuracy"] == pytest.approx(float(accuracy), abs=1e-3)
        assert row.metrics["training.lr"] == float(chosen)
        assert list(row.rates) == [float(rate) for rate in rates.split(", ")]


@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize("name", ["regbench", "recall"])
def test_every_planned_run_can_be_composed(tmp_path: Path, name: str, scale: float) -> None:
    plan = plan_of(name, tmp_path, scale)
    assert {row.model for row in plan.rows} <= {*choices("models")}
    assert len({(row.model, *row.conditions.items()) for row in plan.rows}) == len(plan.rows)
    for row in plan.rows[:: len(plan.rows) // 5]:
        configuration = compose([*plan.run_words(row), f"models={row.model}"])
        assert configuration.training.steps == row.steps
        assert configuration.preset == plan.preset
    steps = {"regbench": 7200, "recall": 10_000}[name]
    assert {row.steps for row in plan.rows} == {round(steps * scale)}


def row(sweep: int, model: str, runs_there: int = 0) -> ModelRow:
    conditions = {"training.steps": 100}
    return ModelRow(sweep, model, conditions, [1e-3, 2e-3, 4e-3], finals=3, runs_there=runs_there)


def test_a_forecast_is_the_work_shared_and_the_longest_training() -> None:
    clock = SweepClock(time.monotonic(), gain=4.0, start=3.0, paces={"a": 0.1, "b": 0.2})
    # Three trials and three final runs, of which one is a trial: 5 trainings of 10 s, and of 20 s.
    assert row(0, "a").trainings == 5
    assert clock.forecast([row(0, "a")]) == pytest.approx(6 + 50 / 4 + 10)
    assert clock.forecast([row(0, "a"), row(0, "b")]) == pytest.approx(6 + 150 / 4 + 20)
    assert clock.forecast([row(0, "a", runs_there=4)]) == pytest.approx(6 + 10 / 4 + 10)


def test_a_sweep_has_the_rows_that_fit_and_those_that_are_begun_first() -> None:
    paces = {"a": 1.0, "b": 1.0, "slow": 100.0}
    rows = [row(0, "a"), row(0, "slow"), row(0, "b", runs_there=4), row(1, "a"), row(0, "unknown")]

    def group(seconds: float) -> list[ModelRow]:
        clock = SweepClock(time.monotonic() + seconds, gain=1.0, paces=paces)
        return _next_group(rows, clock)

    # b: 100 s and once its longest training; with a 500 s more.
    assert group(150) == []
    assert rows[2].reason == (
        "1 trainings, forecast to take 3 min, do not fit in the 2 min that were left"
    )
    assert group(500) == [rows[2]]
    assert group(1000) == [rows[2], rows[0]]
    rows[2].stands = "in the store"
    rows[0].tried = True
    assert group(1000) == [rows[3]]  # the next sweep
    assert group(100_000) == [rows[1]]
