"""The estimate of a training step against real ones on this machine, in turns.

A round measures the machine's rates anew and then makes a block of steps of each model under the
engine, so that a machine whose speed changes meets both. Nothing is fitted to the models: what the
estimate rests on are small benchmarks of products, copies, functions and launches, and the count of
one step.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from bench.config.settings import Configuration
from bench.roofline.here import WITHIN, measure_here
from bench.roofline.seconds import seconds
from bench.roofline.training import Counter
from bench.timing.steps import machine, seconds_of_a_step
from bench.training.building import prepare_data, resolve_device
from bench.training.numerics import set_numerics
from core.progress import Report


def compare_estimate(
    configurations: Sequence[Configuration], rounds: int, timed_steps: int, report: Report
) -> dict[str, Any]:
    """Estimated over measured seconds of a step of each configuration."""
    first = configurations[0]
    device, threads = resolve_device(first.device), first.training.threads
    set_numerics(threads)
    counter, counted = Counter(local=True), []
    for configuration in configurations:
        prepare_data(configuration, report)
        counted.append(counter.count(configuration))
    measured: list[list[float]] = [[] for _ in configurations]
    estimated: list[list[float]] = [[] for _ in configurations]
    rates = []
    for number in range(rounds):
        local = measure_here(device, threads)
        expected = local.corners["float32"][1]
        rates.append(
            {
                "products_flops": expected.peak,
                "bytes_a_second": {f"{size:.0f}": rate for size, rate in expected.bandwidth},
                "functions_a_second": expected.functions,
                "launch_seconds": expected.launch,
            }
        )
        for place, (configuration, work) in enumerate(zip(configurations, counted, strict=True)):
            measured[place].append(seconds_of_a_step(configuration, timed_steps))
            parts = (seconds(part, local, "float32").likely for part in (work.step, work.update))
            estimated[place].append(sum(parts) + work.batch_seconds)
            report(
                "estimate against steps", number * len(counted) + place + 1, rounds * len(counted)
            )
    rows = []
    for configuration, work, real, guess in zip(
        configurations, counted, measured, estimated, strict=True
    ):
        ratios = [a / b for a, b in zip(guess, real, strict=True)]
        ratio = statistics.median(ratios)
        rows.append(
            {
                "model": configuration.model,
                "label": configuration.label,
                "measured_seconds": statistics.median(real),
                "estimated_seconds": statistics.median(guess),
                "ratio": ratio,
                "ratios": ratios,
                "within": max(ratio, 1 / ratio) <= WITHIN,
                "flops": work.step.flops,
                "moved_bytes": work.step.moved,
                "launches": work.step.launches,
                "views": work.step.views,
            }
        )
    return {
        "task": first.task,
        "preset": first.preset,
        "rounds": rounds,
        "timed_steps": timed_steps,
        "within": WITHIN,
        "rates": rates,
        "models": rows,
        **machine(device),
    }
