"""The figure of memories at test time: every memory in every part, with retrieval as reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.statistics import mean_of
from reproduce.claims.grammar import Records, Runs, metric
from reproduce.drawing.plots import curves, dots, names
from reproduce.drawing.tables import markdown
from reproduce.plotting.models import label
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Trace
from reproduce.test_time_memory import runs
from reproduce.test_time_memory.runs import MEMORIES, NUMBERS, of

TITLE = "Memory at test time: what is kept, forgotten, overwritten, and known to be unknown"
CURVES = (  # curve, material, title, name of the abscissa
    ("recall_by_count", "", "recall of all that was written", "items written"),
    ("recall_by_age", "", "recall by age", "age (1: oldest)"),
    ("recall_by_noise", "", "recall by noisy keys", "noise σ"),
    ("recall_by_noise", NUMBERS, "four numbers: some replaced", "numbers replaced"),
    ("recall_by_noise", runs.TEXT, "sentences: words left out", "share left out"),
    ("recall_by_stem_16", NUMBERS, "sixteen numbers: a part given", "share of the stem given"),
)
BARS = {
    "overwrite_new": "half of the keys rewritten:\nshare with the new value",
    "backward_transfer": "recall of a batch lost by\nlater batches (0: none)",
    "auroc": "seen against unseen keys:\narea under the curve",
    "bits_per_parameter": "bits recalled for\neach number kept",
}
PARTS = {  # metric: name of the column
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


def picture(records: Records) -> Picture:
    """Curves, bars and two tables in colour."""
    curves = [_curves(records, *panel) for panel in CURVES]
    by_part = {label(model): _parts(records, model) for model in MEMORIES}
    experiments = experiment_cells(records)
    below = [
        _sizes(records),
        _table(by_part, [*PARTS.values()], "recall in a part of the battery"),
        _table(experiments, [*EXPERIMENTS.values()], "recall in the README's experiments"),
    ]
    bars = [_bars(records, name) for name in BARS]
    rows = [
        PanelRow(curves[:3], 3),
        PanelRow(curves[3:], 3),
        PanelRow(bars, 3.6, shared=True),
        PanelRow(below, 4),
    ]
    return Picture(TITLE, rows, width=13, legend="below")


def _curves(records: Records, curve: str, material: str, title: str, x: str) -> Panel:
    by_count = curve == "recall_by_count"
    axis = Axis(x, "log2" if by_count else "linear", inverted=curve == "recall_by_age")
    traces = _by_memory(records, curve, material)
    return Panel(title, axis, Axis(limits=(-0.03, 1.03)), traces)


def _sizes(records: Records) -> Panel:
    """Items held against numbers kept, a point for each width; a memory that held all that was
    written has none."""
    x, y = Axis("numbers kept", scale="log"), Axis(scale="log")
    traces = _by_memory(records, "items_by_numbers")
    return Panel("items held at a recall of 0.99", x, y, traces)


def _by_memory(records: Records, curve: str, material: str = "") -> list[Trace]:
    return list(curves(curve, _labelled(MEMORIES, material), mark="both")(records))


def _labelled(models: Sequence[str], variant: str = "") -> list[Runs]:
    """The runs of memories in one variant, called as figures have it."""
    return [of(model, variant).but(label(model)) for model in models]


def _bars(records: Records, name: str) -> Panel:
    models = [model for model in MEMORIES if of(model).of(records)]
    runs = _labelled(models)
    traces = dots(name, runs, mark="bars", legend="")(records)
    return Panel(BARS[name], names(runs)(records), sideways=True, traces=traces)


def _table(cells: Cells, columns: Sequence[str], title: str) -> Panel:
    """Shares as colour and number; a memory without such a number has an empty cell."""
    look: dict[str, Any] = {"numbers": ".2f", "mark": "heat", "legend": ""}
    heat = Trace(title, range(len(columns)), range(len(cells)), z=[*cells.values()], **look)
    x, y = Axis(categories=columns), Axis(categories=[*cells], inverted=True)
    return Panel(title, x, y, [heat], z=Axis(limits=(0, 1)))


def _mean(records: Records, model: str, name: str, variant: str = "") -> float | None:
    """The mean of a metric over the runs that have it."""
    values = map(metric(name), of(model, variant).finished(records))
    with_value = [value for value in values if value is not None]
    return mean_of(with_value) if with_value else None


def _parts(records: Records, model: str) -> list[float | None]:
    """Tracking over vectors, patterns over numbers."""
    cells = []
    for name in PARTS:
        material = "" if name.startswith("tracking") else NUMBERS
        cells.append(_mean(records, model, name, material))
    return cells


def experiment_cells(records: Records) -> dict[str, list[float | None]]:
    """Recall in the README's experiments, each at the largest number of sequences that was run: by
    its network with its settings, in the stable form, and by every memory over fixed vectors."""
    forgetting = runs.FORGETTING, runs.FORGETTING
    scripts = (runs.ONE, runs.MANY, runs.STREAM, runs.CAPACITY, *forgetting)
    rows = {
        "README's network": (runs.WEIGHTS, scripts),
        "the same, stable form": (runs.WEIGHTS, [runs.STABLE] * len(EXPERIMENTS)),
    }
    for model in MEMORIES:
        rows[label(model)] = model, [runs.INTEGERS] * len(EXPERIMENTS)
    cells = {}
    for name, (model, variants) in rows.items():
        metrics = zip(EXPERIMENTS, variants, strict=True)
        cells[name] = [_largest(records, model, metric, variant) for metric, variant in metrics]
    return cells


def _largest(records: Records, model: str, name: str, variant: str) -> float | None:
    """The mean of a metric, or of the one with the largest number at its end."""
    metrics = set().union(*(r.metrics.get("test", {}) for r in of(model, variant).of(records)))
    counts = [int(key.rpartition("_")[2]) for key in metrics if key.startswith(f"{name}_")]
    if name not in metrics and counts:
        name = f"{name}_{max(counts)}"
    return _mean(records, model, name, variant)


def table(records: Records) -> str:
    """The battery over vectors, and the README's experiments, a row for each memory: means over
    seeds. A memory that has no such number has a dash."""
    scale, battery, experiments = "", [], []
    if run := of(runs.NEAREST).of(records):
        scale = f"Preset {run[0].preset}, means of up to {len(run)} seeds.\n\n"
    for model in MEMORIES:
        if of(model).of(records):
            cells = [_cell(records, model, name) for name in COLUMNS]
            battery.append([label(model), *cells])
    for name, row in experiment_cells(records).items():
        cells = ["–" if value is None else f"{value:.2f}" for value in row]
        experiments.append([name, *cells])
    heads = [name.replace("\n", " ") for name in EXPERIMENTS.values()]
    first = markdown(["memory", *COLUMNS.values()], battery)
    return f"{scale}{first}\n" + markdown(["README's experiments", *heads], experiments)


def _cell(records: Records, model: str, name: str) -> str:
    """A mean; for the items that are held also that they are more than were tried."""
    mean = _mean(records, model, name)
    if mean is not None:
        return f"{mean:,.0f}" if name.endswith(("_bytes", "_flops", "_steps")) else f"{mean:.2f}"
    most = max(of(model).of(records)[0].config["tasks"]["counts"])
    complete = (_mean(records, model, f"recall_{most}") or 0) >= 0.99
    return f"over {most}" if name == "items_at_0.99" and complete else "–"
