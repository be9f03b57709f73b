"""Published numbers: data files that say where each number was read, and how exactly."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from bench.records.schema import FrozenModel
from core.errors import UserError
from core.files import ROOT
from core.reading import LARGEST_NUMBER, Kind, read_all
from core.statistics import Direction

APPROXIMATE = "~"  # before a number that was read less exactly

Number = float | str | None


class TrainingSizes(FrozenModel):
    """The training sizes of the columns: the task's configuration key, and its values."""

    name: str
    values: list[int] = Field(min_length=1)


class PublishedTable(FrozenModel):
    """One metric: a list of numbers for each label, one for each size (null: not published).

    ``spread`` has the standard deviations over runs, where they were published, for the same labels
    and sizes. ``lines`` are reference levels that hold at every size.
    """

    direction: Direction
    unit: str = ""
    values: dict[str, list[Number]]
    spread: dict[str, list[Number]] = Field(default_factory=dict)
    lines: dict[str, Number] = Field(default_factory=dict)


class PublishedFile(FrozenModel):
    """One published figure or table."""

    schema_version: Literal[1]
    source: str  # paper, figure or table, and where it was read
    short: str  # how the board names the source
    task: str = Field(pattern="^[a-z][a-z0-9_]{0,79}$")
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict)  # of the task
    how: Literal["printed", "digitised"]
    reading_error: float | None = Field(default=None, gt=0)
    approximate_error: float | None = Field(default=None, gt=0)  # of the numbers marked ~
    note: str = ""
    size: TrainingSizes
    models: dict[str, str] = Field(default_factory=dict)  # label -> our model of that name
    metrics: dict[str, PublishedTable]

    @model_validator(mode="after")
    def _is_complete(self) -> PublishedFile:
        if (self.how == "digitised") != (self.reading_error is not None):
            raise ValueError("digitised numbers, and only they, have a reading_error")
        for name, table in self.metrics.items():
            if strangers := table.spread.keys() - table.values.keys():
                raise ValueError(f"{name} has a spread of {min(strangers)}, and no value of it")
            for label, values in chain(table.values.items(), table.spread.items()):
                if len(values) != len(self.size.values):
                    raise ValueError(f"{name} of {label} needs {len(self.size.values)} numbers")
            numbers = chain(*table.values.values(), *table.spread.values())
            for value in chain(table.lines.values(), numbers):
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
    if not abs(value) <= LARGEST_NUMBER:
        raise ValueError(f"{value} is not finite or too large")
    return value


PUBLISHED = Kind(
    "file of published numbers", PublishedFile, how="correct it, or take it away", most=2**18
)


def read_published(folder: Path, refused: list[UserError] | None = None) -> list[PublishedFile]:
    """All data files of a folder, sorted by name. With ``refused``, files that cannot be trusted
    are put there instead.

    Raises:
        UserError: a file is oversized or is not what is asked for.
    """
    return list(read_all(sorted(folder.glob("*.yaml")), PUBLISHED.read_yaml, refused))


@cache
def _by_short_name() -> dict[str, PublishedFile]:
    return {file.short: file for file in read_published(ROOT / "reproduce" / "published")}


@cache
def published_numbers(short: str, metric: str) -> dict[str, dict[int, float]]:
    """Label -> size -> number of the file with this short name; a reference line has one level at
    all sizes."""
    file = _by_short_name()[short]
    table = file.metrics[metric]
    lines = {label: [line] * len(file.size.values) for label, line in table.lines.items()}
    return _by_size(file, table.values | lines)


@cache
def published_spread(short: str, metric: str) -> dict[str, dict[int, float]]:
    """Label -> size -> standard deviation over the published runs; none of files that have none."""
    file = _by_short_name()[short]
    return _by_size(file, file.metrics[metric].spread)


def _by_size(file: PublishedFile, rows: dict[str, list[Number]]) -> dict[str, dict[int, float]]:
    numbers: dict[str, dict[int, float]] = {}
    for label, row in rows.items():
        numbers[label] = {}
        for size, cell in zip(file.size.values, row, strict=True):
            value = file.read(cell)[0]
            if value is not None:
                numbers[label][size] = value
    return numbers


def directions(files: Iterable[PublishedFile]) -> dict[tuple[str, str], Direction]:
    """(task, metric) -> which way is better, for metrics that are no task's headline."""
    return {(f.task, name): t.direction for f in files for name, t in f.metrics.items()}
