"""Capacity: how many associations each memory recalls, by the width of keys and by its size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.claims import Claim, Finding, Tolerance, every, mean_within
from bench.config import group_file
from bench.observations import latest
from bench.records import RunRecord
from bench.reproduction import Plan, Reproduction, View
from bench.statistics import mean_interval
from reproduce.presets import preset_settings
from reproduce.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    direct_labels,
    frame,
    new_figure,
    quiet,
)
from reproduce.trials import in_seeds, missing, sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Capacity: associations recalled, by width and by size of the memory"
PAPER = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538)"
SLIDES = "Bietti 2024, Associative memories as a tractable building block in transformers, slides"
TASK = "capacity"
HEBB, LINEAR, MLP = "outer_product", "trained_linear", "mlp"
CLASSES = 32
# The constants have runs of their own, at the widths and with the trials that they need.
CONSTANTS = {
    HEBB: (
        "tasks.widths=[32,45,64,90,128]",
        "tasks.headline_width=32",
        "tasks.trials=16",
        "tasks.thresholds=[0.5]",
        "tasks.largest=0.25",
    ),
    LINEAR: (
        "tasks.widths=[22,32,45]",
        "tasks.headline_width=22",
        "tasks.trials=3",
        "tasks.thresholds=[0.99]",
        "tasks.largest=0.5",
        "models.patience=16",
    ),
    MLP: (
        "tasks.widths=[16]",
        "tasks.headline_width=16",
        f"tasks.classes={CLASSES}",
        "tasks.thresholds=[0.99]",
        "models.patience=16",
    ),
}
# Model -> its colour and line, by what is kept; models that are not named here are grey.
LOOKS = {
    HEBB: (ORANGE, "-"),
    "low_rank": (ORANGE, ":"),
    "ridge": (ORANGE, "--"),
    "random_features": (ORANGE, "-."),
    LINEAR: (VERMILLION, "-"),
    "trained_low_rank": (VERMILLION, ":"),
    MLP: (VERMILLION, "--"),
    "stored_in_weights": (VERMILLION, "-."),
    "delta_rule": (BLUE, "-"),
    "gated_delta": (BLUE, "--"),
    "neural_memory": (PURPLE, "-"),
    "neural_memory_linear": (PURPLE, "--"),
    "kernel": (GREEN, "-"),
    "modern_hopfield": (GREEN, "--"),
    "nearest_neighbour": (GREEN, ":"),
    "classical_hopfield": (GREY, "--"),
}


def plan(preset: str, seeds: int | None) -> Plan:
    """Every memory of the task's list, and from ``laptop`` on the runs of the constants; one seed,
    whose record holds several trials."""
    memories = [*group_file("tasks", TASK)["sweep"]["models"]]
    runs: list[tuple[str, ...]] = [(f"models={name}",) for name in memories]
    if preset != "smoke":
        runs += [(f"models={name}", "tasks.wide=[]", *words) for name, words in CONSTANTS.items()]
    return Plan(
        runs=tuple(
            (f"tasks={TASK}", *words, f"seed={seed}")
            for words in runs
            for seed in range(seeds or 1)
        )
    )


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """All runs of the task, the last made of each setting."""
    runs = [record for record in records if record.task == TASK]
    return latest(runs, key=lambda r: (r.model, r.role, r.seed, r.label, variant(r)))


def variant(record: RunRecord) -> str:
    """The setting of the search."""
    return repr(sorted(record.config["tasks"].items()))


def overview(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs that compare all memories: those with the searches of their preset."""
    return [
        record
        for record in records
        if record.role != "baseline"
        and record.config["tasks"] == preset_settings(TASK, record.model, record.preset)["tasks"]
    ]


def trials_at(
    records: Sequence[RunRecord], model: str, threshold: float, width: int, classes: int = 0
) -> list[float]:
    """N of every trial; of several records of one seed, which draw the same, the longest list."""
    by_seed: dict[int, list[float]] = {}
    for record in records:
        tasks = record.config["tasks"]
        rows = record.arrays.get(f"associations/{threshold:g}")
        fits = (record.model, tasks.get("classes", 0), tasks.get("embeddings", "unit"))
        if fits != (model, classes, "unit") or rows is None:
            continue
        widths = record.arrays["widths"]
        if width in widths:
            row = rows[widths.index(width)]
            if len(row) > len(by_seed.get(record.seed, [])):
                by_seed[record.seed] = row
    return [float(n) for seed in sorted(by_seed) for n in by_seed[seed]]


def widths_of(
    records: Sequence[RunRecord], model: str, threshold: float, classes: int
) -> list[int]:
    """The widths at which there are trials."""
    widths = {w for r in records if r.model == model for w in r.arrays.get("widths", [])}
    return sorted(w for w in widths if trials_at(records, model, threshold, w, classes))


def in_d2(n: float, width: int) -> float:
    """N log N / d²."""
    return n * math.log(max(n, 1.0)) / width**2


def in_weights(n: float, width: int) -> float:
    """N / (m d) of a perceptron with m = d, as those here."""
    return n / width**2


def constant_within(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    model: str,
    threshold: float,
    classes: int,
    constant: Any,
) -> Finding:
    """The constant at each width between two, by an interval over trials."""
    tests = []
    for width in widths_of(records, model, threshold, classes):
        if not numbers["from"] <= width <= numbers["to"]:
            continue
        found = [constant(n, width) for n in trials_at(records, model, threshold, width, classes)]
        data = sample(f"d = {width}:", found)
        tests.append(partial(mean_within, data, numbers["low"], numbers["high"]))
    if not tests:
        what = f"width from {numbers['from']:g} to {numbers['to']:g} of this memory"
        return missing(what, [r for r in records if r.model == model])
    found_at = [r for r in records if r.model == model and r.outcome == "ok"]
    return in_seeds(every(tests), found_at)


def lines(record: RunRecord, x: str) -> tuple[list[float], list[float]]:
    """N at the stricter threshold against the width or another quantity of the record."""
    threshold = f"{record.config['tasks']['thresholds'][0]:g}"
    counts = record.curves[f"associations/{threshold}"]
    if x == "widths":
        return counts.x, counts.y
    return record.curves[f"{x}/{threshold}"].y, counts.y


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """N against d and against size for every memory, and the constants beside published ones."""
    runs = [record for record in overview(records) if record.outcome == "ok"]
    figure = new_figure(13.5, 5.4)
    panels = figure.subplots(1, 3, width_ratios=(1.15, 1, 0.8))
    for axes, x, name in (
        (panels[0], "widths", "d, width of keys and values"),
        (panels[1], "weights", "numbers that hold them, copies for replay left out"),
    ):
        quiet(axes)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(name, fontsize=8.5)
        ends = []
        for record in runs:
            across, n = lines(record, x)
            colour, style = LOOKS.get(record.model, (GREY, "-"))
            axes.plot(across, n, style, color=colour, linewidth=1.4, marker="o", markersize=3)
            if n[-1] > 0:
                ends.append((math.log10(n[-1]), record.label, colour, across[-1]))
        if x == "widths" and ends:
            _labels(axes, ends)
    share = {f"{record.config['tasks']['thresholds'][0]:.0%}" for record in runs}
    panels[0].set_ylabel(f"N, associations recalled to {' or '.join(sorted(share))}", fontsize=8.5)
    panels[0].set_title("against the width (dotted: as many as were tried)", fontsize=9)
    panels[1].set_title("against the size of the memory", fontsize=9)
    _limits(panels[0], runs)
    _constants(panels[2], records)
    frame(figure, TITLE, [r for r in records if r.role != "baseline"], view)
    return figure


def _labels(axes: Axes, ends: Sequence[tuple[float, str, str, float]]) -> None:
    """Names at the right in the order of N, moved apart within the panel."""
    low, high = (math.log10(limit) for limit in axes.get_ylim())
    right = max(end[3] for end in ends)
    gap = (high - low) / 22
    heights: list[float] = []
    for y, *_ in sorted(ends):
        heights.append(max(y, heights[-1] + gap) if heights else y)
    excess = max(0.0, heights[-1] - high)
    for height, (_, text, colour, _) in zip(heights, sorted(ends), strict=True):
        direct_labels(axes, [(10 ** (height - excess), text, colour)], x=right, gap=0)


def _limits(axes: Axes, runs: Sequence[RunRecord]) -> None:
    widths = sorted({w for run in runs for w in run.arrays["widths"]})
    if not widths:
        return
    axes.set_xticks(widths, [str(width) for width in widths], fontsize=7)
    axes.minorticks_off()
    for run in runs[:1]:
        most = run.config["tasks"]["largest"]
        axes.plot(widths, [most * w**2 for w in widths], ":", color=GREY, linewidth=0.9)
    for power, name in ((2, "d² = 1.3 N log N"),):
        published = [_solve(width**power / 1.3) for width in widths]
        axes.plot(widths, published, "--", color=BLACK, linewidth=0.8)
        axes.annotate(f"published: {name}", (widths[0], published[0]), fontsize=6.5, color=BLACK)


def _solve(product: float) -> float:
    """N with N log N = ``product``."""
    n = max(product, 2.0)
    for _ in range(60):
        n = product / math.log(max(n, 1.5))
    return n


CURVES = (
    # model, threshold, classes, constant, what it is, published or theory
    (HEBB, 0.5, 0, in_d2, "Hebbian, 50 %:\nN log N / d²", 0.5),
    (LINEAR, 0.99, 0, in_d2, "linear, trained, 99 %:\nN log N / d²", 1 / 1.3),
    (MLP, 0.99, CLASSES, in_weights, f"MLP, {CLASSES} classes, 99 %:\nN / (m d)", 1 / 1.2),
)


def _constants(axes: Axes, records: Sequence[RunRecord]) -> None:
    quiet(axes)
    axes.set_xscale("log")
    axes.set_xlabel("d", fontsize=8.5)
    axes.set_title("constants: trials, 95 % interval;\ndashed: published or theory", fontsize=9)
    ticks: set[int] = set()
    for place, (model, threshold, classes, constant, name, published) in enumerate(CURVES):
        colour = (ORANGE, VERMILLION, BLUE)[place]
        axes.axhline(published, color=colour, linestyle="--", linewidth=0.8)
        widths = widths_of(records, model, threshold, classes)
        ticks |= set(widths)
        for width in widths:
            found = [
                constant(n, width) for n in trials_at(records, model, threshold, width, classes)
            ]
            summary = mean_interval(found)
            axes.plot([width] * len(found), found, "_", color=colour, markersize=5, alpha=0.6)
            if summary.interval is not None:
                axes.vlines(width, *summary.interval, color=colour, linewidth=1.2)
        axes.plot([], [], "o", color=colour, label=name)
    axes.set_ylim(0, 1.6)
    axes.set_xticks(sorted(ticks), [str(width) for width in sorted(ticks)], fontsize=7)
    axes.minorticks_off()
    axes.legend(fontsize=7, frameon=False, loc="upper right")


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """N of each memory by width and trial, and the constants with their intervals."""
    measured: dict[str, Any] = {}
    for record in overview(records):
        if record.outcome != "ok":
            continue
        entry = measured.setdefault(record.label, {})
        entry[f"seed {record.seed}"] = {
            "widths": record.arrays["widths"],
            **{name: array for name, array in record.arrays.items() if name != "widths"},
            **{name: curve.y for name, curve in record.curves.items()},
        }
    constants = []
    for model, threshold, classes, constant, name, published in CURVES:
        for width in widths_of(records, model, threshold, classes):
            found = [
                constant(n, width) for n in trials_at(records, model, threshold, width, classes)
            ]
            summary = mean_interval(found)
            constants.append(
                {
                    "constant": name.replace("\n", " "),
                    "width": width,
                    "trials": found,
                    "mean": summary.mean,
                    "interval": summary.interval,
                    "published": published,
                }
            )
    return {"memories": measured, "constants": constants}


def _claim(
    name: str, source: str, sentence: str, which: int, numbers: Mapping[str, float]
) -> Claim:
    model, threshold, classes, constant, _, _ = CURVES[which]
    return Claim(
        name,
        source,
        sentence,
        Tolerance(
            "at every measured width from {from:g} to {to:g} the mean over trials is between "
            "{low:g} and {high:g} with its whole 95 % interval; contradicted if one of the "
            "intervals, corrected for their number, lies outside",
            numbers,
        ),
        partial(
            constant_within, model=model, threshold=threshold, classes=classes, constant=constant
        ),
    )


REPRODUCTION = Reproduction(
    title=TITLE,
    source=f"{PAPER}, capacity of linear and MLP associative memories; {SLIDES}",
    plan=plan,
    select=select,
    variant=variant,
    draw=draw,
    curves=curves,
    claims=(
        _claim(
            "Hebbian memory, half recalled",
            f"{SLIDES}; derived for unit embeddings",
            "A sum of outer products recalls half of N associations where d² is about 2 N log N: "
            "N log N / d² is about one half at every width.",
            0,
            {"from": 32, "to": 128, "low": 0.5, "high": 0.6},
        ),
        _claim(
            "trained matrix",
            f"{PAPER}, linear associative memory: fit d² = 1.3 N log N",
            "A trained d × d matrix stores N ~ d² / log N associations; N log N / d² comes down to "
            "0.77 from above.",
            1,
            {"from": 22, "to": 45, "low": 0.7, "high": 1.05},
        ),
        _claim(
            "perceptron, 32 classes",
            f"{PAPER}, MLP associative memory with 32 classes: fit m d = 1.2 N, search up to m d",
            "A perceptron of width m stores about one association for each entry of a layer.",
            2,
            {"from": 8, "to": 64, "low": 0.85, "high": 1.000001},
        ),
    ),
)
