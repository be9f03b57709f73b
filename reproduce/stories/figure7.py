"""Figure 7: training on stories at several depths; the two architectures grow alike.

Figure 13 is made of the same words at more depths.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

from bench.records.numbers import items_of
from bench.records.schema import RunRecord
from core.statistics import REAL, paired_items
from reproduce.claims.claims import Claim
from reproduce.claims.grammar import (
    Drawn,
    Measured,
    Records,
    Rule,
    Runs,
    above,
    difference,
    each,
    measured,
    metric,
    once,
    provided,
    setting,
    told,
    within,
)
from reproduce.claims.observations import Sample, observe
from reproduce.drawing.traces import curve_over_seeds, over_seeds
from reproduce.experiment import Experiment
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Place, Trace
from reproduce.regbench.regbench import MOSAIC
from reproduce.stories import language
from reproduce.stories.language import GPT2, LABELS, METRICS, PUBLISHED_METRICS, UNINFORMED

TITLE = "Figure 7. Training on stories: Memory Mosaics and transformers of several depths"
SOURCE = f"{language.PAPER}, section 7, figure 7"
RELEASE_SOURCE = f"{SOURCE}; README of its released library (12 blocks)"
DEPTHS = {"smoke": (1, 2), "laptop": (1, 4), "gpu": (1, 8), "paper": (1, 8, 12, 18)}
EQUAL = (8, 12, 18)  # the depths at which the losses are said to be indistinguishable
TOLERANCE = 0.02  # nats
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

LOSS = metric("loss")
Depths = Mapping[str, Sequence[int]]  # of each preset


def experiment(title: str, source: str, depths: Depths, claims: Iterable[Claim]) -> Experiment:
    """A figure of these depths: both models at each of them over seeds, with the same mini-batches
    in the same order; where models are tuned, each has its own learning rate at each depth."""

    def cells(preset: str) -> list[tuple[Sequence[str], dict[str, int]]]:
        return [(MODELS, {"models.layers": depth}) for depth in depths[preset]]

    def select(records: Records) -> list[RunRecord]:
        belongs = lambda record: depth_of(record) in depths[record.preset]  # noqa: E731
        return language.chosen_runs(language.tuned(records), MODELS, belongs, VARIED)

    return language.experiment(
        title,
        source,
        claims,
        records=select,
        panels=partial(picture, title),
        variant=depth_of,
        varied=VARIED,
        **language.trainings("babistories", cells),
    )


def depth_of(record: RunRecord) -> int:
    """Number of blocks."""
    return int(setting(record, "models.layers"))


def depths_of(records: Records) -> list[int]:
    """The depths that were run."""
    return sorted({depth_of(record) for record in records})


def runs(model: str, depth: int) -> Runs:
    """The runs of a model at a depth."""
    return Runs(LABELS[model], "babistories", model, {"models.layers": depth})


def published_levels(model: str, metric: str) -> list[float]:
    """The published losses of 12 blocks; of the Mosaic there are two versions."""
    read = (language.published_number(file, metric, label) for file, label in PUBLISHED[model])
    return [level for level in read if level is not None]


def picture(title: str, records: Records) -> Picture:
    """Loss against steps, one panel for each depth, and the final loss against depth."""
    panels = [_training(records, depth) for depth in depths_of(records)]
    panels.append(_after_training(records))
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    panels += [Panel()] * (-len(panels) % columns)
    rows = [PanelRow(panels[at : at + columns], 3.1) for at in range(0, len(panels), columns)]
    return Picture(title, rows, width=3.9 * columns)


def _training(records: Records, depth: int) -> Panel:
    """Losses by step: of training each seed, for a mean would be smoother than any run."""
    traces = []
    for model in MODELS:
        label, of_model = LABELS[model], runs(model, depth).of(records)
        faint: Any = {"role": "faint", "legend": "training, running (with dropout)"}
        for run in of_model:
            name = f"{label}, training, seed {run.seed}"
            traces.append(curve_over_seeds(name, [run], "training_loss", colour=model, **faint))
        validation: Any = {"mark": "both", "colour": model}
        traces.append(curve_over_seeds(label, of_model, "validation_loss", **validation))
    first = depth == depths_of(records)[0]
    y = Axis("loss, nats per token (lower is better)" if first else "", limits=_range(records))
    name = f"{depth} block{'s' if depth > 1 else ''}"
    legend: Place = "upper right" if first else ""
    return Panel(name, Axis("optimiser steps"), y, traces, legend=legend)


def _range(records: Records) -> tuple[float | None, float | None]:
    """The range of the losses after the first fifth of training, so that the end can be seen."""
    late = []
    for run in records:
        for curve in run.curves.values():
            for x, y in zip(curve.x, curve.y, strict=True):
                if 5 * x >= curve.x[-1] and math.isfinite(y):
                    late.append(y)
    return (0.98 * min(late), 1.02 * max(late)) if late else (None, None)


AFTER_TRAINING = {"loss": "validation: mean, 95 %, seeds", "train_loss": "training, no dropout"}


def _after_training(records: Records) -> Panel:
    """Losses after training by depth, and the published ones."""
    depths, traces = sorted({*depths_of(records), PUBLISHED_DEPTH}), []
    for beside, (loss, model) in enumerate(product(AFTER_TRAINING, MODELS)):
        name = f"{LABELS[model]}, {METRICS[loss]}"
        look: Any = {"colour": model, "hollow": loss == "train_loss", "aside": beside - 1.5}
        by_place = {place: runs(model, depth).of(records) for place, depth in enumerate(depths)}
        traces.append(over_seeds(name, by_place, loss, legend=AFTER_TRAINING[loss], **look))
        levels = published_levels(model, PUBLISHED_METRICS[loss])
        places = [depths.index(PUBLISHED_DEPTH)] * len(levels)
        look |= {"role": "published", "mark": "dots"}
        look["legend"] = "published (12 blocks, BabiStories)"
        traces.append(Trace(f"{name}, published", places, levels, **look))
    blocks = Axis("blocks", categories=list(map(str, depths)))
    return Panel("after training", x=blocks, traces=traces, legend="lower left")


BOTH = f"judged where the training loss of both fell by {language.LEARNED:g} nat or more"


def ahead(depth: int, depths: Depths) -> Claim:
    """The Mosaic's lead at a small depth."""
    blocks = "one block" if depth == 1 else f"{depth} blocks"
    theirs, ours = _loss(GPT2, depth, "loss"), _loss(MOSAIC, depth, "loss", diverged=UNINFORMED)
    return Claim(
        f"ahead at depth {depth}",
        f"With {blocks} the Memory Mosaic has a lower validation loss than the transformer.",
        _at_depth(depth, depths, above(theirs, ours)),
        "the transformer's loss minus the Mosaic's lies above {by:g} with its whole 95 % interval; "
        f"{BOTH}",
    )


def _equal(depth: int, depths: Depths) -> Claim:
    """No difference at a large depth."""
    pairs = [(_loss(GPT2, depth, name), _loss(MOSAIC, depth, name)) for name in METRICS]
    rule = each(difference(*pair, -TOLERANCE, TOLERANCE) for pair in pairs)
    return Claim(
        f"equal at depth {depth}",
        f"With {depth} blocks the two have the same training and validation loss.",
        _at_depth(depth, depths, rule),
        "both losses differ by {high:g} nats or less, with the whole 95 % intervals (published at "
        f"12 blocks: 0.007 or less); {BOTH}",
    )


def _at_depth(depth: int, depths: Depths, rule: Rule) -> Rule:
    """The rule, asked where there are runs of this depth."""
    asked_at = next(preset for preset, planned in depths.items() if depth in planned)
    any_model = Runs(f"depth {depth}", settings={"models.layers": depth})
    learned_both = each(language.learned(runs(model, depth)) for model in MODELS)
    return once(measured(any_model, f"depth = {depth}", asked_at), provided(learned_both, rule))


def _loss(model: str, depth: int, name: str, of: str = "", **changes: Any) -> Measured:
    label = f"{LABELS[model]} {METRICS[name]} loss"
    return language.loss(name, of or name, **changes).of(runs(model, depth), label)


def _shrinks(records: Records) -> list[Rule]:
    """As far as a preset goes."""
    deepest = max(depths_of(records), default=1)
    return [within(_lead(1), low=0.0), above(_lead(1), _lead(deepest))] if deepest > 1 else []


def _lead(depth: int) -> Drawn:
    """The transformer's loss minus the Mosaic's, of each seed: both saw the same mini-batches."""
    label = f"the Mosaic's lead at depth {depth}"

    def draw(records: Records) -> Sample:
        theirs, ours = (runs(model, depth).of(records) for model in (GPT2, MOSAIC))
        losses = {run.seed: LOSS(run) for run in ours}

        def lead(run: RunRecord) -> float | None:
            theirs_now, ours_now = LOSS(run), losses.get(run.seed)
            return None if theirs_now is None or ours_now is None else theirs_now - ours_now

        items = paired_items(items_of(theirs, "loss"), items_of(ours, "loss"))
        bounds = (-UNINFORMED, UNINFORMED)
        return observe(label, theirs, lead, REAL, items=items, bounds=bounds)

    return Drawn(label, draw)


def _how_deep(records: Records) -> str:
    deepest = max(depths_of(records), default=EQUAL[0])
    return "" if deepest >= EQUAL[0] else f" ({deepest} is the deepest at this preset, not 8)"


SHRINKING = Claim(
    "the lead shrinks with depth",
    "The Mosaic's lead is that of shallow networks: after the same steps it is larger with one "
    "block than with the most blocks that were trained.",
    told(each(_shrinks), after=_how_deep),
    "its lead in validation loss at depth 1, seed by seed, is above 0 and by more than that larger "
    "than at the largest depth of the preset, with the whole 95 % intervals",
)


def _level(model: str) -> Claim:
    rules = []
    for name, of_windows in PUBLISHED_METRICS.items():
        levels = published_levels(model, of_windows)
        measured_loss = _loss(model, PUBLISHED_DEPTH, name, of_windows)
        rules.append(within(measured_loss, min(levels) - TOLERANCE, max(levels) + TOLERANCE))
    return Claim(
        f"losses of {LABELS[model]}, 12 blocks",
        f"A {LABELS[model]} of 12 blocks reaches the published training and validation loss.",
        once(language.at_published_scale("published losses"), each(rules)),
        f"the means over seeds, of random windows as published, lie within {TOLERANCE:g} nats of "
        "the published losses with their whole 95 % intervals; on BabiStories only",
        source=RELEASE_SOURCE if model == MOSAIC else f"{language.PAPER}, appendix C, table 2",
        asked_with=language.ON_BABISTORIES,
    )


CLAIMS = (
    ahead(1, DEPTHS),
    SHRINKING,
    *(_equal(depth, DEPTHS) for depth in EQUAL),
    *map(_level, MODELS),
)
EXPERIMENT = experiment(TITLE, SOURCE, DEPTHS, CLAIMS)
