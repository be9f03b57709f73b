"""How the attention of heads is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bench.records.schema import RunRecord
from judging.grammar import setting
from pictures.panels import Axis, Panel, Picture, Remark, Row, Trace
from reproduce.attention.heads import EXTENDED, Heads, heads
from reproduce.attention.runs import LABELS, kind_of, results
from reproduce.drawing.frame import failures

X = Axis("position in the window; the last one reads")
Y = Axis("average attention, times uniform", "log", ticks=(0.01, 0.1, 1, 10, 100, 1000))
LOWEST = 0.01  # of the attention axis: ALiBi's falls exponentially
NO_RESULT = Remark("no result")
DIGITS = 5


def picture(title: str, records: Sequence[RunRecord], panels: Sequence[Panel]) -> Picture:
    """The panels beside each other; runs that failed are named with their kind of positions."""
    named = [r.model_copy(update={"label": LABELS[kind_of(r)]}) for r in records]
    return Picture(title, [Row(panels)], 2.4 + 3.2 * len(panels), foot=failures(named))


def by_position(
    title: str, records: Sequence[RunRecord], kinds: Sequence[str], windows: str
) -> Picture:
    """A panel for each kind of models, on one scale."""
    panels = [_by_position(records, kind, windows) for kind in kinds]
    drawn = [y for panel in panels for trace in panel.traces for y in trace.y if y is not None]
    limits = (max(LOWEST, min(drawn) / 1.2), max(drawn) * 1.2) if drawn else (LOWEST, 1.0)
    panels = [replace(panel, y=replace(Y, limits=limits)) for panel in panels]
    found = picture(title, records, panels)
    return replace(found, rows=[Row(panels, shared=True)], legend="below")


def _by_position(records: Sequence[RunRecord], kind: str, windows: str) -> Panel:
    """Heads of one seed thin, the mean over heads of each seed dotted, uniform attention grey, and
    a line where a training window would begin."""
    runs = results(records, kind)
    if not runs:
        return Panel(LABELS[kind], X, remarks=[NO_RESULT])
    first = heads(runs[0], windows)
    legend = f"{len(first)} heads of {runs[0].label}, seed {runs[0].seed}"
    look: dict[str, Any] = {"colour": runs[0].model, "legend": legend}
    traces = [line(f"head {n}", head, role="faint", **look) for n, head in enumerate(first)]
    look = {"colour": "black", "line": "dotted", "legend": "mean over heads, every seed"}
    for run in runs:
        mean = heads(run, windows).mean(axis=0)
        traces.append(line(f"mean over heads, seed {run.seed}", mean, **look))
    reach = setting(runs[0], "tasks.length")
    begin = Remark(f"training reaches {reach} tokens back", x=first.shape[-1] - reach, side="left")
    remarks = [Remark(y=1.0), *([begin] if windows == EXTENDED else [])]
    return Panel(LABELS[kind], X, traces=traces, remarks=remarks)


def line(name: str, curve: Heads, first: int = 0, **look: Any) -> Trace:
    """A curve without zeros, for which a logarithmic axis has no place; from position ``first``."""
    rounded = curve.round(DIGITS)
    places = range(first, first + len(curve))
    return Trace(name, places, [y if y > 0 else None for y in rounded.tolist()], **look)
