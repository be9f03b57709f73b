"""Which tables measure an ability, and which of them a column of the first page shows.

All numbers of a column are from one table, so that every model in it had one budget: the table of
README's question where ``leaderboards/questions.yaml`` names the ability, or else the table that
ranks most models. Memories, which have tasks of their own, have a table of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leaderboards.contents import OpenBoard, Row
from leaderboards.render import PRESETS
from leaderboards.views.abilities.questions import PRESET, AbilityQuestion, question_of
from leaderboards.views.abilities.scale import Scale, Test, scale_of, tables_of, tests
from leaderboards.views.links import Link, to_table
from leaderboards.views.models import group_of
from leaderboards.views.tables import RankedTable, contents_of, row_of


@dataclass(frozen=True)
class AbilityTable:
    """A table that measures an ability.

    Attributes:
        rows: those of its measured rows that count: of a question's table those with its settings
            of models, such as the width.
        of_question: whether it is the one of README's question.
    """

    test: Test
    table: RankedTable[Row]
    scale: Scale | None
    rows: tuple[Row, ...]
    of_question: bool = False

    @property
    def link(self) -> Link:
        """The table."""
        return to_table(self.table.rows[0])

    @property
    def ranked(self) -> set[str]:
        """The models that have a rank: settings of one model do not contend with each other."""
        return {row.model for row in self.rows if row.rank_best}

    @cached_property
    def row_by_model(self) -> dict[str, Row]:
        """The row that stands for each model: the ranked one, or else its best."""
        rows_by_model: dict[str, list[Row]] = {}
        for row in self.rows:
            rows_by_model.setdefault(row.model, []).append(row)
        return {model: row_of(rows) for model, rows in rows_by_model.items()}


def ability_tables(board: OpenBoard) -> dict[str, list[AbilityTable]]:
    """Ability → its tables, that of the question first and then the most telling; every ability
    that a card names is there."""
    tables_by_ability: dict[str, list[AbilityTable]] = {}
    for test in tests():
        tables = tables_by_ability.setdefault(test.ability, [])
        for table in tables_of(board, test):
            tables.append(_source(board, test, table))
    for tables in tables_by_ability.values():
        tables.sort(key=_contest, reverse=True)
    return tables_by_ability


def columns_of(sources: Sequence[AbilityTable]) -> dict[str, AbilityTable]:
    """Group of models → the table whose numbers stand in its part of a column: the first one that
    has a model of the group. Models of other packages ("") stand beside those of the project."""
    columns: dict[str, AbilityTable] = {}
    for source in sources:
        for model in source.row_by_model:
            columns.setdefault(group_of(model), source)
    if len(columns) > 1:
        columns.pop("", None)
    return columns


def column_of(model: str, columns: Mapping[str, AbilityTable]) -> AbilityTable | None:
    """The table of a model's cell; None where its column has no number of it."""
    group = group_of(model)
    candidates = [columns[group]] if group in columns else []
    if not group:
        candidates = [*columns.values()]
    return next((source for source in candidates if model in source.row_by_model), None)


def _source(board: OpenBoard, test: Test, table: RankedTable[Row]) -> AbilityTable:
    scale, measured = scale_of(test, table), tuple(table.measured)
    question = question_of(test.ability)
    if question is None or (table.task, table.preset) != (question.task, PRESET):
        return AbilityTable(test, table, scale, measured)
    of_steps = [row for row in measured if row.training_steps == question.steps]
    contents = contents_of(board, of_steps)
    rows = tuple(row for row in of_steps if _answers(question, row, contents))
    if not rows:
        return AbilityTable(test, table, scale, measured)
    return AbilityTable(test, table, scale, rows, of_question=True)


def _answers(question: AbilityQuestion, row: Row, contents: Mapping[str, Any]) -> bool:
    """Whether a row was trained as the question asks."""
    config = contents.get(row.run_ids[0], {}).get("config", {}) if row.run_ids else {}
    parts = {"tasks": question.settings, "models": question.model_settings or {}}
    for part, settings in parts.items():
        of_run = config.get(part, {})
        if any(of_run.get(key) != value for key, value in settings.items()):
            return False
    return True


def _contest(source: AbilityTable) -> tuple[bool, bool, int, int]:
    """What tables of an ability are sorted by: after the table of the question those that rank more
    contenders come first, since they say who is ahead."""
    is_real = source.table.preset != PRESETS[0]
    return source.of_question, is_real, len(source.ranked), len(source.row_by_model)


def models_of(sources: Iterable[AbilityTable]) -> dict[str, None]:
    """The models of some tables, in their order."""
    models: dict[str, None] = {}
    for source in sources:
        models |= dict.fromkeys(source.row_by_model)
    return models
