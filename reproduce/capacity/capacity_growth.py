"""Capacity: how it grows with the width, the rank, the layer and the size of a memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim, Closed
from reproduce.claims.controls import UNTRAINED, Control
from reproduce.claims.grammar import Records, Rule, Runs, each
from reproduce.claims.rules.growth import Growth
from reproduce.drawing.plots import RowOf
from reproduce.drawing.traces import over_draws
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.panels import Axis, Panel

TITLE = "Capacity: how it grows with width, rank, layer and size"
PAPER = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538)"
SLIDES = "Bietti 2024, Associative memories as a tractable building block in transformers, slides"
README = 'README "Titans: Learning to memorise at test time" (github.com/suyash144/titans)'
WIDE, OF_RANKS = [32, 64, 128, 256], [64, 128, 256]
NARROW = [12, 14, 16, 18, 20]  # of tables, which hold exponentially many

Size = Callable[[RunRecord, int], float]


def _runs(
    label: str,
    model: str,
    widths: list[int],
    share: float,
    classes: int = 0,
    task: str = "capacity",
) -> Runs:
    """The runs of this figure, which no other plans: Gaussian embeddings, as the slides have
    them."""
    settings = {
        "widths": widths,
        "thresholds": [share],
        "classes": classes,
        "embeddings": "gaussian",
    }
    label = f"{label}, {share:.0%} recalled"
    return Runs(label, task, model, {f"tasks.{key}": value for key, value in settings.items()})


def _growth(
    runs: Runs,
    axis: str = "d",
    size: Size = lambda record, width: float(width),
    at: int | None = None,
    **options: bool,
) -> Growth:
    """N by a size of a memory at each of its widths, or at one; an N that may be larger is none."""

    def read(record: RunRecord) -> Iterator[tuple[float, list[float | None]]]:
        share = f"{record.config['tasks']['thresholds'][0]:g}"
        arrays = record.arrays[f"associations/{share}"], record.arrays[f"filled/{share}"]
        for width, *counts in zip(record.arrays["widths"], *arrays, strict=True):
            if at in (None, width):
                numbers = [float(n) if full else None for n, full in zip(*counts, strict=True)]
                yield size(record, width), numbers

    return Growth(runs, read, axis, **options)


def _rank(record: RunRecord, width: int) -> float:
    return float(record.config["models"]["rank"])


def _layer(record: RunRecord, width: int) -> float:
    """m d; a matrix has d in the place of m."""
    return float(record.config["models"].get("expansion", 1.0)) * width**2


def _weights(record: RunRecord, width: int) -> float:
    return float(record.metrics["test"][f"weights/0.99/{width}"])


TWO = _growth(_runs("a sum, two values", "outer_product", WIDE, 0.9, 2))
OWN = _growth(_runs("a sum, a value for each key", "outer_product", WIDE, 0.9))
FACTORS = _runs("low-rank factors", "low_rank", OF_RANKS, 0.5)
BY_RANK = _growth(FACTORS, "m", _rank, 256)
BY_WIDTH = _growth(FACTORS.but(f"{FACTORS.label}, m = 32", {"models.rank": 32}))
OF_TWO = _growth(_runs("low-rank factors, two values", "low_rank", [256], 0.9, 2), "m", _rank)
PAIRED, ADDED = (
    _growth(_runs(f"two inputs, {memory}", model, [8, 16], 0.99, 32, "two_inputs"), "m d", _layer)
    for memory, model in (("a perceptron", "mlp"), ("a matrix", "trained_linear"))
)
LOOKED, ATTENDED, SUMMED = (
    _growth(_runs(label, model, NARROW, 0.9), exponential=True)
    for label, model in (
        ("the nearest key", "nearest_neighbour"),
        ("a soft-max over keys", "kernel"),
        ("a sum", "outer_product"),
    )
)
NETWORK = _runs("the README's perceptron", "stored_in_weights", [16], 0.99, 32)
STORED = _growth(NETWORK, "weights", _weights)
SHOWN = (TWO, OWN, BY_RANK, BY_WIDTH, PAIRED, LOOKED, ATTENDED, STORED)
ALL, TRAINED = (*SHOWN, OF_TWO, ADDED, SUMMED), (PAIRED, ADDED, STORED)


def _planned(
    growth: Growth,
    largest: float,
    seeds: int | Mapping[str, int] = 2,
    trials: int = 4,
    **models: float,
) -> OverSeeds:
    """The measurement of one growth, of up to ``largest`` times d² associations."""
    runs, presets = growth.runs, ("laptop", "gpu", "paper") if growth in TRAINED else ()
    settings = {
        **runs.settings,
        "tasks.trials": trials,
        "tasks.largest": largest,
        "tasks.headline_width": runs.settings["tasks.widths"][0],
        "tasks.wide": [],
    }
    for key, value in models.items():
        settings[f"models.{key}"] = value
    return OverSeeds(runs.task, [str(runs.model)], settings, presets=presets, seeds=seeds)


# A seed draws the random first factor and the initial weights, so that those have several. N of the
# README's perceptron varies much between draws: five leave an interval of 0.6.
STORED_SEEDS = {"laptop": 60, "gpu": 5, "paper": 5}
PLANNED = (
    _planned(TWO, 0.25),
    _planned(OWN, 0.25),
    *(_planned(growth, 16.0) for growth in (LOOKED, ATTENDED, SUMMED)),
    *(_planned(BY_RANK, 0.08, 5, 1, rank=m) for m in (16, 32, 64, 128)),
    *(_planned(OF_TWO, 0.08, 5, 1, rank=m) for m in (16, 32, 64, 128)),
    *(_planned(PAIRED, 2 * m, 3, 1, expansion=m, patience=8) for m in (1.0, 2.0)),
    _planned(ADDED, 2.0, 3, 1, patience=16),
    *(
        _planned(STORED, 8.0, STORED_SEEDS, 1, hidden=m, steps=1000, patience=20)
        for m in (4, 8, 16, 32)
    ),
)


def variant(record: RunRecord) -> str:
    """All settings of task and memory."""
    return repr([sorted(record.config[part].items()) for part in ("tasks", "models")])


def _panel(growth: Growth) -> Callable[[Records], Panel]:
    """N by what it grows with, a dot for each draw."""

    def panel(records: Records) -> Panel:
        x = Axis(growth.axis, "linear" if growth.exponential else "log")
        trace = over_draws("N", growth.by_size(records), colour=str(growth.runs.model), legend="")
        return Panel(growth.runs.label.replace(", ", ",\n"), x, Axis("N", "log"), [trace])

    return panel


ONE = 0.75, 1.25  # a slope of one, up to logarithms, as it is asked elsewhere
DOUBLINGS = 0.4, 0.8  # of N for each dimension; a half in the limit, and 0.17 of d² at these widths
GROWS = "the number of associations grows in proportion to m d, up to logarithms"
LOOKUP = f"{SLIDES}, Strategies to increase memory capacity (from linear to exponential in d)"
PARAMETERS = f"{SLIDES}, Capacity ≈ number of parameters"


def _exponential(growth: Growth) -> Rule:
    most, label = NARROW[-1], f"N / d² at d = {NARROW[-1]}, {growth.runs.label}"
    past = growth.within(label, lambda draw: draw[most] / most**2, 1.0)
    return each([growth.between(*DOUBLINGS), past])


CLAIMS = (
    Claim(
        "two values, in proportion to the width",
        "With f*(z) = z mod 2 a sum of outer products stores N ~ d associations, where it stores "
        "about d² with a value of its own for each key.",
        TWO.between(*ONE),
        control=Control("a value of its own for each key", OWN.between(*ONE)),
        source=f"{SLIDES}: f*(z) = z mod 2: can store up to N ≈ d associations",
    ),
    Claim(
        "low-rank construction",
        "Of two factors of rank m ≤ d the first is random and the second takes one gradient step: "
        f"{GROWS}.",
        each([BY_RANK.between(*ONE), BY_WIDTH.between(*ONE)]),
        control=Control("two values, stored as d alone allows,", OF_TWO.between(*ONE)),
        source=f"{PARAMETERS}, low-rank: can store N ≈ md associations when m ≤ d",
    ),
    Claim(
        "two inputs, a perceptron",
        f"A perceptron of width m is given the sum of two embeddings: {GROWS}.",
        PAIRED.between(*ONE),
        control=Control("a trained matrix, with d for m,", ADDED.between(*ONE)),
        source=f"{PARAMETERS}, multi-input: also N ≈ md capacity",
    ),
    *(
        Claim(
            f"{name}, exponential in the width",
            f"{memory} holds a number of associations that grows exponentially with d, past d².",
            _exponential(growth),
            control=Control("a sum of outer products", _exponential(SUMMED)),
            source=f"{LOOKUP}: {words}",
        )
        for name, memory, growth, words in (
            ("lookup", "A table looked up by the nearest key", LOOKED, "Nearest-neighbor lookup"),
            (
                "attention",
                "A soft-max over the stored keys",
                ATTENDED,
                "Attention: soft-max instead of hard-max to retrieve from context",
            ),
        )
    ),
    Claim(
        "the README's perceptron, in proportion to its weights",
        "The number of associations that it memorises grows in proportion to its weights.",
        STORED.between(*ONE),
        source=f"{README}: memory capacity (which intuitively is likely to be proportional to the "
        "overall 'capacity', in the deep learning sense, of the network)",
        closed={"laptop": Closed("The README's perceptron takes 60 seeds instead of 5", 120)},
    ),
)

PANELS = list(map(_panel, SHOWN))
EXPERIMENT = Experiment(
    TITLE,
    f"{SLIDES}; {PAPER}",
    CLAIMS,
    runs=PLANNED,
    records=[growth.runs for growth in ALL],
    panels=[RowOf(PANELS[:4], 3.2), RowOf(PANELS[4:], 3.2)],
    layout={"width": 14},
    variant=variant,
    control=UNTRAINED.by(stored_in_weights="models.steps=1"),
)
