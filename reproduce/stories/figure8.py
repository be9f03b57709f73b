"""Figure 8: models of stories meet an encyclopedia; who learns from the window itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bench.records.schema import Curve, RunRecord
from core.statistics import LOSS, REAL
from reproduce.claims import presets
from reproduce.claims.claims import Claim
from reproduce.claims.controls import Control
from reproduce.claims.grammar import (
    Drawn,
    Measured,
    Number,
    Ready,
    Records,
    Rule,
    difference,
    each,
    once,
    told,
    within,
)
from reproduce.claims.verdicts import REPRODUCED, UNDECIDED, Finding, not_asked
from reproduce.drawing.traces import curve_over_seeds, level
from reproduce.experiment import Sweep
from reproduce.plotting import models
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Remark, Trace
from reproduce.regbench.regbench import MOSAIC
from reproduce.stories import context, language, positions
from reproduce.stories.context import CONVOLUTION, FALLEN, MODELS, NEAR, ROPE
from reproduce.stories.language import GPT2, UNINFORMED
from reproduce.stories.positions import ARTICLES, KINDS, Band, Stretch, inside, length_of

TITLE = "Figure 8. Models of stories on an encyclopedia: loss by position in the window"
SOURCE = f"{language.PAPER}, section 7, figure 8"
BANDS: tuple[Band, ...] = ((1, 50), (51, 150), (151, 512))
AHEAD = BANDS[1:]  # where the Mosaic is said to be better
PLATEAU: tuple[Band, Band] = ((101, 150), (151, 512))
TOLERANCE = 0.05  # nats
SEARCHED = ("training.lr",)  # each model has its own
INTERVALS = (
    "Intervals cover new seeds and new documents: the variance over the seeds of each model and "
    "that of a bootstrap over documents, paired between the models, add up"
)


def select(records: Records) -> list[RunRecord]:
    """Runs on the encyclopedia, of any of our models, all measured on the same windows."""
    compared = []
    for record in records:
        if record.task == "wikipedia" and (record.role == "baseline" or record.model in MODELS):
            compared.append(record)
    of_one_corpus = language.of_one_corpus(compared, lambda record: record.provenance.data)
    return presets.as_preset(of_one_corpus, SEARCHED)


def picture(records: Records) -> Picture:
    """Above the losses, below the difference of the two models: one column for each kind."""
    kinds = positions.kinds_of(records)
    rows = [
        PanelRow([_losses(records, kind) for kind in kinds], 3.1),
        PanelRow([_difference(records, kind) for kind in kinds], 3.1),
    ]
    if any(map(context.by_context, records)):
        rows.append(PanelRow([context.same_targets(records)], 3.1))
    return Picture(TITLE, rows, 3.9 * max(len(kinds), 1) + 0.3, legend="below", columns=5)


def _losses(records: Records, kind: str) -> Panel:
    """Each seed thin, means over seeds wide, with their 95 % over documents."""
    length, traces, levels = length_of(records[0]), [], []
    for model in MODELS:
        if positions.measured(records, model, kind):
            traces.append(_loss(records, model, kind))
    for record in records:
        if record.role == "baseline" and record.label == "unigram":
            levels.append(Stretch(kind, (1, length)).read(record))
    traces += [level("unigram, mean", y, (1, length)) for y in levels if y is not None]
    remarks, side = [], "right" if length > 300 else "left"  # where there is room
    if kind in ARTICLES:
        look: Any = {"to": min(150, length), "side": side}
        remarks.append(Remark("published: GPT2 flat from here", x=100, **look))
    x, y_axis = Axis(limits=(0, length + 1)), Axis("loss, nats per token (lower is better)")
    return Panel(KINDS[kind], x, y_axis, traces, remarks)


def _loss(records: Records, model: str, kind: str) -> Trace:
    """The mean over seeds in bins of positions, with its interval over documents."""
    runs, x = positions.measured(records, model, kind), positions.centres(records).tolist()

    def curve(run: RunRecord) -> Curve:
        return Curve(x=x, y=positions.binned(run, kind).tolist())

    drawn = positions.mean_samples(runs, kind)
    look: Any = {"role": "emphasis", "colour": model}
    trace = curve_over_seeds(models.label(model), runs, curve, **look)
    return replace(trace, interval=np.percentile(drawn, [2.5, 97.5], axis=0).T.tolist())


def _difference(records: Records, kind: str) -> Panel:
    """The transformer's loss minus the Mosaic's, with its interval over seeds and documents."""
    difference, traces = positions.difference(records, kind), []
    if difference is not None:
        name, x = "difference, 95 % over seeds and documents", positions.centres(records).tolist()
        traces.append(Trace(name, x, difference.means, difference.intervals, colour="black"))
    if difference is not None and difference.crossing is not None:
        marker: Any = {"mark": "dots", "marker": "down", "colour": MOSAIC}
        traces.append(Trace("Mosaic ahead from here", [difference.crossing], [0.0], **marker))
    remarks, length = [Remark(y=0, line="solid")], length_of(records[0])
    if kind in ARTICLES:
        look: Any = {"line": "dashed", "at": 1, "side": "right" if length > 300 else "center"}
        remarks.append(Remark("published: Mosaic ahead from here", x=50, **look))
    y = Axis("GPT2 − Memory Mosaic, nats per token")
    return Panel("", Axis("position in the window", limits=(0, length + 1)), y, traces, remarks)


def loss(model: str, stretch: Stretch) -> Measured:
    """A model's loss over a stretch, or its fall. The Mosaic's is the one that claims favour."""
    if stretch.last is not None:
        number = Number("", stretch.read, REAL, bounds=(-UNINFORMED, UNINFORMED))
        return number.of(positions.of_model(model), f"fall of {models.label(model)}")
    diverged = UNINFORMED if model == MOSAIC else None
    number = Number("", stretch.read, LOSS, diverged=diverged, bounds=(0.0, UNINFORMED))
    return number.of(positions.of_model(model))


def gap(more: str, less: str, stretch: Stretch, low: float = 0.0, high: float = math.inf) -> Rule:
    """One model's loss or fall minus the other's, paired by documents."""
    rule = difference(
        loss(more, stretch),
        loss(less, stretch),
        low,
        high,
        together=lambda records: stretch.spread(records, more, minus=less),
    )
    return told(rule, before=lambda _: f"{stretch}: ")


def fall(model: str, stretch: Stretch, low: float = -math.inf, high: float = math.inf) -> Rule:
    """How much a model's loss falls."""
    measured = loss(model, stretch)
    of_documents = Drawn(
        measured.label,
        lambda records: replace(measured.sample(records), items=stretch.spread(records, model)),
    )
    return told(within(of_documents, low, high), before=lambda _: f"{stretch}: ")


def ahead(model: str, kind: str) -> Rule:
    """Lower loss than the transformer's in each band after the first."""

    def rules(records: Records) -> list[Rule]:
        return [gap(GPT2, model, Stretch(kind, band)) for band in inside(records, AHEAD)]

    def crossing(records: Records) -> str:
        difference = positions.difference(records, kind) or "no pair of models"
        return f"; {difference}; {context.repeats(records)}" if model == MOSAIC else ""

    return told(each(rules), after=crossing)


def growing(model: str, kind: str) -> Rule:
    """From the first band to the last that the windows reach, the model gains more, by what is
    not equal elsewhere in this figure: a little more is what any other transformer may gain."""

    def rules(records: Records) -> list[Rule]:
        first, *_, last = inside(records, BANDS)
        return [gap(model, GPT2, Stretch(kind, first, last), low=TOLERANCE)]

    return each(rules)


def flat(model: str, kind: str) -> Rule:
    """Its loss falls until positions 101 to 150, and from there on by no more than a tolerance: one
    that never fell does not flatten. Even the loss of an untrained one falls by some thousandths,
    since other tokens stand there."""

    def rules(records: Records) -> list[Rule]:
        first, last = inside(records, PLATEAU)
        before, after = Stretch(kind, BANDS[0], first), Stretch(kind, first, last)
        return [fall(model, before, low=FALLEN), fall(model, after, high=TOLERANCE)]

    return each(rules)


def equal_on_stories() -> Rule:
    """The mean over all positions of the control, of models that have learned: two that are no
    better than counting tokens are equal for no reason."""

    def judge(records: Records, level: float) -> Finding:
        stretch = Stretch("stories", (1, length_of(records[0])))
        finding = gap(GPT2, MOSAIC, stretch, -TOLERANCE, TOLERANCE).judge(records, level)
        read = {r.run_id: y for r in records if (y := stretch.read(r)) is not None}
        runs = [y for run in language.trained(records) if (y := read.pop(run.run_id, None))]
        if finding.verdict != REPRODUCED or max(runs) < min(read.values(), default=UNINFORMED):
            return finding
        reason = "but a model that is no better than counting tokens equals another for no reason"
        return replace(finding, verdict=UNDECIDED, evidence=f"{finding.evidence}; {reason}")

    return Rule("", judge)


def windows(kind: str, band: Band = BANDS[0], topic: str = "") -> Ready:
    """Ready where windows of this kind were measured, and are long enough for a band."""

    def ready(records: Records) -> Finding | None:
        if not language.trained(records):
            return Finding(UNDECIDED, "no runs", 0)
        kinds, length = positions.kinds_of(records), length_of(records[0])
        if kinds and kind not in kinds:
            return not_asked(KINDS[kind], "no article is as long as a window")
        if band[0] <= length:
            return None
        reason = f"windows of {length} tokens do not reach positions {band[0]}–{band[1]}"
        return not_asked(topic, f"{reason}: use preset=laptop or a larger one", "laptop")

    return ready


def _claims(
    name: str,
    sentence: str,
    rule: Callable[[str, str], Rule],
    words: str,
    reach: tuple[Band, str],
    of: tuple[str, str] = (MOSAIC, ROPE),
) -> list[Claim]:
    """A claim about each kind of windows of articles.

    Args:
        reach: the band that they have to reach, and what is not asked where they do not.
        of: the model that the claim is about, and the one that must not satisfy it.
    """
    band, topic = reach
    model, other = of
    return [
        Claim(
            f"{name} ({kind})",
            sentence.format(KINDS[kind]),
            once(windows(kind, band, topic.format(kind)), rule(model, kind)),
            f"{words}. {INTERVALS}",
            control=_in_its_place(other, model, rule(other, kind)),
        )
        for kind in ARTICLES
    ]


def _in_its_place(other: str, model: str, rule: Rule) -> Control:
    return Control(f"{models.label(other)} in the place of {models.label(model)}", rule)


CLAIMS = (
    *_claims(
        "ahead after 50 tokens",
        "Trained on stories, the Memory Mosaic predicts the encyclopedia ({}) better than the "
        "transformer after about 50 tokens.",
        ahead,
        "the transformer's loss minus the Mosaic's lies above 0 with its whole 95 % interval at "
        "positions 51–150 and at 151–512, as far as the windows reach; contradicted if one of the "
        "intervals, corrected for their number, lies below",
        (AHEAD[0], "the Mosaic's lead ({})"),
    ),
    *_claims(
        "the lead comes from the context",
        "The Memory Mosaic's lead on the encyclopedia ({}) is one of learning in context: it is "
        "larger late in the window than among the first 50 tokens.",
        growing,
        "from positions 1–50 to the last band that the windows reach (151–512 at best) the "
        f"Mosaic's loss falls by at least {TOLERANCE:g} nats more than the transformer's, with the "
        "whole 95 % interval",
        (AHEAD[0], "the growth of the Mosaic's lead ({})"),
    ),
    *_claims(
        "the transformer flattens",
        "On the encyclopedia ({}) the transformer gets better at first, and does not any more "
        "after 100 to 150 tokens.",
        flat,
        f"its loss falls by at least {FALLEN:g} nats from positions 1–50 to 101–150, and by "
        f"{TOLERANCE:g} nats at most from there to 151–512, each with the whole 95 % interval; "
        "contradicted if one of the intervals, corrected for their number, lies on the other side",
        (PLATEAU[-1], "the transformer's plateau"),
        of=(GPT2, MOSAIC),
    ),
    Claim(
        "what is read matters",
        "The Memory Mosaic predicts the same words of an article better after the article's own "
        "beginning than after another's, and by more than the transformer does.",
        once(context.measured_contexts(1), context.reads_context(MOSAIC)),
        "what the targets lose after another article's beginning, minus what they lose after their "
        f"own, is larger for the Memory Mosaic than for GPT2 by {context.FLAT:g} nats or more, "
        "with the whole 95 % interval over seeds and articles",
        control=_in_its_place(ROPE, MOSAIC, context.reads_context(ROPE)),
    ),
    Claim(
        "the transformer flattens (same targets)",
        "The transformer predicts the same words of an article better with some of the article "
        "before them, and gains nothing from more than 100 to 150 tokens.",
        once(context.measured_contexts(NEAR + 1), context.flat_for_same_targets(GPT2)),
        f"with {NEAR} tokens before them the targets lose at least {FALLEN:g} nats less than with "
        f"none, and with all of the window at most {TOLERANCE:g} less than that, each with the "
        "whole 95 % interval over seeds and articles",
        control=_in_its_place(MOSAIC, GPT2, context.flat_for_same_targets(MOSAIC)),
    ),
    Claim(
        "equal on stories (control)",
        "On held-out stories, which are like the training, the two models are equal: it is not "
        "that one of them is better everywhere.",
        once(windows("stories"), equal_on_stories()),
        f"the mean losses over all positions differ by {TOLERANCE:g} nats at most, with the whole "
        f"95 % interval. {INTERVALS}",
    ),
)

ONE_WITH_A_CONVOLUTION = ("laptop", "gpu", "paper")  # a smoke test has no time for it
COMPARED = (MOSAIC, GPT2, ROPE)
EXPERIMENT = language.experiment(
    TITLE,
    SOURCE,
    CLAIMS,
    sweeps=[
        Sweep("wikipedia", COMPARED, presets=["smoke"]),
        Sweep("wikipedia", (*COMPARED, CONVOLUTION), presets=ONE_WITH_A_CONVOLUTION),
    ],
    records=select,
    panels=picture,
)
