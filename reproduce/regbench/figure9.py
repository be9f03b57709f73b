"""Figure 9: who learns regular languages in context, by the number of training languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.records.schema import RunRecord
from reproduce.drawing.style import (
    GREY,
    VERMILLION,
    direct_labels,
    frame,
    new_figure,
    quiet,
)
from reproduce.judging.claims import Claim, Finding, Tolerance, every, mean_within
from reproduce.judging.observations import observe
from reproduce.judging.reproduction import Plan, Reproduction, View
from reproduce.regbench import regbench
from reproduce.regbench.regbench import COLOURS, LABELS, METRICS, MODELS, MOSAIC

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Figure 9. RegBench: languages learned in context, by the number of training languages"
SOURCE = f"{regbench.PAPER}, section 7, figure 9"
PUBLISHED = "Memory Mosaics, Fig. 9"
NGRAM_SOURCE = "Akyürek et al. 2024, In-context language learning, results notebook (n-gram lines)"
SIZES = {
    "smoke": (100, 500),
    "laptop": (100, 500),
    "gpu": (100, 500, 1000),
    "paper": (100, 500, 1000, 2500, 40_000),
}
NGRAMS = {"1-gram": 9_000, "2-gram": 5_000, "3-gram": 16_000}  # and where the name stands


def plan(preset: str, seeds: int | None) -> Plan:
    """A sweep of the five models for each size; seeds are the sweep's own setting."""
    sizes = SIZES[preset]
    return Plan(sweeps=tuple(regbench.sweep_words(preset, size, "held_out") for size in sizes))


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs on automata that were held out."""
    return regbench.select(records, ["held_out"])


def sizes(records: Sequence[RunRecord]) -> list[int]:
    """The training sizes that were run."""
    return sorted({regbench.size_of(r) for r in records if r.role != "baseline"})


def ngram_is_as_published(
    records: Sequence[RunRecord], numbers: Mapping[str, float], order: int
) -> Finding:
    """Both metrics of an n-gram, which depend on the languages alone."""
    found = [r for r in records if r.role == "baseline" and r.label == f"{order}-gram"]
    if not found:
        return Finding("not enough evidence", f"no {order}-gram among the records", 0)
    lines = regbench.published("ICLL study")
    tests = []
    for metric in METRICS:
        level = lines.read(lines.metrics[metric].lines[f"{order}-gram"])[0]
        assert level is not None
        label = f"{order}-gram {metric} (published {level})"
        sample = observe(label, found, partial(regbench.value, metric=metric))
        low, high = level - numbers["tolerance"], level + numbers["tolerance"]
        tests.append(partial(mean_within, sample, low, high))
    return every(tests)


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """Accuracy and distance against N: means with intervals, every seed, and published curves."""
    trained = [record for record in records if record.role != "baseline"]
    figure = new_figure(9.4, 4.9)
    file = regbench.published(PUBLISHED)
    panels = figure.subplots(1, len(METRICS))
    for axes, (metric, name) in zip(panels, METRICS.items(), strict=True):
        quiet(axes)
        axes.set_xscale("log")
        ends = []
        for model in MODELS:
            points = regbench.published_points(file, metric, model)
            x, y = zip(*points, strict=True)
            colour = COLOURS[model]
            axes.plot(
                x,
                y,
                color=colour,
                linestyle="--",
                linewidth=0.9,
                alpha=0.8,
                marker="o",
                markersize=4,
                markerfacecolor="white",
            )
            ends.append((y[-1], regbench.PUBLISHED_LABELS[model], colour))
            _measured(axes, records, metric, model)
        _ngrams(axes, records, metric)
        direct_labels(axes, ends, x=max(file.size.values), gap=0.03)
        arrow = "higher is better" if metric == "accuracy" else "lower is better"
        axes.set_title(f"{name} ({arrow})", fontsize=9.5)
        axes.set_xlabel("N, training automata (one sequence each)", fontsize=8.5)
        axes.set_xticks(file.size.values, [f"{size:,}" for size in file.size.values])
        axes.minorticks_off()
        axes.set_xlim(80, 50_000)
    panels[0].set_ylim(0.3, 1.0)
    panels[1].set_ylim(0, 0.9)
    panels[0].legend(handles=_styles(trained), fontsize=7.5, frameon=False, loc="lower right")
    frame(figure, TITLE, trained, view)
    return figure


def _measured(axes: Axes, records: Sequence[RunRecord], metric: str, model: str) -> None:
    colour = COLOURS[model]
    aside = 1.05 ** (MODELS.index(model) - len(MODELS) // 2)  # so that intervals do not overlap
    means: list[tuple[float, float]] = []
    for size in sizes(records):
        x = size * aside
        runs = regbench.at(records, model, size)
        values = [v for v in (regbench.value(run, metric) for run in runs) if v is not None]
        axes.plot([x] * len(values), values, "_", color=colour, markersize=6, alpha=0.6)
        summary = regbench.summary(records, model, metric, size)
        if summary.mean is not None:
            means.append((x, summary.mean))
        if summary.interval is not None:
            axes.vlines(x, *summary.interval, color=colour, linewidth=1.2)
        if summary.failures:
            axes.annotate("✗", (x, 0.02), xycoords=("data", "axes fraction"), color=colour)
    if means:
        heavy = 2.4 if model == MOSAIC else 1.6
        axes.plot(
            *zip(*means, strict=True), color=colour, linewidth=heavy, marker="o", markersize=5
        )


def _ngrams(axes: Axes, records: Sequence[RunRecord], metric: str) -> None:
    # One test set serves all sizes, and so does one line.
    levels = {r.label: regbench.value(r, metric) for r in records if r.role == "baseline"}
    for label, x in NGRAMS.items():
        level = levels.get(label)
        if level is None:
            continue
        axes.axhline(level, color=GREY, linewidth=0.8, linestyle=":")
        axes.text(
            x,
            level,
            f"{label} here",
            fontsize=7,
            color=GREY,
            va="center",
            ha="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )


def _styles(trained: Sequence[RunRecord]) -> list[Any]:
    from matplotlib.lines import Line2D

    def style(label: str, **look: Any) -> Line2D:
        return Line2D([], [], **{"color": GREY, "marker": "o", **look}, label=label)

    styles = [
        style("measured here: mean, 95 % interval, seeds", linewidth=1.8, markersize=5),
        style(
            "published, read from the image",
            linewidth=0.9,
            linestyle="--",
            markersize=4,
            markerfacecolor="white",
        ),
    ]
    if any(record.outcome != "ok" for record in trained):
        styles.append(style("a run without result", color=VERMILLION, linestyle="", marker="$✗$"))
    return styles


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Means, intervals and seeds of every model at every size, published curves and n-grams."""
    file = regbench.published(PUBLISHED)
    measured: dict[str, Any] = {}
    for metric in METRICS:
        measured[metric] = {
            LABELS[model]: [
                {
                    "training_automata": size,
                    "seeds": {
                        str(run.seed): regbench.value(run, metric)
                        for run in regbench.at(records, model, size)
                    },
                    "mean": regbench.summary(records, model, metric, size).mean,
                    "interval": regbench.summary(records, model, metric, size).interval,
                }
                for size in sizes(records)
            ]
            for model in MODELS
        }
    return {
        "measured": measured,
        "published": {
            metric: {
                regbench.PUBLISHED_LABELS[model]: regbench.published_points(file, metric, model)
                for model in MODELS
            }
            for metric in METRICS
        },
        "without_training": {
            record.run_id: {metric: regbench.value(record, metric) for metric in METRICS}
            for record in records
            if record.role == "baseline"
        },
    }


def _beats(metric: str, size: int) -> Claim:
    better, name = ("above", "accuracy") if metric == "accuracy" else ("below", "TVD")
    return Claim(
        f"{name} at N = {size}",
        SOURCE,
        f"With {size:,} training automata the Memory Mosaic's {name} is {better} that of every "
        "baseline.",
        Tolerance(
            "the difference to each of GPT2, Mamba, S4D and LSTM has the right sign by more than "
            "{margin:g}, with its whole 95 % interval over seeds; contradicted if one of the "
            "intervals, corrected for four comparisons, lies on the other side",
            {"margin": 0.0},
        ),
        partial(regbench.mosaic_beats_every_baseline, metric=metric, size=size),
    )


def _ngram(order: int) -> Claim:
    return Claim(
        f"{order}-gram levels",
        NGRAM_SOURCE,
        f"An in-context {order}-gram reaches the published accuracy and TVD, so the languages and "
        "metrics are the published ones.",
        Tolerance(
            "accuracy and TVD within {tolerance:g} of the published lines; without training one "
            "value is exact",
            {"tolerance": 0.02},
        ),
        regbench.on_published_languages(
            "n-gram levels", partial(ngram_is_as_published, order=order)
        ),
    )


REPRODUCTION = Reproduction(
    title=TITLE,
    source=SOURCE,
    plan=plan,
    select=select,
    variant=regbench.variant,
    varied=regbench.VARIED,
    draw=draw,
    curves=curves,
    claims=(
        *(_beats(metric, size) for metric in METRICS for size in SIZES["paper"]),
        *(_ngram(order) for order in (2, 3)),
    ),
)
