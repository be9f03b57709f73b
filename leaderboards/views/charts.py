"""The board's curves as Altair charts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, NamedTuple, TypeVar

import altair as alt
from altair.utils.schemapi import debug_mode

from bench.records.numbers import kind_of
from leaderboards.contents import Line
from leaderboards.render import plain
from reproduce.plotting import models
from reproduce.plotting.style import DASHES as LINES
from reproduce.plotting.style import PALETTE

# References are grey; models have the colour of their cards.
GREYS = ("#5E5E5E", "#9A9A9A", "#787878", "#B4B4B4")
ON_DARK = "#e6e6e6"  # what is black on paper
SOLID = [1, 0]
DASHES = ([6, 3], [2, 2], [8, 2, 2, 2], [12, 4], [4, 6])
UNTRAINED = "without training"
HEIGHT = 430
SHORT = ",.8~g"  # numbers of an axis, without zeros at their end
FEW = 24  # places of a curve at most that are marked one by one
Chart = alt.LayerChart | alt.FacetChart
Spec = dict[str, Any]  # a chart in Vega-Lite
Make = TypeVar("Make", bound=Callable[..., Chart])


def series_name(line: Line) -> str:
    """How the legend names a curve."""
    return f"{plain(line.label)} ({line.setting})" if line.setting else plain(line.label)


def origin(line: Line) -> str:
    """Ours at a preset, or the published source."""
    if line.source:
        return line.source
    where = f"ours, preset {line.preset}"
    return f"{where}, {line.variant}" if line.by_size and line.variant else where


def is_ours(origin: str) -> bool:
    """Whether an origin is one of our presets."""
    return origin.startswith("ours, ")


def is_reference(line: Line) -> bool:
    """Whether a curve is that of a predictor without training."""
    return line.kind == "reference"


def abscissa(line: Line) -> str:
    """The title of the x axis."""
    if line.abscissa == "position" and line.metric.startswith("error/"):
        return "context length (samples)"
    return plain(line.abscissa)


def with_data(chart_without_data: Chart, values: Sequence[Mapping[str, Any]]) -> Chart:
    """A finished chart with its data: Altair copies what a chart holds at every step before."""
    chart_without_data.data = alt.Data(values=tuple(values))
    return chart_without_data


def unchecked(make: Make) -> Make:
    """A function that makes a chart without a check of every part: its whole is checked where it
    is written to a file, and in the tests."""

    @wraps(make)
    def quick(*arguments: Any, **named: Any) -> Any:
        with debug_mode(False):
            return make(*arguments, **named)

    return quick  # type: ignore[return-value]


def colour_of(model: str, dark: bool = False) -> str:
    """The colour of a model's card, the same in every figure; black is white where it is dark. What
    only a paper has, without a name here, is grey."""
    colour = models.look(model).colour if model else GREYS[0]
    return ON_DARK if dark and colour == PALETTE["black"] else colour


@unchecked
def chart(
    lines: Sequence[tuple[str, Line, Sequence[int]]],
    names: Mapping[str, str],
    title: str,
    logarithmic: bool = False,
    dark: bool = False,
) -> Chart:
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
    return with_data(_drawn(_frame(lines, names, title, logarithmic, dark)), _points_of(lines))


def chart_spec(
    lines: Sequence[tuple[str, Line, Sequence[int]]],
    names: Mapping[str, str],
    title: str,
    logarithmic: bool = False,
    dark: bool = False,
) -> Spec:
    """What :func:`chart` says in Vega-Lite, a hundred times as fast for whoever draws hundreds:
    Altair makes one chart of each form, and what differs is put in."""
    frame = _frame(lines, names, title, logarithmic, dark)
    blanks: dict[str, Any] = {
        "title": "<title>",
        "x_title": "<x>",
        "ticks": ("<ticks>",) * bool(frame.ticks),
        **{key: (f"<{key}>",) for key in ("names", "colours", "dashes")},
    }
    values_by_blank = {"<title>": frame.title, "<x>": frame.x_title, "<ticks>": frame.ticks}
    values_by_blank |= {f"<{key}>": getattr(frame, key) for key in ("names", "colours", "dashes")}
    return filled(_spec(frame._replace(**blanks)), values_by_blank, _points_of(lines))


class Frame(NamedTuple):
    """All that a chart of curves says beside its points.

    Attributes:
        scale: of the x axis: linear, log or symlog.
        ticks: the places on the x axis where these are few.
        names: of the legend, with their colours and dashes.
        origins: of curves by training size, ours first; none along a sequence.
    """

    title: str
    x_title: str
    scale: str
    ticks: tuple[Any, ...]
    names: tuple[str, ...]
    colours: tuple[str, ...]
    dashes: tuple[Any, ...]
    origins: tuple[str, ...]


def _frame(
    lines: Sequence[tuple[str, Line, Sequence[int]]],
    names: Mapping[str, str],
    title: str,
    logarithmic: bool,
    dark: bool,
) -> Frame:
    drawn = [line for _, line, _ in lines]
    places = {x for line in drawn for x in line.x}
    scale = ("symlog" if min(places, default=1) <= 0 else "log") if logarithmic else "linear"
    has_ticks = all(len(line.x) <= FEW for line in drawn)
    styles = _styles([(name, line) for name, line, _ in lines], names, dark)
    by_size = any(line.by_size for line in drawn)
    return Frame(
        title,
        abscissa(drawn[0]),
        scale,
        tuple(sorted(places)) if has_ticks else (),
        tuple(styles),
        tuple(colour for colour, _ in styles.values()),
        tuple(tuple(dash) for _, dash in styles.values()),
        _origins(drawn) if by_size else (),
    )


@unchecked
def _drawn(frame: Frame) -> Chart:
    """A chart without points."""
    has_ticks, title = bool(frame.ticks), frame.title
    picked = alt.selection_point(fields=["model"], bind="legend", name="picked")
    base = alt.Chart().encode(
        x=_x_axis(frame),
        detail="series:N",
        opacity=alt.condition(picked, alt.value(1), alt.value(0.12)),
    )
    symbol = "circle" if frame.origins else "stroke"
    colours = alt.Scale(domain=frame.names, range=frame.colours)
    colour = alt.Color(
        "model:N",
        scale=colours,
        legend=alt.Legend(title=None, symbolType=symbol, symbolOpacity=1, symbolSize=160),
    )
    fill: alt.FillOpacity | alt.FillOpacityValue
    if frame.origins:
        dash, fill = _origin_marks(frame.origins)
    else:
        # One legend with the colours', for it has the same domain.
        scale = alt.Scale(domain=frame.names, range=frame.dashes)
        dash, fill = alt.StrokeDash("model:N", scale=scale), alt.FillOpacityValue(1)
    y = alt.Y("y:Q", title=title, scale=alt.Scale(zero=False), axis=alt.Axis(format=SHORT))
    tooltip = [
        alt.Tooltip("label:N", title="model"),
        alt.Tooltip("origin:N"),
        alt.Tooltip("x:Q", title=frame.x_title),
        alt.Tooltip("y:Q", title=title, format=".4f"),
        alt.Tooltip("low:Q", format=".4f"),
        alt.Tooltip("high:Q", format=".4f"),
        alt.Tooltip("n:Q", title="points here"),
    ]
    faint = alt.condition(picked, alt.value(0.15), alt.value(0.03))
    band = base.mark_area().encode(y=alt.Y("low:Q"), y2="high:Q", color=colour, opacity=faint)
    curve = base.mark_line(strokeWidth=2).encode(y=y, color=colour, strokeDash=dash)
    # Points of their own: inside the line's mark they would blank the legend of the dashes.
    fill_colour = alt.Fill("model:N", scale=colours, legend=None)
    marks = base.mark_point(size=60 if has_ticks else 12, strokeWidth=2)
    if not has_ticks:  # they only carry the words
        marks = marks.encode(opacity=alt.value(0))
    dots = marks.encode(y=y, color=colour, fill=fill_colour, fillOpacity=fill, tooltip=tooltip)
    layers = alt.layer(band, curve.add_params(picked), dots).properties(height=HEIGHT)
    return layers.interactive().configure_legend(
        labelLimit=320, orient="bottom", columns=3, symbolStrokeWidth=2
    )


@cache
def _spec(frame: Frame) -> Spec:
    return with_data(_drawn(frame), ({},)).to_dict(validate=False)


def filled(
    spec: Spec, values_by_blank: Mapping[str, Any], points: Sequence[Mapping[str, Any]]
) -> Spec:
    """A specification with its points, and with what is its own in the places of blanks: a text,
    or the list that a blank is the one item of."""

    def put(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: put(value) for key, value in node.items()}
        if isinstance(node, list | tuple):
            parts = [put(value) for value in node]
            return list(parts[0]) if list(node) != parts and isinstance(parts[0], tuple) else parts
        return values_by_blank.get(node, node) if isinstance(node, str) else node

    return put(spec) | {"data": {"values": list(points)}}


def _points_of(lines: Sequence[tuple[str, Line, Sequence[int]]]) -> tuple[dict[str, Any], ...]:
    return tuple(
        point
        for number, (name, line, counts) in enumerate(lines)
        for point in _points(name, line, str(number), counts)
    )


def _points(name: str, line: Line, series: str, counts: Sequence[int]) -> list[dict[str, Any]]:
    kind = kind_of(line.task, line.metric)

    def clipped(value: float | None) -> float | None:
        # The reading error of a published share may reach beyond the range of shares.
        return None if value is None else min(max(value, kind.low), kind.high)

    return [
        {
            "x": x,
            "y": y,
            "low": clipped(low),
            "high": clipped(high),
            "model": name,
            "label": series_name(line),
            "origin": UNTRAINED if is_reference(line) else origin(line),
            "series": series,
            "n": n,
        }
        for x, y, low, high, n in zip(line.x, line.y, line.y_low, line.y_high, counts, strict=True)
    ]


def _x_axis(frame: Frame) -> alt.X:
    scale: dict[str, Any] = {"type": frame.scale, "nice": False}
    scale |= {"zero": False} if frame.scale == "linear" else {}
    axis: dict[str, Any] = {"values": frame.ticks, "format": ",d"} if frame.ticks else {}
    x_axis = alt.Axis(grid=False, **axis)
    return alt.X("x:Q", title=frame.x_title, scale=alt.Scale(**scale), axis=x_axis)


def _styles(
    lines: Sequence[tuple[str, Line]], names: Mapping[str, str], dark: bool
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


def _origins(lines: Iterable[Line]) -> tuple[str, ...]:
    """From where the curves are: ours, without training, published."""

    def ours_first(origin: str) -> tuple[bool, bool, str]:
        return not is_ours(origin), origin != UNTRAINED, origin

    unsorted_origins = {UNTRAINED if is_reference(line) else origin(line) for line in lines}
    return tuple(sorted(unsorted_origins, key=ours_first))


def _origin_marks(origins: tuple[str, ...]) -> tuple[alt.StrokeDash, alt.FillOpacity]:
    """Dashes and fillings by origin: published lines are dashed, their markers hollow."""
    published = [name for name in origins if not is_ours(name) and name != UNTRAINED]
    dashes = [
        DASHES[published.index(name) % len(DASHES)] if name in published else SOLID
        for name in origins
    ]
    # A symbol is either a line or a marker: the text shows the other.
    hollow = f"indexof({json.dumps(published)}, datum.label) >= 0"
    legend = alt.Legend(
        title=None,
        symbolType="stroke",
        symbolStrokeColor="#555",
        symbolSize=900,
        labelExpr=f"({hollow} ? '○ ' : '● ') + datum.label",
    )
    # A point scale, the default for numbers, would spread them evenly.
    filled = alt.Scale(
        type="ordinal",
        domain=list(origins),
        range=[0 if name in published else 1 for name in origins],
    )
    return (
        alt.StrokeDash("origin:N", scale=alt.Scale(domain=origins, range=dashes), legend=legend),
        alt.FillOpacity("origin:N", scale=filled, legend=None),
    )
