"""Table 3: the baselines learn the training languages, but not to learn languages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.ground.statistics import Mean
from bench.records.schema import RunRecord
from reproduce.drawing.style import GREY, frame, new_figure, quiet
from reproduce.judging.claims import (
    Claim,
    Finding,
    Test,
    Tolerance,
    difference_above,
    every,
    mean_within,
)
from reproduce.judging.reproduction import Plan, Reproduction, View
from reproduce.regbench import regbench
from reproduce.regbench.figure9 import PUBLISHED as PUBLISHED_HELD_OUT
from reproduce.regbench.regbench import BASELINES, COLOURS, LABELS, METRICS, MODELS, MOSAIC

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Table 3. RegBench after 100 training automata: new strings of theirs, or new automata"
SOURCE = f"{regbench.PAPER}, appendix D.5, table 3 and footnote 10"
PUBLISHED_IID = "Memory Mosaics, Table 3"
SIZE = 100
VARIANTS = {"iid": "same automata", "held_out": "new automata"}


def plan(preset: str, seeds: int | None) -> Plan:
    """The sweep of table 3, and that of figure 9 at the same size for the contrast."""
    return Plan(sweeps=tuple(regbench.sweep_words(preset, SIZE, variant) for variant in VARIANTS))


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs with 100 training automata, of both variants."""
    found = regbench.select(records, list(VARIANTS))
    return [record for record in found if regbench.size_of(record) == SIZE]


def summary(records: Sequence[RunRecord], model: str, metric: str, variant: str) -> Mean:
    """Mean and interval over seeds."""
    return regbench.summary(records, model, metric, SIZE, variant)


def published(metric: str, model: str, variant: str) -> float:
    """The number of table 3, or for new automata that of figure 9."""
    short = PUBLISHED_IID if variant == "iid" else PUBLISHED_HELD_OUT
    return dict(regbench.published_points(regbench.published(short), metric, model))[SIZE]


def of_every_baseline(
    one: Callable[[Sequence[RunRecord], str, Mapping[str, float]], Callable[[float], Finding]],
) -> Test:
    """A test that has to succeed for each of the four baselines."""

    def test(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
        return every([one(records, model, numbers) for model in BASELINES])

    return test


def _is_good_in_distribution(
    records: Sequence[RunRecord], model: str, numbers: Mapping[str, float]
) -> Callable[[float], Finding]:
    sample = regbench.sample(records, model, "accuracy", SIZE, "iid")
    return lambda level: mean_within(sample, low=numbers["floor"], level=level)


def _is_worse_on_new_automata(
    records: Sequence[RunRecord], model: str, numbers: Mapping[str, float]
) -> Callable[[float], Finding]:
    known, new = (
        regbench.sample(records, model, "accuracy", SIZE, variant, f"{LABELS[model]} on {name}")
        for variant, name in VARIANTS.items()
    )
    return partial(difference_above, known, new, numbers["margin"])


def _has_lower_distance_than_the_mosaic(
    records: Sequence[RunRecord], model: str, numbers: Mapping[str, float]
) -> Callable[[float], Finding]:
    mosaic = regbench.sample(records, MOSAIC, "tvd", SIZE, "iid")
    return partial(
        difference_above, mosaic, regbench.sample(records, model, "tvd", SIZE, "iid"), 0.0
    )


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """One row for each model: on the same automata and on new ones, here and published."""
    trained = [record for record in records if record.role != "baseline"]
    figure = new_figure(11, 4.2)
    panels = figure.subplots(1, len(METRICS), sharey=True)
    for axes, (metric, name) in zip(panels, METRICS.items(), strict=True):
        quiet(axes)
        axes.grid(axis="y", visible=False)
        for row, model in enumerate(MODELS):
            _row(axes, records, metric, model, row)
        arrow = "higher is better" if metric == "accuracy" else "lower is better"
        axes.set_title(f"{name} ({arrow})", fontsize=9.5)
        axes.set_xlim(0, 1)
    panels[0].set_yticks(range(len(MODELS)), [LABELS[model] for model in MODELS])
    panels[0].set_ylim(len(MODELS) - 0.5, -0.6)
    below = {"loc": "upper left", "bbox_to_anchor": (0, -0.08), "ncols": 2}
    panels[0].legend(handles=_styles()[:2], fontsize=7.5, frameon=False, **below)
    panels[1].legend(handles=_styles()[2:], fontsize=7.5, frameon=False, **below)
    frame(figure, TITLE, trained, view)
    return figure


def _row(axes: Axes, records: Sequence[RunRecord], metric: str, model: str, row: int) -> None:
    colour = COLOURS[model]
    means = {variant: summary(records, model, metric, variant).mean for variant in VARIANTS}
    ends = [mean for mean in means.values() if mean is not None]
    if len(ends) == 2:
        axes.plot(ends, [row - 0.12] * 2, color=colour, linewidth=1, alpha=0.4)
    levels = [published(metric, model, variant) for variant in VARIANTS]
    axes.plot(levels, [row + 0.18] * 2, color=GREY, linewidth=0.8, alpha=0.4)
    for variant, level in zip(VARIANTS, levels, strict=True):
        face = colour if variant == "iid" else "white"
        found = summary(records, model, metric, variant)
        values = [regbench.value(run, metric) for run in regbench.at(records, model, SIZE, variant)]
        seeds = [value for value in values if value is not None]
        axes.plot(seeds, [row - 0.12] * len(seeds), "|", color=colour, markersize=6, alpha=0.6)
        if found.interval is not None:
            axes.hlines(row - 0.12, *found.interval, color=colour, linewidth=2)
        if found.mean is not None:
            axes.plot(found.mean, row - 0.12, "o", color=colour, markerfacecolor=face, markersize=7)
        face = GREY if variant == "iid" else "white"
        axes.plot(level, row + 0.18, "D", color=GREY, markerfacecolor=face, markersize=5)


def _styles() -> list[Any]:
    from matplotlib.lines import Line2D

    def marker(shape: str, filled: bool, label: str) -> Line2D:
        face = GREY if filled else "white"
        return Line2D(
            [], [], color=GREY, linestyle="", marker=shape, markerfacecolor=face, label=label
        )

    return [
        marker("o", True, "same automata, here (95 % interval, seeds)"),
        marker("o", False, "new automata, here"),
        marker("D", True, "same automata, published"),
        marker("D", False, "new automata, published (read from figure 9)"),
    ]


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Means, intervals and seeds, and the published numbers."""
    return {
        metric: {
            LABELS[model]: {
                variant: {
                    "mean": summary(records, model, metric, variant).mean,
                    "interval": summary(records, model, metric, variant).interval,
                    "seeds": {
                        str(run.seed): regbench.value(run, metric)
                        for run in regbench.at(records, model, SIZE, variant)
                    },
                    "published": published(metric, model, variant),
                }
                for variant in VARIANTS
            }
            for model in MODELS
        }
        for metric in METRICS
    }


def table(records: Sequence[RunRecord]) -> str:
    """The table with a column for each variant and metric, ours beside the published number."""
    heads = [f"{metric}, {name}" for name in VARIANTS.values() for metric in METRICS]
    lines = ["| model | " + " | ".join(f"{text} | published" for text in heads) + " |"]
    lines.append("|---|" + "---|" * (2 * len(heads)))
    for model in MODELS:
        cells = [LABELS[model]]
        for variant in VARIANTS:
            for metric in METRICS:
                cells.append(_cell(summary(records, model, metric, variant)))
                cells.append(f"{published(metric, model, variant):.3f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(found: Mean) -> str:
    failed = f", {found.failures} failed" if found.failures else ""
    if found.mean is None:
        return f"none{failed}"
    if found.interval is None:
        return f"{found.mean:.3f} (one seed{failed})"
    half = (found.interval.high - found.interval.low) / 2
    return f"{found.mean:.3f} ± {half:.3f} ({found.seeds} seeds{failed})"


REPRODUCTION = Reproduction(
    title=TITLE,
    source=SOURCE,
    plan=plan,
    select=select,
    variant=regbench.variant,
    varied=regbench.VARIED,
    draw=draw,
    curves=curves,
    table=table,
    claims=(
        Claim(
            "good in distribution",
            SOURCE,
            "Every baseline has learned the training automata: it is accurate on new strings of "
            "theirs.",
            Tolerance(
                "for each of GPT2, Mamba, S4D and LSTM the 95 % interval of the mean accuracy over "
                "seeds lies above {floor:g} (the lowest published value of any baseline is "
                "0.794), on the published languages",
                {"floor": 0.75},
            ),
            regbench.on_published_languages(
                "good in distribution", of_every_baseline(_is_good_in_distribution)
            ),
        ),
        Claim(
            "worse out of distribution",
            SOURCE,
            "But no baseline has learned to learn languages: on new automata it is less accurate.",
            Tolerance(
                "for each of GPT2, Mamba, S4D and LSTM the 95 % interval of the loss of accuracy "
                "from the same to new automata lies above {margin:g}",
                {"margin": 0.0},
            ),
            of_every_baseline(_is_worse_on_new_automata),
        ),
        Claim(
            "poor out of distribution",
            SOURCE,
            "And it is lower by much.",
            Tolerance(
                "the same with {margin:g}, half of the smallest published loss (0.333), on the "
                "published languages",
                {"margin": 0.167},
            ),
            regbench.on_published_languages(
                "lower by much", of_every_baseline(_is_worse_on_new_automata)
            ),
        ),
        Claim(
            "the Mosaic's distance in distribution",
            SOURCE,
            "On new strings of the training automata the Memory Mosaic's TVD is higher than that "
            "of GPT2, Mamba, S4 and LSTM, although its accuracy is high.",
            Tolerance("the 95 % interval of each difference over seeds lies above 0"),
            of_every_baseline(_has_lower_distance_than_the_mosaic),
        ),
    ),
)
