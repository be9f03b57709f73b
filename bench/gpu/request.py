"""What ``bench.gpu`` is asked for, read from its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from bench.config.limits import LARGEST_THREADS
from bench.config.problems import first_problem_in_a_sentence
from bench.config.sections import Count, Place, Settings
from core.errors import UserError, nearest

REHEARSAL = 0.1  # of the size, on a CPU
MOST_WORKERS = 16  # that share a GPU without a word about it
LISTS = ("parts", "models")  # settings that may be one name
MOST_MINUTES = 100_000

Scale = Annotated[float, Field(gt=0, le=1)]
Workers = Annotated[int, Field(ge=1, le=LARGEST_THREADS)]
AnySettings = TypeVar("AnySettings", bound=Settings)


class GpuRequest(Settings):
    """The settings of ``python -m bench.gpu``, which its help explains."""

    minutes: float = Field(default=12.0, gt=0, le=MOST_MINUTES)
    device: Literal["cuda", "cpu"] = "cuda"
    scale: Scale | None = None
    store: Place = Field(default="runs/gpu", validate_default=True)
    parts: list[str] = Field(default_factory=list)
    models: list[str] = Field(default_factory=list)
    again: bool = False
    workers: Workers | None = None
    mps: bool = False
    pack_mib: Count | None = None
    dry_run: bool = False

    @property
    def size(self) -> float:
        """The factor of every size: 1 on a GPU, a tenth in a rehearsal."""
        if self.scale is not None:
            return self.scale
        return 1.0 if self.device == "cuda" else REHEARSAL

    @property
    def processes(self) -> int:
        """Worker processes of a sweep."""
        cores = os.cpu_count() or 1
        return self.workers or (cores if self.device == "cpu" else min(cores, MOST_WORKERS))


class SweepsRequest(Settings):
    """The settings of ``python -m bench.gpu.sweeps``: the part of a call that trains."""

    plan: Literal["regbench", "recall"]
    device: Literal["cuda", "cpu"]
    scale: Scale
    store: Place
    workers: Workers
    mps: bool
    models: list[str]
    until: float = Field(gt=0)  # seconds since the epoch, as of time.time
    output: Place


def request_of(settings: Mapping[str, Any], kind: type[AnySettings]) -> AnySettings:
    """The settings of a command line as a request of a kind.

    Raises:
        UserError: an unknown key or a value that cannot be used.
    """
    values = {}
    for key, value in settings.items():
        if key not in kind.model_fields:
            raise UserError(f"there is no setting '{key}': {nearest(key, [*kind.model_fields])}")
        values[key] = [value] if key in LISTS and not isinstance(value, list) else value
    with first_problem_in_a_sentence():
        return kind.model_validate(values)
