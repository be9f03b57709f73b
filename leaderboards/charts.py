"""The board's curves as Altair charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from leaderboards.contents import Line

# Okabe and Ito's colours, told apart with colour-blind eyes as well; black and grey come last.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#8C564B",
    "#7F3C8D",
    "#A5AA99",
    "#F0E442",
    "#000000",
    "#999999",
    "#3B5BA5",
    "#B7410E",
    "#6B8E23",
    "#C71585",
)
HEIGHT = 430


def series_name(line: Line) -> str:
    """How the legend names a curve."""
    return f"{line.label} ({line.setting})" if line.setting else line.label


def origin(line: Line) -> str:
    """Ours at a preset, or the published source."""
    if line.source:
        return line.source
    where = f"ours, preset {line.preset}"
    return f"{where}, {line.variant}" if line.by_size and line.variant else where


def chart(
    lines: Sequence[tuple[str, Line]], names: Sequence[str], title: str, logarithmic: bool = False
) -> alt.LayerChart:
    """Curves with bands: 95 % intervals over seeds for ours, reading errors for published ones.

    Args:
        lines: what to draw, each with its name; one colour for each name, one dash for each origin.
        names: all names of the page, so that a name keeps its colour whatever is selected.
        title: of the y axis.
        logarithmic: the x axis; positions from 0 are drawn on a scale that is linear near 0.
    """
    points: list[dict[str, Any]] = [
        {
            "x": x,
            "y": y,
            "low": low,
            "high": high,
            "model": name,
            "label": series_name(line),
            "origin": origin(line),
            "series": f"{number}",
        }
        for number, (name, line) in enumerate(lines)
        for x, y, low, high in zip(line.x, line.y, line.y_low, line.y_high, strict=True)
    ]
    plain = [line for _, line in lines]
    few = all(len(line.x) <= 24 for line in plain)
    scale = alt.Scale(type="linear", nice=False, zero=False)
    if logarithmic:
        has_zero = any(x <= 0 for line in plain for x in line.x)
        scale = alt.Scale(type="symlog" if has_zero else "log", nice=False)
    ticks = sorted({x for line in plain for x in line.x}) if few else []
    x_axis = alt.X(
        "x:Q",
        title=plain[0].abscissa.replace("_", " "),
        scale=scale,
        axis=alt.Axis(grid=False, values=ticks, format=",d") if few else alt.Axis(grid=False),
    )
    shown = sorted({point["model"] for point in points})
    origins = sorted({point["origin"] for point in points}, key=_ours_first)
    colours = [COLOURS[list(names).index(n) % len(COLOURS)] for n in shown]
    colour = alt.Color(
        "model:N",
        scale=alt.Scale(domain=shown, range=colours),
        legend=alt.Legend(title=None, symbolType="circle", symbolOpacity=1),
    )
    broken = iter(([6, 3], [2, 2], [8, 2, 2, 2], [12, 4]) * len(origins))
    dashes = [[1, 0] if is_ours(name) else next(broken) for name in origins]
    dash = alt.StrokeDash(
        "origin:N",
        legend=alt.Legend(
            title=None, symbolType="stroke", symbolStrokeColor="#555", symbolSize=500
        ),
        scale=alt.Scale(domain=origins, range=dashes),
    )
    base = alt.Chart(alt.Data(values=points)).encode(x=x_axis, detail="series:N")
    y = alt.Y("y:Q", title=title, scale=alt.Scale(zero=False))
    tooltip = [
        alt.Tooltip("label:N", title="model"),
        alt.Tooltip("origin:N"),
        alt.Tooltip("x:Q", title=plain[0].abscissa.replace("_", " ")),
        alt.Tooltip("y:Q", title=title, format=".4f"),
        alt.Tooltip("low:Q", format=".4f"),
        alt.Tooltip("high:Q", format=".4f"),
    ]
    band = base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q"), y2="high:Q", color=colour)
    curve = base.mark_line(strokeWidth=2).encode(y=y, color=colour, strokeDash=dash)
    # Points of their own: inside the line's mark they would blank the legend of the dashes.
    points_mark = base.mark_circle(size=45 if few else 12, opacity=1 if few else 0)
    dots = points_mark.encode(y=y, color=colour, tooltip=tooltip)
    layers = alt.layer(band, curve, dots)
    return layers.properties(height=HEIGHT).configure_legend(
        labelLimit=320, orient="right", symbolStrokeWidth=2
    )


def is_ours(origin: str) -> bool:
    """Whether an origin is one of our presets."""
    return origin.startswith("ours, ")


def _ours_first(origin: str) -> tuple[bool, str]:
    return not is_ours(origin), origin
