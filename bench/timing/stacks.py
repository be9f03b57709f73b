"""What it gains to compute several trainings as one: steps of a stack in turn with steps alone."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.config.settings import Configuration
from bench.timing.steps import (
    SHORTEST,
    WARM_UP,
    clock,
    machine,
    synchronize,
    timed,
    without_validation,
)
from bench.training.building import build_model, build_task, prepare_data, resolve_device
from bench.training.loop import fit
from bench.training.numerics import set_numerics
from bench.training.stack import fit_together
from bench.training.training import Member
from core.errors import RUN_FAILED, UserError
from core.progress import Report

RATES_APART = 0.9  # each learning rate of that before it


def compare_stack(
    configuration: Configuration, together: int, rounds: int, timed_steps: int, report: Report
) -> dict[str, Any]:
    """How many times faster ``together`` trainings are as one computation, under the engine; they
    differ in the learning rate, as the trials of a sweep do.

    Raises:
        UserError: they cannot be computed as one.
    """
    training = timed(configuration.training, timed_steps)
    set_numerics(training.threads)
    prepare_data(configuration, report)
    device, seed = resolve_device(configuration.device), configuration.seed
    task = without_validation(build_task(configuration))
    now = clock(device, training.threads)

    def members(number: int, folder: str) -> list[Member]:
        trainings = []
        for k in range(number):
            model = build_model(configuration, task, seed)
            rates = training.model_copy(update={"lr": training.lr * RATES_APART**k})
            trainings.append(Member(model, task, rates, seed, Path(folder) / f"{k}.pt"))
        return trainings

    def seconds(number: int, make: Callable[[list[Member], Report], Any]) -> float:
        ends: list[float] = []

        def note(description: str, done: int, total: int) -> None:
            synchronize(device)
            ends.append(now())

        with tempfile.TemporaryDirectory() as folder:
            make(members(number, folder), note)
        if len(ends) < training.steps:  # type: ignore[operator]
            raise UserError(
                f"{configuration.label} cannot be computed together on {configuration.task}: "
                "leave together= out",
                RUN_FAILED,
            )
        return max(ends[-2] - ends[WARM_UP - 1], SHORTEST) / (len(ends) - WARM_UP - 1)

    def alone(members: list[Member], note: Report) -> None:
        (member,) = members
        arguments = (member.model, member.task, member.settings)
        fit(*arguments, seed=seed, device=device, checkpoint=member.checkpoint, report=note)

    def stacked(members: list[Member], note: Report) -> None:
        fit_together(members, device, report=note)

    blocks = [partial(seconds, 1, alone), partial(seconds, together, stacked)]
    times: list[list[float]] = [[], []]
    for number in range(rounds):
        for place in (0, 1) if number % 2 == 0 else (1, 0):
            times[place].append(blocks[place]())
        report(f"{together} together against alone", number + 1, rounds)
    factors = [together * a / b for a, b in zip(*times, strict=True)]
    return {
        "task": configuration.task,
        "preset": configuration.preset,
        "model": configuration.model,
        "together": together,
        "factor": statistics.median(factors),
        "quartiles": np.quantile(factors, [0.25, 0.75]).tolist(),
        "alone_seconds": statistics.median(times[0]),
        **machine(device),
    }
