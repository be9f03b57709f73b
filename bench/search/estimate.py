"""What a sweep would cost, from a few real steps of each model; nothing is written."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.table import Table

from bench.search.plan import Entry, Plan
from bench.search.table import console
from bench.settings.settings import Configuration
from bench.training.building import build_task, build_to_train, resolve_device
from bench.training.flops import count_training_flops
from bench.training.optimisation import build_optimizer
from bench.training.training import total_steps
from ground.errors import UserError
from ground.progress import Report, duration

PROBE_SECONDS = 1.5
NOTHING_WRITTEN = "dry run, nothing was written"
SIZES = ("batch_size", "steps", "epochs")  # searched training keys that make a run longer


@dataclass(frozen=True)
class Estimate:
    """Cost of all trainings of one model, had they all the setting named; or why it cannot run.

    Attributes:
        choice: the word that chooses the model.
        runs: trials and final runs, as the progress of a sweep counts them.
        seconds: of training alone, one after the other, without evaluation.
        flops: forward and backward.
    """

    choice: str
    label: str
    setting: str
    trials: int
    runs: int
    parameters: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    cause: str | None = None


def estimate(plan: Plan, report: Report) -> list[Estimate]:
    """For each model the cost at its default and, if another, at its largest setting."""
    probes = [
        (entry, name, setting)
        for entry in plan.entries
        for name, setting in (("default", {}), ("largest", _largest(entry.space)))
        if setting or name == "default"
    ]
    found = []
    for number, (entry, name, setting) in enumerate(probes):
        report("probing a few steps of each model", number, len(probes))
        found.append(_estimate(entry, name, setting))
    report("probing a few steps of each model", len(probes), len(probes))
    return found


def _largest(space: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The largest value of every searched size."""
    sizes = [f"training.{name}" for name in SIZES]
    return {
        key: max(values)
        for key, values in space.items()
        if (key in sizes or key.startswith("models."))
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    }


def _estimate(entry: Entry, name: str, setting: Mapping[str, Any]) -> Estimate:
    configuration = entry.at(setting)
    names = (entry.words[0], configuration.label, name)
    sweep, training = configuration.sweep, configuration.training
    trials = min(sweep.n_trials, entry.settings)
    runs = trials + sweep.seeds
    if configuration.takes is not None:
        cause = f"{configuration.task} has no training steps to time"
        return Estimate(*names, trials, runs, cause=cause)
    try:
        parameters, flops, seconds = _probe(configuration)
        steps = total_steps(build_task(configuration), training)
    except (UserError, ValueError, torch.OutOfMemoryError) as error:
        return Estimate(*names, trials, runs, cause=str(error))
    # The first final run has the weights of its trial.
    trained = (runs - 1) * training.restarts * steps
    return Estimate(*names, trials, runs, parameters, trained * flops, trained * seconds)


def _probe(configuration: Configuration) -> tuple[int, float, float]:
    """Parameters, FLOPs of a step, and the median seconds of a step after the first."""
    settings = configuration.training
    torch.set_num_threads(settings.threads)
    device = resolve_device(configuration.device)
    task = build_task(configuration)
    model = build_to_train(configuration, task, configuration.seed).to(device).train()
    optimizer = build_optimizer(model, settings)
    bfloat16 = settings.precision == "bfloat16"
    batch = task.training_batch(configuration.seed, 0, settings.batch_size).to(device)
    flops = count_training_flops(model, batch, task.training_loss)
    times: list[float] = []
    for step in itertools.count():
        if len(times) > 1 and sum(times) > PROBE_SECONDS:
            break
        begin = time.perf_counter()
        batch = task.training_batch(configuration.seed, step, settings.batch_size).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            loss = task.training_loss(model, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        float(loss.detach())  # waits for the device
        times.append(time.perf_counter() - begin)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return parameters, flops, statistics.median(times[1:])


def print_estimates(estimates: Sequence[Estimate], plan: Plan, of: str = "") -> None:
    """The estimates and their totals, with workers taken to share the time evenly.

    Args:
        of: which sweep it is, where there are several.
    """
    workers = max(1, plan.settings.workers)
    sized = any(e.setting == "largest" for e in estimates)
    table = Table()
    table.add_column("model")
    if sized:
        table.add_column("sizes")
    for column in ("trials", "runs", "parameters", "training FLOPs", "training time"):
        table.add_column(column, justify="right")

    def add(label: str, setting: str, *cells: str) -> None:
        table.add_row(label, *([setting] if sized else []), *cells)

    for e in estimates:
        counts = (str(e.trials), str(e.runs))
        if e.cause:
            add(e.label, e.setting, *counts, "", "", f"no estimate: {e.cause}")
        else:
            shown = (f"{e.parameters:,}", f"{e.flops:.3g}", duration(e.seconds))
            add(e.label, e.setting, *counts, *shown)
    table.add_section()
    for name, chosen in _totals(estimates).items():
        counts = (str(sum(e.trials for e in chosen)), str(sum(e.runs for e in chosen)))
        if all(e.cause for e in chosen):
            add("all", name, *counts, "", "", "no estimate")
            continue
        flops = f"{sum(e.flops for e in chosen):.3g}"
        seconds = sum(e.seconds for e in chosen) / workers
        add("all", name, *counts, "", flops, duration(seconds))
    screen = console()
    screen.print(": ".join(filter(None, [of, NOTHING_WRITTEN])), markup=False, soft_wrap=True)
    screen.print(table)
    screen.print(
        f"runs: trials, and one final run for each of {plan.settings.seeds} seeds; the first of "
        "them takes the weights of its trial and is not trained again\n"
        f"time: of training alone, without evaluation; the total with {workers} at a time"
    )
    if sized:
        screen.print(
            "sizes: default, as if every trial had the model's size without a search; largest, as "
            "if every one had the largest value of each searched size"
        )


def print_run_count(configurations: Sequence[Configuration]) -> None:
    """How many single runs there are, and of how many optimiser steps."""
    first = configurations[0]
    labels = " and ".join(dict.fromkeys(c.label for c in configurations))
    if first.takes is not None:
        console().print(f"{NOTHING_WRITTEN}\n{len(configurations)} runs of {first.task}")
        return
    steps = total_steps(build_task(first), first.training)
    starts = first.training.restarts
    each = f"{steps:,} steps" + (f" from each of {starts} starts" if starts > 1 else "")
    console().print(
        f"{NOTHING_WRITTEN}\n{len(configurations)} runs of {labels} on {first.task}, of "
        f"{each}: {len(configurations) * starts * steps:,} steps"
    )


def _totals(estimates: Sequence[Estimate]) -> dict[str, list[Estimate]]:
    """All models at their default, and all at their largest setting where they have one."""
    default = {e.choice: e for e in estimates if e.setting == "default"}
    largest = {**default, **{e.choice: e for e in estimates if e.setting == "largest"}}
    totals = {"default": list(default.values()), "largest": list(largest.values())}
    return totals if largest != default else {"default": totals["default"]}
