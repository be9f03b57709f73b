"""The board from Python: ``from bench import read_board``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.config.groups import PRESETS, choices, model_groups
from bench.config.outside_tasks import use_cards_of
from bench.records.code import named_class
from bench.records.store import Store
from core.arguments import as_folder, as_name, as_plain, described, refuse_unknown
from core.errors import UserError, nearest
from leaderboards.build import COMMITTED
from leaderboards.checks.admission import read_checked
from leaderboards.contents import OpenBoard
from leaderboards.render import COLUMN_NAMES
from leaderboards.tables.builder import build_board
from leaderboards.tables.grouping import SEVERITY
from leaderboards.tables.lines import Row
from leaderboards.tables.rows import MEASURED, REFERENCE, REPLICATION, UNVERIFIED
from leaderboards.tables.status import LEVELS
from leaderboards.tables.summaries import COMMITTED as OURS
from leaderboards.tables.summaries import SUBMITTED, YOURS
from reproduce.claims.fairness import WORDS

if TYPE_CHECKING:
    from pandas import DataFrame

MANIFEST = "board.json"  # in the folder of a board
# Column -> words that it may hold, whether or not a row here does. Of other texts the words are
# those of the rows.
VOCABULARY = {
    "preset": PRESETS,
    "kind": (MEASURED, REFERENCE, REPLICATION, UNVERIFIED),
    "direction": ("maximise", "minimise"),
    "outcome": SEVERITY,
    "mark": ("", *WORDS),
    "origin": ("", OURS, SUBMITTED, YOURS),
    "checked": ("", *LEVELS),
}
TYPES = {field.name: str(field.type).partition(" ")[0] for field in fields(Row)}


def read_board(
    place: Path | str | None = None, *, task: str | None = None, **where: Any
) -> DataFrame:
    """Rows of a board as a data frame: one for each metric of each setting of a model.

    Args:
        place: a store, whose own records are then ranked; or a board's folder, such as
            ``runs/board.parquet``; None is the board of the project's committed records.
        task: only its rows; without it of a board's folder those by headline.
        where: column -> the value that it has to have, or a list of such values.

    Returns:
        Ranked tables come as the board has them, best first. What the columns hold:

        task: its name.
        preset: its scale; rows of different presets are never ranked together.
        variant: the settings of the task that tell its tables at this preset apart.
        group: hash of what rows must share to be ranked together; empty for published numbers.
        model: name of the model, as in ``models=``, or of the predictor.
        label: its name in tables and figures.
        setting: what tells the row from others of this label in its table.
        kind: ``measured``: trained runs; ``reference``: a predictor without training;
            ``replication``: your runs of a row of the board; ``unverified``: submitted seeds of
            such a row that nobody has run again; ``published (…)``: a number of a paper.
        source: the paper of a published number; else empty.
        metric: which number of the test split the row is about.
        direction: ``maximise`` or ``minimise``; None where nobody says which is better, so that
            there is no rank.
        unit: of the number.
        headline: whether this metric ranks the table of the task.
        mean: of the number over the seeds.
        low: lower end of the 95 % interval over seeds and test items; None with one seed, or with
            equal ones.
        high: upper end of that interval.
        reading_error: how far a published number that was read off a picture may be wrong.
        note: what a reader must know beside the marks, such as seeds that are missing.
        seeds: how many runs the mean is of; None of a predictor.
        outcome: ``ok``, or how the worst of the runs ended.
        cause: why it ended so.
        rank_best: the best rank that the intervals allow; None of a row without a rank.
        rank_worst: the worst rank that they allow.
        parameters: how many the model has, 0 of a predictor.
        position_parameters: how many of them are a learned table of positions.
        state_bytes: what one sequence keeps after ``state_length`` positions.
        state_length: the longest sequence of the task, in positions.
        training_flops: of a training, forward and backward, counted by operator.
        training_tokens: positions of all its batches.
        training_steps: steps of the optimiser.
        trials: settings that the search tried; 0 without a search.
        wall_seconds: of a run, mean over the seeds.
        peak_memory_bytes: the largest of the runs.
        device: the processor or accelerator of the runs.
        run_ids: names of the records behind the row.
        items: test items that the interval covers; None where it is over seeds alone.
        mark: what keeps the row from a rank: ``untuned``, ``not chosen``, ``still improving`` or
            ``edge``, the gravest; or ``tuned``; empty where nothing was trained.
        marks: all of them, each with its reason.
        share_of_items: which share of the variance of the mean is from the test items.
        data_seeds: over how many seeds of the data the runs are.
        origin: whose records: ``committed`` to the project, ``submitted`` by others, or ``yours``.
        made_from: hash of the records behind the row.
        checked: how far somebody else checked the runs: ``reported`` (nobody did), ``consistent``,
            ``re-scored``, ``re-run`` or ``replicated ×k``.
        admitted: whether that much is enough for a rank: of submitted runs it is from ``re-run``
            on, of the project's and yours always.
        verified: the same; the name of this column in 0.2, kept for one release.

    Raises:
        UserError: there is no such place, task or column; a value of a column that no row can
            have; or what lies there was damaged or edited.

    Example::

        read_board(task="regbench", preset="laptop", metric="accuracy", kind="measured")
    """
    import pandas

    if task is not None:
        task = named_class(as_name("task", task, "such as 'regbench'"))
    rows = _rows(COMMITTED if place is None else as_folder("place", place), task)
    of_row = {shown: column for column, shown in COLUMN_NAMES.items()}
    asked = {of_row.get(column, column): _values(value) for column, value in where.items()}
    if "model" in asked:
        models = [named_class(m) if isinstance(m, str) else m for m in asked["model"]]
        asked["model"] = models
    names = [COLUMN_NAMES.get(column, column) for column in TYPES]
    for column, values in asked.items():
        if column not in TYPES:
            raise UserError(f"a board has no column '{column}': {nearest(column, names)}")
        for value in values:
            _check(column, value, rows)
    chosen = [asdict(row) for row in rows if all(_is_one(row, *item) for item in asked.items())]
    frame = pandas.DataFrame(chosen, columns=[*TYPES]).rename(columns=COLUMN_NAMES)
    for column, shown in COLUMN_NAMES.items():
        frame[column] = frame[shown]
    return frame


def _rows(folder: Path, task: str | None) -> list[Row]:
    if (folder / MANIFEST).is_file():
        board = OpenBoard(folder)
        rows = board.summary() if task is None else board.rows(task)
        tasks = {*board.tasks()}
    elif Store(folder).records.is_dir():
        use_cards_of(folder)
        all_rows = build_board([], own=read_checked([Store(folder).records])).rows
        rows = [row for row in all_rows if task in (None, row.task)]
        tasks = {row.task for row in all_rows}
    else:
        hint = f": that is a task, read_board(task='{folder}')" if str(folder) in _tasks() else ""
        raise UserError(f"{folder} is neither a store with records nor the folder of a board{hint}")
    if task is not None:
        refuse_unknown("task", task, _tasks(), tasks)
    return rows


def _tasks() -> set[str]:
    return {*choices("tasks")}


def _values(value: Any) -> list[Any]:
    is_one = isinstance(value, str | Mapping | type) or not isinstance(value, Iterable)
    return [as_plain(item) for item in ([value] if is_one else value)]


def _check(column: str, value: object, rows: list[Row]) -> None:
    """Refuse a value that no row of a board can have in a column.

    Raises:
        UserError: what the column holds.
    """
    kind, name = TYPES[column], COLUMN_NAMES.get(column, column)
    if value is None:
        return
    if kind == "bool" and not isinstance(value, bool):
        raise UserError(f"{name} is True or False, and not {described(value)}")
    if kind in ("int", "float") and (not isinstance(value, Real) or isinstance(value, bool)):
        raise UserError(f"{name} is a number, and not {described(value)}")
    if kind not in ("str", "tuple[str,"):
        return
    text = as_name(name, value, "a text")
    values_of_board: set[str] = set()
    for row in rows:
        content = getattr(row, column)
        values_of_board.update([content] if isinstance(content, str) else content or ())
    known_values = {*VOCABULARY.get(column, ())}
    if column == "model":
        known_values = set().union(*map(choices, model_groups()))
    if rows:  # else there is nothing that it could be compared with
        refuse_unknown(name, text, known_values, values_of_board)


def _is_one(row: Row, column: str, values: list[Any]) -> bool:
    """Whether a row has one of some values in a column; of a list, whether it has one of them."""
    content = getattr(row, column)
    if isinstance(content, tuple):
        return any(value in content for value in values)
    return content in values
