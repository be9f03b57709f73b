"""The figure of memories at test time: every memory in every part, with retrieval as reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.records.schema import RunRecord
from ground.statistics import mean_of
from pictures.models import label
from pictures.panels import Axis, Panel, Picture, Row, Trace
from reproduce.drawing.traces import curve_over_seeds, metric, over_seeds
from reproduce.test_time_memory.runs import (
    CAPACITY,
    FORGETTING,
    INTEGERS,
    MANY,
    MEMORIES,
    NEAREST,
    NUMBERS,
    ONE,
    STABLE,
    STREAM,
    TEXT,
    WEIGHTS,
    runs_of,
)

TITLE = "Memory at test time: what is kept, forgotten, overwritten, and known to be unknown"
CURVES = (  # curve, material, title, name of the abscissa
    ("recall_by_count", "", "recall of all that was written", "items written"),
    ("recall_by_age", "", "recall by age", "age (1: oldest)"),
    ("recall_by_noise", "", "recall by noisy keys", "noise σ"),
    ("recall_by_noise", NUMBERS, "four numbers: some replaced", "numbers replaced"),
    ("recall_by_noise", TEXT, "sentences: words left out", "share left out"),
    ("recall_by_stem_16", NUMBERS, "sixteen numbers: a part given", "share of the stem given"),
)
BARS = {
    "overwrite_new": "half of the keys rewritten:\nshare with the new value",
    "backward_transfer": "recall of a batch lost by\nlater batches (0: none)",
    "auroc": "seen against unseen keys:\narea under the curve",
    "bits_per_parameter": "bits recalled for\neach number kept",
}
ROWS = {  # metric: name of the column
    "tracking_latest": "latest\nvalue",
    "tracking_stamped": "latest,\nstamped",
    "tracking_history": "earlier,\nstamped",
    "exceptions_recalled": "pattern\nbroken",
    "regular_recalled": "pattern\nkept",
    "exceptions_answered_by_rule": "answered\nby rule",
}
EXPERIMENTS = {
    "one_recall": "one",
    "many_recall": "many",
    "stream_recall": "stream",
    "capacity_recall": "most\nwritten",
    "forgetting_first_after": "first\nbatch",
    "forgetting_second_after": "second\nbatch",
}
README_RUNS = dict(
    zip(EXPERIMENTS, (ONE, MANY, STREAM, CAPACITY, FORGETTING, FORGETTING), strict=True)
)
COLUMNS = {
    "recall": "recall, middle count",
    "items_at_0.99": "items at 0.99",
    "slope_items_by_numbers": "slope by size",
    "bits_per_parameter": "bits a number",
    "recall_oldest_quarter": "oldest quarter",
    "recall_newest_quarter": "newest quarter",
    "noise_area": "area over noise",
    "overwrite_new": "overwritten: new",
    "overwrite_stale": "stale",
    "backward_transfer": "backward transfer",
    "tracking_latest": "latest value",
    "auroc": "AUROC",
    "risk_coverage_area": "risk-coverage",
    "calibration_error": "calibration error",
    "write_flops": "FLOPs to write",
    "write_optimiser_steps": "optimiser steps to write",
    "read_flops": "FLOPs to read",
    "state_bytes": "bytes",
    "write_bytes": "bytes an item",
}
Cells = Mapping[str, Sequence[float | None]]


def panels(records: Sequence[RunRecord]) -> Picture:
    """Curves, bars and two tables in colour."""
    curves = [_curves(records, *panel) for panel in CURVES]
    parts = {label(model): _row(records, model) for model in MEMORIES}
    return Picture(
        TITLE,
        [
            Row(curves[:3], height=3),
            Row(curves[3:], height=3),
            Row([_bars(records, name) for name in BARS], height=3.6, shared=True),
            Row(
                [
                    _sizes(records),
                    _table(parts, [*ROWS.values()], "recall in a part of the battery"),
                    _table(
                        experiment_cells(records),
                        [*EXPERIMENTS.values()],
                        "recall in the README's experiments",
                    ),
                ],
                height=4,
            ),
        ],
        width=13,
        legend="below",
    )


def _curves(records: Sequence[RunRecord], curve: str, material: str, title: str, x: str) -> Panel:
    found = {model: runs_of(records, model, material) for model in MEMORIES}
    by_count = Axis(x, scale="log2")
    return Panel(
        title,
        x=by_count if curve == "recall_by_count" else Axis(x, inverted=curve == "recall_by_age"),
        y=Axis(limits=(-0.03, 1.03)),
        traces=[
            curve_over_seeds(label(model), runs, curve, mark="both", colour=model)
            for model, runs in found.items()
        ],
    )


def _bars(records: Sequence[RunRecord], name: str) -> Panel:
    shown = [model for model in MEMORIES if runs_of(records, model)]
    bars: dict[str, Any] = {"mark": "bars", "legend": ""}
    return Panel(
        BARS[name],
        x=Axis(categories=[label(model) for model in shown]),
        sideways=True,
        traces=[
            over_seeds(label(model), {place: runs_of(records, model)}, name, colour=model, **bars)
            for place, model in enumerate(shown)
        ],
    )


def _sizes(records: Sequence[RunRecord]) -> Panel:
    """Items held against numbers kept, a point for each width; a memory that held all that was
    written has none."""
    traces = [
        curve_over_seeds(
            label(model), runs_of(records, model), "items_by_numbers", mark="both", colour=model
        )
        for model in MEMORIES
    ]
    numbers = Axis("numbers kept", scale="log")
    return Panel("items held at a recall of 0.99", x=numbers, y=Axis(scale="log"), traces=traces)


def _table(cells: Cells, columns: Sequence[str], title: str) -> Panel:
    """Shares as colour and number; a memory without such a number has an empty cell."""
    rows = [*cells.values()]
    heat = Trace(
        title, range(len(columns)), range(len(rows)), z=rows, numbers=".2f", mark="heat", legend=""
    )
    return Panel(
        title,
        x=Axis(categories=columns),
        y=Axis(categories=[*cells], inverted=True),
        z=Axis(limits=(0, 1)),
        traces=[heat],
    )


def _mean(records: Sequence[RunRecord], model: str, name: str, variant: str) -> float | None:
    found = [metric(name)(run) for run in runs_of(records, model, variant) if run.outcome == "ok"]
    known = [value for value in found if value is not None]
    return mean_of(known) if known else None


def _row(records: Sequence[RunRecord], model: str) -> list[float | None]:
    """Tracking over vectors, patterns over numbers."""
    return [
        _mean(records, model, name, "" if name.startswith("tracking") else NUMBERS) for name in ROWS
    ]


def experiment_cells(records: Sequence[RunRecord]) -> dict[str, list[float | None]]:
    """Recall in the README's experiments, each at the largest number of sequences that was run: by
    its network with its settings, in the stable form, and by every memory over fixed vectors."""
    own = [_largest(records, WEIGHTS, name, README_RUNS[name]) for name in EXPERIMENTS]
    stable = [_largest(records, WEIGHTS, name, STABLE) for name in EXPERIMENTS]
    rows = {"README's network": own, "the same, stable form": stable}
    for model in MEMORIES:
        rows[label(model)] = [_largest(records, model, name, INTEGERS) for name in EXPERIMENTS]
    return rows


def _largest(records: Sequence[RunRecord], model: str, name: str, variant: str) -> float | None:
    """The mean of a metric, or of the one with the largest number at its end."""
    names = {key for r in runs_of(records, model, variant) for key in r.metrics.get("test", {})}
    counts = [int(key.rpartition("_")[2]) for key in names if key.startswith(f"{name}_")]
    chosen = name if name in names or not counts else f"{name}_{max(counts)}"
    return _mean(records, model, chosen, variant)


def table(records: Sequence[RunRecord]) -> str:
    """The battery over vectors, and the README's experiments, a row for each memory: means over
    seeds. A memory that has no such number has a dash."""
    made = runs_of(records, NEAREST)
    lines = [f"Preset {made[0].preset}, means of up to {len(made)} seeds.", ""] if made else []
    lines += [f"| memory | {' | '.join(COLUMNS.values())} |", "|---|" + "---|" * len(COLUMNS)]
    for model in MEMORIES:
        runs = runs_of(records, model)
        if not runs:
            continue
        cells = [_cell(records, model, name) for name in COLUMNS]
        lines.append(f"| {' | '.join([label(model), *cells])} |")
    head = [name.replace("\n", " ") for name in EXPERIMENTS.values()]
    lines += ["", f"| README's experiments | {' | '.join(head)} |", "|---|" + "---|" * len(head)]
    for name, row in experiment_cells(records).items():
        shown = ["–" if value is None else f"{value:.2f}" for value in row]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join([*lines, ""])


def _cell(records: Sequence[RunRecord], model: str, name: str) -> str:
    """A mean; for the items that are held also that they are more than were tried."""
    mean = _mean(records, model, name, "")
    if mean is not None:
        return f"{mean:,.0f}" if name.endswith(("_bytes", "_flops", "_steps")) else f"{mean:.2f}"
    most = max(runs_of(records, model)[0].config["tasks"]["counts"])
    complete = (_mean(records, model, f"recall_{most}", "") or 0) >= 0.99
    return f"over {most}" if name == "items_at_0.99" and complete else "–"
