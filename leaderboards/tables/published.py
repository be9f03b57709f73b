"""Published numbers as rows and curves of the board."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from leaderboards.tables.lines import Line, Row
from reproduce.published.numbers import Number, PublishedFile

PRESET = "paper"


class MeasuredTable(NamedTuple):
    """A table at the published scale that has measured rows: its name and the task's settings."""

    task: str
    variant: str
    settings: Mapping[str, Any]


def rows(files: Iterable[PublishedFile], tables: Sequence[MeasuredTable] = ()) -> Iterator[Row]:
    """One row for each published number, best first, never with a rank. It stands in every measured
    table whose task is set as it was; where there is none, in a table of its own."""
    unsorted_rows = [row for file in files for row in _rows(file, tables)]
    unsorted_rows.sort(key=lambda row: (row.task, row.metric, row.variant, *_best_first(row)))
    return iter(unsorted_rows)


def _best_first(row: Row) -> tuple[float, str, str]:
    assert row.mean is not None
    return -row.mean if row.direction == "maximise" else row.mean, row.label, row.source


def _rows(file: PublishedFile, tables: Sequence[MeasuredTable]) -> Iterator[Row]:
    for metric, label, values in _series(file):
        for size, raw in zip(file.size.values, values, strict=True):
            value, error = file.read(raw)
            if value is None:
                continue
            settings = {file.size.name: size, **file.settings}
            for variant in _tables_of(file.task, settings, tables):
                yield _row(file, metric, label, variant, value, error)


def _tables_of(
    task: str, settings: Mapping[str, object], tables: Sequence[MeasuredTable]
) -> list[str]:
    measured = [
        table.variant
        for table in tables
        if table.task == task and settings.items() <= table.settings.items()
    ]
    return measured or [", ".join(f"{key}={value}" for key, value in settings.items())]


def _row(
    file: PublishedFile, metric: str, label: str, variant: str, value: float, error: float | None
) -> Row:
    return Row(
        task=file.task,
        preset=PRESET,
        variant=variant,
        group="",
        model=file.models.get(label, ""),
        label=label,
        setting="",
        kind=_kind(file, error),
        source=file.short,
        metric=metric,
        direction=file.metrics[metric].direction,
        unit=file.metrics[metric].unit,
        headline=False,
        mean=value,
        reading_error=error,
        note=file.note,
    )


def lines(files: Iterable[PublishedFile]) -> Iterator[Line]:
    """One curve by training size for each label and metric that has at least two numbers."""
    for file in files:
        for metric, label, values in _series(file):
            points = [
                (float(size), value, error)
                for size, raw in zip(file.size.values, values, strict=True)
                for value, error in [file.read(raw)]
                if value is not None
            ]
            if len(points) < 2:
                continue
            yield Line(
                task=file.task,
                preset=PRESET,
                variant=", ".join(f"{key}={value}" for key, value in file.settings.items()),
                group="",
                model=file.models.get(label, ""),
                label=label,
                setting="",
                kind=_kind(file, file.reading_error),
                source=file.short,
                metric=metric,
                direction=file.metrics[metric].direction,
                abscissa=file.size.name,
                by_size=True,
                note=file.note,
                seeds=None,
                x=tuple(x for x, _, _ in points),
                y=tuple(y for _, y, _ in points),
                y_low=tuple(None if e is None else y - e for _, y, e in points),
                y_high=tuple(None if e is None else y + e for _, y, e in points),
            )


def _kind(file: PublishedFile, error: float | None) -> str:
    return f"published (digitised ±{error:g})" if error else "published (printed)"


def _series(file: PublishedFile) -> Iterator[tuple[str, str, list[Number]]]:
    for metric, table in file.metrics.items():
        for label, values in table.values.items():
            yield metric, label, values
        for label, level in table.lines.items():
            yield metric, label, [level] * len(file.size.values)
