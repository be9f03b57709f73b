"""How the traces and remarks of one panel are drawn on axes of matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.lines import Line2D

from reproduce.plotting.looks import edges, look_of, moved, points
from reproduce.plotting.panels import Axis, Panel, Remark, Trace
from reproduce.plotting.style import BAND, BAR, CONTOUR, HEAT, LABEL, PALETTE, SEED, SMALL, WHISKER

LINES = {"solid": "-", "dashed": "--", "dotted": ":", "dashdot": "-.", "none": ""}
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^", "cross": "x", "down": "v"}
BOX: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1}
ORDER = ("emphasis", "measured", "faint", "published", "theory", "reference")  # in a legend
MARKERS_ON_A_LINE = 8
END_LETTERS = 20  # of a line of the words at the end of a curve
MIXED = "grey"  # of an entry of the legend that stands for several colours


def keywords(trace: Trace) -> dict[str, Any]:
    """The look of a trace as matplotlib's keywords. A line whose model has a marker of its own
    bears some, so that it is not that of another model of its colour."""
    look = look_of(trace)
    marked = trace.mark == "line" and trace.role == "measured" and look.marker != "circle"
    return {
        "color": look.colour,
        "linewidth": look.width,
        "alpha": look.alpha,
        "linestyle": LINES[look.line] if trace.mark in ("line", "both") else "",
        "marker": MARKERS[look.marker] if marked or trace.mark in ("dots", "both") else "",
        "markevery": max(1, len(trace.x) // MARKERS_ON_A_LINE) if marked else None,
        "markersize": look.size,
        "markerfacecolor": "white" if look.hollow else look.colour,
    }


def legend_entries(panel: Panel) -> list[Line2D]:
    """A handle for each text of the legend, grey where it stands for traces of several colours."""
    groups: dict[str, list[Trace]] = {}
    for trace in sorted(panel.traces, key=lambda trace: ORDER.index(trace.role)):
        if trace.entry and trace.mark not in ("heat", "contour") and trace.shade is None:
            groups.setdefault(trace.entry, []).append(trace)
    handles = []
    for text, traces in groups.items():
        look = keywords(traces[0])
        if traces[0].mark == "bars":
            look |= {"marker": "s", "linestyle": ""}
        if len({look_of(trace).colour for trace in traces}) > 1:
            filled = look["markerfacecolor"] != "white"
            look |= {"color": PALETTE[MIXED]}
            look |= {"markerfacecolor": PALETTE[MIXED] if filled else "white"}
        handles.append(Line2D([], [], label=text, **look))
    if any(trace.failed for trace in panel.traces):
        cross: dict[str, Any] = {"color": PALETTE["vermillion"], "linestyle": "", "marker": "$✗$"}
        handles.append(Line2D([], [], label="a run without result", **cross))
    return handles


class Canvas:
    """Axes on which x and y may have changed places."""

    def __init__(self, axes: Axes, panel: Panel) -> None:
        self.axes, self.panel, self.turned = axes, panel, panel.sideways
        self._has_bar = False

    def _xy(self, x: Any, y: Any) -> tuple[Any, Any]:
        return (y, x) if self.turned else (x, y)

    def _sides(self) -> tuple[str, str]:
        return ("y", "x") if self.turned else ("x", "y")

    def scales(self) -> None:
        """Before anything is drawn."""
        for side, axis in zip(self._sides(), (self.panel.x, self.panel.y), strict=True):
            if axis.scale != "linear" and not axis.categories:
                base: dict[str, Any] = {"base": 2} if axis.scale == "log2" else {}
                name = axis.scale.removesuffix("2")
                getattr(self.axes, f"set_{side}scale")(name, **base)

    def finish(self, names_fit: bool) -> None:
        """Ticks and names, once everything is drawn."""
        if any(trace.texts for trace in self.panel.traces):
            self.axes.margins(x=0.2)
        for side, axis in zip(self._sides(), (self.panel.x, self.panel.y), strict=True):
            self._ticks(side, axis, names_fit)
            getattr(self.axes, f"set_{side}label")(axis.label, fontsize=LABEL)

    def limit(self, sides: str = "xy") -> None:
        """Ends of the axes, once the panels that share them are drawn: a limit ends the search for
        what holds everything."""
        for side, axis in zip(self._sides(), (self.panel.x, self.panel.y), strict=True):
            if side not in sides:
                continue
            low, high = axis.limits
            if axis.categories and axis.limits == (None, None):
                low, high = -0.5, len(axis.categories) - 0.5
            if self.turned and side == "y":  # rows are read from above
                low, high = high, low
            name = {"x": ("left", "right"), "y": ("bottom", "top")}[side]
            set_limits = getattr(self.axes, f"set_{side}lim")
            set_limits(**dict(zip(name, (low, high), strict=True)))
            if axis.inverted:
                getattr(self.axes, f"invert_{side}axis")()

    def _ticks(self, side: str, axis: Axis, names_fit: bool) -> None:
        set_ticks = getattr(self.axes, f"set_{side}ticks")
        if axis.categories:
            turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
            look = turn if side == "x" and not names_fit else {}
            set_ticks(range(len(axis.categories)), axis.categories, fontsize=SMALL, **look)
        elif axis.ticks:
            set_ticks(axis.ticks, [f"{tick:,g}" for tick in axis.ticks])
            set_ticks([], minor=True)

    def draw(self, trace: Trace) -> None:
        """One trace with all that belongs to it."""
        if trace.mark in ("heat", "contour"):
            self._matrix(trace)
            return
        x, look = moved(self.panel, trace), keywords(trace)
        if trace.shade is not None:
            shades = [t.shade for t in self.panel.traces if t.shade is not None]
            look["color"] = self._coloured((min(shades), max(shades))).to_rgba(trace.shade)
        self._seeds(trace, x, look["color"])
        self._intervals(trace, x, look["color"])
        if trace.mark == "bars":
            self._bars(trace, x, look["color"])
        else:
            self._plot(points(self.panel, trace), look)
        for at, y, text in zip(x, trace.y, trace.texts, strict=False):
            if y is not None:
                self.word(at, y, text, look["color"], "center", above=True)
        for at in sorted(set(trace.failed)):
            place = x[list(trace.x).index(at)] if at in trace.x else at
            coordinates = ("axes fraction", "data") if self.turned else ("data", "axes fraction")
            style: dict[str, Any] = {"color": look["color"], "fontsize": LABEL, "ha": "center"}
            self.axes.annotate("✗", self._xy(place, 0.02), xycoords=coordinates, **style)

    def _plot(self, points: Sequence[tuple[float, float]], look: Mapping[str, Any]) -> None:
        if points:
            self.axes.plot(*self._xy(*zip(*points, strict=True)), **look)

    def _seeds(self, trace: Trace, x: Sequence[float], colour: Any) -> None:
        line = trace.mark == "line"
        look: dict[str, Any] = {"color": colour, "alpha": SEED.alpha, "linewidth": SEED.width}
        if not line:
            tick = "|" if self.turned else "_"
            look |= {"linestyle": "", "marker": tick, "markersize": SEED.size, "mew": 1.0}
        for values in trace.seeds.values():
            pairs = zip(x, values, strict=True)
            self._plot([(at, y) for at, y in pairs if y is not None], look)

    def _intervals(self, trace: Trace, x: Sequence[float], colour: Any) -> None:
        with_interval = []
        for at, pair in zip(x, trace.interval, strict=False):
            if pair is not None:
                with_interval.append((at, *pair))
        if not with_interval:
            return
        places, low, high = zip(*with_interval, strict=True)
        if trace.mark == "line":
            fill = self.axes.fill_betweenx if self.turned else self.axes.fill_between
            fill(places, low, high, color=colour, alpha=BAND, linewidth=0)
            return
        whiskers = self.axes.hlines if self.turned else self.axes.vlines
        shade = PALETTE["black"] if trace.mark == "bars" else colour
        over = 3 if trace.mark == "bars" else 1.9  # but below markers, which may be hollow
        whiskers(places, low, high, color=shade, linewidth=WHISKER, zorder=over)

    def _bars(self, trace: Trace, x: Sequence[float], colour: Any) -> None:
        bars: Any = self.axes.barh if self.turned else self.axes.bar
        for at, y in zip(x, trace.y, strict=True):
            if y is None:
                self.word(at, 0.0, "none", PALETTE["grey"], "right")
            else:
                bars(at, y, BAR, color=colour, alpha=0.85)

    def _coloured(self, ends: Sequence[float]) -> Any:
        """What gives a value its colour: between the limits of z, or these ends where it has none.
        A named z axis has one colour bar."""
        axis = self.panel.z or Axis()
        low, high = (
            e if limit is None else limit for limit, e in zip(axis.limits, ends, strict=True)
        )
        scale = LogNorm if axis.scale in ("log", "log2") else Normalize
        mappable = ScalarMappable(scale(low, high), HEAT)
        if axis.label and not self._has_bar:
            self._has_bar = True
            bar = self.axes.figure.colorbar(mappable, ax=self.axes)
            bar.set_label(axis.label, fontsize=LABEL)
            bar.ax.tick_params(labelsize=SMALL)
        return mappable

    def _matrix(self, trace: Trace) -> None:
        z = np.array([[np.nan if v is None else v for v in row] for row in trace.z], float)
        if not z.size or np.isnan(z).all():
            return
        y = [at for at in trace.y if at is not None]
        if trace.mark == "contour":
            logarithmic = self.panel.z is not None and self.panel.z.scale == "log"
            levels = np.log(z) if logarithmic else z
            self.axes.contourf(trace.x, y, levels, levels=20, cmap=CONTOUR, alpha=0.7)
            return
        colours = self._coloured((float(np.nanmin(z)), float(np.nanmax(z))))
        cells: dict[str, Any] = {"cmap": colours.cmap, "norm": colours.norm, "rasterized": True}
        corners = edges(trace.x, self.panel.x), edges(y, self.panel.y)
        self.axes.pcolormesh(*corners, np.ma.masked_invalid(z), **cells)
        if trace.numbers:
            self._numbers(trace, z, y, colours)

    def _numbers(self, trace: Trace, z: Any, y: Sequence[float], colours: Any) -> None:
        centre: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL}
        for at, row in zip(y, z, strict=True):
            for x, value in zip(trace.x, row, strict=True):
                has_number = not np.isnan(value)
                red, green, blue, _ = colours.to_rgba(value) if has_number else (1, 1, 1, 1)
                dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
                text = format(value, trace.numbers) if has_number else "–"
                self.axes.text(x, at, text, color="white" if dark else PALETTE["black"], **centre)

    def ends(self) -> None:
        """Words at the right ends of lines, moved apart so that none covers another."""
        marked = [t for t in self.panel.traces if t.end and any(y is not None for y in t.y)]
        if not marked:
            return
        ends = [points(self.panel, trace)[-1] for trace in marked]
        to_axes = self.axes.transData + self.axes.transAxes.inverted()
        heights = [float(to_axes.transform(end)[1]) for end in ends]
        inches = self.axes.get_window_extent().height / self.axes.figure.dpi
        line = 1.5 * SMALL / 72 / inches
        right, top = max(x for x, _ in ends), -math.inf  # of the words so far
        for height, trace in sorted(zip(heights, marked, strict=True), key=lambda pair: pair[0]):
            # Long words would take the room of the axes.
            words = wrap(trace.end, END_LETTERS)
            middle = max(height, top + line * len(words) / 2)
            top = middle + line * len(words) / 2
            look: dict[str, Any] = {"fontsize": SMALL, "color": look_of(trace).colour}
            look |= {"va": "center", "annotation_clip": False, "textcoords": "offset points"}
            place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (5, 0)}
            self.axes.annotate("\n".join(words), (right, middle), **place, **look)

    def word(
        self, x: float, y: float, text: str, colour: Any, side: str, above: bool = False
    ) -> None:
        """A word beside a point."""
        across = {"left": -4, "center": 0, "right": 4}[side]
        align = {"left": "right", "center": "center", "right": "left"}[side]
        look: dict[str, Any] = {"fontsize": SMALL, "color": colour, "ha": align}
        look |= {"va": "bottom" if above else "center", "textcoords": "offset points"}
        self.axes.annotate(text, self._xy(x, y), xytext=(across, 5 if above else 0), **look)

    def corner(self, text: str, place: str, colour: str) -> None:
        """Words in a corner of the axes."""
        right, low = "right" in place, "lower" in place
        x, y = (0.99 if right else 0.01), (0.01 if low else 0.99)
        look: dict[str, Any] = {
            "ha": "right" if right else "left",
            "va": "bottom" if low else "top",
        }
        look |= {"fontsize": SMALL, "color": colour}
        self.axes.text(x, y, text, transform=self.axes.transAxes, **look)

    def span(self, low: float, high: float) -> None:
        """A shaded range of x."""
        shade = self.axes.axhspan if self.turned else self.axes.axvspan
        shade(low, high, color=PALETTE["light"], alpha=0.5, linewidth=0)

    def rule(self, upright: bool, level: float, remark: Remark, colour: str) -> None:
        """A line through all of the axes."""
        draw = self.axes.axvline if upright != self.turned else self.axes.axhline
        draw(level, color=colour, linestyle=LINES[remark.line or "dotted"], linewidth=0.9)

    def along(self, upright: bool, level: float, remark: Remark, colour: str) -> None:
        """The word of a line, so far along it and on the side that the remark says."""
        if not remark.text:
            return
        vertical, outside = upright != self.turned, remark.at >= 1
        place, coordinates = (level, remark.at), ("data", "axes fraction")
        align = {"left": "right", "center": "center", "right": "left"}[remark.side]
        look: dict[str, Any] = {"fontsize": SMALL, "color": colour, "annotation_clip": False}
        if vertical:
            across = {"left": -3, "center": 0, "right": 3}[remark.side]
            look |= {"ha": align, "va": "bottom", "xytext": (across, 2 if outside else 0)}
        else:
            place, coordinates = (remark.at, level), ("axes fraction", "data")
            middle = outside or remark.side == "center"
            look |= {"ha": align, "va": "center" if middle else "bottom"}
            look["xytext"] = (3 if outside else 0, 0 if middle else 1)
        box = None if outside else BOX
        self.axes.annotate(
            remark.text, place, xycoords=coordinates, textcoords="offset points", bbox=box, **look
        )
