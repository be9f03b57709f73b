"""What figures 7 and 13 share: runs on stories by model and depth, their losses, the drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.ground.errors import UserError
from bench.ground.statistics import mean_interval
from bench.records.schema import RunRecord
from reproduce.drawing.style import GREY, new_figure, quiet
from reproduce.judging import presets
from reproduce.judging.claims import Claim
from reproduce.judging.observations import Sample, observe
from reproduce.judging.reproduction import Plan, Reproduction, View
from reproduce.regbench.regbench import COLOURS, LABELS, MOSAIC
from reproduce.stories import language
from reproduce.stories.language import GPT2, METRICS, PUBLISHED_METRICS, UNINFORMED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MODELS = (MOSAIC, GPT2)
VARIED = ("models.layers",)
PUBLISHED_DEPTH = 12
PUBLISHED = {  # the model -> the files and labels of its published losses
    GPT2: [("Memory Mosaics, Table 2", "GPT2")],
    MOSAIC: [
        ("Memory Mosaics, released library", "Memory Mosaic"),
        ("Memory Mosaics, released library", "Memory Mosaic, CUDA version"),
    ],
}


def reproduction(
    title: str, source: str, depths: Mapping[str, Sequence[int]], claims: Sequence[Claim]
) -> Reproduction:
    """A figure of these depths of each preset."""
    return Reproduction(
        title=title,
        source=source,
        plan=partial(plan, depths=depths),
        select=partial(select, chosen=depths),
        variant=depth_of,
        varied=VARIED,
        draw=partial(draw, title=title),
        curves=curves,
        note=language.corpus_line,
        claims=tuple(claims),
    )


def plan(preset: str, seeds: int | None, depths: Mapping[str, Sequence[int]]) -> Plan:
    """Both models at each depth over seeds, with the same mini-batches in the same order."""
    runs = [
        run
        for depth in depths[preset]
        for run in language.runs_of(MODELS, seeds, "tasks=babistories", f"models.layers={depth}")
    ]
    return Plan(runs=tuple(runs))


def select(records: Sequence[RunRecord], chosen: Mapping[str, Sequence[int]]) -> list[RunRecord]:
    """Runs of the two models with the settings of their preset, at the depths that are ``chosen``
    for it.

    Raises:
        UserError: there are runs, and none at such a depth.
    """
    runs = [
        record
        for record in records
        if record.task == "babistories" and record.role != "baseline" and record.model in MODELS
    ]
    found = [record for record in runs if depth_of(record) in chosen[record.preset]]
    if runs and not found:
        preset = runs[0].preset
        raise UserError(
            f"no run has one of the depths {', '.join(map(str, chosen[preset]))}, which are those "
            f"of this figure at preset {preset}: leave models.layers to the figure"
        )
    return presets.as_preset(language.of_one_corpus(found), but=VARIED)


def depth_of(record: RunRecord) -> int:
    """Number of blocks."""
    return int(record.config["models"]["layers"])


def depths_of(records: Sequence[RunRecord]) -> list[int]:
    """The depths that were run."""
    return sorted({depth_of(record) for record in records})


def at(records: Sequence[RunRecord], model: str, depth: int) -> list[RunRecord]:
    """The runs of a model at a depth, by seed, failed ones included."""
    found = [r for r in records if r.model == model and depth_of(r) == depth]
    return sorted(found, key=lambda record: record.seed)


def sample(
    records: Sequence[RunRecord],
    model: str,
    depth: int,
    metric: str,
    diverged: float | None = None,
    measured: str | None = None,
) -> Sample:
    """A loss over seeds, in the words of ``metric`` even where another one is ``measured``."""
    return language.losses(
        f"{LABELS[model]} {METRICS[metric]} loss",
        at(records, model, depth),
        lambda record: language.metric(record, measured or metric),
        diverged,
    )


def lead(records: Sequence[RunRecord], depth: int) -> Sample:
    """The transformer's loss minus the Mosaic's, of each seed: both saw the same mini-batches."""
    ours = {run.seed: language.metric(run, "loss") for run in at(records, MOSAIC, depth)}

    def difference(run: RunRecord) -> float | None:
        own, other = language.metric(run, "loss"), ours.get(run.seed)
        return None if own is None or other is None else own - other

    label = f"the Mosaic's lead at depth {depth}"
    bounds = (-UNINFORMED, UNINFORMED)
    return observe(label, at(records, GPT2, depth), difference, bounds)


def published_levels(model: str, metric: str) -> list[float]:
    """The published losses of 12 blocks; of the Mosaic there are two versions."""
    read = (language.published_number(file, metric, label) for file, label in PUBLISHED[model])
    return [level for level in read if level is not None]


def draw(records: Sequence[RunRecord], view: View, title: str) -> Figure:
    """Loss against steps, one panel for each depth, and the final loss against depth."""
    depths = depths_of(records)
    columns = 2 if len(depths) == 3 else min(3, len(depths) + 1)
    rows = -(-(len(depths) + 1) // columns)
    figure = new_figure(3.9 * columns, 0.9 + 3.1 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    top, bottom = _range(records)
    for axes, depth in zip(panels, depths, strict=False):
        quiet(axes)
        _training(axes, records, depth)
        axes.set_ylim(bottom, top)
        axes.set_title(f"{depth} block{'s' if depth > 1 else ''}", fontsize=9.5)
        axes.set_xlabel("optimiser steps", fontsize=8.5)
    for axes in panels[len(depths) + 1 :]:
        axes.set_visible(False)
    last = panels[len(depths)]
    quiet(last)
    _by_depth(last, records)
    panels[0].set_ylabel("loss, nats per token (lower is better)", fontsize=8.5)
    panels[0].legend(handles=_styles()[:3], fontsize=7.5, frameon=False)
    last.legend(handles=_styles()[3:], fontsize=7.5, frameon=False)
    language.frame(figure, title, records, view)
    return figure


def _range(records: Sequence[RunRecord]) -> tuple[float, float]:
    """Of the losses after the first fifth of training, so that the end can be seen."""
    late = [
        y
        for record in records
        for curve in (record.curves.get("training_loss"), record.curves.get("validation_loss"))
        if curve is not None and curve.x
        for x, y in zip(curve.x, curve.y, strict=True)
        if x >= curve.x[-1] / 5 and math.isfinite(y)
    ] or [0.0, 1.0]
    space = 0.05 * (max(late) - min(late))
    return max(late) + space, min(late) - space


def _training(axes: Axes, records: Sequence[RunRecord], depth: int) -> None:
    for model in MODELS:
        for run in at(records, model, depth):
            look: dict[str, Any] = {"color": COLOURS[model]}
            running = run.curves.get("training_loss")
            if running is not None:
                axes.plot(running.x, running.y, linewidth=0.5, alpha=0.35, **look)
            held_out = run.curves.get("validation_loss")
            if held_out is not None:
                axes.plot(held_out.x, held_out.y, linewidth=1.3, marker="o", markersize=3, **look)


def _by_depth(axes: Axes, records: Sequence[RunRecord]) -> None:
    shown = sorted({*depths_of(records), PUBLISHED_DEPTH})
    places = {depth: place for place, depth in enumerate(shown)}
    every_value: list[float] = []
    for model, metric, aside in (
        (MOSAIC, "loss", -0.18),
        (GPT2, "loss", -0.06),
        (MOSAIC, "train_loss", 0.06),
        (GPT2, "train_loss", 0.18),
    ):
        colour = COLOURS[model]
        face = colour if metric == "loss" else "white"
        look: dict[str, Any] = {"color": colour, "markerfacecolor": face, "markersize": 5}
        means = []
        for depth in depths_of(records):
            x = places[depth] + aside
            values = [language.metric(run, metric) for run in at(records, model, depth)]
            known = [value for value in values if value is not None]
            every_value += known
            axes.plot([x] * len(known), known, "_", color=colour, markersize=6, alpha=0.6)
            found = mean_interval(values)
            if found.interval is not None:
                axes.vlines(x, *found.interval, color=colour, linewidth=1.2)
            if found.mean is not None:
                means.append((x, found.mean))
        if means:
            axes.plot(*zip(*means, strict=True), marker="o", linewidth=0.8, **look)
        levels = published_levels(model, PUBLISHED_METRICS[metric])
        every_value += levels
        axes.plot([places[PUBLISHED_DEPTH] + aside] * len(levels), levels, "D", **look)
    space = 0.15 * (max(every_value) - min(every_value))
    axes.set_ylim(min(every_value) - space, max(every_value) + space)  # intervals may reach beyond
    axes.set_xticks(list(places.values()), [str(depth) for depth in shown])
    axes.set_title("after training", fontsize=9.5)
    axes.set_xlabel("blocks", fontsize=8.5)


def _styles() -> list[Any]:
    """Three of the curves, and three of the losses after training."""
    from matplotlib.lines import Line2D

    def line(label: str, **look: Any) -> Line2D:
        return Line2D([], [], label=label, **{"color": GREY, **look})

    dot: dict[str, Any] = {"linestyle": "", "markersize": 5}
    return [
        *(line(LABELS[m], color=COLOURS[m], marker="o", markersize=3) for m in MODELS),
        line("training, running (with dropout)", linewidth=0.5),
        line("validation: mean, 95 %, seeds", marker="o", **dot),
        line("training, without dropout", marker="o", markerfacecolor="white", **dot),
        line("published (12 blocks, BabiStories)", marker="D", **dot),
    ]


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Curves of each run, and the losses after training."""
    return {
        "corpus": language.corpus_line(records),
        "corpus_facts": language.corpus_facts(records),
        "depths": {
            str(depth): {
                LABELS[model]: {
                    "curves": {
                        str(run.seed): {
                            name: run.curves[name].model_dump()
                            for name in ("training_loss", "validation_loss")
                            if name in run.curves
                        }
                        for run in at(records, model, depth)
                    },
                    "after_training": {
                        str(run.seed): {
                            metric: language.metric(run, metric)
                            for metric in (*METRICS, "window_loss")
                        }
                        for run in at(records, model, depth)
                    },
                }
                for model in MODELS
            }
            for depth in depths_of(records)
        },
        "published": {
            LABELS[model]: {
                metric: published_levels(model, metric) for metric in PUBLISHED_METRICS.values()
            }
            for model in MODELS
        },
    }
