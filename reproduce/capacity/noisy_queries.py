"""Noisy queries: are tables, which hold far more associations, more sensitive to noise?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bench.config.files import group_file
from core.statistics import SHARE, mean_interval
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Drawn, Records, Rule, Runs, above, each, measured, once
from reproduce.claims.observations import Sample
from reproduce.claims.trials import finished, over_trials, pooled, sample
from reproduce.drawing.traces import over_draws
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.models import label
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Trace

TITLE = "Recall by noisy queries: tables beside a sum of outer products"
SLIDES = (
    "Bietti 2024, Associative memories as a tractable building block in transformers, slides, "
    "Increasing capacity: But: higher computational cost, more sensitive to noise, harder to learn"
)
TASK = "noisy_queries"
MEMORIES: tuple[str, ...] = tuple(group_file("tasks", TASK)["sweep"]["models"])
SUM = "outer_product"
TABLES = {
    "nearest_neighbour": "a table looked up by the nearest key",
    "kernel": "a soft-max over the stored keys",
    "thresholded": "a perceptron with a unit and a threshold for each key",
}
HELD, SAME = "held", "pairs"  # as many pairs as the memory holds, or the same for all
NOISE, MORE = 1.0, 0.2


def of(model: str) -> Runs:
    """The runs of a memory."""
    return Runs(label(model), TASK, model)


def recall(model: str, load: str, noise: float) -> Drawn:
    """The share recalled with so much noise, over trials."""
    where = "as many pairs as it holds" if load == HELD else "the same number of pairs"
    text = f"recall of {label(model)} with {where}, σ = {noise:g}"

    def draw(records: Records) -> Sample:
        values = pooled(of(model).finished(records), f"recall/{load}/noise={noise:g}")
        return sample(text, values, SHARE)

    return Drawn(text, draw)


def worse(table: str, load: str) -> Rule:
    """A table recalls less than a sum of outer products, by more than ``MORE``."""
    rule = above(recall(SUM, load, NOISE), recall(table, load, NOISE), MORE)
    runs = lambda records: [*of(SUM).of(records), *of(table).of(records)]  # noqa: E731
    judged = over_trials(rule, runs, "trials with noisy queries")
    return once(measured(of(table), f"noise with {label(table)}", "laptop"), judged)


CLAIMS = (
    Claim(
        "more sensitive with as many associations",
        "With the same number of associations as well, tables recall less of them than a sum of "
        "outer products once there is noise.",
        each(worse(table, SAME) for table in TABLES),
        source=f"{SLIDES}; read of the same associations",
        control=Control(
            "the sum itself in their place",
            above(recall(SUM, SAME, NOISE), recall(SUM, SAME, NOISE), MORE),
        ),
    ),
    *(
        Claim(
            f"more sensitive at its capacity, {label(table)}",
            f"Filled with as many associations as it holds with little noise, {words} recalls less "
            "than a sum of outer products does once there is more noise.",
            worse(table, HELD),
            source=f"{SLIDES}; each memory with a number of its own",
            control=Control("the same number of associations for both", worse(table, SAME)),
        )
        for table, words in TABLES.items()
    ),
)


# How it is drawn


def picture(records: Records) -> Picture:
    """How many pairs each memory holds, and the recall by noise with these and with the same."""
    runs = finished(records)
    noises = runs[0].config["tasks"]["noises"] if runs else []
    by_load = {HELD: "as many pairs as each holds", SAME: "the same number of pairs"}
    panels = [_held(records)]
    for load, title in by_load.items():
        x, y = Axis("noise σ of the query", "log2"), Axis("share recalled", limits=(0, 1.05))
        panels.append(Panel(title, x, y, _by_noise(records, load, noises), legend="lower left"))
    return Picture(TITLE, [PanelRow(panels, 3.6)], width=13)


def _held(records: Records) -> Panel:
    traces = []
    for place, model in enumerate(MEMORIES):
        values = pooled(of(model).finished(records), "held")
        if values:
            trace = over_draws(label(model), {place: values}, mark="dots", colour=model)
            traces.append(replace(trace, seeds={}, legend=""))
    x = Axis(categories=list(map(label, MEMORIES)))
    return Panel("pairs that are held at little noise", x, Axis("N", "log2"), traces, sideways=True)


def _by_noise(records: Records, load: str, noises: list[float]) -> list[Trace]:
    summarise = partial(mean_interval, kind=SHARE)
    traces = []
    for model in MEMORIES:
        runs = of(model).finished(records)
        columns = {noise: pooled(runs, f"recall/{load}/noise={noise:g}") for noise in noises}
        if runs:
            trace = over_draws(label(model), columns, summarise, colour=model)
            traces.append(replace(trace, seeds={}))  # a hundred trials
    return traces


EXPERIMENT = Experiment(
    TITLE,
    SLIDES,
    CLAIMS,
    runs=[OverSeeds(TASK, MEMORIES, seeds=3)],
    records=[Runs("all", TASK)],
    panels=picture,
    control=EACH_ITS_OWN,
)
