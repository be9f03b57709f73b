"""Which number of which task measures an ability, from the cards of the tasks, and where a score
stands between what needs no ability and what has all of it.

A card says::

    abilities:
      recall: {metric: accuracy, floor: uniform over seen values, oracle: latest value (oracle)}

``metric`` is the headline where it is left out, ``floor`` and ``oracle`` are predictors without
training or numbers, and ``only_with`` keeps the configurations whose settings are listed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from bench.config.groups import card, choices
from bench.records.numbers import kind_of
from leaderboards.contents import OpenBoard, Row
from leaderboards.tables.rows import with_ranks
from leaderboards.views.tables import RankedTable, contents_of, most_telling_first, tables

ABILITIES = Path(__file__).resolve().parents[2] / "abilities.yaml"
ENDS = ("floor", "oracle")


@dataclass(frozen=True)
class Test:
    """How a task measures an ability."""

    ability: str
    task: str
    metric: str
    floor: str | float | None
    oracle: str | float | None
    only_with: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Scale:
    """A scale of scores from the floor, where one is 0, to the oracle, where it is 1.

    Attributes:
        best: whether the upper end is the best row, since nobody knows an oracle.
    """

    floor: float
    oracle: float
    best: bool = False

    def place(self, score: float) -> float:
        """Where a score stands; below 0 where it is worse than the floor."""
        return (score - self.floor) / (self.oracle - self.floor)


@cache
def described() -> dict[str, dict[str, str]]:
    """Ability → its short name and its question, in the order of the columns."""
    content = OmegaConf.to_container(OmegaConf.load(ABILITIES))
    assert isinstance(content, dict)
    return {str(name): dict(words) for name, words in content.items()}


@cache
def tests() -> tuple[Test, ...]:
    """Every test of every ability, by the order of abilities and then by task."""
    all_tests: list[Test] = []
    for task in choices("tasks"):
        all_tests += tests_of(task, card("tasks", task))
    order = list(described())

    def place(test: Test) -> tuple[int, str]:
        known = test.ability in order
        return order.index(test.ability) if known else len(order), test.ability

    return tuple(sorted(all_tests, key=place))


def tests_of(task: str, content: Mapping[str, Any]) -> list[Test]:
    """The tests that a task's card names."""
    headline = content.get("headline", {}).get("name", "")
    tests = []
    for ability, stated in content.get("abilities", {}).items():
        metric, only_with = str(stated.get("metric", headline)), stated.get("only_with", {})
        floor, oracle = stated.get("floor"), stated.get("oracle")
        tests.append(Test(ability, task, metric, floor, oracle, only_with))
    return tests


def tables_of(board: OpenBoard, test: Test) -> list[RankedTable[Row]]:
    """The tables that measure an ability by a test, each ranked; the most telling first."""
    measured_tables: list[RankedTable[Row]] = []
    first_rows: list[Row] = []
    for table in tables(row for row in board.rows(test.task, metric=test.metric) if row.group):
        if table.measured:
            measured_tables.append(table)
            first_rows.append(table.measured[0])
    contents = contents_of(board, first_rows) if test.only_with else {}
    ranked_tables = []
    for table, first in zip(measured_tables, first_rows, strict=True):
        settings = contents.get(first.run_ids[0], {}).get("config", {}).get("tasks", {})
        if not all(settings.get(key) in values for key, values in test.only_with.items()):
            continue
        # A card that names both ends says which way is better.
        direction = table.rows[0].direction or _direction(test)
        if direction is not None and not any(row.rank_best for row in table.rows):
            rows = [replace(row, direction=direction) for row in table.rows]
            table = replace(table, rows=tuple(with_ranks(rows)))
        ranked_tables.append(table)
    return most_telling_first(ranked_tables)


def _direction(test: Test) -> str | None:
    if isinstance(test.floor, str) or isinstance(test.oracle, str):
        return None
    if test.floor is None or test.oracle is None:
        return None
    return "maximise" if test.oracle > test.floor else "minimise"


def scale_of(test: Test, table: RankedTable[Row]) -> Scale | None:
    """The scale of a table; None where an end is not known, or both are equal.

    Where the table lacks a predictor that the card names, there is none: what a guess reaches is
    not the worst there can be. Where the card names no floor, an end of the metric's range stands
    for it; where it names no oracle, the best row does.
    """
    best = "minimise" if (table.rows[0].direction or _direction(test)) == "minimise" else "maximise"
    kind = kind_of(table.task, table.metric)
    worst = kind.low if best == "maximise" else kind.high
    floor = _end(test.floor, table.rows) if test.floor is not None else _finite(worst)
    has_oracle = test.oracle is not None
    scores = [row.mean for row in table.measured if row.mean is not None]
    top = max(scores, default=None) if best == "maximise" else min(scores, default=None)
    oracle = _end(test.oracle, table.rows) if has_oracle else top
    if floor is None or oracle is None or math.isclose(floor, oracle):
        return None
    return Scale(floor, oracle, best=not has_oracle)


def _end(stated: str | float | None, rows: Iterable[Row]) -> float | None:
    """A stated number, or what the predictor of that name reaches; None where it was not run."""
    if isinstance(stated, int | float):
        return float(stated)
    if stated is not None:
        slug = re.sub(r"\W", "_", stated)
        for row in rows:
            if row.kind == "reference" and stated in (row.label, row.label.replace("_", " ")):
                return row.mean
            if row.kind == "reference" and row.model == slug:
                return row.mean
    return None


def _finite(end: float) -> float | None:
    return end if math.isfinite(end) else None
