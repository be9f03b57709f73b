"""One task: its table with the dots beside it, its curves, and who was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from leaderboards.contents import OpenBoard, Row, measured_rows
from leaderboards.render import as_csv, name, task_label, with_arrow
from leaderboards.screens import page
from leaderboards.screens.address import (
    is_dark,
    is_on,
    one_of,
    say,
    some_of,
    word_of_address,
    words,
)
from leaderboards.views import curves as drawn
from leaderboards.views.dots import STEP, dots
from leaderboards.views.links import in_app, link, to_model, to_record
from leaderboards.views.sentences import notes, scale_note, summary
from leaderboards.views.tables import (
    ALONE,
    AT_FIRST,
    BEST_FIRST,
    ORDERS,
    Brief,
    RankedTable,
    cards,
    contents_of,
    first_task,
    headline_tables,
    lines,
    matching,
    opening,
    ordered,
    presets,
    tables,
    tasks,
    unique_names,
)
from leaderboards.views.task import claim_parts, coverage_parts, replication_parts

RECORDS = 12  # links to records below a table


def show() -> None:
    """The page of a task."""
    board = page.board()
    task_names = tasks(board)
    top = st.container()  # what the controls below it choose: a phone shows one of them in a line
    left, middle, right = st.columns([3, 2, 5])
    task = one_of("Task", task_names, "task", first_task(board), left)
    tables_of_task = headline_tables(board, task)
    table = _table(board, tables_of_task, middle, right)
    with top:
        page.text(
            scale_note(table.rows, tables_of_task), title=task_label(task), lead=summary(table.rows)
        )
    _numbers(board, table)
    where = {"preset": table.preset, "variant": table.variant}
    page.show(replication_parts(board, table.task, **where))
    _curves(board, table)
    _cards_and_claims(board, table, tables_of_task)


def _table(
    board: OpenBoard, tables_of_task: Sequence[RankedTable[Brief]], middle: Any, right: Any
) -> RankedTable[Row]:
    """The table that the address asks for, or the most telling one."""
    options = presets(tables_of_task)
    preset = one_of("Preset", options, "preset", opening(tables_of_task).preset, middle)
    tables_of_preset = [table for table in tables_of_task if table.preset == preset]
    variants = {table.variant or ALONE: table for table in tables_of_preset}
    at_first = opening(tables_of_preset).variant or ALONE
    variant = one_of("Configuration", list(variants), "configuration", at_first, right)
    chosen = variants[variant]
    rows = board.rows(chosen.task, preset=preset, variant=chosen.variant)
    headline_first = sorted(tables(rows), key=lambda table: not table.rows[0].headline)
    metrics = {table.metric: table for table in headline_first}
    left, right, last = st.columns([3, 2, 5])
    metric = one_of("Metric", list(metrics), "metric", chosen.metric, left)
    order = one_of("Order", list(ORDERS), "order", BEST_FIRST, right)
    words_sought = words("Search", "find", last)
    table = metrics[metric]
    matching_rows = matching(ordered(table.rows, order), words_sought)
    if not matching_rows:
        say(f"No row has '{words_sought}': this shows all of them.")
    return replace(table, rows=tuple(matching_rows or table.rows))


def _numbers(board: OpenBoard, table: RankedTable[Row]) -> None:
    rows = table.rows
    contents = contents_of(board, rows)
    table_lines = lines(rows, contents)
    wanted = (word_of_address("selected") or "").split(",")
    chosen = [place for place, row in enumerate(rows) if row.model in wanted]
    models = {"", *(row.model for row in rows)}
    lost = [model for model in wanted if model not in models]
    if lost and not st.query_params.get("find"):
        say(f"Selected: there is no '{lost[0]}' in this table.")
    score = with_arrow(table.metric, rows[0].direction)
    order = some_of("Columns", list(table_lines[0]), "columns", AT_FIRST, st.expander("Columns"))
    left, right = st.columns([3, 2])
    with left:
        state = page.grid(
            table_lines,
            f"Scores of {table.place} by {table.metric}",
            order,
            score=score,
            key=f"rows {table.place} {table.metric}",
            on_select="rerun",
            selection_mode="multi-row",
            selection_default={"selection": {"rows": chosen}},
            height=STEP * (len(rows) + 1) + 3,
        )
        picked = [rows[place] for place in state.selection.rows if place < len(rows)]
    names = dict(zip(map(id, rows), unique_names(rows), strict=True))
    with right:
        chart = dots(rows, {names[id(row)] for row in picked}, is_dark())
        page.plot(chart, f"The scores of {table.place} with 95 % intervals, in the table's order")
    _remember(picked)
    _lead_on(picked or measured_rows(rows)[:1] or list(rows[:1]))
    page.text(*notes(rows))
    file = f"{table.task}-{table.preset}.csv"
    st.download_button("Download as CSV", partial(as_csv, rows), file, "text/csv")


def _remember(picked: Sequence[Row]) -> None:
    """The selected models in the address."""
    models = ",".join(dict.fromkeys(row.model for row in picked))
    if models != st.query_params.get("selected", ""):
        if models:
            st.query_params["selected"] = models
        else:
            del st.query_params["selected"]


def _lead_on(rows: Sequence[Row]) -> None:
    """Links from rows to their models, their records, and the comparison of two of them."""
    models = list(dict.fromkeys(row.model for row in measured_rows(rows)))
    if len(models) == 2:
        target = link("compare", a=models[0], b=models[1])
        page.links([(f"Compare {models[0]} with {models[1]}", target)])
    for row in rows[:RECORDS]:
        if row.run_ids:
            model = [("model", to_model(row.model))] if row.kind == "measured" else []
            record_links = [to_record(run_id, row.origin) for run_id in row.run_ids]
            seeds = [(f"record {n}", target) for n, target in enumerate(record_links, start=1)]
            page.links([*model, *seeds[:RECORDS]], f"{name(row)}:")


def _curves(board: OpenBoard, table: RankedTable[Row]) -> None:
    kinds = {}
    for kind in (drawn.POSITION, drawn.SIZE):
        if curves := drawn.curves(board, table.task, table.preset, table.variant, kind):
            kinds[kind] = curves
    if not kinds:
        return
    page.text(heading="Curves")
    left, middle, right = st.columns([3, 3, 2], vertical_alignment="bottom")
    kind = one_of("Curves", list(kinds), "curves", next(iter(kinds)), left)
    lines = kinds[kind]
    names = drawn.names(lines)
    first = table.metric if table.metric in names else names[0]
    metric = one_of("Curve", names, "curve", first, middle)
    logarithmic = is_on("Logarithmic", "log", kind == drawn.SIZE, right)
    lines = drawn.of_metric(lines, metric)
    if kind == drawn.SIZE:
        sources = drawn.sources(lines)
        wanted = some_of("Sources", sources, "sources", drawn.sources_at_first(lines))
        lines = drawn.from_sources(lines, wanted)
    named_lines = drawn.with_legend_names(lines)
    names = list(dict.fromkeys(name for name, _ in named_lines))
    shown_names = some_of("Models", names, "models", drawn.at_first(named_lines, table.rows))
    if not shown_names:
        page.text("Nothing is selected.")
        return
    chart = drawn.curve_chart(
        named_lines,
        shown_names,
        with_arrow(metric, lines[0].direction),
        logarithmic=logarithmic,
        dark=is_dark(),
    )
    page.plot(chart, f"Curves of {metric} on {table.place}")
    page.text(
        "Drag or turn the wheel to zoom; a click in the legend picks a curve out. Grey: without "
        f"training. Long curves are drawn as means of at most {drawn.BINS} bins, whose numbers of "
        "points are in the tooltip. Bands: 95 % intervals of ours, errors of reading of what was "
        "published, which is dashed and hollow."
    )


def _cards_and_claims(
    board: OpenBoard, table: RankedTable[Row], tables_of_task: Sequence[RankedTable[Brief]]
) -> None:
    page.show(claim_parts(board, table.task, in_app))
    page.show(coverage_parts(table.task, tables_of_task))
    with st.expander("Cards"):
        page.draw("cards", cards=cards(table).items())
