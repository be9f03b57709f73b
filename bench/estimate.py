"""What a sweep would cost, from a few real steps of each model; nothing is written."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.table import Table

from bench.building import build_model, build_task, resolve_device
from bench.errors import UserError
from bench.flops import count_training_flops
from bench.optimisation import build_optimizer
from bench.plan import Entry, Plan
from bench.progress import Report, duration
from bench.settings import Configuration
from bench.table import console
from bench.training import total_steps

PROBE_SECONDS = 1.5
SIZES = ("batch_size", "steps", "epochs")  # searched training keys that make a run longer


@dataclass(frozen=True)
class Estimate:
    """Cost of all trainings of one model, had they all the setting named; or why it cannot run.

    Attributes:
        choice: the word that chooses the model.
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
    trials = min(sweep.n_trials, math.prod(len(values) for values in entry.space.values()))
    runs = trials + sweep.seeds - 1  # the first final run has the weights of its trial
    try:
        parameters, flops, seconds = _probe(configuration)
        steps = total_steps(build_task(configuration), training)
    except (UserError, ValueError, torch.OutOfMemoryError) as error:
        return Estimate(*names, trials, runs, cause=str(error))
    trained = runs * training.restarts * steps
    return Estimate(*names, trials, runs, parameters, trained * flops, trained * seconds)


def _probe(configuration: Configuration) -> tuple[int, float, float]:
    """Parameters, FLOPs of a step, and the median seconds of a step after the first."""
    settings = configuration.training
    torch.set_num_threads(settings.threads)
    device = resolve_device(configuration.device)
    task = build_task(configuration)
    model = build_model(configuration, task, configuration.seed).to(device).train()
    optimizer = build_optimizer(model, settings)
    bfloat16 = settings.precision == "bfloat16"
    batch = task.training_batch(configuration.seed, 0, settings.batch_size).to(device)
    flops = count_training_flops(model, batch, task.loss)
    times: list[float] = []
    for step in itertools.count():
        if len(times) > 1 and sum(times) > PROBE_SECONDS:
            break
        begin = time.perf_counter()
        batch = task.training_batch(configuration.seed, step, settings.batch_size).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            loss = task.loss(model(batch.inputs), batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        float(loss.detach())  # waits for the device
        times.append(time.perf_counter() - begin)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return parameters, flops, statistics.median(times[1:])


def print_estimates(estimates: Sequence[Estimate], plan: Plan) -> None:
    """The estimates and their totals, with workers taken to share the time evenly."""
    workers = max(1, plan.settings.workers)
    table = Table(title="dry run: nothing was written", title_justify="left")
    table.add_column("model")
    table.add_column("setting")
    for column in ("trials", "trainings", "parameters", "training FLOPs", "training time"):
        table.add_column(column, justify="right")
    for e in estimates:
        counts = (str(e.trials), str(e.runs))
        if e.cause:
            table.add_row(e.label, e.setting, *counts, "", "", f"cannot run: {e.cause}")
        else:
            shown = (f"{e.parameters:,}", f"{e.flops:.3g}", duration(e.seconds))
            table.add_row(e.label, e.setting, *counts, *shown)
    table.add_section()
    for name, chosen in _totals(estimates).items():
        counts = (str(sum(e.trials for e in chosen)), str(sum(e.runs for e in chosen)))
        flops = f"{sum(e.flops for e in chosen):.3g}"
        seconds = sum(e.seconds for e in chosen) / workers
        table.add_row("all", name, *counts, "", flops, duration(seconds))
    screen = console()
    screen.print(table)
    screen.print(
        f"time of training alone, without evaluation; totals with {workers} at a time; "
        "largest: the largest value of each searched size"
    )


def _totals(estimates: Sequence[Estimate]) -> dict[str, list[Estimate]]:
    """All models at their default, and all at their largest setting where they have one."""
    default = {e.choice: e for e in estimates if e.setting == "default"}
    largest = {**default, **{e.choice: e for e in estimates if e.setting == "largest"}}
    totals = {"default": list(default.values()), "largest": list(largest.values())}
    return totals if largest != default else {"default": totals["default"]}
