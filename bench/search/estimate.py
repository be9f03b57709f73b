"""What a sweep would cost; nothing is written. On this machine a few real steps of each model tell;
for a device that is not here (``device_like=``) a step is counted and put on the device's rates."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from bench.config.settings import ALL_SEEDS, Configuration, SweepSettings
from bench.records.report import table_of
from bench.roofline.devices import Device
from bench.search.forecast import Forecast, Forecaster, forecaster_of
from bench.search.forecast_table import (
    ForecastRow,
    print_assumptions,
    print_forecast,
    print_precisions,
    print_timeline,
)
from bench.search.placement import workers_at_once
from bench.search.plan import Entry, SweepPlan
from bench.search.remaining.left import duration_in_words, seconds_on_record
from bench.training.building import build_task, build_to_train, resolve_device
from bench.training.flops import SEEN, count_training_flops, typical_batch
from bench.training.optimisation import plain_steps
from bench.training.storage import count_parameters
from bench.training.training import total_steps, training_loss_of
from core.amounts import amount
from core.errors import UserError, place_of
from core.progress import Report, duration, progress
from core.screen import console

PROBE_SECONDS = 1.5
# No record is looked for: what is there, or committed, would be served and cost nothing.
NOTHING_WRITTEN = "dry run, as if there were no record yet; nothing was written"
# Searched keys of a training that make it longer.
SIZES = ("training.batch_size", "training.steps", "training.epochs")


@dataclass(frozen=True)
class Estimate:
    """Cost of all trainings of one model, had they all the setting named; or why it cannot run.

    Attributes:
        choice: the word that chooses the model.
        runs: trials and final runs, as the progress of a sweep counts them.
        seconds: of training alone, one after the other, without evaluation.
        flops: forward and backward.
        refused: whether ``cause`` is an error, and no run would succeed either.
        forecast: on another device; ``seconds`` are then those expected with each run alone.
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
    refused: bool = False
    forecast: Forecast | None = None


def estimate(plan: SweepPlan, report: Report) -> list[Estimate]:
    """Estimates of each model: its cost at its default and, if another, at its largest setting; on
    another device, that of all its settings."""
    if plan.device_like is not None:
        return _estimate_for_device(plan, report)
    probes: list[tuple[Entry, str, dict[str, Any]]] = []
    for entry in plan.entries:
        probes.append((entry, "default", {}))
        if largest := _largest(entry.space):
            probes.append((entry, "largest", largest))
    estimates = []
    for number, (entry, name, setting) in enumerate(probes):
        report("probing a few steps of each model", number, len(probes))
        estimates.append(_estimate(entry, name, setting))
    report("probing a few steps of each model", len(probes), len(probes))
    return estimates


def _estimate_for_device(plan: SweepPlan, report: Report) -> list[Estimate]:
    estimates = []
    activity = "counting the steps of each model"
    report(activity, 0, len(plan.entries))
    forecaster = _forecaster(plan)
    for number, entry in enumerate(plan.entries, 1):
        configuration = entry.configuration
        trials = min(plan.settings.n_trials, entry.settings)
        runs = trials + plan.settings.finals
        estimated = Estimate(entry.name, configuration.label, "all", trials, runs)
        try:
            forecast = forecaster.model(entry)
            estimated = replace(
                estimated,
                parameters=forecast.parameters[1],
                flops=forecast.flops,
                seconds=forecast.alone.likely,
                forecast=forecast,
            )
        except Exception as error:  # whatever a model raises: the others are estimated
            estimated = replace(estimated, cause=_sentence_of(error), refused=True)
        estimates.append(estimated)
        report(activity, number, len(plan.entries))
    return estimates


def _sentence_of(error: Exception) -> str:
    """The sentence of an error; of what nobody put into words, as in a package of one's own, also
    the place."""
    if isinstance(error, UserError | ValueError | torch.OutOfMemoryError):
        return str(error)
    return f"{type(error).__name__}: {error} in {place_of(error)}"


def _largest(space: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The largest value of every searched size."""
    largest = {}
    for key, values in space.items():
        of_numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        if of_numbers and (key in SIZES or key.startswith("models.")):
            largest[key] = max(values)
    return largest


def _estimate(entry: Entry, name: str, setting: Mapping[str, Any]) -> Estimate:
    configuration = entry.at(setting)
    sweep, training = configuration.sweep, configuration.training
    trials = min(sweep.n_trials, entry.settings)
    runs = trials + sweep.finals
    estimated = Estimate(entry.name, configuration.label, name, trials, runs)
    if configuration.takes is not None:
        return replace(estimated, cause=f"{configuration.task} has no training steps to time")
    try:
        parameters, flops, seconds = _probe(configuration)
        steps = total_steps(build_task(configuration), training)
    except Exception as error:  # whatever a model raises: the others are estimated
        return replace(estimated, cause=_sentence_of(error), refused=True)
    # The first final run has the weights of its trial.
    trained = (runs - 1) * training.restarts * steps
    flops, seconds = trained * flops, trained * seconds
    return replace(estimated, parameters=parameters, flops=flops, seconds=seconds)


def _probe(configuration: Configuration) -> tuple[int, float, float]:
    """Parameters, FLOPs of a step, and the median seconds of a step after the first."""
    settings, seed = configuration.training, configuration.seed
    torch.set_num_threads(settings.threads)
    device = resolve_device(configuration.device)
    task = build_task(configuration)
    model = build_to_train(configuration, task, seed).to(device).train()
    total = total_steps(task, settings)
    typical = typical_batch(task, seed, settings.batch_size, total).to(device)
    batches = [task.training_batch(seed, n, settings.batch_size) for n in range(min(SEEN, total))]
    loss = training_loss_of(task, model, seed, settings.batch_size)
    # As records have it: a position of that batch, times the positions of a step.
    flops = count_training_flops(model, typical, loss) / typical.inputs.numel()
    flops *= statistics.mean(batch.inputs.numel() for batch in batches)
    ends = [time.perf_counter()]
    for _ in plain_steps(model, task, settings, total, seed, loss):
        ends.append(time.perf_counter())
        if len(ends) > 2 and ends[-1] - ends[0] > PROBE_SECONDS:
            break
    seconds = statistics.median(b - a for a, b in itertools.pairwise(ends[1:]))
    return count_parameters(model), flops, seconds


def print_estimates(estimates: Sequence[Estimate], plan: SweepPlan, sweep_name: str = "") -> None:
    """The estimates and their totals, with workers taken to share the time evenly.

    Args:
        sweep_name: which sweep it is, where there are several.
    """
    if plan.device_like is not None:
        _print_for_device(estimates, plan, sweep_name)
        return
    workers = max(1, workers_at_once(plan.entries[0].configuration, plan.runs))
    sized = any(e.setting == "largest" for e in estimates)
    columns = ["trials", "runs", "parameters", "training FLOPs", "training time"]
    table = table_of(["model", "sizes"] if sized else ["model"], columns)
    for e in estimates:
        cells = _cells([e], f"{e.parameters:,}", f"no estimate: {e.cause}")
        table.add_row(e.label, *([e.setting] if sized else []), *cells)
    table.add_section()
    default = [model for model in estimates if model.setting == "default"]
    # The largest setting of a model comes after its default.
    largest = list({model.choice: model for model in estimates}.values())
    totals = {"default": default} | ({"largest": largest} if largest != default else {})
    for name, chosen in totals.items():
        cells = _cells(chosen, "", "no estimate", workers)
        table.add_row("all", *([name] if sized else []), *cells)
    screen = console()
    screen.print(": ".join(filter(None, [sweep_name, NOTHING_WRITTEN])), soft_wrap=True)
    screen.print(table)
    screen.print(
        f"runs: trials, and one final run for each of {_seeds(plan.settings)}; the first of them "
        "takes the weights of its trial and is not trained again\n"
        f"time: of training alone, without evaluation, on an idle machine; the total with "
        f"{workers} at a time"
    )
    _print_not_counted(plan)
    if sized:
        screen.print(
            "sizes: default, as if every trial had the model's size without a search; largest, as "
            "if every one had the largest value of each searched size"
        )


def _seeds(sweep: SweepSettings) -> str:
    """How many final runs a model gets, in words."""
    of_training = f"{sweep.seeds} seed{'s' * (sweep.seeds > 1)}"
    if sweep.data_seeds == 1:
        return of_training
    return f"{of_training} of each of {sweep.data_seeds} data seeds"


def _print_not_counted(plan: SweepPlan) -> None:
    """What a search may come to make beyond its first grid, which nobody can know before."""
    if plan.settings.choose_over == ALL_SEEDS and plan.settings.n_trials > 1:
        console().print(
            f"choose_over={ALL_SEEDS}: a setting that looks better with one seed than the best "
            "over all seeds gets all of them too, which is not counted here",
            soft_wrap=True,
        )
    if plan.grows:
        extend = plan.settings.extend
        console().print(
            f"extend={extend}: where a best setting lies on an edge of the whole grid, all models "
            f"get more values, up to {extend} on each side of a key, which are not counted here",
            soft_wrap=True,
        )


def foretell(plans: Mapping[str, SweepPlan]) -> None:
    """Estimate and print several sweeps, by their names; on another device also all together."""
    names_as_sets = [set(name.split()) for name in plans]
    in_all_names = set.intersection(*names_as_sets) if plans else set()
    by_sweep: dict[str, list[Estimate]] = {}
    for name, plan in plans.items():
        with progress() as report:
            estimates = estimate(plan, report)
        print_estimates(estimates, plan, name)
        short_name = " ".join(part for part in name.split() if part not in in_all_names)
        by_sweep[short_name or name] = estimates
    if len(plans) > 1 and (plan := next(iter(plans.values()))).device_like is not None:
        _print_together(by_sweep, _forecaster(plan).device)


def _print_together(by_sweep: Mapping[str, list[Estimate]], device: Device) -> None:
    """A line for each model over all sweeps, and one for each sweep."""
    by_model: dict[str, list[Estimate]] = {}
    for model in itertools.chain(*by_sweep.values()):
        by_model.setdefault(model.label, []).append(model)
    for title, groups in (("all sweeps, by model", by_model), ("all sweeps", by_sweep)):
        rows = []
        for name, estimates in groups.items():
            rows.append(ForecastRow(name, sum(e.runs for e in estimates), _forecasts(estimates)))
        print_forecast(rows, device, title)
    forecasts = _forecasts(itertools.chain(*by_sweep.values()))
    print_precisions(forecasts)
    print_timeline([forecast.chain for forecast in forecasts], device)
    print("the sweeps do not wait for each other; one command makes them by turns")


def _forecasts(estimates: Iterable[Estimate]) -> list[Forecast]:
    return [e.forecast for e in estimates if e.forecast is not None]


def _forecaster(plan: SweepPlan) -> Forecaster:
    first = plan.entries[0].configuration
    return forecaster_of(str(plan.device_like), first.training.threads, first.device)


def _print_for_device(estimates: Sequence[Estimate], plan: SweepPlan, sweep_name: str) -> None:
    first, device = plan.entries[0].configuration, _forecaster(plan).device
    print(NOTHING_WRITTEN)
    rows = [ForecastRow(e.label, e.runs, _forecasts([e]), e.cause) for e in estimates]
    print_forecast(rows, device, sweep_name or f"{first.task}, preset {first.preset}")
    print_precisions(_forecasts(estimates))
    print_timeline([forecast.chain for forecast in _forecasts(estimates)], device)
    print_assumptions(device, first.training.precision)
    _print_not_counted(plan)


def _cells(chosen: Sequence[Estimate], size: str, failed: str, workers: int = 1) -> list[str]:
    """What some models cost together; ``failed`` where there is an estimate of none."""
    trials = runs = 0
    flops = seconds = 0.0
    for model in chosen:
        trials, runs = trials + model.trials, runs + model.runs
        flops, seconds = flops + model.flops, seconds + model.seconds
    if all(model.cause for model in chosen):
        return [str(trials), str(runs), "", "", failed]
    return [str(trials), str(runs), size, f"{flops:.3g}", duration(seconds / workers)]


def print_run_count(configurations: Sequence[Configuration]) -> None:
    """How many single runs there are, of how many optimiser steps, and how long they take: by a few
    steps of each setting here, or, of runs that are not trained in steps, by records."""
    first = configurations[0]
    tasks = " and ".join(dict.fromkeys(c.task for c in configurations))
    screen = console()
    if first.takes is not None:
        seconds = seconds_on_record(configurations)
        time = "no run on record says how long" if seconds is None else duration_in_words(seconds)
        screen.print(
            f"{NOTHING_WRITTEN}\n{amount(len(configurations), 'run')} of {tasks}: {time}",
            soft_wrap=True,
        )
        return
    labels = " and ".join(dict.fromkeys(c.label for c in configurations))
    lengths = [c.training.steps or total_steps(build_task(c), c.training) for c in configurations]
    starts = [c.training.restarts for c in configurations]
    steps = [length * count for length, count in zip(lengths, starts, strict=True)]
    each = " or ".join(f"{length:,}" for length in sorted({*lengths})) + " steps"
    if max(starts) > 1:
        each += f" from each of {' or '.join(map(str, sorted({*starts})))} starts"
    screen.print(
        f"{NOTHING_WRITTEN}\n{amount(len(configurations), 'run')} of {labels} on {tasks}, of "
        f"{each}: {sum(steps):,} steps",
        soft_wrap=True,
    )
    screen.print(_time_of_steps(configurations, steps), soft_wrap=True)


def _time_of_steps(configurations: Sequence[Configuration], steps: Sequence[int]) -> str:
    """How long trainings of so many steps each take, by a few steps of those that differ in more
    than their seeds."""
    of_step: dict[str, float] = {}
    seconds = 0.0
    for configuration, count in zip(configurations, steps, strict=True):
        resolved = configuration.resolved()
        resolved["tasks"].pop("data_seed", None)
        key = f"{configuration.task} {resolved}"
        if key not in of_step:
            try:
                _, _, of_step[key] = _probe(configuration)
            except Exception as error:  # whatever a model raises
                return f"no estimate of the time: {_sentence_of(error)}"
        seconds += of_step[key] * count
    workers = max(1, workers_at_once(configurations[0], len(configurations)))
    return (
        f"time: about {duration(seconds / workers)} of training alone, without evaluation, on an "
        f"idle machine, with {workers} at a time"
    )
