"""What ``bench.speed`` measures. All results are plain numbers, ready for JSON."""

from __future__ import annotations

import inspect
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from bench.records.report import table_of
from bench.timing.settings import SpeedSettings
from bench.timing.steps import RandomTokens, clock, machine, measure_engine, synchronize
from bench.training.building import check_fits, load_subclass, resolve_device
from bench.training.flops import count_training_flops
from bench.training.memory import peak_memory
from ground.errors import RUN_FAILED, UserError, is_out_of_memory, nearest
from ground.progress import Report
from ground.screen import console
from settings.config import group_file
from settings.external import load_class
from settings.groups import DESCRIPTIVE, choices

SHAPES = ("width", "layers", "heads")
WHOLE = "whole"
SMALLEST_SHARE = 0.01  # of the time, to be listed in a profile


def measure(settings: SpeedSettings, report: Report) -> dict[str, Any]:
    """Time every model at every vocabulary.

    Raises:
        UserError: a model that is not there, or that cannot have these shapes; shapes that do not
            fit into the memory.
    """
    try:
        return _measure(settings, report)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(
            "the memory is too small for these shapes: lower width, layers, length, batch or "
            "vocabulary",
            RUN_FAILED,
        ) from None


def _measure(settings: SpeedSettings, report: Report) -> dict[str, Any]:
    torch.set_num_threads(settings.threads)
    device = resolve_device(settings.device)
    shaped = (n for n in choices("models") if {"width", "layers"} <= _arguments(n).keys())
    names = list(dict.fromkeys([settings.reference, *(settings.models or shaped)]))
    measurement: dict[str, Any] = {
        "settings": settings.model_dump(mode="json"),
        **machine(device),
        "models": [
            row
            for vocabulary in settings.vocabulary
            for row in _measure_models(settings, names, vocabulary, device, report)
        ],
    }
    smallest, dropout = min(settings.vocabulary), settings.dropout[0]
    if settings.profile:
        measurement["profile"] = {
            name: _profile(_Pass(settings, name, smallest, dropout, device), settings.rounds)
            for name in names
        }
    if settings.engine:

        def build() -> nn.Module:
            return build_model(settings, settings.reference, smallest, dropout)

        measurement["engine"] = measure_engine(settings, build, smallest, device, report)
    return measurement


def _arguments(name: str) -> dict[str, Any]:
    """What the constructor of a model takes: with the defaults of its YAML file, or None for each
    argument of ``package.Class``, which has its own."""
    if "." in name:
        return dict.fromkeys(inspect.signature(load_class(name)).parameters)
    if name not in choices("models"):
        raise UserError(f"there is no model '{name}': {nearest(name, choices('models'))}")
    content = group_file("models", name)
    return {key: value for key, value in content.items() if key not in DESCRIPTIVE}


def build_model(settings: SpeedSettings, name: str, vocabulary: int, dropout: float) -> nn.Module:
    """A model with the shapes asked for, as far as it has them; equal seeds, equal weights.

    Raises:
        UserError: the model refuses the shapes, or is larger than this machine.
    """
    defaults = _arguments(name)
    arguments = {} if "." in name else dict(defaults)
    target = arguments.pop("_target_", name)
    shapes = {key: getattr(settings, key) for key in SHAPES} | {"dropout": dropout}
    arguments |= {key: value for key, value in shapes.items() if key in defaults}
    specification = RandomTokens(settings, vocabulary).specification()
    model = partial(load_subclass(target, "models"), specification, **arguments)
    check_fits(model, name, resolve_device(settings.device))
    torch.manual_seed(settings.seed)
    try:
        return model()
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} cannot be timed at these shapes: {error}") from error


class _Pass:
    """A model and a batch of random tokens; a call is one forward and backward pass."""

    def __init__(
        self,
        settings: SpeedSettings,
        name: str,
        vocabulary: int,
        dropout: float,
        device: torch.device,
    ) -> None:
        self.task = RandomTokens(settings, vocabulary)
        self.model = build_model(settings, name, vocabulary, dropout).to(device).train()
        self.batch = self.task.training_batch(settings.seed, 0, settings.batch).to(device)
        self.device = device
        self.clock = clock(device, settings.threads)

    def __call__(self) -> float:
        """Seconds, of CPU time where one thread does it all; no gradients are left."""
        synchronize(self.device)
        begin = self.clock()
        self.task.training_loss(self.model, self.batch).backward()
        synchronize(self.device)
        seconds = self.clock() - begin
        self.model.zero_grad(set_to_none=True)
        return seconds


def _measure_models(
    settings: SpeedSettings,
    names: Sequence[str],
    vocabulary: int,
    device: torch.device,
    report: Report,
) -> list[dict[str, Any]]:
    passes = {
        (name, dropout): _Pass(settings, name, vocabulary, dropout, device)
        for name in names
        for dropout in settings.dropout
    }
    rows: list[dict[str, Any]] = []
    for (name, dropout), run in passes.items():  # also warms up
        flops = count_training_flops(run.model, run.batch, run.task.training_loss)
        with peak_memory(device) as memory:
            run()
        rows.append(
            {
                "model": name,
                "vocabulary": vocabulary,
                "dropout": dropout,
                "parameters": sum(p.numel() for p in run.model.parameters()),
                "flops": flops,
                "peak_memory_bytes": memory.peak,
            }
        )
    times: dict[tuple[str, float], list[float]] = {key: [] for key in passes}
    for number in range(settings.rounds):
        for key, run in passes.items():
            times[key].append(run())
        report(f"rounds, vocabulary {vocabulary}", number + 1, settings.rounds)
    for row in rows:
        seconds = times[row["model"], row["dropout"]]
        median = statistics.median(seconds)
        pairs = zip(times[settings.reference, row["dropout"]], seconds, strict=True)
        first = zip(seconds, times[row["model"], settings.dropout[0]], strict=True)
        row["time_against_first_dropout"] = statistics.median(own / other for own, other in first)
        row["seconds"], row["median_seconds"] = seconds, median
        row["steps_per_second"] = 1 / median
        row["tokens_per_second"] = settings.batch * settings.length / median
        row["speed_against_reference"] = statistics.median(theirs / own for theirs, own in pairs)
    return rows


def _profile(run: Callable[[], float], passes: int) -> list[dict[str, Any]]:
    """Regions of the passes with their share of the time, children included; a region is an
    operator, an autograd function or what code names with ``record_function``."""
    run()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with (
        torch.profiler.profile(activities=activities) as profiler,
        torch.profiler.record_function(WHOLE),
    ):
        for _ in range(passes):
            run()
    events = profiler.key_averages()
    whole = next(event.cpu_time_total for event in events if event.key == WHOLE)
    regions = [
        {
            "region": event.key,
            "calls": event.count / passes,
            "share": event.cpu_time_total / whole,
            "own_share": event.self_cpu_time_total / whole,
        }
        for event in events
        if event.key != WHOLE and not event.key.startswith("autograd::engine")  # said twice
    ]
    regions.sort(key=lambda region: -region["share"])
    return [region for region in regions if region["share"] >= SMALLEST_SHARE]


def print_measurement(measurement: Mapping[str, Any]) -> None:
    """Tables for a person."""
    settings, screen = measurement["settings"], console()
    shape = ", ".join(f"{key} {settings[key]}" for key in (*SHAPES, "length", "batch", "threads"))
    speed = f"speed / {settings['reference']}"
    for vocabulary in settings["vocabulary"]:
        table = table_of(
            ["model"],
            [
                "dropout",
                "time / first",
                "steps/s",
                "tokens/s",
                speed,
                "parameters",
                "FLOPs",
                "peak MiB",
            ],
            title=f"forward and backward, vocabulary {vocabulary}, {shape}; "
            f"{measurement['device']}; medians of {settings['rounds']}",
            caption=f"{speed} at the same dropout; time / first: against the first one. Both are "
            "medians of the ratios within a round, not ratios of medians, so that a change of the "
            "machine between rounds cancels",
        )
        for row in (r for r in measurement["models"] if r["vocabulary"] == vocabulary):
            peak = row["peak_memory_bytes"]
            table.add_row(
                row["model"],
                f"{row['dropout']:g}",
                f"{row['time_against_first_dropout']:.3f}",
                f"{row['steps_per_second']:.3f}",
                f"{row['tokens_per_second']:,.0f}",
                f"{row['speed_against_reference']:.3f}",
                f"{row['parameters']:,}",
                f"{row['flops']:.3g}",
                "" if peak is None else f"{peak / 2**20:,.0f}",
            )
        screen.print(table)
    for name, regions in measurement.get("profile", {}).items():
        title = f"where the time of a pass of {name} goes"
        table = table_of(["region"], ["calls", "share with children", "own share"], title=title)
        for r in regions:
            shares = (f"{r['share']:.1%}", f"{r['own_share']:.1%}")
            table.add_row(r["region"], f"{r['calls']:g}", *shares)
        screen.print(table)
    if engine := measurement.get("engine"):
        screen.print(describe_engine(engine), soft_wrap=True)


def describe_engine(engine: Mapping[str, Any]) -> str:
    """The engine against a plain loop, in words; the ratio comes with what it is a ratio of."""
    low, high = engine["engine_over_plain_quartiles"]
    spans = {
        who: f"{min(engine[f'{who}_blocks']):.4f} to {max(engine[f'{who}_blocks']):.4f} s"
        for who in ("engine", "plain")
    }
    count = len(engine["engine_blocks"])
    return (
        f"training step of {engine['model']}, engine / plain loop: "
        f"{engine['engine_over_plain']:.3f} (median over {count} pairs of neighbouring blocks, "
        f"middle half {low:.3f} to {high:.3f})\n"
        f"  a step took {spans['engine']} under the engine and {spans['plain']} in the plain loop; "
        "where these spans are wide the speed of the machine changed, and only blocks that "
        "ran next to each other compare\n"
        "  weights after training differ by at most "
        f"{engine['largest_weight_difference']:.1e}"
    )
