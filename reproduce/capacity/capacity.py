"""Capacity: how many associations each memory recalls, by the width of keys and by its size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from bench.records.schema import RunRecord
from reproduce.capacity import runs as measured
from reproduce.capacity.runs import CONSTANTS, RANKS, RANKS_AT, Constant, by_rank
from reproduce.claims.claims import Claim
from reproduce.claims.controls import UNTRAINED, Control
from reproduce.claims.grammar import Records, Rule, each, within
from reproduce.claims.observations import latest_of_task
from reproduce.claims.trials import drawn, finished, over_trials
from reproduce.drawing.traces import over_draws, published
from reproduce.experiment import Experiment
from reproduce.plotting import models
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Remark, Trace

TITLE = "Capacity: associations recalled, by width and by size of the memory"
PAPER = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538)"
SLIDES = "Bietti 2024, Associative memories as a tractable building block in transformers, slides"
CLASSES_OF = f"{PAPER}, MLP memory with 32 classes: fit m d = 1.2 N, search up to m d"
SCALE = (0.1, 0.2, 0.5, 1, 2, 5)
MOVED = Remark("lines are moved apart sideways", place="lower right")


def picture(records: Records) -> Picture:
    """N against d and against size for every memory, and the constants beside published ones."""
    runs = finished(measured.overview(records))
    runs.sort(key=lambda run: (models.look(run.model), run.model, run.seed))
    shares = sorted({f"{_threshold(run):.0%}" for run in runs})
    n = Axis(f"N, associations recalled to {' or '.join(shares)}", "log")
    widths = sorted({width for run in runs for width in run.arrays["widths"]})
    d = Axis("d, width of keys and values", "log", ticks=widths)
    by_width = [*_memories(runs, "widths"), *_limits(runs, widths)]
    size = Axis("numbers that hold them, copies for replay left out", "log")
    row = [
        Panel("against the width", d, n, by_width, [MOVED], legend="right"),
        Panel(
            "against the size of the memory",
            size,
            Axis("", "log"),
            _memories(runs, "weights"),
            [MOVED],
        ),
        _constants(records),
        _ranks(records),
    ]
    return Picture(TITLE, [PanelRow(row, 4.8, widths=(1.15, 1, 0.9, 0.6))], width=15.5)


def _threshold(run: RunRecord) -> float:
    return float(run.config["tasks"]["thresholds"][0])  # the stricter one


def _memories(runs: Records, x: str) -> list[Trace]:
    """N of each memory against its widths or its weights, moved apart sideways."""
    traces = []
    for place, run in enumerate(runs):
        counts = run.curves[f"associations/{_threshold(run):g}"]
        across = counts.x if x == "widths" else run.curves[f"{x}/{_threshold(run):g}"].y
        name, aside = f"{run.label}, seed {run.seed}", 0.37 * (place - len(runs) / 2)
        look: dict[str, Any] = {"mark": "both", "colour": run.model, "hollow": True}
        traces.append(Trace(name, across, counts.y, aside=aside, legend=run.label, **look))
    return traces


def _limits(runs: Records, widths: Sequence[int]) -> list[Trace]:
    """How many associations were tried, and what is published of a trained matrix."""
    if not runs:
        return []
    largest = runs[0].config["tasks"]["largest"]
    tried = [largest * width**2 for width in widths]
    fit = [(width, solve(width**2 / 1.3)) for width in widths]
    name = "published for a trained matrix:\nd² = 1.3 N log N"
    return [
        Trace("as many as were tried", widths, tried, role="reference"),
        published(name, fit, mark="line", colour="black"),
    ]


def _constants(records: Records) -> Panel:
    trials_by_constant = {constant: constant.trials(records) for constant in CONSTANTS}
    widths = sorted({width for trials in trials_by_constant.values() for width in trials})
    traces = []
    for place, (constant, trials) in enumerate(trials_by_constant.items()):
        label = constant.label.replace("\n", " ")
        level = [(width, constant.published) for width in widths]
        dots: dict[str, Any] = {"mark": "dots", "aside": place - 2.5, "legend": constant.label}
        colour: dict[str, Any] = {"colour": constant.colour}
        traces.append(over_draws(label, trials, **colour, **dots))
        traces.append(published(f"{label}, published", level, mark="line", legend="", **colour))
    return Panel(
        "constants: trials, 95 % interval;\ndashed: published or theory; dotted:\n"
        "end of the published search of an MLP",
        Axis("d", "log", ticks=widths),
        Axis("", "log", limits=(0.05, 400), ticks=SCALE),  # the legend above
        traces,
        [Remark(y=1, colour="blue")],
        legend="upper right",
    )


def _ranks(records: Records) -> Panel:
    """N of each draw by rank, and a line in proportion to it from the first."""
    draws = by_rank(records)
    n = over_draws("N of each draw", draws, colour="vermillion", legend="")
    ranks = [*draws]
    line = [(n.y[0] or 0.0) * rank / ranks[0] for rank in ranks]
    title = f"trained low rank, d = {RANKS_AT}:\nN by rank m, of each draw"
    y = Axis("", limits=(0, 1.6 * max((y or 0.0 for y in n.y), default=1)))
    traces = [n, Trace("in proportion to m", ranks, line, role="reference")]
    return Panel(title, Axis("m", ticks=ranks), y, traces, legend="lower right")


def solve(product: float) -> float:
    """N with N log N = ``product``."""
    n = max(product, 2.0)
    for _ in range(60):
        n = product / math.log(max(n, 1.5))
    return n


# What is claimed

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
    trials_of = f"width from {first} to {last} of this memory"
    return over_trials(each(rules, text), constant.runs, trials_of)


def saturating(records: Records) -> list[Rule]:
    """What twice the rank adds, draw by draw: less than twice, and little at the last doubling."""
    numbers_by_rank, most = by_rank(records), {RANKS_AT: LAST}
    if not {*RANKS} <= {*numbers_by_rank}:
        return []
    rules = []
    for less, more in pairwise(RANKS):
        ratios = [
            b / a for a, b in zip(numbers_by_rank[less], numbers_by_rank[more], strict=True)
        ]  # the same draws
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
        "N log N / d² is 0.5 to 0.6 at every width.",
        between(measured.HALF, 32, 128, 0.5, 0.6),
        control=Control("a trained matrix", between(measured.TRAINED, 32, 128, 0.5, 0.6)),
        source=f"{SLIDES}; derived for unit embeddings",
    ),
    Claim(
        "Hebbian memory, all recalled",
        "It recalls all of them as often as not where d² is about 8 N log N. (The limits were "
        "set after a first run of 16 draws.)",
        between(measured.WHOLE, 64, 128, 0.09, 0.14),
        control=Control("half of them recalled", between(measured.HALF, 64, 128, 0.09, 0.14)),
        source=f"{SLIDES}; derived for unit embeddings",
    ),
    Claim(
        "trained matrix",
        "A trained d × d matrix stores N ~ d² / log N associations: N log N / d², 0.77 in the "
        "source, is 0.7 to 1.05 at every width.",
        between(measured.TRAINED, 22, 45, 0.7, 1.05),
        source=f"{PAPER}, linear associative memory: fit d² = 1.3 N log N",
    ),
    Claim(
        "perceptron, a value for each key",
        "A perceptron of width m = d stores N ~ m d / log N associations of a value each: "
        "N log N / (m d) is about 2.9.",
        between(measured.OWN, 8, 22, 1.9, 3.3),
        source=f"{PAPER}, MLP memory: fit m d = 0.35 N log N",
    ),
    Claim(
        "trained low rank",
        "Trained factors of rank m store less than twice as much with twice the rank, and at "
        "half of full rank nearly all that a full matrix stores.",
        over_trials(each(saturating, SATURATING), measured.of_ranks, "run of each rank"),
        source=(
            f"a first measurement of this project; the theorem on low rank of {PAPER}, a "
            "construction, grows as the rank"
        ),
    ),
    Claim(
        "perceptron, 32 classes",
        f"A perceptron of width m = d {NEARLY}.",
        between(measured.NARROW, 16, 64, 0.85),
        source=CLASSES_OF,
    ),
    # With m = d = 8, two associations a class, the number is another than at larger widths. It
    # became a claim of its own after it had been seen, so that neither hides the other.
    Claim(
        "perceptron of small keys, 32 classes",
        f"A perceptron of width m = d {NEARLY}, for keys of 8 entries too.",
        between(measured.NARROW, 8, 8, 0.85),
        source=CLASSES_OF,
    ),
    Claim(
        "perceptron twice as wide, 32 classes",
        f"With m = 2 d it {NEARLY}.",
        between(measured.WIDE, 8, 64, 0.85),
        source=CLASSES_OF,
    ),
)

TRAINED_MEMORIES = ("trained_linear", "trained_low_rank", "mlp", "stored_in_weights")
EXPERIMENT = Experiment(
    TITLE,
    f"{PAPER}, capacity of linear and MLP associative memories; {SLIDES}",
    CLAIMS,
    runs=measured.RUNS,
    records=lambda records: latest_of_task(records, measured.TASK, measured.variant),
    panels=picture,
    variant=measured.variant,
    control=UNTRAINED.by(**dict.fromkeys(TRAINED_MEMORIES, "models.steps=1")),
)
