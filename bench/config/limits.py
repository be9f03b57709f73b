"""Bounds that no sensible setting reaches, so that an absurd one is a sentence before it costs
anything. This module imports nothing heavy."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.errors import UserError

LARGEST_THREADS = 1024  # beyond it a process cannot be sure to get its threads from the system
LARGEST_LAYERS = 1000  # as deep as trained transformers have been (Wang et al. 2022, DeepNet)
LARGEST_COUNT = 10**10  # what holds one number for each of so many is beyond most machines
# The environment variable that says which part of its GPU's memory a process may take.
GPU_SHARE = "MEMORY_BENCH_GPU_SHARE"
DROPOUTS = ("dropout", "score_dropout")
PROC, CONTROL_GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
# At least 1 where set.
COUNTS = ("width", "layers", "heads", "head_width", "state", "convolution", "expand", "rank")


def gpu_share() -> float:
    """The part of its GPU's memory that this process may take, in (0, 1]: less than 1 where several
    runs are made on one GPU."""
    return float(os.environ.get(GPU_SHARE, "1"))


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
        UserError: a size below 1, more layers than ``LARGEST_LAYERS``, a dropout that is no
            probability below 1, or a temperature that divides by nothing.
    """
    for name, value in models.items():
        wrong = None
        if name in COUNTS and isinstance(value, int) and value < 1:
            wrong = f"{name} is 1 or more"
        elif name == "layers" and isinstance(value, int) and value > LARGEST_LAYERS:
            wrong = f"layers are at most {LARGEST_LAYERS}"
        elif name in DROPOUTS and isinstance(value, int | float) and not 0 <= value < 1:
            wrong = f"{name} is a probability, 0 or more and less than 1"
        elif name == "temperature" and isinstance(value, int | float) and not value > 0:
            wrong = "a temperature is above 0"
        if wrong:
            raise UserError(f"models.{name}={value} cannot be used: {wrong}")


def check_counts(values: Mapping[str, Any], place: str) -> None:
    """Check the whole numbers of a task or of a model, all of which count something but seeds.

    Raises:
        UserError: one is above ``LARGEST_COUNT``.
    """
    for name, value in values.items():
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and number > LARGEST_COUNT and "seed" not in name:
                raise UserError(
                    f"{place}.{name}={value} cannot be used: counts are at most {LARGEST_COUNT:,}"
                )


def memory_here() -> int:
    """Bytes that a process on this machine can have: its memory, or what a control group (a
    container, a job of a cluster) allows of it."""
    allowed = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in _control_groups():
        with suppress(OSError, ValueError):  # no such file, or "max"
            allowed.append(int(limit.read_text()))
    return min(allowed)


def _control_groups() -> Iterator[Path]:
    """The files with the limits of this process and of the groups above it; versions 2 and 1."""
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            root = CONTROL_GROUPS / controllers
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            parts = Path(path).parts[1:]
            yield from (root.joinpath(*parts[:n], name) for n in range(len(parts) + 1))
