"""The figure of capacities: every memory by width and by size, and the constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bench.ground.statistics import mean_interval
from bench.records.schema import RunRecord
from reproduce.capacity.records import (
    CONSTANTS,
    HEBB,
    LINEAR,
    MLP,
    RANKS_AT,
    by_rank,
    lines,
    overview,
    trials_at,
    widths_of,
)
from reproduce.drawing.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    frame,
    new_figure,
    quiet,
)
from reproduce.judging.reproduction import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Capacity: associations recalled, by width and by size of the memory"
COLOURS = (ORANGE, BLACK, VERMILLION, BLUE, PURPLE, GREEN)  # of the constants
# Model -> its colour, line and marker, by what is kept; models that are not named here are grey.
LOOKS = {
    "nearest_neighbour": (GREEN, ":", "D"),
    "modern_hopfield": (GREEN, "--", "s"),
    "kernel": (GREEN, "-", "o"),
    "classical_hopfield": (GREY, "--", "s"),
    "random_features": (ORANGE, "-.", "^"),
    "ridge": (ORANGE, "--", "s"),
    HEBB: (ORANGE, "-", "o"),
    "low_rank": (ORANGE, ":", "D"),
    "stored_in_weights": (VERMILLION, "-.", "^"),
    MLP: (VERMILLION, "--", "s"),
    "trained_low_rank": (VERMILLION, ":", "D"),
    LINEAR: (VERMILLION, "-", "o"),
    "neural_memory_linear": (PURPLE, "--", "s"),
    "neural_memory": (PURPLE, "-", "o"),
    "gated_delta": (BLUE, "--", "s"),
    "delta_rule": (BLUE, "-", "o"),
}
SCALE = (0.1, 0.2, 0.5, 1, 2, 5)
LEGEND: dict[str, Any] = {
    "loc": "upper left",
    "bbox_to_anchor": (1.0, 1.0),
    "fontsize": 7,
    "frameon": False,
    "handlelength": 4,
}
NOTE: dict[str, Any] = {"fontsize": 6.5, "color": GREY, "ha": "right", "va": "bottom"}
UNKNOWN = (GREY, "-", "x")
STEP = 0.018  # of a width, by which the lines of two memories are moved apart


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """N against d and against size for every memory, and the constants beside published ones."""
    runs = [record for record in overview(records) if record.outcome == "ok"]
    places = {name: place for place, name in enumerate(LOOKS)}
    runs.sort(key=lambda record: (places.get(record.model, len(places)), record.model))
    figure = new_figure(15.5, 5.4)
    panels = figure.subplots(1, 4, width_ratios=(1.15, 1, 0.9, 0.6))
    for axes, x, name in (
        (panels[0], "widths", "d, width of keys and values"),
        (panels[1], "weights", "numbers that hold them, copies for replay left out"),
    ):
        quiet(axes)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(name, fontsize=8.5)
        axes.text(0.99, 0.01, "lines are moved apart sideways", transform=axes.transAxes, **NOTE)
        for place, record in enumerate(runs):
            across, n = lines(record, x)
            moved = [at * (1 + STEP * (place - len(runs) / 2)) for at in across]
            colour, style, marker = LOOKS.get(record.model, UNKNOWN)
            look: dict[str, Any] = {"color": colour, "marker": marker, "markerfacecolor": "white"}
            axes.plot(moved, n, style, **look, linewidth=1.2, markersize=4, label=record.label)
    share = {f"{record.config['tasks']['thresholds'][0]:.0%}" for record in runs}
    panels[0].set_ylabel(f"N, associations recalled to {' or '.join(sorted(share))}", fontsize=8.5)
    panels[0].set_title("against the width", fontsize=9)
    panels[1].set_title("against the size of the memory", fontsize=9)
    if runs:
        _limits(panels[0], runs)
        panels[0].legend(**LEGEND)
    _constants(panels[2], records)
    _ranks(panels[3], records)
    frame(figure, TITLE, [r for r in records if r.role != "baseline"], view)
    return figure


def _limits(axes: Axes, runs: Sequence[RunRecord]) -> None:
    widths = sorted({w for run in runs for w in run.arrays["widths"]})
    axes.set_xticks(widths, [str(width) for width in widths], fontsize=7)
    axes.minorticks_off()
    most = runs[0].config["tasks"]["largest"]
    axes.plot(
        widths,
        [most * w**2 for w in widths],
        ":",
        color=GREY,
        linewidth=0.9,
        label="as many as were tried",
    )
    published = [solve(width**2 / 1.3) for width in widths]
    name = "published for a trained matrix:\nd² = 1.3 N log N"
    axes.plot(widths, published, "--", color=BLACK, linewidth=0.8, label=name)


def _constants(axes: Axes, records: Sequence[RunRecord]) -> None:
    quiet(axes)
    axes.set_xscale("log")
    axes.set_xlabel("d", fontsize=8.5)
    axes.set_title(
        "constants: trials, 95 % interval;\ndashed: published or theory; dotted:\n"
        "end of the published search of an MLP",
        fontsize=8.5,
    )
    axes.axhline(1.0, color=BLUE, linestyle=":", linewidth=0.8)
    ticks: set[int] = set()
    for place, (constant, colour) in enumerate(zip(CONSTANTS, COLOURS, strict=True)):
        axes.axhline(constant.published, color=colour, linestyle="--", linewidth=0.8)
        widths = widths_of(records, constant)
        ticks |= set(widths)
        for width in widths:
            found = trials_at(records, constant, width)
            summary = mean_interval(found)
            at = width * (1 + 3 * STEP * (place - 2.5))
            axes.plot([at] * len(found), found, "_", color=colour, markersize=5, alpha=0.6)
            if summary.interval is not None:
                axes.vlines(at, *summary.interval, color=colour, linewidth=1.2)
        axes.plot([], [], "o", color=colour, label=constant.label)
    axes.set_yscale("log")
    axes.set_ylim(0.05, 150)  # the legend above
    axes.set_yticks(SCALE, [f"{at:g}" for at in SCALE], fontsize=7)
    axes.set_xticks(sorted(ticks), [str(width) for width in sorted(ticks)], fontsize=7)
    axes.minorticks_off()
    axes.legend(fontsize=7, frameon=False, loc="upper right")


def _ranks(axes: Axes, records: Sequence[RunRecord]) -> None:
    quiet(axes)
    axes.set_title(f"trained low rank, d = {RANKS_AT}:\nN by rank m, of each draw", fontsize=8.5)
    axes.set_xlabel("m", fontsize=8.5)
    found = by_rank(records)
    if not found:
        return
    means = [sum(trials) / len(trials) for trials in found.values()]
    axes.plot([*found], means, color=VERMILLION, linewidth=1.2)
    for rank, trials in found.items():
        axes.plot([rank] * len(trials), trials, "_", color=VERMILLION, markersize=6)
    first = next(iter(found))
    line = [means[0] * rank / first for rank in found]
    axes.plot([*found], line, ":", color=GREY, linewidth=0.9, label="in proportion to m")
    axes.set_ylim(0, 1.6 * max(means))
    axes.set_xticks([*found], [str(rank) for rank in found], fontsize=7)
    axes.legend(fontsize=7, frameon=False, loc="lower right")


def solve(product: float) -> float:
    """N with N log N = ``product``."""
    n = max(product, 2.0)
    for _ in range(60):
        n = product / math.log(max(n, 1.5))
    return n
