"""The panels of a figure as Altair charts, from the dump that its renderer on paper draws too.

Example: ``picture_chart(Picture.read(folder / "curves.json"))`` is figure 9 on the board.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from pictures.looks import edges, look_of, moved
from pictures.panels import Axis, Panel, Picture, Remark, Trace
from pictures.style import (
    BAND,
    CONTOUR,
    DASHES,
    HEAT,
    HEAT_STOPS,
    PALETTE,
    SEED,
    WHISKER,
    between,
    hexadecimal,
)

SHAPES = {
    "circle": "circle",
    "square": "square",
    "diamond": "diamond",
    "triangle": "triangle-up",
    "cross": "cross",
    "down": "triangle-down",
}
WIDTH, HEIGHT = 360, 300  # pixels of a panel
# Altair copies charts whenever it joins or changes some, with every list and no tuple: what is long
# here (rows, names, colours, ticks) is a tuple, and a joined chart is made with all that it says.
Layers = list[alt.Chart]


def picture_chart(picture: Picture) -> alt.VConcatChart:
    """All panels, row by row, each with a legend of its own."""
    apart = alt.Resolve(scale={"color": "independent", "fill": "independent"})
    rows = [
        alt.hconcat(*(panel_chart(panel) for panel in row.panels if not panel.empty), resolve=apart)
        for row in picture.rows
        if any(not panel.empty for panel in row.panels)
    ]
    return alt.vconcat(*rows, title=picture.title, resolve=apart)


def panel_chart(panel: Panel) -> alt.LayerChart | alt.FacetChart:
    """One panel: lines with bands, markers with whiskers, seeds, bars, matrices and remarks."""
    layers = [layer for remark in panel.remarks for layer in _remark(panel, remark)]
    layers += [layer for trace in panel.traces for layer in _trace(panel, trace)]
    if not layers:
        layers = [_layer(panel, [], "point")]
    size: dict[str, Any] = {"width": WIDTH, "height": HEIGHT}
    apart = alt.Resolve(scale={"fill": "independent"})
    return alt.layer(*layers, title=panel.title, resolve=apart, **size)


def _trace(panel: Panel, trace: Trace) -> Layers:
    if trace.mark in ("heat", "contour"):
        return _matrix(panel, trace)
    rows = _rows(panel, trace)
    colour = _colour(panel, trace)
    look = look_of(trace)
    found = [*_seeds(panel, trace, colour), *_interval(panel, trace, rows, colour)]
    known = [row for row in rows if row["y"] is not None]
    if trace.mark == "bars":
        lying = "horizontal" if panel.sideways else "vertical"
        bars = _layer(panel, known, "bar", high="zero", orient=lying, size=12, opacity=0.85)
        found.insert(0, bars.encode(color=colour, tooltip=_tooltip(panel)))
    if trace.mark in ("line", "both"):
        stroke: dict[str, Any] = {"strokeWidth": look.width, "opacity": look.alpha}
        stroke["strokeDash"] = DASHES[look.line]
        line = _layer(panel, known, "line", **stroke)
        found.append(line.encode(color=colour, order="number:Q"))
    if trace.mark in ("dots", "both"):
        shape: dict[str, Any] = {"shape": SHAPES[look.marker], "size": 2 * look.size**2}
        dots = _layer(panel, known, "point", **shape, filled=not look.hollow, opacity=1)
        found.append(dots.encode(color=colour, tooltip=_tooltip(panel)))
    if trace.texts:
        word = _layer(panel, known, "text", dy=-9).encode(color=colour, text="text:N")
        found.append(word)
    lost = [{"x": x, "y": _foot(panel)} for x in sorted(set(trace.failed))]
    if lost:
        found.append(_layer(panel, lost, "text", text="✗", color=look.colour))
    return found


def _rows(panel: Panel, trace: Trace) -> list[dict[str, Any]]:
    """One for each point, with all that is known of it."""
    size = len(trace.x)
    intervals = trace.interval or (None,) * size
    texts = trace.texts or ("",) * size
    return [
        {
            "number": number,
            "trace": trace.name,
            "at": _place(panel.x, trace.x[number]),
            "x": x,
            "y": trace.y[number],
            "zero": 0,
            "low": pair[0] if pair else None,
            "high": pair[1] if pair else None,
            "text": texts[number],
        }
        for number, (x, pair) in enumerate(zip(moved(panel, trace), intervals, strict=True))
    ]


def _place(axis: Axis, x: float) -> str:
    number = int(x)
    known = axis.categories and x == number and 0 <= number < len(axis.categories)
    return axis.categories[number].replace("\n", " ") if known else f"{x:g}"


def _seeds(panel: Panel, trace: Trace, colour: alt.Color | alt.ColorValue) -> Layers:
    x = moved(panel, trace)
    rows = [
        {"x": at, "y": y, "trace": trace.name, "seed": seed, "number": number}
        for seed, values in trace.seeds.items()
        for number, (at, y) in enumerate(zip(x, values, strict=True))
        if y is not None
    ]
    if not rows:
        return []
    if trace.mark == "line":
        thin = _layer(panel, rows, "line", strokeWidth=SEED.width, opacity=SEED.alpha)
        return [thin.encode(color=colour, detail="seed:N", order="number:Q")]
    lying = "vertical" if panel.sideways else "horizontal"
    look: dict[str, Any] = {"orient": lying, "opacity": SEED.alpha, "size": 2 * SEED.size}
    tick = _layer(panel, rows, "tick", **look)
    return [tick.encode(color=colour, tooltip=["trace:N", "seed:N", "y:Q"])]


def _interval(
    panel: Panel, trace: Trace, rows: Sequence[dict[str, Any]], colour: alt.Color | alt.ColorValue
) -> Layers:
    known = [row for row in rows if row["low"] is not None]
    if not known:
        return []
    band = trace.mark == "line"
    look: dict[str, Any] = {"opacity": BAND} if band else {"strokeWidth": WHISKER}
    area = _layer(panel, known, "area" if band else "rule", low="low", high="high", **look)
    black = alt.ColorValue(PALETTE["black"]) if trace.mark == "bars" else colour
    return [area.encode(color=black)]


def _matrix(panel: Panel, trace: Trace) -> Layers:
    across, up = edges(trace.x, panel.x), edges(trace.y, panel.y)
    cells = [
        {
            "x": across[i],
            "x2": across[i + 1],
            "y": up[j],
            "y2": up[j + 1],
            "middle_x": trace.x[i],
            "middle_y": trace.y[j],
            "z": value,
            "text": "–" if value is None else format(value, trace.numbers),
            "ink": _ink(panel, trace, value),
        }
        for j, row in enumerate(trace.z)
        for i, value in enumerate(row)
    ]
    axis = panel.z or Axis()
    scale: dict[str, Any] = {"type": "log" if axis.scale in ("log", "log2") else "linear"}
    scale["scheme"] = HEAT if trace.mark == "heat" else CONTOUR.lower()
    for end, limit in zip(("domainMin", "domainMax"), axis.limits, strict=True):
        if limit is not None:
            scale[end] = limit
    legend = alt.Legend(title=axis.label) if axis.label else None
    data = alt.Data(values=tuple(cells))
    rect = (
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=_channel(panel, alt.X, "x", panel.x),
            x2="x2:Q",
            y=_channel(panel, alt.Y, "y", panel.y),
            y2="y2:Q",
            fill=alt.Fill("z:Q", scale=alt.Scale(**scale), legend=legend),
            tooltip=["z:Q"],
        )
    )
    if not trace.numbers:
        return [rect]
    words = alt.Chart(data).mark_text().encode(x="middle_x:Q", y="middle_y:Q", text="text:N")
    return [rect, words.encode(stroke=alt.Stroke("ink:N", scale=None))]


def _ink(panel: Panel, trace: Trace, value: float | None) -> str:
    """What can be read on the colour of a cell."""
    known = [one for row in trace.z for one in row if one is not None]
    low, high = panel.z.limits if panel.z else (None, None)
    low, high = min(known) if low is None else low, max(known) if high is None else high
    middle = math.sqrt(low * high) if panel.z and panel.z.scale == "log" else (low + high) / 2
    return "white" if value is not None and value < middle else "black"


def _remark(panel: Panel, remark: Remark) -> Layers:
    colour = hexadecimal(remark.colour)
    x, y, to = remark.x, remark.y, remark.to
    if x is None and y is None:
        right, low = "right" in remark.place, "lower" in remark.place
        across, up = (WIDTH - 4 if right else 4), (HEIGHT - 8 if low else 8)
        words: dict[str, Any] = {"text": remark.text.split("\n"), "color": colour}
        words["align"] = "right" if right else "left"
        corner = alt.Chart(alt.Data(values=[{}])).mark_text(**words)
        return [corner.encode(x=alt.value(across), y=alt.value(up))]
    row: dict[str, Any] = {"x": x, "y": y, "to": to, "text": remark.text}
    if x is not None and y is not None:
        return [_layer(panel, [row], "text", text=remark.text, color=colour, dx=6, align="left")]
    along, title = ("x", panel.x) if x is not None else ("y", panel.y)
    horizontal = (along == "x") != panel.sideways
    channel = _channel(panel, alt.X if horizontal else alt.Y, along, title)
    data = alt.Chart(alt.Data(values=[row]))
    if to is not None:
        shade = data.mark_rect(opacity=0.25, color="#999999")
        end = {"x2": "to:Q"} if horizontal else {"y2": "to:Q"}
        return [shade.encode(**{"x" if horizontal else "y": channel}, **end)]
    dash = DASHES[remark.line if remark.line in DASHES else "dotted"]
    rule = data.mark_rule(color=colour, strokeDash=dash)
    words = {"text": remark.text, "color": colour, "align": "left", "dy": -6, "dx": 3}
    edge = {"y": alt.value(10)} if horizontal else {"x": alt.value(2)}
    name = "x" if horizontal else "y"
    text = data.mark_text(**words).encode(**{name: channel}, **edge)
    return [rule.encode(**{name: channel}), *([text] if remark.text else [])]


def _layer(
    panel: Panel,
    rows: Iterable[dict[str, Any]],
    mark: str,
    low: str = "y",
    high: str | None = None,
    **look: Any,
) -> alt.Chart:
    """Marks of rows with x and y, which change places in a panel that lies on its side."""
    chart = getattr(alt.Chart(alt.Data(values=tuple(rows))), f"mark_{mark}")(**look)
    flat, tall = (alt.Y, alt.X) if panel.sideways else (alt.X, alt.Y)
    found = chart.encode(_channel(panel, flat, "x", panel.x), _channel(panel, tall, low, panel.y))
    if high is None:
        return found
    return found.encode((alt.X2 if panel.sideways else alt.Y2)(f"{high}:Q"))


def _channel(panel: Panel, kind: Any, name: str, axis: Axis) -> Any:
    names = {"log": "log", "log2": "log", "symlog": "symlog", "linear": "linear"}
    scale: dict[str, Any] = {"type": "linear" if axis.categories else names[axis.scale]}
    scale |= {"zero": False, "nice": False}
    if axis.scale == "log2" and not axis.categories:
        scale["base"] = 2
    low, high = axis.limits
    marks = alt.Axis(grid=False) if kind is alt.X else alt.Axis()
    if axis.categories:
        low, high = -0.5, len(axis.categories) - 0.5
        words = json.dumps([text.split("\n") for text in axis.categories])
        places: dict[str, Any] = {"values": tuple(range(len(axis.categories))), "grid": False}
        marks = alt.Axis(labelExpr=f"{words}[datum.value]", labelOverlap=False, **places)
    elif axis.ticks:
        marks = alt.Axis(values=tuple(axis.ticks), grid=kind is alt.Y)
    if low is not None:
        scale["domainMin"] = low
    if high is not None:
        scale["domainMax"] = high
    down = panel.sideways and kind is alt.Y  # rows are read from above
    scale["reverse"] = axis.inverted != down
    title = axis.label or None
    return kind(f"{name}:Q", title=title, scale=alt.Scale(**scale), axis=marks)


def _colour(panel: Panel, trace: Trace) -> alt.Color | alt.ColorValue:
    """One legend of the panel's traces; shades of a matrix have their own."""
    if trace.shade is not None:
        return alt.ColorValue(_shade(panel, trace.shade))
    shown = [one for one in panel.traces if one.mark not in ("heat", "contour")]
    names = tuple(one.name for one in shown)
    scale = alt.Scale(domain=names, range=tuple(look_of(one).colour for one in shown))
    listed = tuple(one.name for one in shown if one.entry)
    legend = (
        alt.Legend(title=None, values=listed, labelLimit=320, symbolOpacity=1) if listed else None
    )
    return alt.Color("trace:N", scale=scale, legend=legend)


def _shade(panel: Panel, value: float) -> str:
    """The colour of a value between the limits of z, or of all shades where it has none."""
    shades = [trace.shade for trace in panel.traces if trace.shade is not None]
    low, high = panel.z.limits if panel.z else (None, None)
    low, high = min(shades) if low is None else low, max(shades) if high is None else high
    return between(HEAT_STOPS, (value - low) / (high - low) if high > low else 0.5)


def _tooltip(panel: Panel) -> list[alt.Tooltip]:
    across, up = panel.x.label or "x", panel.y.label or "y"
    return [
        alt.Tooltip("trace:N"),
        alt.Tooltip("at:N", title=across),
        alt.Tooltip("y:Q", title=up, format=".4g"),
        alt.Tooltip("low:Q", format=".4g"),
        alt.Tooltip("high:Q", format=".4g"),
    ]


def _foot(panel: Panel) -> float:
    """Where a cross for a failed run stands: at the foot of the y axis."""
    if panel.y.limits[0] is not None:
        return panel.y.limits[0]
    known = [y for trace in panel.traces for y in trace.y if y is not None]
    return min(known, default=0.0)
