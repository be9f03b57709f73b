"""Factual recall: attention against MLP, facts against parameters, and learning by phases."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bench.records.schema import RunRecord
from core.statistics import CHANGE, LEVEL, SHARE
from reproduce.claims.claims import Claim, Closed
from reproduce.claims.controls import UNTRAINED
from reproduce.claims.grammar import (
    Measured,
    Number,
    Records,
    Rule,
    Runs,
    each,
    measured,
    metric,
    once,
    setting,
    share_of,
    told,
    within,
)
from reproduce.claims.observations import latest_of_task
from reproduce.claims.regression import Proportion, fit_proportion
from reproduce.claims.trials import finished, over_trials, pooled
from reproduce.claims.verdicts import UNDECIDED, Finding, not_asked, place_of
from reproduce.drawing.traces import curve_over_seeds
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Remark, Trace

TITLE = "Factual recall: attention or MLP, facts for parameters, and what is learned first"
PAPER = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538)"
SOURCE = f"{PAPER}, factual recall task"
TASK = "factual_recall"
DIAGRAM, SEARCH, PHASES = "phase_diagram", "facts_by_parameters", "phases"
# Plateaus and what one head alone recalls differ much between seeds: eight leave wide intervals.
SEEDS = {"smoke": 2, "laptop": 24, "gpu": 3, "paper": 5}
# Few seeds cannot show what holds in every seed, and a run of the phases takes seconds.
PHASE_SEEDS = SEEDS | {"laptop": 8, "gpu": 6, "paper": 6}
SEARCH_SEEDS = SEEDS | {"smoke": 0, "laptop": 2, "gpu": 2, "paper": 2}

DIAGRAMS, LEARNED = (
    Runs(label, TASK, settings={"tasks.part": part})
    for label, part in (("the diagram", DIAGRAM), ("the phases", PHASES))
)
LARGE = DIAGRAMS.but("the diagram of 32 × 32 facts", {"tasks.subjects": 32, "tasks.relations": 32})
SMALL = DIAGRAMS.but(
    "the diagram of 8 × 8 facts with one head and an MLP of width 64",
    {"tasks.subjects": 8},
    choose=lambda r: 1 in setting(r, "tasks.heads") and 64 in setting(r, "tasks.mlp_widths"),
)
# Of the search, a laptop trains the extremes in size and in shares, for as long as published.
EXTREMES = {
    "laptop": {
        "tasks.steps": 16384,
        "tasks.widths": [16, 32],
        "tasks.attention_ratios": [0.5, 2.0],
        "tasks.mlp_ratios": [0.5, 2.0],
    }
}
# As published, S = R and D = 8; the variants are other tasks.
SEARCHES = Runs(
    "the search",
    TASK,
    settings={"tasks.part": SEARCH, "tasks.subject_power": 1, "tasks.search_choices": 8},
)


TRANSFORMER = ["fact_transformer"]
RUNS = (
    OverSeeds(TASK, TRANSFORMER, {"tasks.part": DIAGRAM}, seeds=SEEDS),
    OverSeeds(TASK, ["one_hot_attention"], {"tasks.part": PHASES}, seeds=PHASE_SEEDS),
    OverSeeds(TASK, TRANSFORMER, {"tasks.part": SEARCH}, EXTREMES, seeds=SEARCH_SEEDS),
)


def alone(record: RunRecord) -> bool:
    """Whether attention was trained without any MLP: these runs have a figure of their own."""
    return bool(setting(record, "tasks.mlp_widths") == [0])


def variant(record: RunRecord) -> str:
    """The part of the task and its settings."""
    return repr(sorted(record.config["tasks"].items()))


def searches(records: Records, steps: int = 0) -> list[RunRecord]:
    """The searches whose trainings had so many steps."""
    return [r for r in filter(SEARCHES.has, records) if setting(r, "tasks.steps", 0) >= steps]


def fit_of(runs: Records, level: float = LEVEL) -> Proportion | None:
    """Facts for each parameter over the sizes of all runs; None where nothing was measured."""
    parameters, facts = (pooled(runs, name) for name in ("parameters", "facts"))
    return fit_proportion(parameters, facts, level) if parameters else None


def described(fit: Proportion, runs: Records) -> str:
    """Such as "0.103, 95% interval 0.092 to 0.115 (6 searches, 1 seed)"."""
    searches_done, seeds = len(pooled(runs, "parameters")), len({run.seed for run in runs})
    return f"{fit} ({searches_done} searches, {seeds} seed{'s' if seeds > 1 else ''})"


# How it is drawn

PUBLISHED_SLOPE = 0.15
LEGIBLE = 40  # cells into which their numbers are written
LEARNING = {  # name of a curve without its kind: what it is about, and colour
    "": ("answer", "black"),
    "relation_": ("its relation", "orange"),
    "choice_": ("its number within the relation (subject)", "green"),
}


def picture(records: Records) -> Picture:
    """The trade-off, facts against parameters, and loss and accuracy while facts are learned."""
    levels = [Remark(f"ln {n}", y=math.log(n), colour="vermillion") for n in (32, 8)]
    loss, accuracy = Axis("nats"), Axis("accuracy")
    below = [_learning(records, "loss", loss, levels), _learning(records, "accuracy", accuracy, ())]
    diagrams = finished(list(filter(DIAGRAMS.has, records)))
    full_or_all = finished(searches(records, STEPS) or searches(records))
    above = [_diagram(diagrams), _facts(full_or_all)]
    return Picture(TITLE, [PanelRow(above, 4), PanelRow(below, 4)], width=13.2)


def _diagram(runs: Records) -> Panel:
    """The accuracy of each transformer of the grid, mean over the seeds of one grid."""
    arrays = runs[0].arrays if runs else {}
    attention, mlp = arrays.get("attention_parameters", []), arrays.get("mlp_parameters", [])
    tables = [run.arrays["accuracy"] for run in runs if run.arrays["heads"] == arrays["heads"]]
    mean = np.mean(tables, axis=0).T.tolist() if runs else []
    legible = len(attention) * len(mlp) <= LEGIBLE
    places, numbers = (range(len(attention)), range(len(mlp))), ".2f" if legible else ""
    return Panel(
        "best accuracy (mean over seeds)",
        Axis("attention parameters, d · d_h · H", categories=[f"{n:,}" for n in attention]),
        Axis("MLP parameters, d · m", categories=[f"{n:,}" for n in mlp]),
        [Trace("accuracy", *places, z=mean, mark="heat", numbers=numbers)] if runs else [],
        z=Axis("" if legible else "accuracy", limits=(0, 1)),
    )


def _facts(runs: Records) -> Panel:
    """Facts against parameters with the line that fits them, and the published one."""
    x, y = Axis("trained parameters, 4 H d_h d + 2 m d", "log"), Axis("facts", "log")
    title, fit = "most facts recalled, S R with S = R, by bisection", fit_of(runs)
    if fit is None:
        return Panel(title, x, y, remarks=[Remark("not run at this preset")])
    parameters, facts = pooled(runs, "parameters"), pooled(runs, "facts")
    ends = min(parameters), max(parameters)
    fitted = fit.slope * ends[0], fit.slope * ends[1]
    published = PUBLISHED_SLOPE * ends[0], PUBLISHED_SLOPE * ends[1]
    traces = [
        Trace("searches", parameters, facts, mark="dots", legend=""),
        Trace("fit", ends, fitted, legend=f"facts for each parameter, here: {fit}"),
        Trace("published", ends, published, role="published", legend="0.15, published"),
    ]
    return Panel(title, x, y, traces, legend="upper left")


def _learning(records: Records, quantity: str, y: Axis, levels: Sequence[Remark]) -> Panel:
    runs = LEARNED.finished(records)
    traces = [
        curve_over_seeds(label, runs, f"{name}{quantity}", colour=colour)
        for name, (label, colour) in LEARNING.items()
    ]
    title = f"linear attention, one-hot: {quantity} by step, mean and every seed"
    return Panel(title, Axis("step"), y, traces, levels, legend="best")


# What is claimed

# The published border: attention parameters d d_h H, and MLP parameters d m.
LEAST_ATTENTION, MLP_AT_NONE, MLP_PER_ATTENTION = 1280.0, 2300.0, -0.5
SEQUENCES = 1024  # of the test, which every seed draws anew
POOR, MORE, GOOD = 0.6, 0.2, 0.97
PLATEAU, STEPS = 800, 16384


def cell(record: RunRecord, heads: int, mlp_width: int) -> float | None:
    """The best accuracy of one transformer of the diagram."""
    of_heads, of_widths = (record.arrays.get(name, []) for name in ("heads", "mlp_widths"))
    if heads not in of_heads or mlp_width not in of_widths:
        return None
    return float(record.arrays["accuracy"][of_heads.index(heads)][of_widths.index(mlp_width)])


def gain(record: RunRecord) -> float | None:
    """What an MLP of width 64 adds to one head."""
    alone, helped = cell(record, 1, 0), cell(record, 1, 64)
    return None if alone is None or helped is None else helped - alone


def accuracy(label: str, heads: int, mlp_width: int) -> Measured:
    """The accuracy of one cell of the small diagram."""
    read = lambda record: cell(record, heads, mlp_width)  # noqa: E731
    number = Number("accuracy", read, SHARE, items=lambda _: SEQUENCES, fresh=True)
    return number.of(SMALL, label)


ALONE = accuracy("one head alone", 1, 0)
EIGHT = accuracy("eight heads alone", 8, 0)
GAIN = Number("gain", gain, CHANGE).of(SMALL, "an MLP of width 64 adds to it")


def in_small_diagram(*rules: Rule) -> Rule:
    """Every rule holds, asked where the small diagram is measured."""
    return once(measured(SMALL, "64 facts", "laptop"), each(rules))


def border_agreement(record: RunRecord) -> float:
    """The share of cells that lie on the published side of the border; both axes as published."""
    agreeing, cells = 0, 0
    arrays = record.arrays
    for attention, row in zip(arrays["attention_parameters"], arrays["accuracy"], strict=True):
        border = MLP_AT_NONE + MLP_PER_ATTENTION * attention
        for mlp, accuracy_of_cell in zip(arrays["mlp_parameters"], row, strict=True):
            expected = attention >= LEAST_ATTENTION and mlp >= border
            agreeing += expected == (accuracy_of_cell >= 0.99)
            cells += 1
    return agreeing / cells


BORDER = Number(
    "share of cells on the published side",
    border_agreement,
    SHARE,
    items=lambda r: len(r.config["tasks"]["heads"]) * len(r.config["tasks"]["mlp_widths"]),
)


def facts_for_parameters(low: float, high: float) -> Rule:
    """The slope over all sizes of the search, after full trainings."""

    def full(records: Records) -> list[RunRecord]:
        return searches(records, STEPS)

    def ready(records: Records) -> Finding | None:
        if full(records):
            return None
        runs = finished(searches(records))
        fit = fit_of(runs)
        seen = f" (shorter trainings: {described(fit, runs)})" if fit else ""
        reason = f"no search with trainings of {STEPS:,} steps at this preset{seen}"
        return not_asked("facts for each parameter", reason, "laptop")

    def judge(records: Records, level: float) -> Finding:
        runs = finished(full(records))
        fit = fit_of(runs, level)
        if fit is None:
            return Finding(UNDECIDED, "no search", 0)
        evidence = f"facts for each parameter {described(fit, runs)}"
        seeds = len({run.seed for run in runs})
        verdict = place_of(fit.interval, low, high) if seeds > 1 else UNDECIDED
        return Finding(verdict, evidence, seeds)

    text = (
        f"with trainings of at least {STEPS} steps, the slope of facts = slope × parameters (least "
        f"squares through the origin, over all sizes and seeds) is between {low:g} and {high:g} "
        "with the whole 95 % interval of the regression"
    )
    return once(ready, over_trials(Rule(text, judge), full, "search"))


def in_every_seed(name: str, label: str, least: float) -> Rule:
    """A metric reaches a number in every run of the phases."""
    read = metric(name)

    def reached(record: RunRecord) -> float | None:
        value = read(record)
        return None if value is None else float(value >= least)

    def lowest(records: Records) -> str:
        values = [value for run in LEARNED.of(records) if (value := read(run)) is not None]
        return f", lowest {min(values):g}" if values else ""

    return told(share_of(Number(label, reached, SHARE).of(LEARNED, label), 1.0), after=lowest)


CLAIMS = (
    Claim(
        "attention or MLP, 64 facts",
        "Facts can be stored in either: one head alone recalls few, a wide MLP makes up for "
        "heads, and many heads need no MLP.",
        in_small_diagram(
            within(ALONE, high=POOR),
            within(GAIN, low=MORE),
            within(accuracy("two heads and that MLP", 2, 64), low=GOOD),
            within(EIGHT, low=GOOD),
        ),
        f"accuracy of one head alone at most {POOR:g}, an MLP of width 64 adds at least {MORE:g} "
        f"to it, and two heads with that MLP as well as eight heads alone reach at least {GOOD:g}; "
        "each with its whole 95 % interval over seeds (a qualitative form, set after the first "
        "numbers had been seen)",
        source=f"{PAPER}, factual recall; small version of this project",
        closed={"laptop": Closed('"attention or MLP, 64 facts" takes 60 seeds instead of 24', 120)},
    ),
    Claim(
        "cells of the small diagram, 64 facts",
        "One head alone is not enough; one head with an MLP of width 64, two heads with one of "
        "width 8, and four or eight heads alone recall all facts.",
        in_small_diagram(
            within(ALONE, high=POOR),
            within(accuracy("one head, MLP of width 64", 1, 64), low=GOOD),
            within(accuracy("two heads, MLP of width 8", 2, 8), low=GOOD),
            within(accuracy("four heads alone", 4, 0), low=GOOD),
            within(EIGHT, low=GOOD),
        ),
        f"accuracy of one head alone at most {POOR:g}; of each of the other four cells at least "
        f"{GOOD:g}; each with its whole 95 % interval over seeds; contradicted if one interval, "
        "corrected for their number, lies on the other side",
        source=f"small version of this project after {PAPER}, first measured with one seed",
    ),
    Claim(
        "border of the diagram, 1024 facts",
        "All facts are recalled where attention has 1280 parameters (d d_h H) and the MLP "
        "(d m) 2300 minus half of those of attention.",
        once(measured(LARGE, "1024 facts", "gpu"), within(BORDER.of(LARGE, BORDER.name), low=0.9)),
        "at least {low:.0%} of the cells of the published grid lie on that side of the border, "
        "with the whole 95 % interval over seeds and cells",
        source=f"{PAPER}, phase diagram",
    ),
    Claim(
        "facts for each parameter",
        "The number of facts grows as 0.15 times the number of parameters, whatever the shares "
        "of attention and MLP.",
        facts_for_parameters(0.1, 0.2),
        source=f"{PAPER}, facts against parameters",
    ),
    Claim(
        "relations before facts",
        "Linear attention first learns which answers a relation has, stays there while it "
        "guesses among them, and only then learns the facts.",
        each(
            [
                in_every_seed("plateau_steps", f"plateau of at least {PLATEAU} steps", PLATEAU),
                in_every_seed("accuracy", "accuracy 1 at the end", 1),
            ]
        ),
        "relation accuracy above 0.99, accuracy below 0.2 and loss within 0.05 of ln 8 for at "
        f"least {PLATEAU} steps on end, and accuracy 1 at the end, both in every seed, of which "
        "there are enough that a share below one half is excluded (95 %); contradicted by one seed "
        "without",
        source=f"{PAPER}, sequential learning and hallucination",
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    SOURCE,
    CLAIMS,
    runs=RUNS,
    records=lambda records: latest_of_task(
        (record for record in records if not alone(record)), TASK, variant
    ),
    panels=picture,
    variant=variant,
    control=UNTRAINED.by(factual_recall="tasks.steps=1 tasks.phase_steps=1"),
)
