"""Sweeps that are to be made, row by row: what of them stands, and what each would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from bench.gpu.request import SweepsRequest
from bench.records.schema import FINISHED, RunRecord, read_records
from bench.records.store import COMMITTED, Store

PLANS = Path(__file__).with_suffix(".yaml")
WIDTH = "models.width"
WIDTHS = 16  # a smaller width is a multiple of it, which all models take
LEAST = 2  # of a size that shrinks
AUTOMATA = "tasks.training_automata"
NOT_REACHED = "the time ended before it was looked at"
COMMITTED_ROW, STORED_ROW = "on the committed board", "in the store"


@dataclass
class ModelRow:
    """One model in one sweep.

    Attributes:
        sweep: its place among the sweeps of the plan.
        conditions: dotted key -> value, which the configuration of each of its runs has.
        rates: learning rates of its trials.
        finals: final runs.
        stands: where all of its final runs are, if they are.
        runs_there: trials and final runs that the store has.
        tried: whether a sweep of this call had it.
        reason: why it was left or failed.
        metrics: means over its final runs.
    """

    sweep: int
    model: str
    conditions: Mapping[str, Any]
    rates: Sequence[float]
    finals: int
    stands: str | None = None
    runs_there: int = 0
    tried: bool = False
    reason: str = NOT_REACHED
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Steps of one training."""
        return int(self.conditions["training.steps"])

    @property
    def trainings(self) -> int:
        """Those that are missing: the chosen trial is also the first final run."""
        return max(1, len(self.rates) + self.finals - 1 - self.runs_there)

    @property
    def title(self) -> str:
        """How a table names the row: its model, and the number of languages where it has one."""
        automata = self.conditions.get(AUTOMATA)
        return self.model if automata is None else f"{self.model} at N = {automata:,}"


@dataclass(frozen=True)
class TaskPlan:
    """What is to be trained on one task.

    Attributes:
        shared: words of all runs, but for the conditions of a sweep.
        search: words that say how a sweep searches.
    """

    task: str
    preset: str
    shared: Sequence[str]
    search: Sequence[str]
    rows: Sequence[ModelRow]

    def run_words(self, row: ModelRow) -> list[str]:
        """The words of a run of a row, but for its model and the machine."""
        return [*self.shared, *_words(row.conditions)]

    def sweep_words(self, rows: Sequence[ModelRow]) -> list[str]:
        """The words of the sweep that has these rows, but for the machine."""
        models = ",".join(row.model for row in rows)
        rates = ",".join(map(str, rows[0].rates))
        space = f"sweep.search_space={{training.lr:[{rates}]}}"
        return [*self.run_words(rows[0]), f"models=[{models}]", *self.search, space]


def read_plan(request: SweepsRequest) -> TaskPlan:
    """The plan of ``plans.yaml`` at the size of a request."""
    content = _plans()[request.plan]
    sizes = dict(content["sizes"])
    if request.scale < 1:
        sizes |= content["smaller"]
    search = content["search"]
    finals = search["seeds"] * search.get("data_seeds", 1)
    fixed = dict(content["fixed"])
    for key, size in sizes.items():
        fixed[key] = scaled(key, size, request.scale)
    conditions: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    for key, value in fixed.items():
        (conditions if key.startswith(("tasks.", "training.")) else shared)[key] = value
    rows = []
    for place, sweep in enumerate(content["sweeps"]):
        conditions_of_sweep = dict(conditions)
        if AUTOMATA in sweep:
            conditions_of_sweep[AUTOMATA] = scaled(AUTOMATA, sweep[AUTOMATA], request.scale)
        rates = sweep["training.lr"]
        for model in sweep["models"]:
            if not request.models or model in request.models:
                rows.append(ModelRow(place, model, conditions_of_sweep, rates, finals))
    return TaskPlan(fixed["tasks"], fixed["preset"], _words(shared), _words(search), rows)


def _words(values: Mapping[str, Any]) -> list[str]:
    """Words of names and numbers, which need no quotes."""
    return [f"{key}={value}" for key, value in values.items()]


def planned_models() -> list[str]:
    """Every model that some plan trains."""
    models: dict[str, None] = {}
    for plan in _plans().values():
        for sweep in plan["sweeps"]:
            models |= dict.fromkeys(sweep["models"])
    return list(models)


def _plans() -> dict[str, Any]:
    plans: dict[str, Any] = yaml.safe_load(PLANS.read_text(encoding="utf-8"))
    return plans


def scaled(key: str, size: int, scale: float) -> int:
    """A size in a rehearsal."""
    if key == WIDTH:
        return max(WIDTHS, round(size * scale / WIDTHS) * WIDTHS)
    return max(LEAST, round(size * scale))


def committed_records(plan: TaskPlan) -> list[RunRecord]:
    """The project's own records of the task and the preset of a plan."""
    return [*read_records([COMMITTED / plan.task / plan.preset])]


def look_up(plan: TaskPlan, store: Path, committed: Sequence[RunRecord]) -> None:
    """Note in each row where it stands, what of it is in the store, and its numbers on the test
    split."""
    folders = Store(store)
    stored, trials = [*read_records([folders.records])], [*read_records([folders.trials])]
    for row in plan.rows:
        row.stands = None
        for place, records in ((COMMITTED_ROW, committed), (STORED_ROW, stored)):
            finals = [r for r in records if r.role == "final" and _is_of(r, row)]
            if len(finals) >= row.finals and all(r.outcome in FINISHED for r in finals):
                row.stands, row.metrics = place, _means(finals)
                break
        run_ids = {record.run_id for record in (*stored, *trials) if _is_of(record, row)}
        row.runs_there = len(run_ids)


def _is_of(record: RunRecord, row: ModelRow) -> bool:
    """Whether a record is of a model, of a sweep and of a rate of the row."""
    if record.model != row.model or record.role not in ("final", "trial"):
        return False
    for key, value in row.conditions.items():
        group, _, name = key.partition(".")
        if record.config[group].get(name) != value:
            return False
    return True


def _means(records: Sequence[RunRecord]) -> dict[str, float]:
    """The mean over records of each number on the test split, and the learning rate that was
    chosen."""
    tests = [record.metrics["test"] for record in records if record.outcome == "ok"]
    names = sorted(tests[0]) if tests else []
    means = {name: fmean(map(itemgetter(name), tests)) for name in names}
    return {"training.lr": records[0].config["training"]["lr"], **means}
