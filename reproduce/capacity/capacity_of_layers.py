"""Capacity of perceptrons by the width of their layer, and the bits that a weight holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from bench.records.schema import RunRecord
from reproduce.capacity.capacity import CLASSES_OF, PAPER, SLIDES
from reproduce.capacity.runs import CLASSES, LOW_RANK, MLP, TASK
from reproduce.claims.claims import Claim
from reproduce.claims.controls import UNTRAINED, Control
from reproduce.claims.grammar import Records, Runs, once, setting, where
from reproduce.claims.rules.growth import Growth
from reproduce.drawing.plots import Plot
from reproduce.drawing.traces import level, over_draws
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.panels import Axis, Trace

TITLE = "Capacity of perceptrons: associations by the width of the layer, and bits for each weight"
WIDTH = 12  # d of keys and values: no other figure has runs of it
RATIOS = (0.5, 1.0, 4.0)  # m / d
RANKS = (2, 4, 8, 12)  # of two factors of a matrix, which have no threshold between them
SEEDS = {"smoke": 1, "laptop": 3, "gpu": 5, "paper": 5}
SETTINGS = {
    "tasks.widths": [WIDTH],
    "tasks.wide": [],
    "tasks.headline_width": WIDTH,
    "tasks.trials": 1,
    "tasks.thresholds": [0.99],
    "tasks.classes": CLASSES,
}
AT_SMOKE = {"smoke": {"models.steps": 64}}
# Minutes a run in place of hours: a training gives up after 8 checks without a better recall.
PATIENCE: dict[str, dict[str, Any]] = {
    "smoke": {"models.steps": 64, "models.patience": 8},
    "laptop": {"models.patience": 8},
}
# An eighth past m d, where the published search ends.
PERCEPTRONS = [
    OverSeeds(
        TASK,
        [MLP],
        {**SETTINGS, "tasks.largest": 1.125 * ratio, "models.expansion": ratio},
        PATIENCE,
        seeds=SEEDS,
    )
    for ratio in RATIOS
]
FACTORS = [
    OverSeeds(
        TASK,
        [LOW_RANK],
        {**SETTINGS, "tasks.largest": 1.0, "models.rank": rank, "models.patience": 16},
        AT_SMOKE,
        seeds=SEEDS,
    )
    for rank in RANKS
]
LAYERS = Runs("a perceptron", TASK, MLP, SETTINGS)
LINEAR = Runs("two factors of a matrix", TASK, LOW_RANK, SETTINGS)


def _held(record: RunRecord) -> list[float]:
    """N of each trial."""
    return list(map(float, record.arrays["associations/0.99"][0]))


def inner(record: RunRecord) -> float:
    """m, the width of the layer, or the rank."""
    models = record.config["models"]
    return float(models["rank"]) if "rank" in models else float(models["expansion"]) * WIDTH


def _by_layer(record: RunRecord) -> Iterator[tuple[float, list[float | None]]]:
    yield inner(record) * WIDTH, list(_held(record))


def _bits(record: RunRecord) -> Iterator[tuple[float, list[float | None]]]:
    """Bits of what is recalled, for each weight: a value of M has log₂ M."""
    weights = record.metrics["test"][f"weights/0.99/{WIDTH}"]
    yield inner(record), [n * math.log2(CLASSES) / weights for n in _held(record)]


BY_LAYER, BY_RANK = (Growth(runs, _by_layer, "m d") for runs in (LAYERS, LINEAR))
BITS, BITS_OF_RANK = (Growth(runs, _bits, "m") for runs in (LAYERS, LINEAR))
ONE, LEVEL = (0.75, 1.25), (-0.25, 0.25)
NARROWEST, WIDEST = RATIOS[0] * WIDTH, RATIOS[-1] * WIDTH

# A layer that stores too little may have been given up too early.
PATIENT = 32  # checks without a better recall, as that search has at gpu
TRAINED_TO_THE_END = where(
    lambda records: all(
        (setting(record, "models.patience") or PATIENT) >= PATIENT for record in LAYERS.of(records)
    ),
    "m = d/2",
    f"asked where trainings give up after {PATIENT} checks or more",
    "gpu",
)

CLAIMS = (
    Claim(
        "half as wide, 32 classes",
        "With m = d/2 a perceptron stores an association for nearly each entry of a layer.",
        once(
            TRAINED_TO_THE_END,
            BY_LAYER.within(
                "N / (m d) at m = d/2",
                lambda draw: draw[NARROWEST * WIDTH] / (NARROWEST * WIDTH),
                0.85,
            ),
        ),
        source=CLASSES_OF,
    ),
    Claim(
        "perceptrons of any width",
        "A perceptron of any width m stores N ~ m d associations: from m = d/2 to m = 4 d.",
        BY_LAYER.between(*ONE),
        source=f"{SLIDES}, Capacity ≈ number of parameters, non-linear MLP: for any width m",
        control=Control("two trained factors of rank m", BY_RANK.between(*ONE)),
    ),
    Claim(
        "four times as wide, 32 classes",
        "With m = 4 d it does so too.",
        BY_LAYER.within(
            "N / (m d) at m = 4 d", lambda draw: draw[WIDEST * WIDTH] / (WIDEST * WIDTH), 0.85
        ),
        source=CLASSES_OF,
    ),
    Claim(
        "bits for each weight",
        "Capacity is the number of parameters up to a factor: a weight holds as many bits "
        "whatever the width of the layer is.",
        BITS.between(*LEVEL),
        source=f"{SLIDES}, Capacity ≈ number of parameters; {PAPER}, information-theoretic bounds",
        control=Control("two trained factors of rank m", BITS_OF_RANK.between(*LEVEL)),
    ),
)


def _traces(growth: Growth, colour: str, records: Records) -> list[Trace]:
    """Every draw by size."""
    return [over_draws(growth.runs.label, growth.by_size(records), colour=colour)]


def _as_many(records: Records) -> list[Trace]:
    """As many associations as entries of a layer."""
    sizes = [size for draw in BY_LAYER.draws(records)[:1] for size in sorted(draw)]
    return [Trace("N = m d", sizes, sizes, role="reference")] if sizes else []


def _two_bits(records: Records) -> list[Trace]:
    widths = [size for draw in BITS.draws(records)[:1] for size in sorted(draw)]
    return [level("two bits", 2.0, widths)] if widths else []


EXPERIMENT = Experiment(
    TITLE,
    f"{PAPER}; {SLIDES}",
    CLAIMS,
    runs=[*FACTORS, *PERCEPTRONS],
    records=[LAYERS, LINEAR],
    panels=[
        Plot(
            f"associations, d = {WIDTH}, {CLASSES} classes",
            Axis("m d, entries of a layer", "log2"),
            Axis("N", "log2"),
            [
                lambda records: _traces(BY_LAYER, MLP, records),
                lambda records: _traces(BY_RANK, LOW_RANK, records),
                _as_many,
            ],
            legend="upper left",
        ),
        Plot(
            "bits for each weight",
            Axis("m", "log2"),
            Axis("bits", limits=(0, None)),
            [
                lambda records: _traces(BITS, MLP, records),
                lambda records: _traces(BITS_OF_RANK, LOW_RANK, records),
                _two_bits,
            ],
            legend="best",
        ),
    ],
    layout={"width": 10},
    variant=["models.expansion", "models.rank"],
    control=UNTRAINED.by(**dict.fromkeys((MLP, LOW_RANK), "models.steps=1")),
)
