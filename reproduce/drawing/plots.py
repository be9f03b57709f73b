"""Panels as data, before there are records: what each shows of some runs.

Example: the accuracy of two models, a dot each, beside their losses by step::

    PANELS = [
        Plot("recall", y=Axis("accuracy", limits=(0, 1)), series=[dots("accuracy", [ONE, TWO])]),
        Plot("loss", Axis("steps"), series=[curves("validation_loss", [ONE, TWO])]),
    ]
    Picture(TITLE, rows_of(PANELS, records))

A series is a trace, or a function of the records that gives traces; so is whatever else depends on
the records, such as the runs of a series, the ticks of an axis or a whole row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from reproduce.claims.grammar import Records, Runs
from reproduce.drawing.traces import Value, curve_over_seeds, over_metrics, over_seeds
from reproduce.plotting.panels import Axis, Panel, PanelRow, Place, Remark, Trace

T = TypeVar("T")
Traces = Callable[[Records], list[Trace]]
Series = Trace | Traces
AnyRuns = Sequence[Runs] | Callable[[Records], Sequence[Runs]]


PLAIN = Axis()
SHARES = Axis(limits=(0, 1.05))


@dataclass(frozen=True)
class Plot:
    """One panel.

    Attributes:
        x, y: its axes, or functions of the records that give them.
        series: what is drawn.
        remarks: words and lines, or a function of the records that gives them.
        sideways, legend, z: as of :class:`Panel`.
    """

    title: str | Callable[[Records], str] = ""
    x: Axis | Callable[[Records], Axis] = PLAIN
    y: Axis | Callable[[Records], Axis] = PLAIN
    series: Sequence[Series] = ()
    remarks: Sequence[Remark] | Callable[[Records], Sequence[Remark]] = ()
    sideways: bool = False
    legend: Place = ""
    z: Axis | None = None

    def panel(self, records: Records) -> Panel:
        """What these records make of it."""
        traces: list[Trace] = []
        for series in self.series:
            traces += [series] if isinstance(series, Trace) else series(records)
        return Panel(
            _at(self.title, records),
            _at(self.x, records),
            _at(self.y, records),
            traces,
            _at(self.remarks, records),
            self.z,
            self.sideways,
            self.legend,
        )


AnyPanel = Plot | Panel | Callable[[Records], Panel]


@dataclass(frozen=True)
class RowOf:
    """Panels beside each other; widths and a shared axis as of :class:`Row`.

    Attributes:
        height: in inches, or a function of the panels that gives it.
    """

    panels: Sequence[AnyPanel]
    height: float | Callable[[Sequence[Panel]], float] = 3.4
    widths: Sequence[float] = ()
    shared: bool = False


Row = RowOf | Sequence[AnyPanel] | Callable[[Records], PanelRow]
Rows = Sequence[AnyPanel | Row]


def rows_of(rows: Rows, records: Records) -> list[PanelRow]:
    """The rows of a picture; panels alone are one row."""
    is_one_row = bool(rows) and isinstance(rows[0], Plot | Panel)
    drawn = []
    for row in cast("Sequence[Row]", [rows] if is_one_row else rows):
        if callable(row):
            drawn.append(row(records))
            continue
        of_row = row if isinstance(row, RowOf) else RowOf(row)
        panels = [_panel(panel, records) for panel in of_row.panels]
        height = of_row.height(panels) if callable(of_row.height) else of_row.height
        drawn.append(PanelRow(panels, height, of_row.widths, of_row.shared))
    return drawn


def _panel(panel: AnyPanel, records: Records) -> Panel:
    if isinstance(panel, Plot):
        return panel.panel(records)
    return panel if isinstance(panel, Panel) else panel(records)


def _at(value: T | Callable[[Records], T], records: Records) -> T:
    return value(records) if callable(value) else value


def curves(name: str, runs: AnyRuns, **look: Any) -> Traces:
    """A curve of the records for each of some runs, in the colour of their model."""

    def traces(records: Records) -> list[Trace]:
        drawn = []
        for run in _at(runs, records):
            style = {"colour": _colour(run), **look}
            drawn.append(curve_over_seeds(run.label, run.of(records), name, **style))
        return drawn

    return traces


def dots(value: str | Value, runs: AnyRuns, **look: Any) -> Traces:
    """A number of each of some runs, at the places 0, 1, 2 … of an axis of categories."""

    def traces(records: Records) -> list[Trace]:
        drawn = []
        for place, run in enumerate(_at(runs, records)):
            style = {"colour": _colour(run), "mark": "dots", **look}
            drawn.append(over_seeds(run.label, {place: run.of(records)}, value, **style))
        return drawn

    return traces


def dots_by_run(
    title: str, value: str | Value, runs: AnyRuns, axis: Axis = SHARES, **look: Any
) -> Plot:
    """A panel of one number of each of some runs, a line for each with its label."""
    return Plot(title, names(runs), axis, [dots(value, runs, **look)], sideways=True)


def metric_curves(runs: Runs, colours: Mapping[str, tuple[str, str]], **look: Any) -> Traces:
    """Several curves of the same runs.

    Args:
        colours: name of a curve -> what it is called, and its colour.
    """

    def traces(records: Records) -> list[Trace]:
        drawn = []
        for name, (label, colour) in colours.items():
            drawn.append(curve_over_seeds(label, runs.of(records), name, colour=colour, **look))
        return drawn

    return traces


def points(label: str, runs_by_x: Mapping[float, Runs], value: str | Value, **look: Any) -> Traces:
    """A number of some runs at several x, as one trace; x without a run are left out."""

    def traces(records: Records) -> list[Trace]:
        records_by_x = {x: runs.of(records) for x, runs in runs_by_x.items()}
        return [over_seeds(label, records_by_x, value, **look)]

    return traces


def by_metric(metrics: Mapping[int, str], runs: AnyRuns, **look: Any) -> Traces:
    """Several metrics of each of some runs, by their place on the axis, as one line."""

    def traces(records: Records) -> list[Trace]:
        drawn = []
        for run in _at(runs, records):
            style = {"colour": _colour(run), **look}
            drawn.append(over_metrics(run.label, run.of(records), metrics, **style))
        return drawn

    return traces


def names(runs: AnyRuns, label: str = "") -> Callable[[Records], Axis]:
    """An axis with the labels of runs, for :func:`dots`."""
    return lambda records: Axis(label, categories=[of.label for of in _at(runs, records)])


def _colour(runs: Runs) -> str:
    return runs.model if isinstance(runs.model, str) else ""


def by_categories(panels: Sequence[Panel]) -> float:
    """The height of a row of sideways panels: a line for each of the most categories, in inches."""
    return max(1.2, 0.8 + 0.26 * max(len(panel.x.categories) for panel in panels))
