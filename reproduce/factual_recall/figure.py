"""The figure of factual recall: trade-off, facts against parameters, phases of learning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.records.schema import RunRecord
from reproduce.drawing.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILLION,
    frame,
    new_figure,
    quiet,
)
from reproduce.factual_recall.records import DIAGRAM, PHASES, fit_of, of_part, searches
from reproduce.judging.reproduction import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Factual recall: attention or MLP, facts for parameters, and what is learned first"
PUBLISHED_SLOPE = 0.15
# Name of the curve, of what it is about, and colour.
LOSSES = (
    ("loss", "answer", BLACK),
    ("relation_loss", "its relation", ORANGE),
    ("choice_loss", "its number within the relation (subject)", GREEN),
)
ACCURACIES = (
    ("accuracy", "answer", BLACK),
    ("relation_accuracy", "its relation", ORANGE),
    ("choice_accuracy", "its number within the relation (subject)", GREEN),
)


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """The trade-off, facts against parameters, and loss and accuracy while facts are learned."""
    figure = new_figure(13.2, 8.4)
    panels = figure.subplots(2, 2).flatten()
    _diagram(panels[0], [r for r in of_part(records, DIAGRAM) if r.outcome == "ok"])
    _facts(panels[1], searches(records))
    learned = [r for r in of_part(records, PHASES) if r.outcome == "ok"]
    _phases(panels[2], learned, "loss", LOSSES)
    for level, name in ((32, "ln 32"), (8, "ln 8")):
        panels[2].axhline(math.log(level), color=VERMILLION, linestyle=":", linewidth=0.8)
        panels[2].text(0, math.log(level) + 0.04, name, fontsize=7, color=VERMILLION)
    panels[2].set_ylabel("nats", fontsize=8.5)
    _phases(panels[3], learned, "accuracy", ACCURACIES)
    frame(figure, TITLE, [r for r in records if r.role != "baseline"], view)
    return figure


def _diagram(axes: Axes, runs: Sequence[RunRecord]) -> None:
    axes.set_title("best accuracy (mean over seeds)", fontsize=9)
    axes.set_xlabel("attention parameters, d · d_h · H", fontsize=8.5)
    axes.set_ylabel("MLP parameters, d · m", fontsize=8.5)
    if not runs:
        return
    first = runs[0].arrays
    rows, columns = first["attention_parameters"], first["mlp_parameters"]
    same = [run.arrays["accuracy"] for run in runs if run.arrays["heads"] == first["heads"]]
    mean = [
        [sum(table[i][j] for table in same) / len(same) for i in range(len(rows))]
        for j in range(len(columns))
    ]
    axes.imshow(mean, origin="lower", aspect="auto", cmap="cividis", vmin=0, vmax=1)
    if len(rows) * len(columns) <= 40:
        for j, row in enumerate(mean):
            for i, share in enumerate(row):
                colour = "white" if share < 0.6 else BLACK
                axes.text(i, j, f"{share:.2f}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(rows)), [f"{n:,}" for n in rows], fontsize=7, rotation=45)
    axes.set_yticks(range(len(columns)), [f"{n:,}" for n in columns], fontsize=7)


def _facts(axes: Axes, runs: Sequence[RunRecord]) -> None:
    quiet(axes)
    axes.set_title("most facts recalled, S R with S = R, by bisection", fontsize=9)
    axes.set_xlabel("trained parameters, 4 H d_h d + 2 m d", fontsize=8.5)
    axes.set_ylabel("facts", fontsize=8.5)
    across = [p for run in runs for p in run.arrays["parameters"]]
    if not across:
        axes.text(0.5, 0.5, "not run at this preset", transform=axes.transAxes, ha="center")
        return
    axes.set_xscale("log")
    axes.set_yscale("log")
    ends = [min(across), max(across)]
    for run in runs:
        axes.plot(run.arrays["parameters"], run.arrays["facts"], "o", color=BLUE, markersize=4)
    fit = fit_of(runs)
    assert fit is not None  # there are parameters
    axes.plot(ends, [fit.slope * p for p in ends], color=BLUE, linewidth=1)
    axes.plot(ends, [PUBLISHED_SLOPE * p for p in ends], "--", color=GREY, linewidth=1)
    texts = (f"facts for each parameter, here: {fit}", "dashed: 0.15, published")
    for place, text in enumerate(texts):
        axes.text(0.02, 0.95 - 0.06 * place, text, transform=axes.transAxes, fontsize=7.5)


def _phases(
    axes: Axes, runs: Sequence[RunRecord], what: str, shown: Sequence[tuple[str, str, str]]
) -> None:
    quiet(axes)
    axes.set_title(f"linear attention, one-hot: {what} by step, every seed", fontsize=9)
    axes.set_xlabel("step", fontsize=8.5)
    for place, run in enumerate(runs):
        for name, label, colour in shown:
            if name in run.curves:  # runs of a time when the task kept fewer have a loss alone
                curve = run.curves[name]
                of_first = label if place == 0 else None
                axes.plot(curve.x, curve.y, color=colour, linewidth=1, label=of_first)
    if axes.get_lines():
        axes.legend(fontsize=7.5, frameon=False)
