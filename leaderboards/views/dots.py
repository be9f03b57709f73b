"""A table as dots with whiskers, in the order of its rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import altair as alt

from leaderboards.contents import Row
from leaderboards.render import ARROWS
from leaderboards.views.charts import SHORT, Chart, Spec, colour_of, filled, unchecked, with_data
from leaderboards.views.tables import unique_names

STEP = 35  # pixels of a row, as in the table beside it
PADDING = {"top": 36, "left": 5, "right": 12, "bottom": 5}  # above: the head of the table
AXIS = 58  # pixels of the numbers and the title below
GREY = "#808080"
# The setting of a row below its label, so that neither is cut where others have the same label.
LONG = 24  # letters that fit beside each other
IN_TWO_LINES = (
    f"length(datum.label) > {LONG} && lastindexof(datum.label, ' (') > 0 ? "
    "[substring(datum.label, 0, lastindexof(datum.label, ' (')), "
    "substring(datum.label, lastindexof(datum.label, ' (') + 1)] : datum.label"
)


@unchecked
def dots(rows: Sequence[Row], selected: Collection[str] = (), dark: bool = False) -> Chart:
    """One line for each row, from above: a dot at the mean and a whisker for the interval.

    Published numbers are hollow diamonds, replications hollow squares, and predictors without
    training hollow and grey.

    Args:
        selected: names of rows (``unique_names``) that stand out; none, if all do.
    """
    frame = _drawn(tuple(unique_names(rows)), _title(rows), _height(rows))
    return with_data(frame, _points(rows, selected, dark))


def dots_spec(rows: Sequence[Row]) -> Spec:
    """The same in Vega-Lite, as :func:`leaderboards.views.charts.chart_spec` is."""
    values_by_blank = {"<names>": tuple(unique_names(rows)), "<title>": _title(rows)}
    spec = filled(_spec(), values_by_blank, _points(rows, (), dark=False))
    return spec | {"height": _height(rows)}


@cache
def _spec() -> Spec:
    return with_data(_drawn(("<names>",), "<title>", 1), ({},)).to_dict(validate=False)


@unchecked
def _drawn(names: tuple[str, ...], title: str, height: int) -> Chart:
    """A chart without points."""
    scale = alt.Scale(domain=names, padding=0)
    axis = alt.Axis(labelLimit=150, labelExpr=IN_TWO_LINES, ticks=False, domain=False)
    x = alt.X("mean:Q", title=title, scale=alt.Scale(zero=False), axis=alt.Axis(format=SHORT))
    base = alt.Chart().encode(
        y=alt.Y("name:N", sort=None, title=None, scale=scale, axis=axis),
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
    fill, shape = alt.Fill("fill:N", scale=None), alt.Shape("shape:N", scale=None)
    point = base.mark_point(size=80, strokeWidth=2).encode(
        x=x, shape=shape, fill=fill, tooltip=tooltip
    )
    return alt.layer(whisker, point).properties(height=height, padding=PADDING)


def _title(rows: Sequence[Row]) -> str:
    return f"{rows[0].metric} {ARROWS.get(rows[0].direction or '', '')}".strip()


def _height(rows: Sequence[Row]) -> int:
    return STEP * len(rows) + PADDING["top"] + PADDING["bottom"] + AXIS


def _points(
    rows: Sequence[Row], selected: Collection[str], dark: bool
) -> tuple[dict[str, Any], ...]:
    named = zip(unique_names(rows), rows, strict=True)
    return tuple(_point(name, row, not selected or name in selected, dark) for name, row in named)


def _point(name: str, row: Row, strong: bool, dark: bool) -> dict[str, Any]:
    published = row.kind.startswith("published")
    colour = GREY if row.kind == "reference" else colour_of(row.model, dark)
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
        "fill": colour if row.kind == "measured" else "transparent",
        "shape": "diamond" if published else "square" if row.kind == "replication" else "circle",
        "strong": strong,
    }
