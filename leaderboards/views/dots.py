"""A table as dots with whiskers, in the order of its rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import altair as alt

from leaderboards.contents import Row
from leaderboards.render import ARROWS
from leaderboards.views.charts import colour_of
from leaderboards.views.tables import unique_names

STEP = 35  # pixels of a row, as in the table beside it


def dots(rows: Sequence[Row], selected: Collection[str] = (), dark: bool = False) -> alt.LayerChart:
    """One line for each row, from above: a dot at the mean and a whisker for the interval.

    Published numbers are hollow diamonds and predictors without training are rules over all rows.

    Args:
        selected: names of rows (``unique_names``) that stand out; none, if all do.
    """
    shown = [
        (name, row)
        for name, row in zip(unique_names(rows), rows, strict=True)
        if row.kind != "reference"
    ]
    values = tuple(_point(name, row, not selected or name in selected, dark) for name, row in shown)
    first = rows[0]
    title = f"{first.metric} {ARROWS.get(first.direction or '', '')}".strip()
    y = alt.Y(
        "name:N",
        sort=None,
        title=None,
        scale=alt.Scale(domain=[name for name, _ in shown]),
        axis=alt.Axis(labelLimit=150, ticks=False, domain=False),
    )
    x = alt.X("mean:Q", title=title, scale=alt.Scale(zero=False))
    base = alt.Chart(alt.Data(values=values)).encode(
        y=y,
        color=alt.Color("colour:N", scale=None),
        opacity=alt.condition("datum.strong", alt.value(1), alt.value(0.35)),
    )
    tooltip = [
        alt.Tooltip("name:N"),
        *(alt.Tooltip(f"{key}:Q", format=".4f") for key in ("mean", "low", "high")),
        alt.Tooltip("seeds:Q"),
        alt.Tooltip("mark:N"),
    ]
    whisker = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    point = base.mark_point(size=80, strokeWidth=2).encode(
        x=x,
        shape=alt.Shape("shape:N", scale=None),
        fill=alt.Fill("fill:N", scale=None),
        tooltip=tooltip,
    )
    layers = [*_references(rows), whisker, point]
    return alt.layer(*layers).properties(height=alt.Step(STEP))


def _point(name: str, row: Row, strong: bool, dark: bool) -> dict[str, Any]:
    colour = colour_of(row.model, dark)
    published = row.kind.startswith("published")
    error = row.reading_error or 0.0
    mean = row.mean if row.outcome == "ok" else None
    printed = published and error and mean is not None
    return {
        "name": name,
        "mean": mean,
        "low": mean - error if printed and mean is not None else row.low,
        "high": mean + error if printed and mean is not None else row.high,
        "seeds": row.seeds,
        "mark": row.mark or row.kind,
        "colour": colour,
        "fill": "transparent" if published else colour,
        "shape": "diamond" if published else "circle",
        "strong": strong,
    }


def _references(rows: Sequence[Row]) -> list[alt.LayerChart]:
    """The predictors without training, as rules with their names."""
    found = tuple(
        {"mean": row.mean, "name": row.label.replace("_", " ")}
        for row in rows
        if row.kind == "reference" and row.mean is not None
    )
    if not found:
        return []
    base = alt.Chart(alt.Data(values=found)).encode(x="mean:Q")
    rule = base.mark_rule(strokeDash=[3, 3], color="#808080")
    wide = base.mark_rule(strokeWidth=9, opacity=0).encode(
        tooltip=[alt.Tooltip("name:N"), alt.Tooltip("mean:Q", format=".4f")]
    )
    return [alt.layer(rule, wide)]
