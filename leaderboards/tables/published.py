"""Published numbers as rows and curves of the board."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from leaderboards.tables.lines import ModelCurve, Row
from reproduce.published.numbers import PublishedFile

PRESET = "paper"


class MeasuredTable(NamedTuple):
    """A table at the published scale that has measured rows: its name and the task's settings."""

    task: str
    variant: str
    settings: Mapping[str, Any]


class Series(NamedTuple):
    """The numbers of one model by one metric: size, value and error of reading of each."""

    metric: str
    label: str
    points: list[tuple[int, float, float | None]]


def rows(files: Iterable[PublishedFile], tables: Sequence[MeasuredTable] = ()) -> Iterator[Row]:
    """One row for each published number, best first, never with a rank. It stands in every measured
    table whose task is set as it was; where there is none, in a table of its own."""
    all_rows: list[Row] = []
    for file in files:
        for series in _series(file):
            for size, value, error in series.points:
                settings = {file.size.name: size, **file.settings}
                variants = []
                for table in tables:
                    if table.task == file.task and settings.items() <= table.settings.items():
                        variants.append(table.variant)
                for variant in variants or [_in_words(settings)]:
                    all_rows.append(_row(file, series, variant, value, error))
    return iter(sorted(all_rows, key=_best_first))


def _best_first(row: Row) -> tuple[str, str, str, float, str, str]:
    assert row.mean is not None
    score = -row.mean if row.direction == "maximise" else row.mean
    return row.task, row.metric, row.variant, score, row.label, row.source


def _in_words(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def _row(
    file: PublishedFile, series: Series, variant: str, value: float, error: float | None
) -> Row:
    return Row(
        task=file.task,
        preset=PRESET,
        variant=variant,
        group="",
        model=file.models.get(series.label, ""),
        label=series.label,
        setting="",
        kind=_kind(error),
        source=file.short,
        metric=series.metric,
        direction=file.metrics[series.metric].direction,
        unit=file.metrics[series.metric].unit,
        headline=False,
        mean=value,
        reading_error=error,
        note=file.note,
    )


def lines(files: Iterable[PublishedFile]) -> Iterator[ModelCurve]:
    """One curve by training size for each label and metric that has at least two numbers."""
    for file in files:
        for series in _series(file):
            if len(series.points) < 2:
                continue
            low: list[float | None] = []
            high: list[float | None] = []
            for _, value, error in series.points:
                low.append(None if error is None else value - error)
                high.append(None if error is None else value + error)
            yield ModelCurve(
                task=file.task,
                preset=PRESET,
                variant=_in_words(file.settings),
                group="",
                model=file.models.get(series.label, ""),
                label=series.label,
                setting="",
                kind=_kind(file.reading_error),
                source=file.short,
                metric=series.metric,
                direction=file.metrics[series.metric].direction,
                abscissa=file.size.name,
                by_size=True,
                note=file.note,
                seeds=None,
                x=tuple(float(size) for size, _, _ in series.points),
                y=tuple(value for _, value, _ in series.points),
                y_low=tuple(low),
                y_high=tuple(high),
            )


def _kind(error: float | None) -> str:
    return f"published (digitised ±{error:g})" if error else "published (printed)"


def _series(file: PublishedFile) -> Iterator[Series]:
    for metric, table in file.metrics.items():
        levels = {label: [level] * len(file.size.values) for label, level in table.lines.items()}
        for numbers in (table.values, levels):
            for label, values in numbers.items():
                points = []
                for size, number in zip(file.size.values, values, strict=True):
                    value, error = file.read(number)
                    if value is not None:
                        points.append((size, value, error))
                yield Series(metric, label, points)
