"""The figure of memories at test time: every memory in every part, with retrieval as reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.ground.statistics import mean_interval
from bench.records.schema import RunRecord
from reproduce.drawing.style import BLACK, LIGHT, frame, new_figure, quiet
from reproduce.judging.reproduction import View
from reproduce.test_time_memory.records import (
    CAPACITY,
    FORGETTING,
    INTEGERS,
    LOOKS,
    MANY,
    NEAREST,
    NUMBERS,
    ONE,
    STABLE,
    STREAM,
    TEXT,
    WEIGHTS,
    runs_of,
    sample,
    settings,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Memory at test time: what is kept, forgotten, overwritten, and known to be unknown"
PANELS = (  # curve, material, title, name of the abscissa
    ("recall_by_count", "", "recall of all that was written", "items written"),
    ("recall_by_age", "", "recall by age", "age (1: oldest)"),
    ("recall_by_noise", "", "recall by noisy keys", "noise σ"),
    ("recall_by_noise", NUMBERS, "four numbers: some replaced", "numbers replaced"),
    ("recall_by_noise", TEXT, "sentences: words left out", "share left out"),
    ("recall_by_stem_16", NUMBERS, "sixteen numbers: a part given", "share of the stem given"),
)
BARS = {
    "overwrite_new": "half of the keys rewritten:\nshare answered with the new value",
    "backward_transfer": "recall of a batch lost by\nlater batches (0: none)",
    "auroc": "seen against unseen keys:\narea under the curve of confidence",
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


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """Curves, bars and two tables in colour."""
    figure = new_figure(11.5, 16)
    rows: Any = figure.subfigures(3, 1, height_ratios=(2.1, 1.1, 1.3))
    upper, bars, lower = rows
    handles: Any = None
    for axes, (curve, material, title, x) in zip(upper.subplots(2, 3).flat, PANELS, strict=True):
        quiet(axes)
        _curves(axes, records, curve, material)
        axes.set_title(title, fontsize=9.5)
        axes.set_xlabel(x, fontsize=8.5)
        axes.set_ylim(-0.03, 1.03)
        if curve == "recall_by_count":
            axes.set_xscale("log", base=2)
            handles = axes.get_legend_handles_labels()
        if curve == "recall_by_age":
            axes.invert_xaxis()
    for column, (axes, (metric, title)) in enumerate(
        zip(bars.subplots(1, 4), BARS.items(), strict=True)
    ):
        quiet(axes)
        _bars(axes, records, metric, names=column == 0)
        axes.set_title(title, fontsize=9)
    sizes, parts, experiments = lower.subplots(1, 3)
    quiet(sizes)
    _sizes(sizes, records)
    cells = {_name(records, model): _row(records, model) for model in LOOKS}
    _table(parts, cells, list(ROWS.values()), "recall in a part of the battery")
    cells = experiment_cells(records)
    _table(experiments, cells, list(EXPERIMENTS.values()), "recall in the README's experiments")
    figure.legend(*handles, loc="outside lower center", ncols=4, fontsize=7.5, frameon=False)
    frame(figure, TITLE, records, view)
    return figure


def _name(records: Sequence[RunRecord], model: str) -> str:
    found = [record.label for record in records if record.model == model]
    return found[0] if found else model


def _mean(records: Sequence[RunRecord], model: str, metric: str, variant: str) -> float | None:
    return mean_interval(list(sample(records, model, metric, variant, (-1, 1)).values)).mean


def _row(records: Sequence[RunRecord], model: str) -> list[float | None]:
    """Tracking over vectors, patterns over numbers."""
    return [
        _mean(records, model, metric, "" if metric.startswith("tracking") else NUMBERS)
        for metric in ROWS
    ]


def experiment_cells(records: Sequence[RunRecord]) -> dict[str, list[float | None]]:
    """Recall in the README's experiments, each at the largest number of sequences that was run: by
    its network with its settings, in the stable form, and by every memory over fixed vectors."""
    rows: dict[str, list[float | None]] = {
        "README's network": [
            _largest(records, WEIGHTS, metric, README_RUNS[metric]) for metric in EXPERIMENTS
        ],
        "the same, stable form": [
            _largest(records, WEIGHTS, metric, STABLE) for metric in EXPERIMENTS
        ],
    }
    for model in LOOKS:
        name = _name(records, model)
        rows[name] = [_largest(records, model, metric, INTEGERS) for metric in EXPERIMENTS]
    return rows


def _largest(records: Sequence[RunRecord], model: str, metric: str, variant: str) -> float | None:
    """The mean of a metric, or of the one with the largest number at its end."""
    names = {name for r in runs_of(records, model, variant) for name in r.metrics.get("test", {})}
    counts = [int(name.rpartition("_")[2]) for name in names if name.startswith(f"{metric}_")]
    chosen = metric if metric in names or not counts else f"{metric}_{max(counts)}"
    return _mean(records, model, chosen, variant)


def _table(
    axes: Axes, cells: Mapping[str, Sequence[float | None]], columns: Sequence[str], title: str
) -> None:
    """Shares as colour and number; "–" where a memory gave none."""
    shades = [[-1.0 if value is None else value for value in row] for row in cells.values()]
    axes.imshow(shades, cmap="Blues", vmin=-0.1, vmax=1.4, aspect="auto")
    for y, row in enumerate(cells.values()):
        for x, value in enumerate(row):
            text = "–" if value is None else f"{value:.2f}"
            axes.text(x, y, text, ha="center", va="center", fontsize=6.5, color=BLACK)
    axes.set_xticks(range(len(columns)), columns, fontsize=6.5)
    axes.set_yticks(range(len(cells)), [name[:26] for name in cells], fontsize=6.5)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title(title, fontsize=9.5)


def _mean_curve(runs: Sequence[RunRecord], name: str) -> tuple[list[float], list[float]]:
    curves = [run.curves[name] for run in runs if name in run.curves]
    if not curves:
        return [], []
    columns = zip(*(curve.y for curve in curves), strict=True)
    return curves[0].x, [sum(column) / len(curves) for column in columns]


def _curves(axes: Axes, records: Sequence[RunRecord], name: str, material: str) -> None:
    for model, (colour, line) in LOOKS.items():
        runs = runs_of(records, model, material)
        if runs:
            x, y = _mean_curve(runs, name)
            look: dict[str, Any] = {"color": colour, "linestyle": line, "linewidth": 1.3}
            axes.plot(x, y, marker="o", markersize=2.5, label=runs[0].label, **look)


def _bars(axes: Axes, records: Sequence[RunRecord], metric: str, names: bool) -> None:
    models = [model for model in LOOKS if runs_of(records, model)]
    for row, model in enumerate(models):
        values = sample(records, model, metric, bounds=(-1.0, 1.0)).values
        found = mean_interval(list(values))
        if found.mean is None:
            axes.text(0, row, " none", va="center", fontsize=6.5)
            continue
        axes.barh(row, found.mean, color=LOOKS[model][0], height=0.6, alpha=0.85)
        if found.interval is not None:
            axes.hlines(row, *found.interval, color=BLACK, linewidth=1)
    labels = [_name(records, model)[:26] for model in models]
    axes.set_yticks(range(len(models)), labels if names else [])
    axes.tick_params(axis="y", labelsize=7)
    axes.set_ylim(len(models) - 0.5, -0.5)
    axes.axvline(0, color=LIGHT, linewidth=0.8)


def _sizes(axes: Axes, records: Sequence[RunRecord]) -> None:
    """Items held against numbers kept, a point for each width and seed; those that held all that
    was written have none."""
    for model, (colour, line) in LOOKS.items():
        runs = runs_of(records, model)
        points = sorted(
            point
            for run in runs
            if "items_by_numbers" in run.curves
            for point in zip(
                run.curves["items_by_numbers"].x, run.curves["items_by_numbers"].y, strict=True
            )
        )
        by_size: dict[float, list[float]] = {}
        for size, items in points:
            by_size.setdefault(size, []).append(items)
        if by_size:
            means = [sum(items) / len(items) for items in by_size.values()]
            axes.loglog(list(by_size), means, color=colour, linestyle=line, marker="o", ms=3)
    axes.set_xlabel("numbers kept", fontsize=8.5)
    axes.set_title("items held at a recall of 0.99", fontsize=9.5)


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Every curve as a mean over seeds, and every metric with its interval, of each setting."""
    found: dict[str, Any] = {}
    names = dict.fromkeys(curve for curve, *_ in PANELS)
    for model, variant in dict.fromkeys(
        (setting.model, setting.name) for r in records for setting in settings(r.preset)
    ):
        runs = runs_of(records, model, variant)
        if not runs:
            continue
        metrics = sorted({name for run in runs for name in run.metrics.get("test", {})})
        means = {
            name: mean_interval([run.metrics.get("test", {}).get(name) for run in runs])
            for name in metrics
        }
        found[f"{model} {variant}".strip()] = {
            "seeds": [run.seed for run in runs],
            "metrics": {
                name: {"mean": m.mean, "interval": m.interval and list(m.interval)}
                for name, m in means.items()
            },
            "curves": {
                name: dict(zip("xy", _mean_curve(runs, name), strict=True)) for name in names
            },
        }
    return found


def table(records: Sequence[RunRecord]) -> str:
    """The battery over vectors, and the README's experiments, a row for each memory: means over
    seeds. A memory that has no such number has a dash."""
    columns = {
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
    made = runs_of(records, NEAREST)
    lines = [f"Preset {made[0].preset}, means of up to {len(made)} seeds.", ""] if made else []
    lines += [f"| memory | {' | '.join(columns.values())} |", "|---|" + "---|" * len(columns)]
    for model in LOOKS:
        runs = runs_of(records, model)
        if not runs:
            continue
        cells = [_cell(records, model, metric) for metric in columns]
        lines.append(f"| {' | '.join([runs[0].label, *cells])} |")
    head = [name.replace("\n", " ") for name in EXPERIMENTS.values()]
    lines += ["", f"| README's experiments | {' | '.join(head)} |", "|---|" + "---|" * len(head)]
    for name, row in experiment_cells(records).items():
        shown = ["–" if value is None else f"{value:.2f}" for value in row]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join([*lines, ""])


def _cell(records: Sequence[RunRecord], model: str, metric: str) -> str:
    """A mean; for the items that are held also that they are more than were tried."""
    mean = _mean(records, model, metric, "")
    if mean is not None:
        return f"{mean:,.0f}" if metric.endswith(("_bytes", "_flops", "_steps")) else f"{mean:.2f}"
    most = max(runs_of(records, model)[0].config["tasks"]["counts"])
    complete = (_mean(records, model, f"recall_{most}", "") or 0) >= 0.99
    return f"over {most}" if metric == "items_at_0.99" and complete else "–"
