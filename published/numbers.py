"""Published numbers: data files that say where each number was read, and how exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bench.ground.errors import RUN_FAILED, UserError
from bench.ground.statistics import Direction
from leaderboards.contents import Line, Row

PRESET = "paper"
MAXIMUM_BYTES = 2**20
APPROXIMATE = "~"  # before a number that was read less exactly

Number = float | str | None


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Size(_Frozen):
    """The training sizes of the columns: the task's configuration key, and its values."""

    name: str
    values: list[int] = Field(min_length=1)


class Table(_Frozen):
    """One metric: a list of numbers for each label, one for each size (null: not published).

    ``lines`` are reference levels that hold at every size.
    """

    direction: Direction
    unit: str = ""
    values: dict[str, list[Number]]
    lines: dict[str, Number] = Field(default_factory=dict)


class PublishedFile(_Frozen):
    """One published figure or table."""

    schema_version: Literal[1]
    source: str  # paper, figure or table, and where it was read
    short: str  # how the board names the source
    task: str
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict)  # of the task
    how: Literal["printed", "digitised"]
    reading_error: float | None = Field(default=None, gt=0)
    approximate_error: float | None = Field(default=None, gt=0)  # of the numbers marked ~
    note: str = ""
    size: Size
    models: dict[str, str] = Field(default_factory=dict)  # label -> our model of that name
    metrics: dict[str, Table]

    @model_validator(mode="after")
    def _is_complete(self) -> PublishedFile:
        if (self.how == "digitised") != (self.reading_error is not None):
            raise ValueError("digitised numbers, and only they, have a reading_error")
        for name, table in self.metrics.items():
            for label, values in table.values.items():
                if len(values) != len(self.size.values):
                    raise ValueError(f"{name} of {label} needs {len(self.size.values)} numbers")
                for value in values:
                    self.read(value)
        return self

    def read(self, value: Number) -> tuple[float | None, float | None]:
        """A number and its reading error."""
        if isinstance(value, str):
            if not value.startswith(APPROXIMATE) or self.approximate_error is None:
                raise ValueError(f"'{value}' is not a number, nor ~number with approximate_error")
            return _finite(float(value[1:])), self.approximate_error
        return (None if value is None else _finite(value)), self.reading_error


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not finite")
    return value


class MeasuredTable(NamedTuple):
    """A table at the published scale that has measured rows: its name and the task's settings."""

    task: str
    variant: str
    settings: Mapping[str, Any]


def read_published(folder: Path) -> list[PublishedFile]:
    """All data files of a folder, sorted by name.

    Raises:
        UserError: a file is oversized or is not what is asked for.
    """
    files = []
    for path in sorted(folder.glob("*.yaml")):
        if path.stat().st_size > MAXIMUM_BYTES:
            raise UserError(f"{path} is larger than 1 MiB: keep only the numbers", RUN_FAILED)
        try:
            files.append(PublishedFile.model_validate(yaml.safe_load(path.read_bytes())))
        except yaml.YAMLError as error:
            problem = str(error).splitlines()[0]
            raise UserError(f"{path} is not YAML ({problem}): correct it", RUN_FAILED) from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "file"
            raise UserError(
                f"{path} is not a file of published numbers ({place}: {first['msg']}): correct it",
                RUN_FAILED,
            ) from None
    return files


def directions(files: Iterable[PublishedFile]) -> dict[tuple[str, str], Direction]:
    """(task, metric) -> which way is better, for metrics that are no task's headline."""
    return {(f.task, name): t.direction for f in files for name, t in f.metrics.items()}


def rows(files: Iterable[PublishedFile], tables: Sequence[MeasuredTable] = ()) -> Iterator[Row]:
    """One row for each published number, best first, never with a rank. It stands in every measured
    table whose task is set as it was; where there is none, in a table of its own."""
    found = [row for file in files for row in _rows(file, tables)]
    found.sort(key=lambda row: (row.task, row.metric, row.variant, *_best_first(row)))
    return iter(found)


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
        low=None,
        high=None,
        reading_error=error,
        note=file.note,
        seeds=None,
        outcome="ok",
        cause=None,
        rank_best=None,
        rank_worst=None,
        parameters=None,
        position_parameters=None,
        state_bytes=None,
        state_length=None,
        training_flops=None,
        training_tokens=None,
        training_steps=None,
        trials=None,
        wall_seconds=None,
        peak_memory_bytes=None,
        device=None,
        run_ids=(),
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


def _series(file: PublishedFile) -> Iterator[tuple[str, str, list[Number]]]:
    for metric, table in file.metrics.items():
        for label, values in table.values.items():
            yield metric, label, values
        for label, level in table.lines.items():
            yield metric, label, [level] * len(file.size.values)


def _kind(file: PublishedFile, error: float | None) -> str:
    return f"published (digitised ±{error:g})" if error else "published (printed)"
