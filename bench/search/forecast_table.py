"""Forecasts for a person: tables of device-hours, how many devices pay, and what was assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from bench.records.report import table_of
from bench.roofline.devices import NOTHING, Device, Span, total
from bench.roofline.schedule import Chain, timeline
from bench.roofline.seconds import VIEW
from bench.search.forecast import Forecast
from core.screen import console

COLUMNS = ["runs", "FLOPs", "tokens", "each alone", "stacked", "without launches"]
COLUMNS += ["longest chain", "GB"]
DEVICES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class ForecastRow:
    """A line of the table: a model of a sweep, or a sweep.

    Attributes:
        cause: why there is no forecast.
    """

    label: str
    runs: int
    forecasts: Sequence[Forecast]
    cause: str | None = None


def print_forecast(rows: Sequence[ForecastRow], device: Device, title: str) -> None:
    """The models of one sweep, or of several, and their sum."""
    table = table_of(["model"], COLUMNS, title=f"{title}: device-hours on {device.label}")
    for row in rows:
        if row.forecasts:
            _add(table, row.label, row.runs, row.forecasts)
        else:
            table.add_row(row.label, str(row.runs), f"no estimate: {row.cause}")
    forecasts = [forecast for row in rows for forecast in row.forecasts]
    if len(rows) > 1 and forecasts:
        table.add_section()
        _add(table, "all", sum(row.runs for row in rows), forecasts)
    console().print(table)


def _add(table: Table, label: str, runs: int, forecasts: Sequence[Forecast]) -> None:
    def values(name: str) -> list[Any]:
        return [getattr(forecast, name) for forecast in forecasts]

    refused = sum(values("refused"))
    memory = f"{max(values('memory')) / 1e9:.2f}"
    if max(values("stack")) > 1:
        memory += f"–{max(values('stacked_memory')) / 1e9:.2f}"
    table.add_row(
        label,
        f"{runs}" + (f" ({refused} refused)" if refused else ""),
        f"{sum(values('flops')):.3g}",
        f"{sum(values('tokens')):.3g}",
        hours(total(values("alone"))),
        hours(total(values("stacked"))),
        hours(total(values("bare"))),
        hours(timeline(values("chain")).critical),
        memory,
    )


def hours(span: Span) -> str:
    """Seconds as hours: what is expected, and the range."""
    low, likely, high = (f"{value / 3600:.3g}" for value in span)
    return f"{likely} ({low}–{high})"


def print_precisions(forecasts: Sequence[Forecast]) -> None:
    """The same plan in other precisions than its own."""
    for name in forecasts[0].elsewise if forecasts else ():
        alone, bare = NOTHING, NOTHING
        for forecast in forecasts:
            alone = alone.plus(forecast.elsewise[name][0])
            bare = bare.plus(forecast.elsewise[name][1])
        console().print(
            f"the same in {name}: {hours(alone)} device-hours each alone, {hours(bare)} without "
            "launches",
            soft_wrap=True,
        )


def print_timeline(chains: Sequence[Chain], device: Device) -> None:
    """Total work against the critical path: how many devices make it faster."""
    plan, screen = timeline(chains), console()
    screen.print(
        f"{hours(plan.work)} device-hours in all, each run alone; the longest chain of runs that "
        f"wait for each other, a trial and then a final run, takes {hours(plan.critical)} hours. "
        f"From {plan.devices} devices of {device.label} on the plan hardly gets faster, and from "
        f"{plan.widest} on not at all; what it costs in device-hours stays the same",
        soft_wrap=True,
    )
    table = table_of([], ["devices", "hours at least", "hours at most", "device-hours"])
    numbers = sorted({n for n in DEVICES if n < plan.widest} | {plan.devices, max(1, plan.widest)})
    for number in numbers:
        least, most = (seconds / 3600 for seconds in plan.bounds(number))
        table.add_row(str(number), f"{least:.3g}", f"{most:.3g}", f"{plan.work.likely / 3600:.3g}")
    screen.print(table)


def print_assumptions(device: Device, precision: str) -> None:
    """What the numbers rest on, and what is not in them."""
    best, likely, worst = device.corners[precision]
    kind = "assumed, not measured" if device.assumed else "measured just now"
    rates = [corner.bandwidth[len(corner.bandwidth) // 2][1] / 1e9 for corner in (worst, best)]
    low, _, high = device.stacked_launch
    screen = console()
    for line in (
        f"estimate, expected (low–high); {device.label}: {device.source}",
        f"what is reached of that is {kind}:",
        f"  {precision} products {worst.peak / 1e9:,.3g} to {best.peak / 1e9:,.3g} GFLOP/s, "
        f"bytes of every operator {rates[0]:,.3g} to {rates[1]:,.3g} GB/s",
        f"  a launch {best.launch * 1e6:.3g} to {worst.launch * 1e6:.3g} µs, expected "
        f"{likely.launch * 1e6:.3g}; a view {VIEW:g} of one; in a stack {low:.3g} to {high:.3g} "
        "times as long",
        "seconds: Σ over operators of max(FLOPs / peak, bytes / bandwidth) + launches · launch; a "
        "stack of N makes the launches of one on N times the data; and the making of a batch, as "
        "long as it takes on this machine",
        "each alone: training and validation on an idle device, without the evaluation at the end; "
        "stacked: trials "
        "of one shape as one; without launches: less than that no stack and no sharing of a device "
        "takes",
        f"GB: weights, gradients, moments and what a step keeps (alone–stacked), of "
        f"{device.memory / 1e9:.3g} GB; allocator and libraries come on top, 1 to 2 GB",
    ):
        screen.print(line, soft_wrap=True)
