"""Figure 16: the leaky average of a head, and how wide the recent peak of its attention is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.records.schema import RunRecord
from reproduce.attention import attention
from reproduce.attention.attention import MOSAIC, TRAINED
from reproduce.drawing.style import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILLION, new_figure, quiet
from reproduce.judging.claims import Claim, Finding, Tolerance, mean_within
from reproduce.judging.reproduction import View
from reproduce.stories.language import frame, stating_corpus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Figure 16. The larger λ of a head, the wider the recent peak of its attention"
SOURCE = f"{attention.SOURCE}, figure 16"
SHOWN = 4  # the newest quarter of the positions is drawn
MARKERS = ("o", "s", "^", "D", "v")
COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, BLACK)


def wider_with_lambda(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The rank correlation over heads, mean over seeds."""
    found = attention.sample(
        records,
        MOSAIC,
        "rank correlation of λ and width",
        attention.rank_correlation,
        diverged=0.0,
        bounds=(-1.0, 1.0),
    )
    return mean_within(found, low=numbers["correlation"])


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """The newest quarter of each head's curve, coloured by λ, and widths against λ."""
    figure = new_figure(9.6, 4.1)
    figure.set_layout_engine("constrained")  # before the colour bar, which depends on it
    left, right = figure.subplots(1, 2)
    _curves(figure, left, attention.shown(records, MOSAIC))
    quiet(right)
    for place, record in enumerate(attention.runs(records, MOSAIC)):
        if record.outcome == "ok":
            right.plot(
                attention.coefficients(record),
                attention.peak_widths(attention.heads(record, TRAINED)),
                linestyle="",
                marker=MARKERS[place % len(MARKERS)],
                color=COLOURS[place % len(COLOURS)],
                markersize=5,
                alpha=0.8,
                label=_label(record),
            )
    right.set_xlabel("λ, leaky average coefficient of the head", fontsize=8.5)
    right.set_ylabel("width of the recent peak (positions)", fontsize=8.5)
    right.set_title("every head of every seed", fontsize=9.5)
    if right.lines:
        right.legend(fontsize=7.5, frameon=False, loc="upper left")
    frame(figure, TITLE, attention.named(records), view)
    return figure


def _label(record: RunRecord) -> str:
    correlation = attention.rank_correlation(record)
    found = "no peak" if correlation is None else f"rank correlation {correlation:.2f}"
    return f"seed {record.seed}: {found}"


def _curves(figure: Figure, axes: Axes, record: RunRecord | None) -> None:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    quiet(axes)
    axes.set_xlabel("distance to the last position, which reads", fontsize=8.5)
    axes.set_ylabel("average attention over the head's flat level", fontsize=8.5)
    if record is None:
        axes.annotate("no result", (0.5, 0.5), xycoords="axes fraction", ha="center", fontsize=9)
        return
    heads = attention.heads(record, TRAINED)
    distances = np.arange(1, heads.shape[-1] // SHOWN)
    scale, colours = Normalize(0, 1), colormaps["cividis"]
    levels = np.maximum(attention.flat_level(heads), 1 / heads.shape[-1])
    for head, level, coefficient in zip(heads, levels, attention.coefficients(record), strict=True):
        relative = attention.visible(head[-1 - distances] / level)
        axes.plot(distances, relative, color=colours(scale(coefficient)), linewidth=1.4)
    attention.logarithmic(axes)
    axes.axhline(attention.PEAK, color=GREY, linewidth=0.8, linestyle="--")
    axes.annotate(
        "the peak ends at twice the flat level",
        (1, attention.PEAK),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 3),
        textcoords="offset points",
        ha="right",
        fontsize=7,
        color=GREY,
    )
    axes.set_title(f"{LABEL}, the heads of seed {record.seed}", fontsize=9.5)
    bar = figure.colorbar(ScalarMappable(scale, colours), ax=axes)
    bar.set_label("λ of the head", fontsize=8.5)
    bar.ax.tick_params(labelsize=8)


LABEL = attention.LABELS[MOSAIC]


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """The heads, and λ, width and rank correlation of every seed."""
    content = attention.curves(TRAINED)(records)
    for record in records:
        if record.outcome == "ok":
            correlation = attention.rank_correlation(record)
            content["runs"][record.run_id]["rank_correlation"] = correlation
    return content


REPRODUCTION = attention.reproduction(
    TITLE,
    SOURCE,
    (MOSAIC,),
    draw,
    curves,
    claims=(
        Claim(
            "width of the peak and λ",
            SOURCE,
            "The larger the leaky average coefficient λ of a head, the wider the peak at the end "
            "of its attention curve.",
            Tolerance(
                "Spearman's rank correlation over heads, of λ and of the distance at which the "
                "curve, positions joined by straight lines, first falls to twice its flat level "
                "(the median over all but the newest eighth; 0 if it is never above), is above "
                "{correlation:g} with its whole 95 % interval over seeds",
                {"correlation": 0.0},
            ),
            stating_corpus(wider_with_lambda),
        ),
    ),
)
