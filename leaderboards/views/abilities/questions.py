"""README's questions: which model answers which, by tables in which all had one budget.

``leaderboards/questions.yaml`` lists the questions. Each names one table of the board, by the
settings of its task and the steps of its trainings, and two predictors without training: the floor,
which guesses, and the oracle. A score stands between them: 0 at the floor, 1 at the oracle.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from leaderboards.contents import Board, Row
from leaderboards.views.abilities.scale import Scale
from reproduce.claims.fairness import EDGE, IMPROVING

QUESTIONS = Path(__file__).resolve().parents[2] / "questions.yaml"
PRESET = "laptop"  # of every question; the smaller one tests the machinery
HALF = 0.5  # of the way from the floor to the oracle: a model that surely has it works


@dataclass(frozen=True)
class AbilityQuestion:
    """A question, and the table that answers it.

    Attributes:
        heading: what stands above its column in the picture.
        settings: of the task, which the table's records must have.
        model_settings: of the models, which a row's records must have.
        steps: of training, of every row.
        floor: the label of a predictor.
        oracle: the label of another one; None where the best row stands for it.
        in_readme: whether README's table has it.
        short: whether a longer training is known to change the answer.
        ability: whose column on the board's first page has this table's numbers.
    """

    heading: str
    question: str
    task: str
    settings: Mapping[str, Any]
    steps: int
    floor: str
    oracle: str | None = None
    model_settings: Mapping[str, Any] | None = None
    in_readme: bool = False
    short: bool = False
    ability: str = ""


@dataclass(frozen=True)
class ModelAnswer:
    """One model's row.

    Attributes:
        place: of the mean, 0 at the floor and 1 at the oracle.
        surely: of the worse end of its interval, likewise.
        at_most: of the better end.
    """

    row: Row
    place: float
    surely: float
    at_most: float

    @property
    def works(self) -> bool:
        """Whether its whole interval is at least half of the way from floor to oracle."""
        return self.surely >= HALF

    def is_wholly_better_than(self, other: ModelAnswer) -> bool:
        """Whether its interval lies beyond the other's, on the side of the oracle."""
        return self.surely > other.at_most

    @property
    def improving(self) -> bool:
        """Whether its validation loss still fell when training ended: it may stand on a plateau."""
        return any(mark.startswith(IMPROVING) for mark in self.row.marks)

    @property
    def on_edge(self) -> bool:
        """Whether its best learning rate was the largest or the smallest that was tried."""
        return any(mark.startswith(EDGE) for mark in self.row.marks)


@cache
def questions() -> tuple[AbilityQuestion, ...]:
    """All of them, in the order of the file."""
    return tuple(AbilityQuestion(**entry) for entry in _content()["questions"])


def question_of(ability: str) -> AbilityQuestion | None:
    """The question whose table has the numbers of an ability; None where none is asked."""
    return next((question for question in questions() if question.ability == ability), None)


def families() -> dict[str, list[str]]:
    """Family → its models, in the order of the picture's rows."""
    return dict(_content()["families"])


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(QUESTIONS.read_text())
    return content


def answers(board: Board, question: AbilityQuestion) -> list[ModelAnswer]:
    """The models of a question, the best first; none where the board has no such table.

    Of several rows of one model its ranked one counts, or else its best.
    """
    configurations = _configurations(board, question)
    parts = {"tasks": question.settings, "models": question.model_settings or {}}
    row_by_model: dict[str, Row] = {}
    for row in _rows(board, question):
        configuration = configurations.get(row.run_ids[0]) if row.run_ids else None
        has_steps = row.kind == "measured" and row.training_steps == question.steps
        if configuration is None or not has_steps or row.model in _content()["left_out"]:
            continue
        differing = []
        for part, settings in parts.items():
            of_run = configuration.get(part, {})
            differing += [key for key, value in settings.items() if of_run.get(key) != value]
        if not differing:
            previous = row_by_model.get(row.model)
            if previous is None or (row.rank_best and not previous.rank_best):
                row_by_model[row.model] = row
    measured = [row for row in row_by_model.values() if row.mean is not None]
    scale = _scale_of(board, question, measured, configurations)
    if scale is None:
        return []
    placed = []
    for row in measured:
        place = scale.place(row.mean or 0.0)
        ends = [scale.place(end) for end in (row.low, row.high) if end is not None]
        surely, at_most = min(ends, default=place), max(ends, default=place)
        placed.append(ModelAnswer(row, place, surely, at_most))
    return sorted(placed, key=lambda answer: (-answer.place, answer.row.label))


def best_of(placed: Sequence[ModelAnswer]) -> list[ModelAnswer]:
    """Of the answers of a question, best first, those that README calls the best.

    These are the working models that share the first rank. A model without a rank stands beside
    them where its interval is wholly better than that of one of them: what keeps it from a rank,
    too few steps or rates, held it back if anything. Where none of them is ranked, it is the first.
    """
    working = [answer for answer in placed if answer.works]
    first = [answer for answer in working if answer.row.rank_best == 1]
    if not first:
        return list(placed[:1]) if placed and placed[0].works else []
    best = []
    for answer in working:
        unranked = answer.row.rank_best is None
        ahead = unranked and any(answer.is_wholly_better_than(other) for other in first)
        if answer in first or ahead:
            best.append(answer)
    return best


def _scale_of(
    board: Board,
    question: AbilityQuestion,
    measured: Sequence[Row],
    configurations: Mapping[str, Mapping[str, Any]],
) -> Scale | None:
    """The scale of a question, from the floor to the oracle, or to the best row; None where the
    board lacks one of them."""
    floor = _reference(board, question, question.floor, configurations)
    if question.oracle:
        best = _reference(board, question, question.oracle, configurations)
    elif measured and measured[0].direction == "minimise":
        best = min(row.mean for row in measured if row.mean is not None)
    else:
        best = max((row.mean for row in measured if row.mean is not None), default=None)
    if floor is None or best is None or math.isclose(floor, best):
        return None
    return Scale(floor, best, best=question.oracle is None)


def _rows(board: Board, question: AbilityQuestion) -> Iterable[Row]:
    for row in board.rows:
        if row.headline and row.task == question.task and row.preset == PRESET:
            yield row


def _configurations(board: Board, question: AbilityQuestion) -> dict[str, dict[str, Any]]:
    """Run id → how the run was set, for the first run of every row."""
    first_runs = {row.run_ids[0] for row in _rows(board, question) if row.run_ids}
    configurations = {}
    for record in board.records:
        if record.run_id in first_runs:
            configurations[record.run_id] = json.loads(record.content)["config"]
    return configurations


def _reference(
    board: Board,
    question: AbilityQuestion,
    label: str,
    configurations: Mapping[str, Mapping[str, Any]],
) -> float | None:
    """What a predictor reaches on the question's test: with these settings, or else with those that
    differ from them in what is trained on, which a predictor without training does not see."""
    by_agreement: list[tuple[int, float]] = []
    for row in _rows(board, question):
        if row.kind == "reference" and row.label == label and row.mean is not None:
            settings = configurations.get(row.run_ids[0], {}).get("tasks", {})
            agreeing = sum(settings.get(key) == value for key, value in question.settings.items())
            by_agreement.append((agreeing, row.mean))
    return max(by_agreement, key=lambda pair: pair[0])[1] if by_agreement else None
