"""What ``bench.speed`` measured, as tables and sentences for a person."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from bench.records.report import table_of
from core.screen import console

SHAPES = ("width", "layers", "heads")


def print_measurement(measurement: Mapping[str, Any]) -> None:
    """Tables for a person."""
    settings, screen = measurement["settings"], console()
    for vocabulary in settings["vocabulary"]:
        for length in settings["length"]:
            screen.print(_table(measurement, vocabulary, length))
        if len(settings["length"]) > 1:
            for kind in settings["passes"]:
                screen.print(_by_length(measurement, vocabulary, kind))
    for name, reason in measurement.get("left_out", {}).items():
        screen.print(f"{name} is left out: {reason}", soft_wrap=True)
    for name, regions in measurement.get("profile", {}).items():
        title = f"where the time of a pass of {name} goes"
        table = table_of(["region"], ["calls", "share with children", "own share"], title=title)
        for r in regions:
            shares = (f"{r['share']:.1%}", f"{r['own_share']:.1%}")
            table.add_row(r["region"], f"{r['calls']:g}", *shares)
        screen.print(table)
    if settings["count_launches"]:
        for row in measurement["models"]:
            screen.print(_describe_launches(row), soft_wrap=True)
    if engine := measurement.get("engine"):
        screen.print(describe_engine(engine), soft_wrap=True)


def print_comparison(measurement: Mapping[str, Any]) -> None:
    """Models of this checkout beside those of an older one."""
    settings = measurement["settings"]
    table = table_of(
        ["model"],
        ["ms before", "ms here", "ratio", "quartiles", "calls before", "here", "peak MiB before",
         "here", "loss differs by", "gradients by"],
        title=f"training passes, {measurement['device']}, medians of {settings['rounds']}",
        caption="The ratio is the median of those within a round. Calls: of operators and views. "
        "Differences are relative, of the first loss and of the length of a parameter's gradient",
    )  # fmt: skip
    for name, row in measurement["beside_older_code"].items():
        milliseconds, calls, peak = (
            [row[key][tree] for tree in ("before", "here")]
            for key in ("median_seconds", "operator_calls", "peak_kib")
        )
        low, high = row["ratio_quartiles"]
        table.add_row(
            name,
            *(f"{1000 * value:,.1f}" for value in milliseconds),
            f"{row['ratio']:.3f}",
            f"{low:.3f}–{high:.3f}",
            *(f"{value:,}" for value in calls),
            *(f"{value / 1024:,.0f}" for value in peak),
            f"{row['loss_difference']:.1e}",
            f"{row['gradient_difference']:.1e}",
        )
    console().print(table)


def print_peers(measurement: Mapping[str, Any]) -> None:
    """Models beside those of public packages."""
    settings = measurement["settings"]
    shape = ", ".join(f"{key} {settings[key]}" for key in (*SHAPES, "batch", "threads"))
    timed = [kind for kind in ("training", "forward") if kind in settings["passes"]]
    columns = []
    for kind in timed:
        columns += [f"{kind} ms", "package ms", "package / ours", "quartiles"]
    table = table_of(
        ["model", "package"],
        ["parameters", "package's", *columns],
        title=f"length {settings['length'][0]}, vocabulary {settings['vocabulary'][0]}, {shape}; "
        f"{measurement['device']}; medians of {settings['rounds']}",
        caption="package / ours: the median of the ratios within a round; above 1 ours is faster",
    )
    for row in measurement["beside_peers"]:
        cells = [f"{row['parameters'][side]:,}" for side in ("ours", "package")]
        for kind in timed:
            low, high = row[kind]["ratio_quartiles"]
            seconds = row[kind]["median_seconds"]
            cells += [f"{1000 * seconds[side]:,.1f}" for side in ("ours", "package")]
            cells += [f"{row[kind]['ratio']:.2f}", f"{low:.2f}–{high:.2f}"]
        changes = ", ".join(f"{key}={value}".lower() for key, value in row["changes"].items())
        model = f"{row['model']} ({changes})" if changes else row["model"]
        table.add_row(model, f"{row['package']} {row['version']}", *cells)
    console().print(table)


def _table(measurement: Mapping[str, Any], vocabulary: int, length: int) -> Table:
    """A row for each model, at one vocabulary and one length."""
    settings = measurement["settings"]
    reference, passes = settings["reference"], settings["passes"]
    shape = ", ".join(f"{key} {settings[key]}" for key in (*SHAPES, "batch", "threads"))
    times = []
    for kind in passes:
        times += [f"{kind} ms", f"/ {reference}"]
    sizes = ["parameters", "FLOPs", "of the rate", "for backward MiB", "peak MiB", "state KiB"]
    forms = {"compile": "compiled", "graphs": "captured as graphs"}
    taken = " and ".join(form for key, form in forms.items() if settings[key])
    note = f"Passes of training were {taken}; FLOPs and bytes are those without. " if taken else ""
    table = table_of(
        ["model"],
        ["dropout", "time / first", *times, *sizes],
        title=f"length {length}, vocabulary {vocabulary}, {shape}; {measurement['device']}; "
        f"medians of {settings['rounds']}",
        caption=f"/ {reference}: time against it at the same dropout; time / first: the first "
        "pass against that at the first dropout. Both are medians of the ratios within a round, "
        "not ratios of medians, so that a change of the machine between rounds cancels. A step is "
        "one token of each sequence. Of the rate: FLOPs a second of training against "
        f"{measurement['product_flops_per_second'] / 1e12:,.3g} TFLOP/s of a large square product "
        f"in {settings['precision']}. {note}Peak: of this process or device, with all models of "
        "the table",
    )
    for row in _rows(measurement, vocabulary, length):
        cells = itertools.chain(*(_cells(row.get(kind)) for kind in passes))
        first = row[passes[0]]["time_against_first_dropout"] if passes[0] in row else None
        kept_bytes, peak = (row[f"{name}_bytes"] for name in ("kept_for_backward", "peak_memory"))
        state, of_rate = row["state_bytes"], ""
        if row["flops"] is not None:
            rate = row["flops"] / row["training"]["median_seconds"]
            of_rate = f"{rate / measurement['product_flops_per_second']:.1%}"
        table.add_row(
            row["model"],
            f"{row['dropout']:g}",
            "" if first is None else f"{first:.3f}",
            *cells,
            f"{row['parameters']:,}",
            "" if row["flops"] is None else f"{row['flops']:.3g}",
            of_rate,
            "" if kept_bytes is None else f"{kept_bytes / 2**20:,.1f}",
            "" if peak is None else f"{peak / 2**20:,.0f}",
            "" if state is None else f"{state / 2**10:,.1f}",
        )
    return table


def _rows(measurement: Mapping[str, Any], vocabulary: int, length: int) -> list[dict[str, Any]]:
    wanted = (vocabulary, length)
    return [r for r in measurement["models"] if (r["vocabulary"], r["length"]) == wanted]


def _cells(timed: Mapping[str, Any] | None) -> tuple[str, str]:
    if timed is None:
        return "", ""
    ratio = timed["time_against_reference"]
    return f"{1000 * timed['median_seconds']:,.2f}", "" if ratio is None else f"{ratio:.2f}"


def _by_length(measurement: Mapping[str, Any], vocabulary: int, kind: str) -> Table:
    """Microseconds for each token: flat in the length where the state is of fixed size."""
    lengths = measurement["settings"]["length"]
    table = table_of(
        ["model"],
        [f"{length:,}" for length in lengths],
        title=f"{kind}: microseconds for each token, by length; vocabulary {vocabulary}",
    )
    cells: dict[tuple[str, float], list[str]] = {}
    for length in lengths:
        for row in _rows(measurement, vocabulary, length):
            cell = f"{1e6 / row[kind]['tokens_per_second']:,.1f}" if kind in row else ""
            cells.setdefault((row["model"], row["dropout"]), []).append(cell)
    for (model, _dropout), of_model in cells.items():
        table.add_row(model, *of_model)
    return table


def _describe_launches(row: Mapping[str, Any]) -> str:
    """What a pass of training of one model launches, in words."""
    launches = row["launches"]
    kernels = launches["kernels"]
    on_device = "" if kernels is None else f", {kernels:,} kernels on the device"
    return (
        f"a training pass of {row['model']} at length {row['length']}, vocabulary "
        f"{row['vocabulary']}, dropout {row['dropout']:g}: {launches['operators']:,} operator "
        f"calls that launch a kernel and {launches['views']:,} views{on_device}"
    )


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
