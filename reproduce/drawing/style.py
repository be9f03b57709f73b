"""How all figures look: one colour-blind-safe palette, quiet axes, a subtitle that says what was
measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bench.records.schema import RunRecord
from reproduce.drawing.frame import failures, subtitle
from reproduce.judging.reproduction import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with any colour vision tell apart.
BLACK, ORANGE, GREEN = "#1a1a1a", "#e69f00", "#009e73"
BLUE, VERMILLION, PURPLE = "#0072b2", "#d55e00", "#cc79a7"
GREY, LIGHT = "#666666", "#d9d9d9"


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, without global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor="white")


def quiet(axes: Axes) -> None:
    """Only the axes and a light grid."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)
    axes.tick_params(colors=GREY, labelcolor=BLACK, labelsize=8)
    axes.grid(axis="y", color=LIGHT, linewidth=0.5)
    axes.set_axisbelow(True)


def frame(figure: Figure, title: str, records: Sequence[RunRecord], view: View) -> None:
    """Title, the seeds and scale of the trained ``records``, and at the foot each failed run."""
    height = figure.get_figheight()
    lost = failures(records)
    left: dict[str, Any] = {"x": 0.01, "ha": "left", "va": "top"}
    figure.text(y=1 - 0.1 / height, s=title, fontsize=11, weight="bold", **left)
    text = subtitle(records, view)
    figure.text(y=1 - 0.32 / height, s=text, fontsize=8, color=GREY, **left)
    foot = 0.15 * len(lost) + 0.05 * bool(lost)
    for line, clause in enumerate(lost):
        y = (foot - 0.15 * line) / height
        figure.text(y=y, s=f"✗ {clause}", fontsize=7.5, color=VERMILLION, **left)
    rect = (0, foot / height, 1, 1 - (foot + 0.55) / height)
    figure.set_layout_engine("constrained", rect=rect)


def direct_labels(axes: Axes, ends: Sequence[tuple[float, str, str]], x: float, gap: float) -> None:
    """Labels at the right of curves, (y, text, colour), moved apart by at least ``gap``."""
    placed: list[float] = []
    for y, text, colour in sorted(ends):
        height = max(y, placed[-1] + gap) if placed else y
        placed.append(height)
        options: dict[str, Any] = {"fontsize": 7.5, "color": colour, "va": "center"}
        axes.annotate(
            text,
            (x, height),
            xytext=(5, 0),
            textcoords="offset points",
            annotation_clip=False,
            **options,
        )
