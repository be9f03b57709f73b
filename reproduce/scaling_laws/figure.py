"""The drawing of scaling laws: errors against size and samples on log axes, and maps of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.records.schema import RunRecord
from reproduce.drawing.style import BLACK, GREY, frame, new_figure, quiet
from reproduce.judging.power_laws import band_over_trials, fit_power_law
from reproduce.judging.reproduction import View
from reproduce.scaling_laws import records as runs
from reproduce.scaling_laws.records import NAIVE, POPULATION, SCHEMES, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Scaling laws of associative memories, by what is stored"
# Reference lines of the published figures, as in the released code of the paper (repository
# VivienCabannes/memory-theory, commit 99cca43): factor and exponent, for α = 2.
AGAINST_SIZE = ((0.35, -1 / 4), (3.5, -1.0))
AGAINST_SAMPLES = ((0.5, -1 / 2),)
FLOOR = 2e-5  # of the error axes, with room for the legend


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """Two panels against d, two against n, and a map of each naive scheme over both."""
    figure = new_figure(13.5, 8.2)
    # The frame comes first: a colour bar takes its place from the layout that the figure then has.
    frame(figure, TITLE, [record for record in records if record.role != "baseline"], view)
    panels = figure.subplots(2, 3)
    n, d = runs.samples(records), runs.dimensions(records)
    if d:
        _against_size(panels[0, 0], records, POPULATION)
        panels[0, 0].set_title("infinitely many samples", fontsize=9.5)
    if n and d:
        _against_size(panels[0, 1], records, f"n={n[-1]}")
        panels[0, 1].set_title(f"n = {n[-1]:,} samples", fontsize=9.5)
        for axes, size in (
            (panels[1, 0], d[-1]),
            (panels[1, 1], runs.nearest_size(records, SMALL)),
        ):
            _against_samples(axes, records, size)
            axes.set_title(f"size d = {size:,}", fontsize=9.5)
    for axes, scheme in zip(panels[:, 2], NAIVE, strict=True):
        _map(axes, records, scheme)
    return figure


def _against_size(axes: Axes, records: Sequence[RunRecord], row: str) -> None:
    x = runs.dimensions(records)
    window = runs.settings(records)["fit_dimensions"]
    alpha = runs.settings(records)["alpha"]
    laws = {name: s.slope(alpha) for name, s in SCHEMES.items() if s.slope is not None}
    _curves(axes, x, lambda scheme: runs.errors(records, scheme, row), window, laws)
    if row == POPULATION:
        few = runs.errors(records, "seen", POPULATION, "few tokens")
        if few is not None:
            tokens = runs.settings(records, "few tokens")["tokens"]
            look: dict[str, Any] = {"color": SCHEMES["seen"].colour, "linestyle": "--"}
            sizes = runs.dimensions(records, "few tokens")
            axes.plot(sizes, few.mean(0), linewidth=1, label=f"q = 1, N = {tokens}", **look)
    _references(axes, records, x, AGAINST_SIZE, "d")
    _finish(axes, "size d")


def _against_samples(axes: Axes, records: Sequence[RunRecord], size: int) -> None:
    x = runs.samples(records)
    task = runs.settings(records)
    law = -(task["alpha"] - 1) / task["alpha"]  # of schemes that have room for what was seen
    laws = dict.fromkeys(SCHEMES, law) if size == max(task["dimensions"]) else {}
    _curves(
        axes,
        x,
        lambda scheme: runs.errors_by_samples(records, scheme, size),
        task["fit_samples"],
        laws,
    )
    table = runs.infinite_memory(records)
    if table:
        label = "a table without limits"
        axes.plot(table["x"], table["y"], color=BLACK, linewidth=1, linestyle="--", label=label)
    _references(axes, records, x, AGAINST_SAMPLES, "n")
    _finish(axes, "samples n")


def _curves(
    axes: Axes,
    x: Sequence[int],
    values_of: Callable[[str], NDArray[np.float64] | None],
    window: Sequence[float],
    laws: Mapping[str, float],
) -> None:
    """Means with 95 % intervals over trials. In the legend, for schemes that have a law in theory,
    the slope over ``window`` with its interval, beside that law."""
    for name, scheme in SCHEMES.items():
        values = values_of(name)
        if values is None:
            continue
        band = band_over_trials(values)
        fit = fit_power_law(x, values, *window) if name in laws else None
        slope = ""
        if fit is not None:
            low, high = fit.interval()
            slope = f": {fit.slope:.2f} [{low:.2f}, {high:.2f}], theory {laws[name]:.2f}"
        label = scheme.label + slope.replace("-", "−")
        axes.plot(
            x,
            _shown(band.mean),
            color=scheme.colour,
            linewidth=1.4,
            marker="o",
            markersize=3,
            label=label,
        )
        axes.fill_between(
            x, _shown(band.low), _shown(band.high), color=scheme.colour, alpha=0.2, linewidth=0
        )


def _shown(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Errors of 0 leave a log axis; they lie at its foot."""
    return np.maximum(values, FLOOR / 2)


def _references(
    axes: Axes,
    records: Sequence[RunRecord],
    x: Sequence[int],
    lines: Sequence[tuple[float, float]],
    symbol: str,
) -> None:
    if runs.settings(records)["alpha"] != 2:
        return
    ends = np.array([x[0], x[-1]], dtype=float)
    for place, (factor, exponent) in enumerate(lines):
        label = "published reference lines" if len(lines) > 1 else "published reference line"
        axes.plot(
            ends,
            factor * ends**exponent,
            color=GREY,
            linewidth=0.9,
            linestyle=":",
            label=None if place else label,
        )
        text = f"${factor:g}\\,{symbol}^{{{exponent:g}}}$"
        y = factor * ends[1] ** exponent
        offset: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points"}
        axes.annotate(text, (ends[1], y), fontsize=7, color=GREY, va="center", **offset)


def _finish(axes: Axes, label: str) -> None:
    quiet(axes)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(FLOOR, 1)
    axes.set_xlabel(label, fontsize=8.5)
    axes.set_ylabel("error over the population", fontsize=8.5)
    axes.legend(fontsize=6.5, frameon=False, loc="lower left")


def _map(axes: Axes, records: Sequence[RunRecord], scheme: str) -> None:
    """The mean error over samples and sizes, as published for naive schemes."""
    d, n = runs.dimensions(records, "map"), runs.samples(records, "map")
    rows = [runs.errors(records, scheme, f"n={k}", "map") for k in n]
    means = [row.mean(0) for row in rows if row is not None]
    if not means or len(means) < len(rows):
        axes.set_axis_off()
        return
    task = runs.settings(records, "map")
    mesh = axes.pcolormesh(
        n, d, np.array(means).T, cmap="cividis", vmin=0, vmax=1, shading="nearest", rasterized=True
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("samples n", fontsize=8.5)
    axes.set_ylabel("size d", fontsize=8.5)
    axes.tick_params(labelsize=8)
    name = f"{SCHEMES[scheme].label}: N = {task['tokens']}, α = {task['alpha']:g}"
    axes.set_title(name, fontsize=9.5)
    bar = axes.figure.colorbar(mesh, ax=axes)
    bar.set_label("error", fontsize=8)
    bar.ax.tick_params(labelsize=7)
