"""Score against cost."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from leaderboards.render import task_label
from leaderboards.screens import page
from leaderboards.screens.address import is_dark, one_of
from leaderboards.views.cost import COSTS, cost_chart, lines, points
from leaderboards.views.links import to_table
from leaderboards.views.tables import ALONE, first_task, headline_tables, opening, presets, whole


def show() -> None:
    """The page of costs."""
    board = page.board()
    rows = board.distinct("summary", "", "task", "model", kind="measured")
    counts = Counter(task for task, _ in rows)
    tasks = sorted(task for task, count in counts.items() if count > 1)
    if not tasks:
        page.text(title="Cost", lead="No table has two measured rows yet.")
        return
    first, second, third, fourth = st.columns([3, 2, 4, 2])
    task = one_of("Task", tasks, "task", first_task(board), first)
    measured_tables = [table for table in headline_tables(board, task) if table.measured]
    comparable = [table for table in measured_tables if len(table.measured) > 1] or measured_tables
    preset = one_of("Preset", presets(comparable), "preset", opening(comparable).preset, second)
    table_by_variant = {
        table.variant or ALONE: table for table in comparable if table.preset == preset
    }
    at_first = opening(list(table_by_variant.values())).variant or ALONE
    chosen = table_by_variant[
        one_of("Configuration", list(table_by_variant), "configuration", at_first, third)
    ]
    table = whole(board, chosen)
    known_costs = [cost for cost in COSTS if points(table.rows, cost)]
    page.text(title=f"Cost: {task_label(task)}")
    if not known_costs:
        page.text(lead="No cost of these rows is known.")
        return
    cost = one_of("Cost", known_costs, "cost", known_costs[0], fourth)
    paid = points(table.rows, cost)
    page.plot(cost_chart(paid, cost, is_dark()), f"{table.metric} against {cost}: {table.place}")
    page.text(
        "Filled points are on the frontier, or may be by their intervals: no other row is as good "
        "for as little. The band is the interval of the rows that the frontier goes "
        "through."
    )
    page.links([("the table", to_table(table.rows[0]))])
    page.grid(lines(paid, cost), f"{table.metric} and {cost} of {table.place}")
