"""The curves of a task: which there are, in bins, and as a chart that can be zoomed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from leaderboards.contents import Line, OpenBoard
from leaderboards.pages.charts import (
    Chart,
    Spec,
    chart,
    chart_spec,
    is_ours,
    is_reference,
    origin,
    series_name,
)

BINS = 48  # places of a binned curve
POSITION, SIZE = "along the sequence and the training", "by training size"


def curves(board: OpenBoard, task: str, preset: str, variant: str, kind: str) -> list[Line]:
    """The curves of one kind: those of a configuration, or those over all training sizes with the
    published ones."""
    if kind == SIZE:
        own = board.lines(task, by_size=True)
        return [line for line in own if line.preset == preset or line.source]
    return board.lines(task, by_size=False, preset=preset, variant=variant)


def names(lines: Iterable[Line]) -> list[str]:
    """What can be drawn: positions before training steps."""
    first = sorted(lines, key=lambda line: line.abscissa != "position")
    return list(dict.fromkeys(line.metric for line in first))


def named(lines: Sequence[Line]) -> list[tuple[str, Line]]:
    """Each curve with the name of the legend: a published one of a model that we measured has its
    name and its colour. References come last."""
    ours = {line.model: series_name(line) for line in lines if not line.source}
    return [
        (ours.get(line.model, line.label) if line.source else series_name(line), line)
        for line in sorted(lines, key=is_reference)
    ]


def at_first(found: Sequence[tuple[str, Line]], references: Sequence[str]) -> list[str]:
    """The curves that are drawn at first: what we trained, the given references, and published
    counterparts; where nothing is ours, everything."""
    own = [
        name
        for name, line in found
        if not line.source and (not is_reference(line) or line.model in references)
    ]
    return list(dict.fromkeys(own or (name for name, _ in found)))


def sources(lines: Iterable[Line]) -> list[str]:
    """Where curves by size are from: ours, and each publication."""
    return list(dict.fromkeys(origin(line) for line in lines))


def sources_at_first(lines: Sequence[Line]) -> list[str]:
    """Only one of ours, that with most sizes, since all of ours are solid; and one publication."""
    sizes = {origin(line): len(line.x) for line in lines if not line.source}
    ours = [max(sizes, key=lambda source: sizes[source])] if sizes else []
    return ours + [source for source in sources(lines) if not is_ours(source)][:1]


def binned(line: Line, bins: int = BINS) -> tuple[Line, tuple[int, ...]]:
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

    def means(values: Sequence[float | None]) -> tuple[float | None, ...]:
        return tuple(_mean(values[part]) for part in parts)

    x, y = (tuple(v for v in means(values) if v is not None) for values in (line.x, line.y))
    return replace(line, x=x, y=y, y_low=means(line.y_low), y_high=means(line.y_high)), counts


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) and known else None


def curve_chart(
    found: Sequence[tuple[str, Line]],
    shown: Sequence[str],
    title: str,
    *,
    logarithmic: bool = False,
    bins: int = BINS,
    dark: bool = False,
) -> Chart:
    """The chosen curves: a drag or the wheel zooms, a click in the legend picks one out.

    Args:
        found: every curve of the page with its name, so that a name keeps its colour.
        shown: the names to draw.
        bins: places of a curve at most; 0 draws every point.
    """
    drawn, names = _chosen(found, shown, bins)
    return chart(drawn, names, title, logarithmic, dark)


def curve_spec(
    found: Sequence[tuple[str, Line]], shown: Sequence[str], title: str, *, logarithmic: bool
) -> Spec:
    """The same in Vega-Lite, as :func:`leaderboards.pages.charts.chart_spec` is."""
    drawn, names = _chosen(found, shown, BINS)
    return chart_spec(drawn, names, title, logarithmic)


def _chosen(
    found: Sequence[tuple[str, Line]], shown: Sequence[str], bins: int
) -> tuple[list[tuple[str, Line, tuple[int, ...]]], dict[str, str]]:
    models: Mapping[str, str] = {name: line.model for name, line in reversed(found)}
    ordered = {name: models[name] for name in dict.fromkeys(name for name, _ in found)}
    return [(name, *_maybe_binned(line, bins)) for name, line in found if name in shown], ordered


def _maybe_binned(line: Line, bins: int) -> tuple[Line, tuple[int, ...]]:
    return binned(line, bins) if bins and not line.by_size else (line, (1,) * len(line.x))
