"""What ``bench.speed`` is asked to time."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bench.config.limits import LARGEST_LAYERS, LARGEST_THREADS
from bench.config.settings import Count, Place, Settings


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
    output: Place | None
