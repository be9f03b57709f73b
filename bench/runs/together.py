"""Which runs are of equal shapes, and how many trainings of one shape are computed as one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from bench.config.external import attributes_of
from bench.config.settings import LARGEST_STACK, Configuration
from bench.runs.serving import device_class
from core.files import ROOT

# What may differ within a stack: it changes numbers, and no shape.
FREE = ("lr", "initial_lr", "minimum_lr_fraction", "weight_decay")
MEASURED = ROOT / "docs" / "measurements" / "stacked.json"
MOST_ON_A_GPU = 16


def shape_of(configuration: Configuration) -> str | None:
    """Equal for runs that may be trained together; None for one that is always alone."""
    training = configuration.training
    if configuration.takes is not None or configuration.trained_on is not None:
        return None
    if training.restarts > 1 or training.devices > 1 or training.micro_batch_size is not None:
        return None
    if training.compile or attributes_of(configuration.models["_target_"]).get("vmap") is False:
        return None
    shared = {k: v for k, v in training.model_dump(mode="json").items() if k not in FREE}
    tasks = {k: v for k, v in configuration.tasks.items() if k != "data_seed"}
    parts = (tasks, configuration.models, shared, configuration.device, str(configuration.store))
    return json.dumps(parts, sort_keys=True)


def by_shape(runs: Sequence[Configuration]) -> list[list[int]]:
    """Places of runs that may be trained together, in the order in which the first of each comes;
    one that is always alone is a group of its own."""
    groups: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        groups.setdefault(shape_of(run) or f"alone {place}", []).append(place)
    return [*groups.values()]


def most_together(configuration: Configuration) -> int:
    """The most of its trials that ``sweep.stack`` trains together; 1 is each alone."""
    return together_of(configuration, LARGEST_STACK)


def together_of(configuration: Configuration, present: int) -> int:
    """How many of ``present`` runs of its shape ``sweep.stack`` trains together; 1 is each alone.

    ``auto`` is many on a GPU. On a CPU, where most models gain nothing, it is a number of trainings
    that was measured to be faster with this model, task and preset, by the lower quartile of
    the ratios: what four gain together says nothing of two.
    """
    wanted = configuration.sweep.stack
    if wanted is None or shape_of(configuration) is None:
        return 1
    if wanted != "auto":
        return min(wanted, present)
    if device_class(configuration) != "cpu":
        return min(MOST_ON_A_GPU, present)
    wanted_row = (configuration.task, configuration.preset, configuration.model)
    of_model = (m for m in _measured(MEASURED) if (m.task, m.preset, m.model) == wanted_row)
    faster = [m for m in of_model if m.together <= present and m.quartiles[0] > 1]
    return max(faster, key=lambda m: m.factor).together if faster else 1


class _StackTiming(BaseModel):
    """A row of ``stacked.json``: how many times faster so many trainings are together."""

    task: str
    preset: str
    model: str
    together: int
    factor: float
    quartiles: tuple[float, float]


@lru_cache
def _measured(path: Path) -> list[_StackTiming]:
    factors = json.loads(path.read_text())["factors"] if path.exists() else []
    return TypeAdapter(list[_StackTiming]).validate_python(factors)
