"""README's part of the board: a table of questions with the models that answer them, and how many
claims got which verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from core.escaping import markdown
from leaderboards.contents import Board, ClaimLine, verdict_counts
from leaderboards.markdown import SMALLEST, by_later_runs, in_words, row_of
from leaderboards.render import (
    CONFIRMED,
    NOT_ASKED,
    NOT_ASKED_AGAIN,
    NOT_CONFIRMED,
    PRESETS,
    shown_label,
)
from leaderboards.tables.verdicts import DECIDED
from leaderboards.views.abilities.questions import (
    AbilityQuestion,
    ModelAnswer,
    answers,
    best_of,
    questions,
)
from leaderboards.views.figures import counted_claims, figures_of, most_demanding

COLUMNS = "docs/read_a_verdict.md#readme"  # what the columns of README's table mean
NAMED = 5  # models in one cell; the picture has the others


def summary(board: Board) -> str:
    """All of it, as Markdown."""
    if not board.records:
        return "No record is committed yet.\n"
    counts = [count_of_verdicts(board), *_of_the_smallest(board)]
    return "\n".join([*_table(board), *counts, "", _scale(board), ""])


def _table(board: Board) -> list[str]:
    """The questions that README asks; none where the board has no table for them."""
    lines = []
    for question in questions():
        if question.in_readme and (placed := answers(board, question)):
            lines += row_of(*_cells(question, placed))
    if not lines:
        return []
    head = row_of("question, at one budget", "best", "also works", "not shown to work")
    marks = (
        "*Italics*: not ranked: still improving, or best rate on an edge. "
        f"[The columns]({COLUMNS})."
    )
    return [*head, "|---" * 4 + "|", *lines, "", marks, ""]


def _cells(question: AbilityQuestion, placed: Sequence[ModelAnswer]) -> list[str]:
    """The question with its page and steps, and the models by what they have shown."""
    works = [answer for answer in placed if answer.works]
    best = best_of(placed)
    also = [answer for answer in works if answer not in best]
    others = [answer for answer in placed if not answer.works]
    page = f"[{question.question}](docs/results/{question.task}.md) {question.steps:,} steps"
    return [page, _labels(best), _labels(also), _labels(others)]


def _labels(listed: Sequence[ModelAnswer]) -> str:
    """Their labels; in italics who is not ranked."""
    names = []
    for answer in listed[:NAMED]:
        name = markdown(shown_label(answer.row))
        names.append(f"*{name}*" if answer.row.rank_best is None else name)
    more = len(listed) - len(names)
    return "; ".join([*names, *([f"{more} more"] if more else [])])


def count_of_verdicts(board: Board) -> str:
    """How many claims got which verdict at the most demanding preset of their figure, and how many
    of the decided ones were set after their runs."""
    claims = counted_claims(board.claims)
    verdicts = verdict_counts(claims)
    not_run = verdicts.pop(NOT_ASKED, 0)
    rest = f"; for {not_run} more no runs are made yet" if not_run else ""
    figures = len({claim.figure for claim in claims})
    return (
        f"**{verdicts.total()} published claims** of {figures} figures and tables: "
        f"{in_words(verdicts)}{rest} ([by figure](docs/results/README.md)). {_caveat(claims)}"
    )


def _of_the_smallest(board: Board) -> list[str]:
    """A paragraph on the figures that were run at no larger preset; none where there are none."""
    best = most_demanding(figures_of(board.claims))
    small = [figure for figure in best if figure.preset == SMALLEST]
    verdicts = Counter[str]()
    for figure in small:
        verdicts.update(verdict_counts(figure.claims))
    verdicts.pop(NOT_ASKED, 0)
    if not verdicts:
        return []
    return [
        "",
        f"Preset `{SMALLEST}` tests the machinery in minutes and counts for nothing above: "
        f"{in_words(verdicts)}, claims of {len({figure.name for figure in small})} more figures "
        "and tables, which were run at no other preset.",
    ]


def _caveat(claims: Sequence[ClaimLine]) -> str:
    decided = [claim for claim in claims if claim.verdict in DECIDED]
    late = by_later_runs(decided)
    return (
        f"Of the {len(decided)} decided, {late.total()} were set or reworded after their runs had "
        f"begun. Later runs alone confirm {late[CONFIRMED]} of these and do not confirm "
        f"{late[NOT_CONFIRMED]}; the other {late[NOT_ASKED_AGAIN]} predicted nothing yet."
    )


def _scale(board: Board) -> str:
    """Which presets were run, and which were not."""
    run = {record.preset for record in board.records}
    names_run = " and ".join(f"`{preset}`" for preset in PRESETS if preset in run)
    missing = " and ".join(f"`{preset}`" for preset in PRESETS if preset not in run)
    sizes = []
    for question in questions():
        for answer in answers(board, question):
            sizes += [] if answer.row.parameters is None else [answer.row.parameters]
    size = (
        f"; the models of the table have {min(sizes):,} to {max(sizes):,} parameters"
        if sizes
        else ""
    )
    rest = f" Nothing was run at {missing}, so nothing here is a paper's own experiment."
    return f"**Scale**: presets {names_run}{size}.{rest if missing else ''}"
