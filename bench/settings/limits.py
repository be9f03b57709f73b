"""Bounds that no sensible setting reaches, so that an absurd one is a sentence before it costs
anything. This module imports nothing heavy."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ground.errors import UserError

LARGEST_THREADS = 1024  # beyond it a process cannot be sure to get its threads from the system
LARGEST_LAYERS = 1000  # as deep as trained transformers have been (Wang et al. 2022, DeepNet)
BYTES_PER_NUMBER = 4
COUNTS = ("width", "layers", "heads", "state", "convolution", "expand")  # at least 1 where set


def infinite_numbers(value: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Dotted places of the infinities and NaNs in nested lists and mappings, with their values."""
    if isinstance(value, float) and not math.isfinite(value):
        yield place, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from infinite_numbers(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from infinite_numbers(inner, place)


def check_sizes(models: Mapping[str, Any]) -> None:
    """Check the arguments that models share.

    Raises:
        UserError: a size below 1, more layers than ``LARGEST_LAYERS``, or a dropout that is no
            probability below 1.
    """
    for name, value in models.items():
        wrong = None
        if name in COUNTS and isinstance(value, int) and value < 1:
            wrong = f"{name} is 1 or more"
        elif name == "layers" and isinstance(value, int) and value > LARGEST_LAYERS:
            wrong = f"layers are at most {LARGEST_LAYERS}"
        elif name == "dropout" and isinstance(value, int | float) and not 0 <= value < 1:
            wrong = "dropout is a probability, 0 or more and less than 1"
        if wrong:
            raise UserError(f"models.{name}={value} cannot be used: {wrong}")


def check_memory(models: Mapping[str, Any]) -> None:
    """Refuse what this machine cannot hold, from a bound that needs no building: a layer of width
    w has at least one w × w matrix.

    Raises:
        UserError: those matrices alone are larger than the memory of the machine.
    """
    layers, width = models.get("layers"), models.get("width")
    if not isinstance(layers, int) or not isinstance(width, int):
        return
    least = BYTES_PER_NUMBER * layers * width**2
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if least > memory:
        raise UserError(
            f"{layers} layers of width {width} have at least {least / 2**30:,.0f} GiB of weights, "
            f"and this machine has {memory / 2**30:,.0f} GiB of memory: lower models.layers or "
            "models.width"
        )
