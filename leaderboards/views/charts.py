"""Charts in Vega-Lite: the parts that all of them are made of, and curves with bands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.records.numbers import kind_of
from leaderboards.contents import ModelCurve
from leaderboards.render import plain, shown_label
from leaderboards.tables.curves import LOSS_CURVES
from reproduce.plotting import models
from reproduce.plotting.style import DASHES as LINES
from reproduce.plotting.style import PALETTE

VEGA_LITE = "6.4.1"
# References are grey; models have the colour of their cards.
GREYS = ("#5E5E5E", "#9A9A9A", "#787878", "#B4B4B4")
GREY = "#808080"
ON_DARK = "#e6e6e6"  # what is black on paper
SOLID = [1, 0]
DASHES = ([6, 3], [2, 2], [8, 2, 2, 2], [12, 4], [4, 6])
UNTRAINED = "without training"
HEIGHT = 430
SHORT = ",.8~g"  # numbers of an axis, without zeros at their end
FEW = 24  # places of a curve at most that are marked one by one
Spec = dict[str, Any]  # a chart, or a part of one


def quantitative(field: str, **settings: Any) -> Spec:
    """A column of numbers as a channel of a chart."""
    return dict(sorted({"field": field, "type": "quantitative", **settings}.items()))


def nominal(field: str, **settings: Any) -> Spec:
    """A column of names as a channel of a chart."""
    return dict(sorted({"field": field, "type": "nominal", **settings}.items()))


def layer(mark: str, encoding: Mapping[str, Any], **look: Any) -> Spec:
    """Marks of one kind; the places of further ends, such as ``x2``, are names of columns."""
    channels = {key: encoding[key] for key in sorted(encoding)}
    for key in ("x2", "y2"):
        if key in channels:
            channels[key] = {"field": channels[key]}
    return {"mark": {"type": mark, **look}, "encoding": channels}


def layered(layers: Sequence[Spec], **properties: Any) -> Spec:
    """Layers over each other as a whole chart."""
    return {
        "config": {"view": {"continuousWidth": 300, "continuousHeight": 300}},
        "layer": list(layers),
        **properties,
        "$schema": f"https://vega.github.io/schema/vega-lite/v{VEGA_LITE}.json",
    }


def data(values: Iterable[Mapping[str, Any]]) -> Spec:
    """The points of a chart or a layer."""
    return {"values": list(values)}


def zoom(view: str) -> Spec:
    """That a drag and the wheel move and scale a chart, by one of its layers."""
    select = {"type": "interval", "encodings": ["x", "y"]}
    return {"name": "zoom", "select": select, "bind": "scales", "views": [view]}


def series_name(line: ModelCurve) -> str:
    """How the legend names a curve."""
    return f"{shown_label(line)} ({line.setting})" if line.setting else shown_label(line)


def origin(line: ModelCurve) -> str:
    """Ours at a preset, or the published source."""
    if line.source:
        return line.source
    where = f"ours, preset {line.preset}"
    return f"{where}, {line.variant}" if line.by_size and line.variant else where


def is_ours(origin: str) -> bool:
    """Whether an origin is one of our presets."""
    return origin.startswith("ours, ")


def is_reference(line: ModelCurve) -> bool:
    """Whether a curve is that of a predictor without training."""
    return line.kind == "reference"


def abscissa(line: ModelCurve) -> str:
    """The title of the x axis."""
    if line.abscissa == "position" and line.metric.startswith("error/"):
        return "context length (samples)"
    return plain(line.abscissa)


def colour_of(model: str, dark: bool = False) -> str:
    """The colour of a model's card, the same in every figure; black is white where it is dark. What
    only a paper has, without a name here, is grey."""
    colour = models.look(model).colour if model else GREYS[0]
    return ON_DARK if dark and colour == PALETTE["black"] else colour


def chart(
    lines: Sequence[tuple[str, ModelCurve, Sequence[int]]],
    names: Mapping[str, str],
    title: str,
    logarithmic: bool = False,
    dark: bool = False,
) -> Spec:
    """Curves with bands: 95 % intervals over seeds for ours, reading errors for published ones.

    Trained models are coloured and references grey. Along a sequence references are dashed; by
    training size a dash and a hollow marker say that a curve is published.

    Args:
        lines: what to draw, each with its name and with how many points each place is of; one
            colour for each name.
        names: all names of the page with the model of each, those of references last, so that a
            name keeps its colour whatever is selected.
        title: of the y axis.
        logarithmic: the x axis; positions from 0 are drawn on a scale that is linear near 0.
        dark: the page that it stands on.
    """
    drawn = [line for _, line, _ in lines]
    styles = _styles([(name, line) for name, line, _ in lines], names, dark)
    by_size = any(line.by_size for line in drawn)
    has_ticks = all(len(line.x) <= FEW for line in drawn)
    shown_names, colours, dashes = list(styles), [], []
    for line_colour, line_dash in styles.values():
        colours.append(line_colour)
        dashes.append(list(line_dash))
    if by_size:
        dash, fill = _origin_marks(_origins(drawn))
    else:
        # One legend with the colours', for it has the same domain.
        dash = nominal("model", scale={"domain": shown_names, "range": dashes})
        fill = {"value": 1}
    legend = {"symbolOpacity": 1, "symbolSize": 160, "symbolType": "circle", "title": None}
    legend["symbolType"] = "circle" if by_size else "stroke"
    scale = {"domain": shown_names, "range": colours}
    base = {
        "x": _x_axis(drawn, has_ticks, logarithmic),
        "detail": nominal("series"),
        "color": nominal("model", scale=scale, legend=legend),
        "opacity": {"condition": {"param": "picked", "value": 1}, "value": 0.12},
    }
    y = quantitative("y", title=title, scale={"zero": False}, axis={"format": SHORT})
    tooltip = [
        nominal("label", title="model"),
        nominal("origin"),
        quantitative("x", title=base["x"]["title"]),
        quantitative("y", title=title, format=".4f"),
        quantitative("low", format=".4f"),
        quantitative("high", format=".4f"),
        quantitative("n", title="points here"),
    ]
    faint = {"condition": {"param": "picked", "value": 0.15}, "value": 0.03}
    band = layer("area", {**base, "y": quantitative("low"), "y2": "high", "opacity": faint})
    curve = layer("line", {**base, "y": y, "strokeDash": dash}, strokeWidth=2)
    # Points of their own: inside the line's mark they would blank the legend of the dashes.
    fill_colour = nominal("model", scale=scale, legend=None)
    encoding = {**base, "y": y, "fill": fill_colour, "fillOpacity": fill, "tooltip": tooltip}
    if not has_ticks:  # they only carry the words
        encoding["opacity"] = {"value": 0}
    dots = layer("point", encoding, size=60 if has_ticks else 12, strokeWidth=2)
    points: list[Spec] = []
    for number, (name, line, counts) in enumerate(lines):
        points += _points(name, line, str(number), counts)
    select = {"type": "point", "fields": ["model"]}
    picked = {"name": "picked", "select": select, "bind": "legend", "views": ["curve"]}
    spec = layered(
        [band | {"name": "band"}, curve | {"name": "curve"}, dots],
        data=data(points),
        height=HEIGHT,
        params=[picked, zoom("band")],
    )
    below = {"columns": 3, "labelLimit": 320, "orient": "bottom", "symbolStrokeWidth": 2}
    spec["config"]["legend"] = below
    return spec


def _points(
    name: str, line: ModelCurve, series: str, counts: Sequence[int]
) -> list[dict[str, Any]]:
    kind = kind_of(line.task, line.metric)
    lowest = kind.low
    # No card states the range of a loss by step. Where all means are positive, it is one that
    # cannot be negative, and Student's interval of few seeds reaches below 0.
    if line.metric in LOSS_CURVES and min(line.y, default=-1.0) >= 0:
        lowest = max(lowest, 0.0)

    def clipped(value: float | None) -> float | None:
        # The reading error of a published share may reach beyond the range of shares.
        return None if value is None else min(max(value, lowest), kind.high)

    shared = {
        "model": name,
        "label": series_name(line),
        "origin": UNTRAINED if is_reference(line) else origin(line),
        "series": series,
    }
    points = []
    for x, y, low, high, n in zip(line.x, line.y, line.y_low, line.y_high, counts, strict=True):
        place = {"x": x, "y": y, "low": clipped(low), "high": clipped(high)}
        points.append({**place, **shared, "n": n})
    return points


def _x_axis(lines: Sequence[ModelCurve], has_ticks: bool, logarithmic: bool) -> Spec:
    places = set().union(*(line.x for line in lines))
    if logarithmic:
        scale = {"nice": False, "type": "symlog" if min(places, default=1) <= 0 else "log"}
    else:
        scale = {"nice": False, "type": "linear", "zero": False}
    axis: Spec = {"grid": False}
    if has_ticks and places:
        axis = {"format": ",d", "grid": False, "values": sorted(places)}
    return quantitative("x", title=abscissa(lines[0]), scale=scale, axis=axis)


def _styles(
    lines: Sequence[tuple[str, ModelCurve]], names: Mapping[str, str], dark: bool
) -> Mapping[str, tuple[str, Sequence[int]]]:
    """Colour and dash of each drawn name, in the order of ``names``."""
    references = {name for name, line in lines if is_reference(line)}
    drawn = {name for name, _ in lines}
    coloured = _colours(names, dark)
    styles: dict[str, tuple[str, Sequence[int]]] = {}
    for name in (name for name in names if name in drawn):
        if name in references:
            place = len([name_drawn for name_drawn in styles if name_drawn in references])
            styles[name] = GREYS[place % len(GREYS)], DASHES[place % len(DASHES)]
        else:
            styles[name] = coloured[name]
    return styles


def _colours(names: Mapping[str, str], dark: bool) -> dict[str, tuple[str, Sequence[int]]]:
    """What a model's card says, for each name; another setting of one model is lighter."""
    looks = {name: models.look(model) for name, model in names.items()}
    style_by_name: dict[str, tuple[str, Sequence[int]]] = {}
    for name, look in looks.items():
        earlier = [looks[other].colour for other in style_by_name].count(look.colour)
        colour = colour_of(names[name], dark)
        style_by_name[name] = models.lighter(colour, earlier), LINES[look.line or "solid"]
    return style_by_name


def _origins(lines: Iterable[ModelCurve]) -> tuple[str, ...]:
    """Where the curves come from: ours, without training, published."""

    def ours_first(origin: str) -> tuple[bool, bool, str]:
        return not is_ours(origin), origin != UNTRAINED, origin

    unsorted_origins = {UNTRAINED if is_reference(line) else origin(line) for line in lines}
    return tuple(sorted(unsorted_origins, key=ours_first))


def _origin_marks(origins: Sequence[str]) -> tuple[Spec, Spec]:
    """Dashes and fillings by origin: published lines are dashed, their markers hollow."""
    published: list[str] = []
    dashes: list[list[int]] = []
    for name in origins:
        if is_ours(name) or name == UNTRAINED:
            dashes.append(SOLID)
        else:
            dashes.append(DASHES[len(published) % len(DASHES)])
            published.append(name)
    # A symbol is either a line or a marker: the text shows the other.
    hollow = f"indexof({json.dumps(published)}, datum.label) >= 0"
    legend = {
        "labelExpr": f"({hollow} ? '○ ' : '● ') + datum.label",
        "symbolSize": 900,
        "symbolStrokeColor": "#555",
        "symbolType": "stroke",
        "title": None,
    }
    filled = [int(name not in published) for name in origins]
    # A point scale, the default for numbers, would spread them evenly.
    fillings = {"domain": list(origins), "range": filled, "type": "ordinal"}
    return (
        nominal("origin", scale={"domain": list(origins), "range": dashes}, legend=legend),
        nominal("origin", scale=fillings, legend=None),
    )
