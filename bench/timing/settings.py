"""What ``bench.speed`` and ``bench.training_speed`` are asked to time. It imports no PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from bench.config.limits import LARGEST_LAYERS, LARGEST_THREADS
from bench.config.settings import Count, Place, Settings
from bench.roofline.devices import HERE, checked
from core.errors import UserError
from core.places import absolute

# Takes what is measured so far: long measurements may be interrupted.
Keep = Callable[[Mapping[str, Any]], None]


class SpeedSettings(Settings):
    """What ``bench/speed.yaml`` explains."""

    models: list[str]
    reference: str
    width: Count
    layers: int = Field(ge=1, le=LARGEST_LAYERS)
    heads: Count
    dropout: list[Annotated[float, Field(ge=0, lt=1)]] = Field(min_length=1)
    length: list[Count] = Field(min_length=1)
    batch: Count
    vocabulary: list[Count] = Field(min_length=1)
    passes: list[Literal["training", "forward", "prefill", "step"]] = Field(min_length=1)
    rounds: Count
    threads: int = Field(ge=1, le=LARGEST_THREADS)
    precision: Literal["float32", "bfloat16"]
    compile: bool
    graphs: bool
    count_launches: bool
    device: Literal["auto", "cpu", "cuda"]
    seed: int = Field(ge=0, lt=2**32)
    engine: bool
    engine_steps: Count
    profile: bool
    before: Place | None
    peers: bool
    output: Place | None


@dataclass(frozen=True)
class TrainingSpeedSettings:
    """What ``bench.training_speed`` is asked for; its help says what the names mean.

    Attributes:
        of_runs: settings of the runs that are timed.
    """

    of_runs: Mapping[str, Any]
    rounds: int = 5
    timed_steps: int = 8
    starts: int = 0
    together: int = 1
    device_like: str | None = None
    output: Path | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> TrainingSpeedSettings:
        """The settings of a command line.

        Raises:
            UserError: a number that is too small or none, or a device that is not here.
        """
        names = {field.name for field in fields(cls)} - {"of_runs"}
        of_runs = {key: value for key, value in settings.items() if key not in names}
        values = {key: value for key, value in settings.items() if key in names}
        for key, least in (("rounds", 1), ("timed_steps", 1), ("starts", 0), ("together", 1)):
            value = values.get(key, least)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UserError(f"{key}={value} is not a number of at least {least}")
        device = values.get("device_like")
        if device is not None and checked(device) != HERE:
            raise UserError(
                f"device_like={device} cannot be measured here: device_like={HERE} can, "
                "and bench.sweep dry_run=true estimates the others"
            )
        if values.get("output") is not None:
            values["output"] = absolute(str(values["output"]))
        return cls(of_runs, **values)
