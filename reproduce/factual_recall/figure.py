"""The figure of factual recall: trade-off, facts against parameters, phases of learning."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.records.schema import RunRecord
from ground.statistics import mean_of
from pictures.panels import Axis, Panel, Picture, Remark, Row, Trace
from reproduce.drawing.traces import curve_over_seeds
from reproduce.factual_recall.runs import DIAGRAMS, LEARNED, fit_of, searches

TITLE = "Factual recall: attention or MLP, facts for parameters, and what is learned first"
PUBLISHED_SLOPE = 0.15
LEGIBLE = 40  # cells into which their numbers are written
LEARNING = {  # name of a curve without its kind: what it is about, and colour
    "": ("answer", "black"),
    "relation_": ("its relation", "orange"),
    "choice_": ("its number within the relation (subject)", "green"),
}


def panels(records: Sequence[RunRecord]) -> Picture:
    """The trade-off, facts against parameters, and loss and accuracy while facts are learned."""
    levels = [Remark(f"ln {n}", y=math.log(n), colour="vermillion") for n in (32, 8)]
    below = [
        _learning(records, "loss", Axis("nats"), levels),
        _learning(records, "accuracy", Axis("accuracy"), ()),
    ]
    above = [_diagram([r for r in filter(DIAGRAMS.has, records) if r.outcome == "ok"])]
    above.append(_facts([r for r in searches(records) if r.outcome == "ok"]))
    return Picture(TITLE, [Row(above, 4), Row(below, 4)], width=13.2)


def _diagram(runs: Sequence[RunRecord]) -> Panel:
    first = runs[0].arrays if runs else {}
    rows, columns = first.get("attention_parameters", []), first.get("mlp_parameters", [])
    same = [run.arrays["accuracy"] for run in runs if run.arrays["heads"] == first["heads"]]
    mean = [
        [mean_of([table[i][j] for table in same]) for i in range(len(rows))]
        for j in range(len(columns))
    ]
    legible = len(rows) * len(columns) <= LEGIBLE
    places = range(len(rows)), range(len(columns))
    numbers = ".2f" if legible else ""
    return Panel(
        "best accuracy (mean over seeds)",
        Axis("attention parameters, d · d_h · H", categories=[f"{n:,}" for n in rows]),
        Axis("MLP parameters, d · m", categories=[f"{n:,}" for n in columns]),
        [Trace("accuracy", *places, z=mean, mark="heat", numbers=numbers)] if runs else [],
        z=Axis("" if legible else "accuracy", limits=(0, 1)),
    )


def _facts(runs: Sequence[RunRecord]) -> Panel:
    x, y = Axis("trained parameters, 4 H d_h d + 2 m d", "log"), Axis("facts", "log")
    title, fit = "most facts recalled, S R with S = R, by bisection", fit_of(runs)
    if fit is None:
        return Panel(title, x, y, remarks=[Remark("not run at this preset")])
    across, facts = (
        [value for run in runs for value in run.arrays[name]] for name in ("parameters", "facts")
    )
    ends = min(across), max(across)
    here = [fit.slope * end for end in ends]
    published = [PUBLISHED_SLOPE * end for end in ends]
    traces = [
        Trace("searches", across, facts, mark="dots", legend=""),
        Trace("fit", ends, here, legend=f"facts for each parameter, here: {fit}"),
        Trace("published", ends, published, role="published", legend="0.15, published"),
    ]
    return Panel(title, x, y, traces, legend="upper left")


def _learning(records: Sequence[RunRecord], what: str, y: Axis, levels: Sequence[Remark]) -> Panel:
    runs = [run for run in LEARNED.of(records) if run.outcome == "ok"]
    traces = [
        curve_over_seeds(label, runs, f"{name}{what}", colour=colour)
        for name, (label, colour) in LEARNING.items()
    ]
    title = f"linear attention, one-hot: {what} by step, mean and every seed"
    return Panel(title, Axis("step"), y, traces, levels, legend="best")
