"""What ``bench.training_speed`` measures and prints: the engine against a plain loop, a stack
against trainings alone, or the estimate of a step against real ones."""

from __future__ import annotations

import json
from typing import Any

from bench.config.settings import Configuration
from bench.timing.rooflines import compare_estimate
from bench.timing.settings import TrainingSpeedSettings
from bench.timing.stacks import compare_stack
from bench.timing.steps import compare, cpu_seconds_to_first_step
from core.errors import OK
from core.files import write_atomically
from core.progress import progress


def time_training(settings: TrainingSpeedSettings) -> int:
    """Measure, print, and save where ``output=`` says; the exit code."""
    if settings.device_like is not None:
        measured = _check_estimate(settings)
    elif settings.together > 1:
        measured = _time_together(settings)
    else:
        measured = _time_engine(settings)
    if settings.output is not None:
        write_atomically(settings.output, (json.dumps(measured, indent=1) + "\n").encode())
    return OK


def _time_engine(settings: TrainingSpeedSettings) -> dict[str, Any]:
    configuration = Configuration.of(settings.of_runs)
    with progress() as report:
        measured = compare(configuration, settings.rounds, settings.timed_steps, report)
        starts = measured["start_cpu_seconds"] = []
        for number in range(settings.starts):
            starts.append(cpu_seconds_to_first_step(settings.of_runs))
            report("fresh processes", number + 1, settings.starts)
    low, high = measured["engine_over_plain_quartiles"]
    print(
        f"{configuration.label} on {configuration.task}, preset {configuration.preset}: a step "
        f"takes {measured['engine_seconds']:.4f} s under the engine, "
        f"{measured['plain_seconds']:.4f} s in a plain loop (medians of {settings.rounds} "
        "blocks)\n"
        f"engine / plain: {measured['engine_over_plain']:.3f}, the median over pairs of "
        f"neighbouring blocks (quartiles {low:.3f} and {high:.3f})\n"
        f"tokens per second: {measured['tokens_per_second']:,.0f}; making a batch takes "
        f"{measured['batch_share']:.2%} of a step"
    )
    if starts:
        print(f"a fresh process reaches its first step after {min(starts):.2f} CPU-seconds")
    return measured


def _time_together(settings: TrainingSpeedSettings) -> dict[str, Any]:
    configuration = Configuration.of(settings.of_runs)
    numbers = (settings.together, settings.rounds, settings.timed_steps)
    with progress() as report:
        measured = compare_stack(configuration, *numbers, report)
    low, high = measured["quartiles"]
    print(
        f"{configuration.label} on {configuration.task}, preset {configuration.preset}: "
        f"{settings.together} trainings together are {measured['factor']:.3f} times as fast as "
        f"each alone (quartiles {low:.3f} and {high:.3f})"
    )
    return measured


def _check_estimate(settings: TrainingSpeedSettings) -> dict[str, Any]:
    models = settings.of_runs.get("models")
    shared = {key: value for key, value in settings.of_runs.items() if key != "models"}
    configurations = []
    for model in models if isinstance(models, list) and models else [models]:
        choice = {"models": model} if model else {}
        configurations.append(Configuration.of({**shared, **choice}))
    numbers = (settings.rounds, settings.timed_steps)
    with progress() as report:
        measured = compare_estimate(configurations, *numbers, report)
    print(
        f"{measured['task']}, preset {measured['preset']}: seconds of a training step, estimated "
        f"by rates of {measured['device']} and measured under the engine, in {settings.rounds} "
        f"rounds by turns of {settings.timed_steps} steps; medians"
    )
    for row in measured["models"]:
        low, high = min(row["ratios"]), max(row["ratios"])
        verdict = "within" if row["within"] else "NOT within"
        print(
            f"  {row['label']:16} estimated {row['estimated_seconds']:.3f}, measured "
            f"{row['measured_seconds']:.3f}: ratio {row['ratio']:.2f} ({low:.2f} to {high:.2f}), "
            f"{verdict} a factor of {measured['within']:g}"
        )
    return measured
