"""The renderer: a picture becomes a matplotlib figure, by the style sheet alone.

Example: ``images(picture, salt="figure9")["png"]`` are the bytes of the file; equal pictures give
equal bytes.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Bbox

from core.escaping import drawing
from reproduce.plotting.marks import Canvas, legend_entries
from reproduce.plotting.panels import Panel, PanelRow, Picture, Remark
from reproduce.plotting.style import LABEL, PALETTE, PANEL, SMALL, TITLE, hexadecimal

LINE = 0.17  # inches, of a line of text in the frame
_NUMBER = re.compile(r"[-−]?[\d,.]+(?:e[-+]?\d+)?")  # the label of a tick
LETTER = 0.052  # inches, of a letter of a tick
TEXT_WIDTH = 0.96  # of the picture's width, for lines of the frame: hinting widens letters


def images(picture: Picture, salt: str) -> dict[str, bytes]:
    """The picture as PNG and SVG, without dates and random names: equal pictures, equal bytes."""
    return saved(render(picture), salt)


def saved(figure: Figure, salt: str) -> dict[str, bytes]:
    """The bytes of a drawn figure, by the ending of their file."""
    files = {}
    with rc_context({"svg.hashsalt": salt}):
        for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, dpi=160, metadata=metadata)
            files[ending] = buffer.getvalue()
    return {**files, "svg": _CLIPS.sub(_in_order(), files["svg"])}


# The layout's solver leaves noise in the last digits of positions, of which matplotlib makes the
# names of clips in an SVG: they are named by the order in which they come instead.
_CLIPS = re.compile(rb"(?<=[#\"])p[0-9a-f]{10}(?=[\")])")


def _in_order() -> Callable[[re.Match[bytes]], bytes]:
    names: dict[bytes, bytes] = {}
    return lambda match: names.setdefault(match[0], b"clip%d" % len(names))


def render(picture: Picture) -> Figure:
    """The picture drawn, without global state; its texts are drawn as they are."""
    picture = _as_drawn(picture)

    head = 0.38 + LINE * len(_lines_of_head(picture))
    foot = LINE * len(_lines_of_foot(picture)) + 0.05 * bool(picture.foot)
    handles = _shared_entries(picture)
    below = foot + LINE * -(-len(handles) // picture.columns) + 0.1 * bool(handles)
    height = head + below + sum(row.height for row in picture.rows)
    figure = Figure(figsize=(picture.width, height), facecolor="white")
    rect = (0, below / height, 1, 1 - (below + head) / height)
    figure.set_layout_engine("constrained", rect=rect)  # first: colour bars depend on it
    _frame(figure, picture, foot)
    _rows(figure, picture)
    if handles:
        look: dict[str, Any] = {"fontsize": SMALL, "frameon": False, "handlelength": 3}
        look |= {"ncols": picture.columns, "borderaxespad": 0.0}
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, foot / height)}
        figure.legend(handles=handles, **place, **look)
    _settle(figure)
    return figure


def _settle(figure: Figure) -> None:
    """Lay the axes out once, at places without the noise that the solver leaves in the last digits:
    it depends on where objects lie in memory, and would be in the bytes of an SVG."""
    figure.draw_without_rendering()
    # None, not "none": for one that does nothing each file would be drawn twice.
    with rc_context({"figure.autolayout": False, "figure.constrained_layout.use": False}):
        figure.set_layout_engine(None)
    for axes in figure.axes:
        axes.set_position(Bbox(axes.get_position().get_points().round(6)))
        _thin_out(axes)


def _thin_out(axes: Axes) -> None:
    """Leave out the numbers of an x axis that would run into the one at their left."""
    if not axes.axison or not axes.xaxis.get_visible():
        return
    taken = -math.inf
    labels = [label for label in axes.get_xticklabels() if _NUMBER.fullmatch(label.get_text())]
    for label in sorted(labels, key=lambda label: float(label.get_position()[0])):
        extent = label.get_window_extent()
        if extent.x0 <= taken:
            label.set_visible(False)
        else:
            taken = extent.x1


def _as_drawn(part: Any) -> Any:
    """A picture, or a part of one, with every text as matplotlib takes it."""
    if isinstance(part, str):
        return drawing(part)
    if isinstance(part, (tuple, list)):
        return tuple(map(_as_drawn, part))
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{f.name: _as_drawn(getattr(part, f.name)) for f in fields(part)})
    return part


def _shared_entries(picture: Picture) -> list[Line2D]:
    """The entries of the legend below all panels, each text once."""
    if not picture.legend:
        return []
    entries: list[Line2D] = []
    for panel in picture.panels:
        entries += legend_entries(panel)
    return list({entry.get_label(): entry for entry in reversed(entries)}.values())[::-1]


def _frame(figure: Figure, picture: Picture, foot: float) -> None:
    """Title, what was measured, and at the foot the runs that failed."""
    height = figure.get_figheight()
    left: dict[str, Any] = {"x": 0.01, "ha": "left", "va": "top"}
    figure.text(y=1 - 0.1 / height, s=picture.title, fontsize=TITLE, weight="bold", **left)
    for number, text in enumerate(_lines_of_head(picture)):
        y = 1 - (0.33 + LINE * number) / height
        figure.text(y=y, s=text, fontsize=LABEL, color=PALETTE["grey"], **left)
    for number, text in enumerate(_lines_of_foot(picture)):
        y = (foot - LINE * number) / height
        look: dict[str, Any] = {"fontsize": SMALL, "color": PALETTE["vermillion"]}
        figure.text(y=y, s=text, **look, **left)


def _lines_of_head(picture: Picture) -> list[str]:
    """The lines below the title, none wider than the picture."""
    lines: list[str] = []
    for text in filter(None, (picture.subtitle, picture.note)):
        lines += _wrapped(text, LABEL, picture.width * TEXT_WIDTH)
    return lines


def _lines_of_foot(picture: Picture) -> list[str]:
    """The lines at the foot, likewise."""
    lines: list[str] = []
    for clause in picture.foot:
        lines += _wrapped(f"✗ {clause}", SMALL, picture.width * TEXT_WIDTH)
    return lines


@lru_cache(maxsize=256)
def _wrapped(text: str, size: float, width: float) -> tuple[str, ...]:
    """The lines that words of a size, in points, make in a width, in inches."""
    lines: list[str] = []
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return tuple(lines)


def _width(text: str, size: float) -> float:
    """Inches that the ink of a text takes.

    The control points of its curves stand in for the curves, which lie within their hull: the
    exact extents take twenty times as long, half of all that a figure of records takes.
    """
    path = TextPath((0, 0), text, size=size)
    return float(np.ptp(path.vertices[path.codes != Path.CLOSEPOLY, 0])) / 72


def _rows(figure: Figure, picture: Picture) -> None:
    """Rows of one shape stand in one grid, so that their axes are in line; others do not."""
    rows = [row for row in picture.rows if row.panels]
    if not rows:
        return
    heights = [row.height for row in rows]
    if len({(len(row.panels), tuple(row.widths)) for row in rows}) == 1:
        sizes: dict[str, Any] = {"height_ratios": heights, "width_ratios": rows[0].widths or None}
        grid = figure.subplots(len(rows), len(rows[0].panels), squeeze=False, **sizes)
    else:
        parts = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
        grid = []
        for part, row in zip(parts, rows, strict=True):
            widths = row.widths or None
            grid.append(part.subplots(1, len(row.panels), squeeze=False, width_ratios=widths)[0])
    for row, axes in zip(rows, grid, strict=True):
        _row(picture, row, axes)


def _row(picture: Picture, row: PanelRow, many: Sequence[Axes]) -> None:
    widths = row.widths or (1.0,) * len(row.panels)
    drawn = []
    for place, (axes, panel) in enumerate(zip(many, row.panels, strict=True)):
        if panel.empty:
            axes.set_axis_off()
            continue
        if row.shared and place:
            axes.sharey(many[0])
        drawn.append(_panel(axes, panel, picture.width * widths[place] / sum(widths)))
        if row.shared and place:
            axes.tick_params(axis="y", which="both", labelleft=False)
            axes.set_ylabel("")
    for place, canvas in enumerate(drawn):
        canvas.limit("x" if row.shared and place else "xy")
        canvas.ends()


def _panel(axes: Axes, panel: Panel, width: float) -> Canvas:
    _quiet(axes, panel)
    canvas = Canvas(axes, panel)
    canvas.scales()
    for remark in panel.remarks:
        _remark(canvas, remark)
    for trace in panel.traces:
        canvas.draw(trace)
    canvas.finish(_fits(panel, width))
    axes.set_title(panel.title, fontsize=PANEL)
    entries = legend_entries(panel) if panel.legend else []
    if entries:
        look: dict[str, Any] = {"fontsize": SMALL, "frameon": False, "ncols": panel.columns}
        if panel.legend == "right":
            look |= {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "handlelength": 4}
        else:
            look["loc"] = panel.legend
        axes.legend(handles=entries, **look)
    return canvas


def _fits(panel: Panel, width: float) -> bool:
    """Whether the names of categories fit beside each other."""
    widest = [max(map(len, name.split("\n"))) for name in panel.x.categories]
    return (sum(widest) + len(widest)) * LETTER < width


def _quiet(axes: Axes, panel: Panel) -> None:
    """Only the axes and a light grid."""
    matrix = any(trace.mark in ("heat", "contour") for trace in panel.traces)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(side in ("left", "bottom") and not matrix)
        axes.spines[side].set_color(PALETTE["grey"])
    colours: dict[str, Any] = {"colors": PALETTE["grey"], "labelcolor": PALETTE["black"]}
    axes.tick_params(which="both", labelsize=SMALL, **colours)
    if matrix:
        axes.tick_params(which="both", length=0)
    else:
        axes.grid(axis="x" if panel.sideways else "y", color=PALETTE["light"], linewidth=0.5)
        axes.set_axisbelow(True)


def _remark(canvas: Canvas, remark: Remark) -> None:
    colour = hexadecimal(remark.colour)
    if remark.x is None and remark.y is None:
        canvas.corner(remark.text, remark.place, colour)
    elif remark.x is not None and remark.y is not None:
        canvas.word(remark.x, remark.y, remark.text, colour, remark.side)
    elif remark.to is not None:
        assert remark.x is not None
        canvas.span(remark.x, remark.to)
        canvas.along(True, remark.to, remark, colour)
    else:
        upright = remark.x is not None
        level = remark.x if upright else remark.y
        assert level is not None
        canvas.rule(upright, level, remark, colour)
        canvas.along(upright, level, remark, colour)
