"""The figure of capacities: every memory by width and by size, and the constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.records.schema import RunRecord
from pictures import models
from pictures.panels import Axis, Panel, Picture, Remark, Row, Trace
from reproduce.capacity.runs import CONSTANTS, RANKS_AT, Constant, by_rank, overview
from reproduce.drawing.traces import over_trials, published

TITLE = "Capacity: associations recalled, by width and by size of the memory"
SCALE = (0.1, 0.2, 0.5, 1, 2, 5)
MOVED = Remark("lines are moved apart sideways", place="lower right")


def panels(records: Sequence[RunRecord]) -> Picture:
    """N against d and against size for every memory, and the constants beside published ones."""
    runs = [record for record in overview(records) if record.outcome == "ok"]
    runs.sort(key=lambda run: (models.look(run.model), run.model, run.seed))
    shares = sorted({f"{_threshold(run):.0%}" for run in runs})
    n = Axis(f"N, associations recalled to {' or '.join(shares)}", "log")
    widths = sorted({width for run in runs for width in run.arrays["widths"]})
    by_width = Panel(
        "against the width",
        Axis("d, width of keys and values", "log", ticks=widths),
        n,
        [*_memories(runs, "widths"), *_limits(runs, widths)],
        [MOVED],
        legend="right",
    )
    by_size = Panel(
        "against the size of the memory",
        Axis("numbers that hold them, copies for replay left out", "log"),
        Axis("", "log"),
        _memories(runs, "weights"),
        [MOVED],
    )
    row = [by_width, by_size, _constants(records), _ranks(records)]
    return Picture(TITLE, [Row(row, 4.8, widths=(1.15, 1, 0.9, 0.6))], width=15.5)


def _threshold(run: RunRecord) -> float:
    return float(run.config["tasks"]["thresholds"][0])  # the stricter one


def _memories(runs: Sequence[RunRecord], x: str) -> list[Trace]:
    found = []
    for place, run in enumerate(runs):
        counts = run.curves[f"associations/{_threshold(run):g}"]
        across = counts.x if x == "widths" else run.curves[f"{x}/{_threshold(run):g}"].y
        trace = Trace(
            f"{run.label}, seed {run.seed}",
            across,
            counts.y,
            mark="both",
            colour=run.model,
            hollow=True,
            aside=0.37 * (place - len(runs) / 2),
            legend=run.label,
        )
        found.append(trace)
    return found


def _limits(runs: Sequence[RunRecord], widths: Sequence[int]) -> list[Trace]:
    if not runs:
        return []
    most = runs[0].config["tasks"]["largest"]
    tried = [most * width**2 for width in widths]
    fit = [(width, solve(width**2 / 1.3)) for width in widths]
    name = "published for a trained matrix:\nd² = 1.3 N log N"
    return [
        Trace("as many as were tried", widths, tried, role="reference"),
        published(name, fit, mark="line", colour="black"),
    ]


def _constants(records: Sequence[RunRecord]) -> Panel:
    trials = {constant: constant.trials(records) for constant in CONSTANTS}
    widths = sorted({width for found in trials.values() for width in found})
    traces = [
        trace
        for place, constant in enumerate(CONSTANTS)
        for trace in _constant(constant, trials[constant], widths, place - 2.5)
    ]
    return Panel(
        "constants: trials, 95 % interval;\ndashed: published or theory; dotted:\n"
        "end of the published search of an MLP",
        Axis("d", "log", ticks=widths),
        Axis("", "log", limits=(0.05, 400), ticks=SCALE),  # the legend above
        traces,
        [Remark(y=1, colour="blue")],
        legend="upper right",
    )


def _constant(
    constant: Constant, found: dict[int, list[float]], widths: Sequence[int], aside: float
) -> list[Trace]:
    level = [(width, constant.published) for width in widths]
    text, colour = constant.label, constant.colour
    label = text.replace("\n", " ")
    return [
        over_trials(label, found, mark="dots", colour=colour, aside=aside, legend=text),
        published(f"{label}, published", level, mark="line", colour=colour, legend=""),
    ]


def _ranks(records: Sequence[RunRecord]) -> Panel:
    found = by_rank(records)
    n = over_trials("N of each draw", found, colour="vermillion", legend="")
    line = [(n.y[0] or 0.0) * rank / min(found) for rank in found]
    return Panel(
        f"trained low rank, d = {RANKS_AT}:\nN by rank m, of each draw",
        Axis("m", ticks=[*found]),
        Axis("", limits=(0, 1.6 * max((y or 0.0 for y in n.y), default=1))),
        [n, Trace("in proportion to m", [*found], line, role="reference")],
        legend="lower right",
    )


def solve(product: float) -> float:
    """N with N log N = ``product``."""
    n = max(product, 2.0)
    for _ in range(60):
        n = product / math.log(max(n, 1.5))
    return n
