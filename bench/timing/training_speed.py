"""What ``bench.training_speed`` measures and prints: the engine against a plain loop, a stack
against trainings alone, or the estimate of a step against real ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.config.settings import Configuration
from bench.timing.rooflines import compare_estimate
from bench.timing.stacks import compare_stack
from bench.timing.steps import compare, cpu_seconds_to_first_step
from core.progress import progress


def time_training(settings: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured, ready for JSON.

    Args:
        settings: of the runs that are timed.
        request: of the measurement, by the names that the command has for them.
    """
    if request["device_like"] is not None:
        return _check_estimate(settings, request)
    configuration = Configuration.of(settings)
    if request["together"] > 1:
        return _time_together(configuration, request)
    return _time_engine(configuration, settings, request)


def _time_engine(
    configuration: Configuration, settings: Mapping[str, Any], request: Mapping[str, Any]
) -> dict[str, Any]:
    with progress() as report:
        measured = compare(configuration, request["rounds"], request["timed_steps"], report)
        starts = measured["start_cpu_seconds"] = []
        for number in range(request["starts"]):
            starts.append(cpu_seconds_to_first_step(settings))
            report("fresh processes", number + 1, request["starts"])
    low, high = measured["engine_over_plain_quartiles"]
    print(
        f"{configuration.label} on {configuration.task}, preset {configuration.preset}: a step "
        f"takes {measured['engine_seconds']:.4f} s under the engine, "
        f"{measured['plain_seconds']:.4f} s in a plain loop (medians of {request['rounds']} "
        "blocks)\n"
        f"engine / plain: {measured['engine_over_plain']:.3f}, the median over pairs of "
        f"neighbouring blocks (quartiles {low:.3f} and {high:.3f})\n"
        f"tokens per second: {measured['tokens_per_second']:,.0f}; making a batch takes "
        f"{measured['batch_share']:.2%} of a step"
    )
    if starts:
        print(f"a fresh process reaches its first step after {min(starts):.2f} CPU-seconds")
    return measured


def _time_together(configuration: Configuration, request: Mapping[str, Any]) -> dict[str, Any]:
    numbers = (request["together"], request["rounds"], request["timed_steps"])
    with progress() as report:
        measured = compare_stack(configuration, *numbers, report)
    low, high = measured["quartiles"]
    print(
        f"{configuration.label} on {configuration.task}, preset {configuration.preset}: "
        f"{request['together']} trainings together are {measured['factor']:.3f} times as fast as "
        f"each alone (quartiles {low:.3f} and {high:.3f})"
    )
    return measured


def _check_estimate(settings: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    models = settings.get("models")
    shared = {key: value for key, value in settings.items() if key != "models"}
    configurations = []
    for model in models if isinstance(models, list) and models else [models]:
        choice = {"models": model} if model else {}
        configurations.append(Configuration.of({**shared, **choice}))
    numbers = (request["rounds"], request["timed_steps"])
    with progress() as report:
        measured = compare_estimate(configurations, *numbers, report)
    print(
        f"{measured['task']}, preset {measured['preset']}: seconds of a training step, estimated "
        f"by rates of {measured['device']} and measured under the engine, in {request['rounds']} "
        f"rounds by turns of {request['timed_steps']} steps; medians"
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
