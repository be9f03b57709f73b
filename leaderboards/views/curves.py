"""The curves of a task: which there are, in bins, and as a chart that can be zoomed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from leaderboards.contents import ModelCurve, OpenBoard, Row
from leaderboards.views.charts import Spec, chart, is_ours, is_reference, origin, series_name

BINS = 48  # places of a binned curve
POSITION, SIZE = "along the sequence and the training", "by training size"


def curves(board: OpenBoard, task: str, preset: str, variant: str, kind: str) -> list[ModelCurve]:
    """The curves of one kind: those of a configuration, or those over all training sizes with the
    published ones."""
    if kind == SIZE:
        lines_by_size = board.lines(task, by_size=True)
        return [line for line in lines_by_size if line.preset == preset or line.source]
    return board.lines(task, by_size=False, preset=preset, variant=variant)


def names(lines: Iterable[ModelCurve]) -> list[str]:
    """What can be drawn: positions before training steps."""
    first = sorted(lines, key=lambda line: line.abscissa != "position")
    return list(dict.fromkeys(line.metric for line in first))


def with_legend_names(lines: Sequence[ModelCurve]) -> list[tuple[str, ModelCurve]]:
    """Each curve with the name of the legend: a published one of a model that we measured has its
    name and its colour. References come last."""
    ours = {line.model: series_name(line) for line in lines if not line.source}
    named_lines = []
    for line in sorted(lines, key=is_reference):
        name = ours.get(line.model, line.label) if line.source else series_name(line)
        named_lines.append((name, line))
    return named_lines


def of_metric(lines: Iterable[ModelCurve], metric: str) -> list[ModelCurve]:
    """The curves of one metric."""
    return [line for line in lines if line.metric == metric]


def from_sources(lines: Iterable[ModelCurve], wanted: Collection[str]) -> list[ModelCurve]:
    """The curves of some sources, by the names that :func:`sources` gives them."""
    return [line for line in lines if origin(line) in wanted]


def at_first(named_lines: Sequence[tuple[str, ModelCurve]], rows: Iterable[Row]) -> list[str]:
    """The curves that are drawn at first: what we trained, the two first references of a table's
    rows, and published counterparts; where nothing is ours, everything."""
    references = [row.model for row in rows if row.kind == "reference"][:2]
    all_names: dict[str, None] = {}
    ours: dict[str, None] = {}
    for name, line in named_lines:
        all_names[name] = None
        if not line.source and (not is_reference(line) or line.model in references):
            ours[name] = None
    return list(ours or all_names)


def sources(lines: Iterable[ModelCurve]) -> list[str]:
    """Where curves by size are from: ours, and each publication."""
    return list(dict.fromkeys(origin(line) for line in lines))


def sources_at_first(lines: Sequence[ModelCurve]) -> list[str]:
    """Only one of ours, that with most sizes, since all of ours are solid; and one publication."""
    sizes = {origin(line): len(line.x) for line in lines if not line.source}
    ours = [max(sizes, key=lambda source: sizes[source])] if sizes else []
    return ours + [source for source in sources(lines) if not is_ours(source)][:1]


def binned(line: ModelCurve, bins: int = BINS) -> tuple[ModelCurve, tuple[int, ...]]:
    """A curve with at most ``bins`` places, and how many points are in each.

    A place is the mean of its points; its interval is the mean of theirs, which is as wide as if
    neighbours told the same.
    """
    size = len(line.x)
    if size <= bins:
        return line, (1,) * size
    cuts = [round(place * size / bins) for place in range(bins + 1)]
    parts = [slice(a, b) for a, b in pairwise(cuts) if b > a]
    counts = tuple(part.stop - part.start for part in parts)

    def means(values: Sequence[Any]) -> tuple[Any, ...]:
        """The mean of each part; None of one that lacks a value."""
        of_parts: list[float | None] = []
        for part in parts:
            numbers = values[part]
            of_parts.append(None if None in numbers else sum(numbers) / len(numbers))
        return tuple(of_parts)

    places, values = means(line.x), means(line.y)
    low, high = means(line.y_low), means(line.y_high)
    return replace(line, x=places, y=values, y_low=low, y_high=high), counts


def curve_chart(
    named_lines: Sequence[tuple[str, ModelCurve]],
    wanted_names: Sequence[str],
    title: str,
    *,
    logarithmic: bool = False,
    dark: bool = False,
) -> Spec:
    """The chosen curves: a drag or the wheel zooms, a click in the legend picks one out.

    Args:
        named_lines: every curve of the page with its name, so that a name keeps its colour.
        wanted_names: the names to draw.
    """
    model_by_name: dict[str, str] = {}
    drawn = []
    for name, line in named_lines:
        model_by_name.setdefault(name, line.model)
        if name in wanted_names:
            drawn.append((name, *binned(line, len(line.x) if line.by_size else BINS)))
    return chart(drawn, model_by_name, title, logarithmic, dark)
