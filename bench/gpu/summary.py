"""The summary of a call: ``summary.json`` for programs, ``summary.md`` for a person."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from bench.gpu.request import GpuRequest
from bench.gpu.results import Result
from core.amounts import amount
from core.escaping import markdown, terminal
from core.files import write_atomically
from core.places import readable
from core.progress import duration

MEASURED = ("accuracy", "tvd", "loss")  # of a row on the test split, as far as it has them


def print_result(result: Result) -> None:
    """One line for a person."""
    reason = f": {result.reason}" if result.reason else ""
    numbers = f"; {_in_words(result)}" if result.numbers else ""
    line = f"{result.name}: {result.outcome} in {duration(result.seconds)}{reason}{numbers}"
    print(terminal(line), flush=True)


def write_summary(request: GpuRequest, results: Sequence[Result]) -> None:
    """Write both files of the summary into the store."""
    content = {
        "device": request.device,
        "scale": request.size,
        "minutes": request.minutes,
        "workers": request.processes,
        "cores": os.cpu_count(),
        "torch": version("torch"),
        "python": platform.python_version(),
        "parts": [asdict(result) for result in results],
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_atomically(request.store / "summary.json", text.encode())
    write_atomically(request.store / "summary.md", _page(request, results).encode())


def _page(request: GpuRequest, results: Sequence[Result]) -> str:
    machine = "A GPU" if request.device == "cuda" else "A rehearsal on a CPU"
    lines = [
        "# What was done by the clock",
        "",
        f"{machine}, all sizes times {request.size:g}, PyTorch {version('torch')}, "
        f"Python {platform.python_version()}, {request.processes} processes for trainings.",
        "",
        "| part | outcome | seconds | numbers |",
        "|---|---|---|---|",
    ]
    for result in results:
        cells = (result.title, result.outcome, f"{result.seconds:.0f}", _in_words(result))
        lines.append(f"| {' | '.join(map(markdown, cells))} |")
    for result in results:
        if rows := result.numbers.get("rows"):
            lines += _rows(result.title, rows)
    lines += ["", "## What is left", ""]
    left = [result for result in results if result.outcome != "done"]
    for result in left:
        lines.append(f"- {result.name}: {result.outcome}, {markdown(result.reason)}")
    if not left:
        lines.append("Nothing.")
    return "\n".join(lines) + "\n"


def _rows(title: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of the sweeps' rows that stand, with means over the final runs, and those that were
    left, by reason."""
    measured = set().union(*(row["metrics"] for row in rows))
    names = [name for name in MEASURED if name in measured]
    header = ["row", "learning rate", *names, "where it stands"]
    lines = ["", f"## {title}", "", f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    titles_by_reason: dict[str, list[str]] = {}
    for row in rows:
        if not row["stands"]:
            titles_by_reason.setdefault(row["left_since"], []).append(row["row"])
            continue
        metrics = row["metrics"]
        rate = f"{metrics['training.lr']:g}"
        numbers = [f"{metrics[name]:.3f}" if name in metrics else "" for name in names]
        cells = [row["row"], rate, *numbers, row["stands"]]
        lines.append(f"| {' | '.join(map(markdown, cells))} |")
    lines.append("")
    for reason, titles in titles_by_reason.items():
        lines.append(f"- Left ({markdown(reason)}): {markdown(', '.join(titles))}")
    return lines


def _in_words(result: Result) -> str:
    """The numbers of a part in a few words."""
    numbers = result.numbers
    if "passed" in numbers:
        counts = ", ".join(f"{numbers[key]} {key}" for key in ("passed", "failed", "skipped"))
        failures = [f"{name} ({reason})" for name, reason in numbers["failures"].items()]
        return "; ".join([counts, *failures])
    if "factor" in numbers:
        low, high = numbers["quartiles"]
        return f"{numbers['factor']:.2f} times as fast (quartiles {low:.2f} and {high:.2f})"
    if "rows" in numbers:
        standing = sum(bool(row["stands"]) for row in numbers["rows"])
        return f"{standing} of {amount(len(numbers['rows']), 'row')} stand"
    of_models = {name: value for name, value in numbers.items() if isinstance(value, Mapping)}
    return "; ".join(f"{name} {_of_model(value)}" for name, value in of_models.items())


def _of_model(value: Mapping[str, Any]) -> str:
    if "operators" in value:
        kernels = "" if value["kernels"] is None else f", {value['kernels']:,} kernels"
        return f"{value['operators']:,} operator calls{kernels}"
    ratio = value["time_against_reference"]
    return (
        f"{value['milliseconds']:,.1f} ms, {value['tokens_per_second']:,.0f} tokens/s, "
        f"{value['share_of_rate']:.1%} of the rate, {ratio:.2f} times the reference's time"
    )


def describe_end(request: GpuRequest, results: Sequence[Result]) -> str:
    """The last lines of the command: where all of it lies, and how to go on."""
    done = sum(result.outcome == "done" for result in results)
    return (
        f"{done} of {len(results)} parts are done: {readable(request.store / 'summary.md')}; the "
        "same command goes on with the others"
    )
