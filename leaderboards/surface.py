"""The board from Python: ``from bench import read_board``."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.config.outside_tasks import use_cards_of
from bench.records.store import Store
from core.errors import UserError, nearest
from leaderboards.build import COMMITTED
from leaderboards.checks.admission import read_checked
from leaderboards.contents import OpenBoard
from leaderboards.tables.builder import build_board
from leaderboards.tables.lines import Row

if TYPE_CHECKING:
    from pandas import DataFrame

MANIFEST = "board.json"  # in the folder of a board


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
        The columns of :class:`leaderboards.tables.lines.Row`, among them task, preset, variant,
        model, label, metric, mean, low and high (the 95 % interval), seeds, rank_best, rank_worst,
        parameters, mark and run_ids. Ranked tables come as the board has them.

    Raises:
        UserError: there is no such place or column, or what lies there was damaged or edited.

    Example::

        read_board(task="regbench", preset="laptop", metric="accuracy", kind="measured")
    """
    import pandas

    columns = [field.name for field in fields(Row)]
    for column in where:
        if column not in columns:
            raise UserError(f"a board has no column '{column}': {nearest(column, columns)}")
    folder = COMMITTED if place is None else Path(place)
    if (folder / MANIFEST).is_file():
        board = OpenBoard(folder)
        rows = board.summary(**where) if task is None else board.rows(task, **where)
    elif Store(folder).records.is_dir():
        use_cards_of(folder)
        own_board = build_board([], own=read_checked([Store(folder).records]))
        rows = [row for row in own_board.rows if task in (None, row.task) and _has(row, where)]
    else:
        raise UserError(f"{folder} is neither a store with records nor the folder of a board")
    return pandas.DataFrame([asdict(row) for row in rows], columns=columns)


def _has(row: Row, where: dict[str, Any]) -> bool:
    for column, wanted in where.items():
        several = wanted if isinstance(wanted, list | tuple | set) else [wanted]
        if getattr(row, column) not in several:
            return False
    return True
