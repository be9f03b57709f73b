"""Figure 9: who learns regular languages in context, by the number of training languages."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from core.escaping import markdown as markdown_text
from core.statistics import mean_interval
from reproduce.claims.claims import Claim
from reproduce.claims.controls import NOTHING_TRAINED
from reproduce.claims.grammar import Ready, Records, Rule, Runs, above, each, measured, once, within
from reproduce.claims.grammar import metric as read_metric
from reproduce.drawing.plots import RowOf
from reproduce.drawing.tables import cell, markdown
from reproduce.drawing.traces import over_seeds, published
from reproduce.experiment import Experiment, Sweep
from reproduce.plotting.panels import Axis, Panel, Remark, Trace
from reproduce.published.numbers import published_numbers
from reproduce.regbench import regbench
from reproduce.regbench.regbench import METRICS, MOSAIC

TITLE = "Figure 9. RegBench: languages learned in context, by the number of training languages"
SOURCE = f"{regbench.PAPER}, section 7, figure 9"
PUBLISHED = "Memory Mosaics, Fig. 9"
NGRAM_SOURCE = "Akyürek et al. 2024, In-context language learning, results notebook (n-gram lines)"
SIZES = {
    "smoke": (100, 500),
    "laptop": (100, 500, 1000, 2500),
    "gpu": (100, 500, 1000, 2500),
    "paper": (100, 500, 1000, 2500, 40_000),
}
LINES = (
    "Solid: measured here, mean, 95 % interval and seeds. Dashed: published, read from the image."
)
AUTOMATA = "N, training automata (one sequence each)"
NGRAM_TOLERANCE = 0.02
NGRAMS = {"1-gram": 0.73, "2-gram": 0.64, "3-gram": 0.82}  # and how far right the name stands


def sweeps(preset: str) -> list[Sweep]:
    """Sweeps of all models for each size, but for those that take more steps there."""
    return list(chain(*(regbench.new_automata(preset, size) for size in SIZES[preset])))


def sizes(records: Records) -> list[int]:
    """The training sizes that were run."""
    return sorted({regbench.size_of(r) for r in records if r.role != "baseline"})


def _panel(metric: str) -> Callable[[Records], Panel]:
    """A metric against N: means with intervals, every seed, and published curves."""
    of_accuracy = metric == "accuracy"
    better, limits = ("higher", (0.3, 1.0)) if of_accuracy else ("lower", (0, 0.9))
    title = f"{METRICS[metric]} ({better} is better)"
    x = Axis(AUTOMATA, "log", limits=(80, 50_000), ticks=SIZES["paper"])

    def panel(records: Records) -> Panel:
        traces = []
        for place, model in enumerate(regbench.models_of(records)):
            traces += _published(metric, model)
            traces.append(_measured(records, metric, model, place))
        remarks = _ngrams(records, metric)
        return Panel(title, x, Axis(limits=limits), traces, remarks)

    return panel


def _published(metric: str, model: str) -> list[Trace]:
    """The curve of the paper, of a model that is in it."""
    name = regbench.published_label(model)
    numbers = published_numbers(PUBLISHED, metric).get(name)
    if numbers is None:
        return []
    return [published(f"{name}, published", numbers.items(), colour=model, end=name, legend="")]


def _measured(records: Records, metric: str, model: str, place: int) -> Trace:
    count, name = len(regbench.models_of(records)), regbench.label(model)
    return over_seeds(
        name,
        {size: regbench.runs(model, size).of(records) for size in sizes(records)},
        metric,
        colour=model,
        role="emphasis" if model == MOSAIC else "measured",
        aside=place - count // 2,
    )


def table(records: Records) -> str:
    """Accuracy and distance over all positions, as the released code measures them, and at the last
    position of each sequence, as the paper says."""
    heads, names = ["N", "model"], []
    for metric, label in METRICS.items():
        heads += [f"{label}, all", f"{label}, last"]
        names += [metric, f"{metric}_last"]
    rows = []
    for size in sizes(records):
        for model in regbench.models_of(records):
            if runs := regbench.runs(model, size).of(records):
                values = [list(map(read_metric(name), runs)) for name in names]
                numbers = map(cell, map(mean_interval, values))
                rows.append([f"{size:,}", markdown_text(regbench.label(model)), *numbers])
    return markdown(heads, rows)


def _ngrams(records: Records, metric: str) -> list[Remark]:
    """The level of each n-gram. One test set serves all sizes, and so does one line."""
    levels = {r.label: read_metric(metric)(r) for r in records if r.role == "baseline"}
    remarks = []
    for label, at in NGRAMS.items():
        if levels.get(label) is not None:
            remarks.append(Remark(f"{label} here", y=levels[label], at=at, side="center"))
    return remarks


def _beats(metric: str, size: int) -> Claim:
    better, name = ("above", "accuracy") if metric == "accuracy" else ("below", "TVD")
    number = regbench.number(metric)
    ours = number.of(regbench.runs(MOSAIC, size), diverged=regbench.WORST[metric])

    def beaten(model: str) -> Rule:
        theirs = number.of(regbench.runs(model, size))
        return above(ours, theirs) if better == "above" else above(theirs, ours)

    text = f"{name} of the Memory Mosaic {better} that of each other contender at N = {size:,}"
    return Claim(
        f"{name} at N = {size}",
        f"With {size:,} training automata the Memory Mosaic's {name} is {better} that of every "
        "baseline.",
        once(_has_size(size), regbench.every_baseline(beaten, text, by=0.0)),
        "the difference to each other contender of the preset has the right sign by more than "
        "{by:g}, with its whole 95 % interval; contradicted if one of the intervals, corrected for "
        "their number, lies on the other side",
        ranks=regbench.rows(size, "held_out"),
    )


def _has_size(size: int) -> Ready:
    any_model = Runs(f"N = {size:,}", settings={"tasks.training_automata": size})
    asked_at = next(preset for preset, sizes in SIZES.items() if size in sizes)
    return measured(any_model, f"N = {size:,}", asked_at)


def _ngram(order: int) -> Claim:
    name, rules = f"{order}-gram", []
    for metric in METRICS:
        level, *_ = published_numbers("ICLL study", metric)[name].values()
        runs = Runs(f"{name} {metric} (published {level})", "regbench", baseline=name)
        number = regbench.number(metric).of(runs)
        rules.append(within(number, level - NGRAM_TOLERANCE, level + NGRAM_TOLERANCE))
    return Claim(
        f"{name} levels",
        f"An in-context {name} reaches the published accuracy and TVD, so the languages and "
        "metrics are the published ones.",
        once(regbench.on_published_languages("n-gram levels"), each(rules)),
        f"accuracy and TVD within {NGRAM_TOLERANCE:g} of the published lines; without training one "
        "value is exact",
        source=NGRAM_SOURCE,
        control=NOTHING_TRAINED,
    )


CLAIMS = (
    *(_beats(metric, size) for metric in METRICS for size in SIZES["paper"]),
    *(_ngram(order) for order in (2, 3)),
)
EXPERIMENT = Experiment(
    TITLE,
    SOURCE,
    CLAIMS,
    sweeps=sweeps,
    records=lambda records: regbench.select(records, ["held_out"]),
    panels=[RowOf([_panel(metric) for metric in METRICS], height=4.4)],
    layout={"width": 9.4, "legend": "below", "note": LINES},
    variant=regbench.variant,
    varied=regbench.VARIED,
    table=table,
)
