"""Figure 8: models of stories meet an encyclopedia; who learns from the window itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.ground.errors import UserError
from bench.records.schema import RunRecord
from reproduce.drawing.style import new_figure, quiet
from reproduce.judging import presets
from reproduce.judging.claims import LEVEL, REPRODUCED, UNDECIDED, Claim, Finding, Tolerance, every
from reproduce.judging.console import LeftOut
from reproduce.judging.observations import Sample, observe
from reproduce.judging.reproduction import Plan, Reproduction, View
from reproduce.regbench.regbench import LABELS, MODELS, MOSAIC
from reproduce.stories import language, panels, positions
from reproduce.stories.language import GPT2, UNINFORMED
from reproduce.stories.positions import ARTICLES, BIN, KINDS, Band, band_name, length_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Figure 8. Models of stories on an encyclopedia: loss by position in the window"
SOURCE = f"{language.PAPER}, section 7, figure 8"
BANDS: tuple[Band, ...] = ((1, 50), (51, 150), (151, 512))
AHEAD = BANDS[1:]  # where the Mosaic is said to be better
PLATEAU: tuple[Band, Band] = ((101, 150), (151, 512))
DIGITS = 5
INTERVALS = (
    "Intervals cover new seeds and new documents: the variance over the seeds of each model and "
    "that of a bootstrap over documents, paired between the models, add up"
)


def plan(preset: str, seeds: int | None) -> Plan:
    """The Mosaic and the transformer over seeds, trained as for figure 7."""
    return Plan(
        runs=language.runs_of((MOSAIC, GPT2), seeds, "tasks=wikipedia"),
        baselines=(("tasks=wikipedia", f"models={GPT2}"),),
    )


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs on the encyclopedia, of any of our models, all measured on the same windows."""
    found = language.of_one_corpus(
        record
        for record in records
        if record.task == "wikipedia" and (record.role == "baseline" or record.model in MODELS)
    )
    for record in found[1:]:
        one = found[0]
        if record.provenance.data != one.provenance.data:
            raise UserError(
                f"{one.run_id} and {record.run_id} were measured on different windows, so they "
                "cannot be compared by position: keep the records of one of them"
            )
    return presets.as_preset(found)


def mosaic_is_ahead(
    records: Sequence[RunRecord], numbers: Mapping[str, float], kind: str
) -> Finding:
    """Lower loss than the transformer's in each band after the first."""
    missing = _missing(records, kind)
    if missing is not None:
        return missing
    bands = positions.inside(records, AHEAD)
    if not bands:
        return _too_short(records, AHEAD[0], f"the Mosaic's lead ({kind})")
    margin = numbers["margin"]
    finding = every([partial(_gap, records, kind, band, margin, math.inf) for band in bands])
    found = _crossing_in_words(positions.crossings(records, kind))
    return replace(finding, evidence=f"{finding.evidence}; {found}")


def lead_grows(records: Sequence[RunRecord], numbers: Mapping[str, float], kind: str) -> Finding:
    """From the first band to the last that the windows reach, the Mosaic gains more."""
    missing = _missing(records, kind)
    if missing is not None:
        return missing
    bands = positions.inside(records, BANDS)
    if len(bands) < 2:
        return _too_short(records, AHEAD[0], f"the growth of the Mosaic's lead ({kind})")
    first, last = bands[0], bands[-1]
    ours, theirs = (_falls(records, model, kind, first, last) for model in (MOSAIC, GPT2))
    terms = [(1, MOSAIC, first), (-1, MOSAIC, last), (-1, GPT2, first), (1, GPT2, last)]
    documents = positions.spread(records, kind, terms)
    finding = language.difference_within([ours, theirs], documents, low=numbers["margin"])
    place = f"{kind}, from positions {band_name(first)} to {band_name(last)}"
    return replace(finding, evidence=f"{place}: {finding.evidence}")


def transformer_is_flat(
    records: Sequence[RunRecord], numbers: Mapping[str, float], kind: str
) -> Finding:
    """Its loss falls until positions 101 to 150, and from there on by no more than a tolerance: one
    that never fell does not flatten."""
    missing = _missing(records, kind)
    if missing is not None:
        return missing
    bands = positions.inside(records, PLATEAU)
    if len(bands) < len(PLATEAU):
        return _too_short(records, PLATEAU[-1], "the transformer's plateau")
    first, last = bands
    finding = every(
        [
            partial(_fall, records, kind, BANDS[0], first, numbers["margin"], math.inf),
            partial(_fall, records, kind, first, last, -math.inf, numbers["tolerance"]),
        ]
    )
    ours = _falls(records, MOSAIC, kind, first, last)
    beside = (
        f"; {ours.label} {math.fsum(ours.values) / len(ours.values):.3f}" if ours.values else ""
    )
    return replace(finding, evidence=f"{finding.evidence}{beside}")


def equal_on_stories(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The mean over all positions of the control."""
    missing = _missing(records, "stories")
    if missing is not None:
        return missing
    bound = numbers["tolerance"]
    finding = _gap(records, "stories", (1, length_of(records[0])), -bound, bound)
    if finding.verdict == REPRODUCED and not _have_learned(records):
        reason = "but a model that is no better than counting tokens equals another for no reason"
        return replace(finding, verdict=UNDECIDED, evidence=f"{finding.evidence}; {reason}")
    return finding


def _have_learned(records: Sequence[RunRecord]) -> bool:
    """Whether every run predicts stories better than the predictors without training."""
    trained: list[float] = []
    counted: list[float] = []
    for record in records:
        curve = record.curves.get("stories_loss")
        if curve is not None:
            kind = counted if record.role == "baseline" else trained
            kind.append(math.fsum(curve.y) / len(curve.y))
    return max(trained) < min(counted, default=UNINFORMED)


def _gap(
    records: Sequence[RunRecord],
    kind: str,
    band: Band,
    low: float,
    high: float,
    level: float = LEVEL,
) -> Finding:
    """Transformer minus Mosaic in a band."""
    theirs, ours = (
        language.losses(
            LABELS[model],
            positions.runs(records, model),
            lambda record: positions.band_loss(record, kind, band),
            diverged=UNINFORMED if model == MOSAIC else None,
        )
        for model in (GPT2, MOSAIC)
    )
    documents = positions.spread(records, kind, [(1, GPT2, band), (-1, MOSAIC, band)])
    finding = language.difference_within([theirs, ours], documents, low, high, level)
    place = f"{kind}, positions {band_name(band)}"
    return replace(finding, evidence=f"{place}: {finding.evidence}")


def _fall(
    records: Sequence[RunRecord],
    kind: str,
    first: Band,
    last: Band,
    low: float,
    high: float,
    level: float = LEVEL,
) -> Finding:
    """The transformer's loss in a band minus that in a later one."""
    documents = positions.spread(records, kind, [(1, GPT2, first), (-1, GPT2, last)])
    fall = _falls(records, GPT2, kind, first, last)
    finding = language.difference_within([fall], documents, low, high, level)
    place = f"{kind}, from positions {band_name(first)} to {band_name(last)}"
    return replace(finding, evidence=f"{place}: {finding.evidence}")


def _falls(records: Sequence[RunRecord], model: str, kind: str, first: Band, last: Band) -> Sample:
    """How much a model's loss falls from one band to another, over seeds."""

    def fall(record: RunRecord) -> float | None:
        before = positions.band_loss(record, kind, first)
        after = positions.band_loss(record, kind, last)
        return None if before is None or after is None else before - after

    return observe(
        f"fall of {LABELS[model]}",
        positions.runs(records, model),
        fall,
        bounds=(-UNINFORMED, UNINFORMED),
    )


def _missing(records: Sequence[RunRecord], kind: str) -> Finding | None:
    if not language.trained(records):
        return Finding(UNDECIDED, "no runs", 0)
    kinds = positions.kinds_of(records)
    if kind in kinds or not kinds:
        return None
    return LeftOut(UNDECIDED, "no article is as long as a window", 0, topic=KINDS[kind])


def _too_short(records: Sequence[RunRecord], band: Band, topic: str) -> Finding:
    reason = f"windows of {length_of(records[0])} tokens do not reach positions {band_name(band)}"
    return LeftOut(UNDECIDED, f"{reason}: use preset=laptop or a larger one", 0, topic=topic)


def _crossing_in_words(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "no pair of models"
    if found["position"] is None:
        return "at the end of the window the Mosaic is not ahead"
    if found["documents"] is None:
        return f"ahead from position {found['position']} on (of a single document)"
    low, high = ("never" if place is None else place for place in found["documents"])
    return f"ahead from position {found['position']} on (95 % over documents {low} to {high})"


def draw(records: Sequence[RunRecord], view: View) -> Figure:
    """Above the losses, below the difference of the two models: one column for each kind."""
    kinds = positions.kinds_of(records) or ["stream"]
    figure = new_figure(3.9 * len(kinds) + 0.3, 6.6)
    grid = figure.subplots(2, len(kinds), squeeze=False, sharex=True)
    for column, kind in enumerate(kinds):
        above, below = grid[0][column], grid[1][column]
        for axes in (above, below):
            quiet(axes)
            axes.set_xlim(0, length_of(records[0]) + 1)
        above.set_title(KINDS[kind], fontsize=9.5)
        panels.losses(above, records, kind)
        panels.difference(below, records, kind)
        below.set_xlabel("position in the window", fontsize=8.5)
    grid[0][0].set_ylabel("loss, nats per token (lower is better)", fontsize=8.5)
    grid[1][0].set_ylabel("GPT2 − Memory Mosaic, nats per token", fontsize=8.5)
    for axes in (grid[0][-1], grid[1][0]):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=7.5, frameon=False)
    language.frame(figure, TITLE, records, view)
    return figure


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Losses by bins of positions, differences with intervals, bands and crossings."""
    content: dict[str, Any] = {
        "corpus": language.corpus_line(records),
        "corpus_facts": language.corpus_facts(records),
        "crossing_rule": positions.CROSSING_RULE,
        "positions_of_a_bin": BIN,
        "kinds": {},
    }
    for kind in positions.kinds_of(records):
        content["kinds"][kind] = {
            "loss": {
                LABELS[model]: {
                    str(run.seed): positions.binned(run, kind).round(DIGITS).tolist()
                    for run in positions.runs(records, model)
                    if kind in run.arrays
                }
                for model in MODELS
                if positions.runs(records, model)
            },
            "difference": [
                {"mean": mean, "interval": interval}
                for mean, interval in positions.difference(records, kind)
            ],
            "bands": {
                band_name(band): {
                    LABELS[model]: {
                        str(run.seed): positions.band_loss(run, kind, band)
                        for run in positions.runs(records, model)
                    }
                    for model in MODELS
                    if positions.runs(records, model)
                }
                for band in positions.inside(records, BANDS)
            },
            "crossing": positions.crossings(records, kind),
        }
    return content


def _ahead(kind: str) -> Claim:
    return Claim(
        f"ahead after 50 tokens ({kind})",
        SOURCE,
        f"Trained on stories, the Memory Mosaic predicts the encyclopedia ({KINDS[kind]}) better "
        "than the transformer after about 50 tokens.",
        Tolerance(
            "the transformer's loss minus the Mosaic's lies above {margin:g} with its whole 95 % "
            "interval at positions 51–150 and at 151–512, as far as the windows reach; "
            "contradicted if one of the intervals, corrected for their number, lies below. "
            + INTERVALS,
            {"margin": 0.0},
        ),
        language.stating_corpus(partial(mosaic_is_ahead, kind=kind)),
    )


def _growing(kind: str) -> Claim:
    return Claim(
        f"the lead comes from the context ({kind})",
        SOURCE,
        f"The Memory Mosaic's lead on the encyclopedia ({KINDS[kind]}) is one of learning in "
        "context: it is larger late in the window than among the first 50 tokens.",
        Tolerance(
            "from positions 1–50 to the last band that the windows reach (151–512 at best) the "
            "Mosaic's loss falls by more than {margin:g} nats more than the transformer's, with "
            "the whole 95 % interval. " + INTERVALS,
            {"margin": 0.0},
        ),
        language.stating_corpus(partial(lead_grows, kind=kind)),
    )


def _flat(kind: str) -> Claim:
    return Claim(
        f"the transformer flattens ({kind})",
        SOURCE,
        f"On the encyclopedia ({KINDS[kind]}) the transformer gets better at first, and does not "
        "any more after 100 to 150 tokens.",
        Tolerance(
            "its loss falls by more than {margin:g} nats from positions 1–50 to 101–150, and by "
            "less than {tolerance:g} nats from there to 151–512, each with the whole 95 % "
            "interval; contradicted if one of the intervals, corrected for their number, lies on "
            "the other side. " + INTERVALS,
            {"margin": 0.0, "tolerance": 0.05},
        ),
        language.stating_corpus(partial(transformer_is_flat, kind=kind)),
    )


REPRODUCTION = Reproduction(
    title=TITLE,
    source=SOURCE,
    plan=plan,
    select=select,
    draw=draw,
    curves=curves,
    note=language.corpus_line,
    claims=(
        *(_ahead(kind) for kind in ARTICLES),
        *(_growing(kind) for kind in ARTICLES),
        *(_flat(kind) for kind in ARTICLES),
        Claim(
            "equal on stories (control)",
            SOURCE,
            "On held-out stories, which are like the training, the two models are equal: it is not "
            "that one of them is better everywhere.",
            Tolerance(
                "the mean losses over all positions differ by less than {tolerance:g} nats, with "
                "the whole 95 % interval. " + INTERVALS,
                {"tolerance": 0.05},
            ),
            language.stating_corpus(equal_on_stories),
        ),
    ),
)
