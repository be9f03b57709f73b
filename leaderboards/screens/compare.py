"""Two models beside each other."""

from __future__ import annotations

import streamlit as st

from leaderboards.contents import OpenBoard
from leaderboards.screens import page
from leaderboards.screens.address import is_dark, one_of
from leaderboards.views.compare import (
    RowComparison,
    common_tables,
    compare,
    costs,
    difference_in_words,
    differing_settings,
    items_chart,
    seeds_chart,
)
from leaderboards.views.links import to_model, to_table
from leaderboards.views.models import models
from leaderboards.views.tables import first_task, headline_tables, opening, row_of


def show() -> None:
    """The page of two models."""
    board = page.board()
    labels = models(board)
    names = sorted(labels)
    if not names:
        page.text(title="Compare", lead=page.NOTHING_OF_OURS)
        return
    first_table = opening(headline_tables(board, first_task(board)))
    best = list(dict.fromkeys(row.model for row in first_table.measured))
    left, middle, right = st.columns([3, 3, 6])
    a = one_of("First model", names, "a", (best or names)[0], left)
    b = one_of("Second model", names, "b", (best[1:] or names)[0], middle)
    common = common_tables(board, a, b)
    page.text(title=f"{labels[a]} and {labels[b]}")
    if a == b or not common:
        reason = "It is one model: choose another." if a == b else "No table has both of them."
        page.text(lead=reason)
        return
    places = {table.place: table for table in common}
    place = one_of("Table", list(places), "table", common[0].place, right)
    measured = places[place].measured
    row_a = row_of(row for row in measured if row.model == a)
    row_b = row_of(row for row in measured if row.model == b)
    result = _compared(*page.state(), row_a.run_ids, row_b.run_ids, board, row_a, row_b)
    page.text(lead=result.verdict)
    model_links = [(labels[model], to_model(model)) for model in (a, b)]
    page.links([("the table", to_table(row_a)), *model_links])
    _differences(result)
    _side_by_side(board, result)


@st.cache_data(max_entries=32, show_spinner=False)
def _compared(
    path: str,
    modified: int,
    a: tuple[str, ...],
    b: tuple[str, ...],
    _board: OpenBoard,
    _row_a: object,
    _row_b: object,
) -> RowComparison:
    return compare(_board, _row_a, _row_b)  # type: ignore[arg-type]


def _differences(result: RowComparison) -> None:
    if result.by_seed or result.by_item:
        page.text(
            "The interval above is over seeds and test items together, as in the claims; each one "
            "below is over one of these alone."
        )
    left, right = st.columns(2)
    with left:
        if result.by_seed:
            page.text(difference_in_words(result.by_seed, "seed"), heading="By seed")
            page.plot(seeds_chart(result, is_dark()), "The difference of each seed")
    with right:
        if result.by_item:
            page.text(difference_in_words(result.by_item, "test item"), heading="By test item")
            page.plot(items_chart(result, is_dark()), "How differences of test items are spread")
    if result.missing:
        page.text(result.missing)


def _side_by_side(board: OpenBoard, result: RowComparison) -> None:
    names = {"a": result.a.label, "b": result.b.label}
    config = {key: st.column_config.TextColumn(name) for key, name in names.items()}
    left, right = st.columns(2)
    with left:
        page.text(heading="What they cost")
        page.grid(costs(result.a, result.b), "Costs", None, config=config)
    with right:
        page.text(heading="Settings that differ")
        page.grid(differing_settings(board, result.a, result.b), "Settings", None, config=config)
