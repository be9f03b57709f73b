"""What ``bench.speed`` is asked to time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bench.settings.limits import LARGEST_LAYERS, LARGEST_THREADS
from bench.settings.settings import Settings


class SpeedSettings(Settings):
    """What ``bench/speed.yaml`` explains."""

    models: list[str]
    reference: str
    width: int = Field(ge=1)
    layers: int = Field(ge=1, le=LARGEST_LAYERS)
    heads: int = Field(ge=1)
    dropout: float = Field(ge=0, lt=1)
    length: int = Field(ge=1)
    batch: int = Field(ge=1)
    vocabulary: list[Annotated[int, Field(ge=1)]] = Field(min_length=1)
    rounds: int = Field(ge=1)
    threads: int = Field(ge=1, le=LARGEST_THREADS)
    device: Literal["auto", "cpu", "cuda"]
    seed: int = Field(ge=0, lt=2**32)
    engine: bool
    engine_steps: int = Field(ge=1)
    profile: bool
    output: Path | None
