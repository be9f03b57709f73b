"""Where the runs of one's own stand on a board, in lines for a console."""

from __future__ import annotations

from collections.abc import Sequence

from core.amounts import amount
from core.statistics import ROUNDING
from leaderboards.contents import OpenBoard, Row, runs_of
from leaderboards.render import PRESETS, enumerated, name, rank
from leaderboards.tables.rows import REFERENCE, REPLICATION
from leaderboards.tables.summaries import YOURS
from leaderboards.views.links import in_app, link, to_table
from leaderboards.views.tables import RankedTable, tables

APP = "http://localhost:8501"  # of leaderboards.serve, as long as nobody names another port
MOST_TABLES, MOST_ROWS = 6, 8  # that are listed


def places_of_yours(board: OpenBoard) -> list[str]:
    """The tables with rows of one's own: which, why they have no rank, and where they are shown."""
    rows = [row for row in board.summary() if row.origin == YOURS]
    # Tables of trained models before those where one's predictors stand beside others'.
    sorted_tables = sorted(
        tables(rows), key=lambda table: not any(_is_of_a_model(row) for row in table.rows)
    )
    lines = []
    for table in sorted_tables[:MOST_TABLES]:
        lines += [f"  {table.place}: {_in_words(table)}", f"    {_address(table.rows[0])}"]
    if len(sorted_tables) > MOST_TABLES:
        lines.append(f"  and {amount(len(sorted_tables) - MOST_TABLES, 'more table')}")
    repeated: set[str] = set()
    for task in board.tasks():
        repeated |= _repeated(board, task, rows)
    if repeated:
        lines.append(
            f"  {amount(len(repeated), 'predictor')} without training gave the numbers of "
            f"committed ones, and {'stands' if len(repeated) == 1 else 'stand'} in no row of "
            f"{'its' if len(repeated) == 1 else 'their'} own"
        )
    claims = [claim for claim in board.claims() if claim.origin == YOURS]
    if claims:
        lines.append(f"  {amount(len(claims), 'verdict')} of yours: {APP}/{in_app(link('claims'))}")
    if not lines:
        return []
    if any(table.preset == PRESETS[0] and _is_unranked(table) for table in sorted_tables):
        lines.append(
            f"preset {PRESETS[0]} is too short for a rank on most tasks: preset={PRESETS[1]} is "
            "for results"
        )
    return ["your rows stand in", *lines]


def why_unranked(row: Row) -> str:
    """Why a row of one's own has no rank, in a clause."""
    if row.kind == REPLICATION:
        return "repeats a committed row"
    if not row.fair:
        return row.mark
    if row.seeds == 1:
        return "one seed"
    if row.low is None or row.high is None or row.high - row.low <= ROUNDING:
        return "equal seeds"
    return "nothing to rank it with"


def _in_words(table: RankedTable[Row]) -> str:
    of_models = [row for row in table.rows if _is_of_a_model(row)]
    finished = [row for row in of_models if row.outcome == "ok"]
    texts = []
    for row in finished[:MOST_ROWS]:
        standing = f"rank {rank(row)}" if row.rank_best else f"no rank: {why_unranked(row)}"
        texts.append(f"{name(row)} ({standing})")
    if len(finished) > MOST_ROWS:
        texts.append(f"{len(finished) - MOST_ROWS} more")
    if predictors := len(table.rows) - len(of_models):
        texts.append(f"{amount(predictors, 'predictor')} without training")
    names_by_outcome: dict[str, list[str]] = {}
    for row in of_models:
        if row.outcome != "ok":
            names_by_outcome.setdefault(row.outcome.replace("_", " "), []).append(name(row))
    clauses = [enumerated(texts, "and")] if texts else []
    for outcome, names in names_by_outcome.items():
        more = len(names) - MOST_ROWS
        shown = [*names[:MOST_ROWS], *([f"{more} more"] if more > 0 else [])]
        clauses.append(f"{len(names)} {outcome}: {', '.join(shown)}")
    return "; ".join(clauses)


def _is_of_a_model(row: Row) -> bool:
    """Whether a row is of a model or a memory: also one that failed before it could be counted, or
    that has no parameters. Repeated predictors are told by what was spent on them."""
    if row.kind == REPLICATION and row.outcome == "ok":
        return bool(row.parameters or row.training_steps or row.trials)
    return row.kind != REFERENCE


def _is_unranked(table: RankedTable[Row]) -> bool:
    return any(_is_of_a_model(row) and row.rank_best is None for row in table.rows)


def _address(row: Row) -> str:
    return f"{APP}/{in_app(to_table(row))}"


def _repeated(board: OpenBoard, task: str, rows: Sequence[Row]) -> set[str]:
    """Runs of one's own that have no row, since they gave the numbers of a committed predictor."""
    in_rows = runs_of(rows)
    of_yours = [line for line in board.replications(task) if line.origin == YOURS]
    return {line.other_run_id for line in of_yours} - in_rows
