"""A table as dots with whiskers, in the order of its rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from leaderboards.contents import Row
from leaderboards.render import with_arrow
from leaderboards.views.charts import (
    GREY,
    SHORT,
    Spec,
    colour_of,
    data,
    layer,
    layered,
    nominal,
    quantitative,
)
from leaderboards.views.tables import unique_names

STEP = 35  # pixels of a row, as in the table beside it
PADDING = {"top": 36, "left": 5, "right": 12, "bottom": 5}  # above: the head of the table
AXIS = 58  # pixels of the numbers and the title below
# The setting of a row below its label, so that neither is cut where others have the same label.
LONG = 24  # letters that fit beside each other
IN_TWO_LINES = (
    f"length(datum.label) > {LONG} && lastindexof(datum.label, ' (') > 0 ? "
    "[substring(datum.label, 0, lastindexof(datum.label, ' (')), "
    "substring(datum.label, lastindexof(datum.label, ' (') + 1)] : datum.label"
)


def dots(rows: Sequence[Row], selected: Collection[str] = (), dark: bool = False) -> Spec:
    """One line for each row, from above: a dot at the mean and a whisker for the interval.

    Published numbers are hollow diamonds, replications hollow squares, and predictors without
    training hollow and grey.

    Args:
        selected: names of rows (``unique_names``) that stand out; none, if all do.
    """
    names = unique_names(rows)
    points = []
    for name, row in zip(names, rows, strict=True):
        points.append(_point(name, row, not selected or name in selected, dark))
    title = with_arrow(rows[0].metric, rows[0].direction)
    axis = {"domain": False, "labelExpr": IN_TWO_LINES, "labelLimit": 150, "ticks": False}
    scale = {"domain": names, "padding": 0}
    base = {
        "y": nominal("name", sort=None, title=None, scale=scale, axis=axis),
        "color": nominal("colour", scale=None),
        "opacity": {"condition": {"test": "datum.strong", "value": 1}, "value": 0.35},
    }
    tooltip = [nominal("name")]
    tooltip += [quantitative(key, format=".4f") for key in ("mean", "low", "high")]
    tooltip += [quantitative("seeds"), nominal("mark")]
    whisker = {**base, "x": quantitative("low", title=title), "x2": "high"}
    x = quantitative("mean", title=title, scale={"zero": False}, axis={"format": SHORT})
    marks = {"shape": nominal("shape", scale=None), "fill": nominal("fill", scale=None)}
    return layered(
        [
            layer("rule", whisker, strokeWidth=2),
            layer("point", {**base, **marks, "x": x, "tooltip": tooltip}, size=80, strokeWidth=2),
        ],
        data=data(points),
        height=STEP * len(rows) + PADDING["top"] + PADDING["bottom"] + AXIS,
        padding=PADDING,
    )


def _point(name: str, row: Row, strong: bool, dark: bool) -> Spec:
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
