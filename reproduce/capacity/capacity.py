"""Capacity: how many associations each memory recalls, by the width of keys and by its size."""

from __future__ import annotations

import math
from itertools import pairwise

from judging.claims import Claim
from judging.grammar import Records, Rule, each, within
from judging.trials import drawn, over_trials
from reproduce.capacity.figure import TITLE, panels
from reproduce.capacity.runs import (
    HALF,
    NARROW,
    OWN,
    RANKS,
    RANKS_AT,
    TRAINED,
    WHOLE,
    WIDE,
    Constant,
    by_rank,
    of_ranks,
    plan,
    select,
    variant,
)
from reproduce.reproduction import Reproduction

PAPER = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538)"
SLIDES = "Bietti 2024, Associative memories as a tractable building block in transformers, slides"
CLASSES_OF = f"{PAPER}, MLP memory with 32 classes: fit m d = 1.2 N, search up to m d"
TWICE, LAST = 1.75, 1.25
NEARLY = (
    "stores an association for nearly each entry of a layer, as far as the published search goes"
)


def between(constant: Constant, first: int, last: int, low: float, high: float = math.inf) -> Rule:
    """A constant at each width from the first to the last lies between two numbers."""

    def rules(records: Records) -> list[Rule]:
        at = constant.trials(records)
        return [
            within(drawn(f"d = {width}:", trials), low, high)
            for width, trials in at.items()
            if first <= width <= last
        ]

    window = f"is between {low:g} and {high:g} with its whole 95 % interval"
    if math.isinf(high):
        window = (
            f"is {low:g} or more with its whole 95 % interval; no number is too large, since the "
            "published search ends at m d, and this one goes past it"
        )
    text = (
        f"at every measured width from {first} to {last} the mean over trials {window}; "
        "contradicted if one of the intervals, corrected for their number, lies outside"
    )
    what = f"width from {first} to {last} of this memory"
    return over_trials(each(rules, text), constant.runs, what)


def saturating(records: Records) -> list[Rule]:
    """What twice the rank adds, draw by draw: less than twice, and little at the last doubling."""
    found, most = by_rank(records), {RANKS_AT: LAST}
    if not {*RANKS} <= {*found}:
        return []
    rules = []
    for less, more in pairwise(RANKS):
        ratios = [b / a for a, b in zip(found[less], found[more], strict=True)]  # the same draws
        label = f"N(m = {more}) / N(m = {less})"
        rules.append(within(drawn(label, ratios), 1.0, most.get(more, TWICE)))
    return rules


SATURATING = (
    f"d = {RANKS_AT}: N(2 m) / N(m) of each draw is between 1 and {TWICE:g} in the mean for each "
    f"doubling of m, and between 1 and {LAST:g} for the last, with the whole 95 % interval over "
    "draws"
)

CLAIMS = (
    Claim(
        "Hebbian memory, half recalled",
        "A sum of outer products recalls half of N associations where d² is about 2 N log N: "
        "N log N / d² is about one half at every width.",
        between(HALF, 32, 128, 0.5, 0.6),
        source=f"{SLIDES}; derived for unit embeddings",
    ),
    Claim(
        "Hebbian memory, all recalled",
        "It recalls all of them as often as not where d² is about 8 N log N. (The limits were "
        "set after a first run of 16 draws.)",
        between(WHOLE, 64, 128, 0.09, 0.14),
        source=f"{SLIDES}; derived for unit embeddings",
    ),
    Claim(
        "trained matrix",
        "A trained d × d matrix stores N ~ d² / log N associations; N log N / d² comes down to "
        "0.77 from above.",
        between(TRAINED, 22, 45, 0.7, 1.05),
        source=f"{PAPER}, linear associative memory: fit d² = 1.3 N log N",
    ),
    Claim(
        "perceptron, a value for each key",
        "A perceptron of width m = d stores N ~ m d / log N associations of a value each: "
        "N log N / (m d) is about 2.9.",
        between(OWN, 8, 22, 1.9, 3.3),
        source=f"{PAPER}, MLP memory: fit m d = 0.35 N log N",
    ),
    Claim(
        "trained low rank",
        "Trained factors of rank m store less than twice as much with twice the rank, and at "
        "half of full rank nearly all that a full matrix stores.",
        over_trials(each(saturating, SATURATING), of_ranks, "run of each rank"),
        source=(
            f"a first measurement of this project; the theorem on low rank of {PAPER}, a "
            "construction, grows as the rank"
        ),
    ),
    Claim(
        "perceptron, 32 classes",
        f"A perceptron of width m = d {NEARLY}.",
        between(NARROW, 16, 64, 0.85),
        source=CLASSES_OF,
    ),
    # With m = d = 8, two associations a class, the number is another than at larger widths. It
    # became a claim of its own after it had been seen, so that neither hides the other.
    Claim(
        "perceptron of small keys, 32 classes",
        f"A perceptron of width m = d {NEARLY}, for keys of 8 entries too.",
        between(NARROW, 8, 8, 0.85),
        source=CLASSES_OF,
    ),
    Claim(
        "perceptron twice as wide, 32 classes",
        f"With m = 2 d it {NEARLY}.",
        between(WIDE, 8, 64, 0.85),
        source=CLASSES_OF,
    ),
)

SOURCE = f"{PAPER}, capacity of linear and MLP associative memories; {SLIDES}"
REPRODUCTION = Reproduction(TITLE, SOURCE, plan, select, CLAIMS, panels, variant)
