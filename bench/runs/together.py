"""Runs of equal shapes whose trainings are computed as one: which those are, and their trainings.

Afterwards :func:`bench.runs.obtain.obtain` makes each record by itself: it finds the training at
its end, or goes on with it alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from bench.config.external import attributes_of
from bench.config.settings import LARGEST_STACK, Configuration
from bench.records.schema import Role
from bench.runs.examined import examine_fresh
from bench.runs.fresh import unmade
from bench.runs.making import TrainingRun, only_one
from bench.training.building import resolve_device
from bench.training.numerics import set_numerics
from bench.training.seeding import kept_random_state
from bench.training.training import Stopped
from bench.training.unfit import UnfitModel
from core.errors import UserError
from core.files import ROOT
from core.progress import Report

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
    if resolve_device(configuration.device).type == "cuda":
        return min(MOST_ON_A_GPU, present)
    here = (configuration.task, configuration.preset, configuration.model)
    of_model = (m for m in _measured(MEASURED) if (m.task, m.preset, m.model) == here)
    faster = [m for m in of_model if m.together <= present and m.quartiles[0] > 1]
    return max(faster, key=lambda m: m.factor).together if faster else 1


class _Measured(BaseModel):
    """A row of ``stacked.json``: how many times faster so many trainings are together."""

    task: str
    preset: str
    model: str
    together: int
    factor: float
    quartiles: tuple[float, float]


@lru_cache
def _measured(path: Path) -> list[_Measured]:
    found = json.loads(path.read_text())["factors"] if path.exists() else []
    return TypeAdapter(list[_Measured]).validate_python(found)


def train_together(runs: Sequence[tuple[Configuration, Role]], report: Report) -> None:
    """Train what is missing of runs of one shape, as far as it can be computed as one.

    Raises:
        UserError: another process makes one of them.
        KeyboardInterrupt: stopped; their checkpoints are kept.
    """
    from bench.training.stack import Member, fit_together

    with ExitStack() as held:
        found: list[tuple[TrainingRun, Member]] = []
        for configuration, role in runs:
            run = unmade(configuration, role, report)
            if run is None:
                continue
            held.enter_context(only_one(run.work))
            try:
                member = run.member()
            except UserError:  # its own run says so
                continue
            if member is not None:
                found.append((run, member))
        # Fewer than were asked, where some have a record: `auto` takes measured numbers alone.
        found = found[: together_of(runs[0][0], len(found))]
        if len(found) < 2:
            return
        first, member = found[0]
        try:  # all are of one model
            batch = first.task.training_batch(member.seed, 0, member.settings.batch_size)
            model = member.model.to(first.device)
            if examine_fresh(model, first.task, batch.to(first.device), first.configuration).writes:
                return
        except UnfitModel:  # each run alone says so, before it is trained
            return
        set_numerics(first.configuration.training.threads)
        text = f"{first.configuration.label}, {len(found)} trainings together"
        try:
            with kept_random_state(first.device):
                failures = fit_together([m for _, m in found], first.device, text, report)
                for place, failure in failures.items():
                    found[place][0].end_diverged(failure)
        except Stopped:
            raise KeyboardInterrupt from None
