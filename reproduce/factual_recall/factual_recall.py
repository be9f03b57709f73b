"""Factual recall: attention against MLP, facts against parameters, and learning by phases."""

from __future__ import annotations

from bench.records.schema import RunRecord
from ground.statistics import CHANGE, SHARE
from judging.claims import Claim
from judging.grammar import (
    Measured,
    Number,
    Records,
    Rule,
    each,
    measured,
    metric,
    once,
    share_of,
    told,
    within,
)
from judging.trials import finished, over_trials
from judging.verdicts import UNDECIDED, Finding, not_asked, place_of
from reproduce.factual_recall.figure import TITLE, panels
from reproduce.factual_recall.runs import (
    LARGE,
    LEARNED,
    SMALL,
    described,
    fit_of,
    plan,
    searches,
    select,
    variant,
)
from reproduce.reproduction import Reproduction

PAPER = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538)"
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
    """Of one cell of the small diagram."""
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
    arrays = record.arrays
    cells = [
        ((a >= LEAST_ATTENTION and m >= MLP_AT_NONE + MLP_PER_ATTENTION * a), share >= 0.99)
        for a, row in zip(arrays["attention_parameters"], arrays["accuracy"], strict=True)
        for m, share in zip(arrays["mlp_parameters"], row, strict=True)
    ]
    return sum(expected == found for expected, found in cells) / len(cells)


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
        return not_asked("facts for each parameter", reason, "gpu")

    def judge(records: Records, level: float) -> Finding:
        runs = finished(full(records))
        fit = fit_of(runs, level)
        if fit is None:
            return Finding(UNDECIDED, "no search", 0)
        evidence = f"facts for each parameter {described(fit, runs)}"
        return Finding(place_of(fit.interval, low, high), evidence, len({r.seed for r in runs}))

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
        known = [value for run in LEARNED.of(records) if (value := read(run)) is not None]
        return f", lowest {min(known):g}" if known else ""

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

SOURCE = f"{PAPER}, factual recall task"
REPRODUCTION = Reproduction(TITLE, SOURCE, plan, select, CLAIMS, panels, variant)
