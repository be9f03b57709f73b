"""Published numbers: data files that say where each number was read, and how exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ground.errors import RUN_FAILED, UserError
from ground.statistics import Direction

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
