"""The drawing of scaling laws: errors against size and samples on log axes, and maps of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bench.records.schema import RunRecord
from ground.statistics import SHARE, mean_interval
from judging.power_laws import Fit, signed
from pictures.panels import Axis, Line, Panel, Picture, Row, Trace
from reproduce.drawing.traces import published
from reproduce.scaling_laws.runs import (
    FEW_TOKENS,
    LAWS,
    MAP,
    NAIVE,
    POPULATION,
    SCHEMES,
    TABLE,
    Errors,
    Part,
)

TITLE = "Scaling laws of associative memories, by what is stored"
SMALL = 64  # the size d at which too many memories overflow
# Reference lines of the published figures, as in the released code of the paper (repository
# VivienCabannes/memory-theory, commit 99cca43): factor and exponent, for α = 2.
REFERENCES = {"d": ((0.35, -0.25), (3.5, -1.0)), "n": ((0.5, -0.5),)}
ERROR = Axis("error over the population", "log", limits=(2e-5, 1))  # with room for the legend


def panels(records: Sequence[RunRecord]) -> Picture:
    """Two panels against d, two against n, and a map of each naive scheme over both."""
    main, few = Part(records), Part(records, FEW_TOKENS)
    most, largest = max(main.n, default=0), max(main.d, default=0)
    label = f"q = 1, N = {few.task.get('tokens')}"
    dashed = _curve(label, "vermillion", few.d, few.errors("seen", POPULATION), line="dashed")
    table = [
        Trace("a table without limits", run.curves["error"].x, run.curves["error"].y, role="theory")
        for run in TABLE.of(records)
    ]
    above = [
        _against_size(main, POPULATION, "infinitely many samples", dashed),
        _against_size(main, f"n={most}", f"n = {most:,} samples"),
        _map(Part(records, MAP), NAIVE[0]),
    ]
    below = [
        *(_against_samples(main, size, table) for size in (largest, main.near(SMALL))),
        _map(Part(records, MAP), NAIVE[1]),
    ]
    return Picture(TITLE, [Row(above, 4), Row(below, 4)], width=13.5)


def _against_size(main: Part, row: str, title: str, more: Sequence[Trace] = ()) -> Panel:
    def curve(name: str) -> tuple[Errors | None, Fit | None, float]:
        law = LAWS[name](main.alpha) if name in LAWS else 0.0
        return main.errors(name, row), main.in_d(name, row) if law else None, law

    return _panel(title, "size d", main.d, curve, [*more, *_references(main, main.d, "d")])


def _against_samples(main: Part, size: int, more: Sequence[Trace]) -> Panel:
    def curve(name: str) -> tuple[Errors | None, Fit | None, float]:
        law = LAWS["root"](main.alpha)  # of any scheme that has room for what was seen
        fit = main.in_n(name, size) if size == max(main.d) else None
        return main.by_samples(name, size), fit, law

    more = [*more, *_references(main, main.n, "n")]
    return _panel(f"size d = {size:,}", "samples n", main.n, curve, more)


def _panel(
    title: str,
    name: str,
    x: Sequence[int],
    curve: Callable[[str], tuple[Errors | None, Fit | None, float]],
    more: Sequence[Trace],
) -> Panel:
    measured = [
        trace
        for key, scheme in SCHEMES.items()
        for trace in (_curve(scheme.label, scheme.colour, x, *curve(key)) if x else ())
    ]
    return Panel(title, Axis(name, "log"), ERROR, [*measured, *more], legend="lower left")


def _curve(
    name: str,
    colour: str,
    x: Sequence[int],
    values: Errors | None,
    fit: Fit | None = None,
    law: float = 0.0,
    line: Line = "",
) -> list[Trace]:
    """Means over trials; in the legend the slope with its interval, beside that of theory. An
    error of 0 has no place on a log axis."""
    if values is None:
        return []
    means = [mean_interval(column, SHARE) for column in values.T.tolist()]
    legend = name
    if fit is not None:
        slope, low, high, theory = (signed(one, 2) for one in (fit.slope, *fit.interval(), law))
        legend += f": {slope} [{low}, {high}], theory {theory}"
    if zeros := [f"{at:,}" for at, one in zip(x, means, strict=True) if one.mean == 0]:
        legend += f", 0 at {', '.join(zeros)}"
    y = [one.mean or None for one in means]  # an error of 0 has no place on a logarithmic axis
    intervals = [one.interval if one.mean else None for one in means]
    return [Trace(name, x, y, intervals, mark="both", colour=colour, legend=legend, line=line)]


def _references(main: Part, x: Sequence[int], symbol: str) -> list[Trace]:
    found, legend = [], "published reference lines"
    for factor, exponent in REFERENCES[symbol] if main.alpha == 2 else ():
        name = f"{factor:g} {symbol}^{exponent:g}"
        ends = [(at, factor * at**exponent) for at in (x[0], x[-1])]
        found.append(published(name, ends, end=name, mark="line", legend=legend))
    return found


def _map(grid: Part, scheme: str) -> Panel:
    """The mean error over samples and sizes, as published for naive schemes."""
    rows = [grid.errors(scheme, f"n={k}") for k in grid.n]
    means = [row.mean(0) for row in rows if row is not None]
    if not means or len(means) < len(rows):
        return Panel()
    label, task = SCHEMES[scheme].label, grid.task
    trace = Trace(label, grid.n, grid.d, z=np.array(means).T.tolist(), mark="heat")
    title = f"{label}: N = {task['tokens']}, α = {task['alpha']:g}"
    x, y = Axis("samples n", "log"), Axis("size d", "log")
    return Panel(title, x, y, [trace], z=Axis("error", limits=(0, 1)))
