"""Capacity of a constructed perceptron: random first layer, Hermite activation, one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Records, Runs
from reproduce.claims.rules.growth import Growth
from reproduce.drawing.plots import Plot, Traces
from reproduce.drawing.traces import over_draws
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.panels import Axis, Trace

TITLE = "Capacity of a perceptron with random first layer and Hermite activation"
SLIDES = (
    "Bietti 2024, Associative memories as a tractable building block in transformers, slides, "
    "Capacity ≈ number of parameters, non-linear MLP: construction using Hermite polynomials of "
    "degree ≈ log N / log d in kernel regime; Nichani, Lee and Bietti 2025 (arXiv 2412.06538)"
)
TASK, MODEL = "capacity", "hermite_features"
WIDTHS, UNITS = [32, 64, 128], [32, 64, 128, 256]  # d, and m on both sides of it
FIXED_WIDTH, FIXED_UNITS = 64, 128
SHARE = 0.5  # recalled, as it is asked of the construction of low rank
SETTINGS = {
    "tasks.widths": WIDTHS,
    "tasks.wide": [],
    "tasks.headline_width": WIDTHS[0],
    "tasks.thresholds": [SHARE],
    "tasks.classes": 0,
    "tasks.embeddings": "gaussian",  # as the slides have them
    "tasks.trials": 1,
    "tasks.largest": 1.0,
}
# N is about m d, and log N / log d lies between 1.5 and 2 at these sizes.
DEGREES = {"degree 2": 2, "degree 1": 1}
COLOURS = {"degree 2": "blue", "degree 1": "vermillion"}
ONE = 0.75, 1.25  # a slope of one, up to logarithms, as it is asked elsewhere
# The first layer is drawn by a run's seed, the embeddings too.
SEEDS = {"smoke": 1, "laptop": 5, "gpu": 10, "paper": 10}


def _numbers(record: RunRecord) -> Iterator[tuple[int, float | None]]:
    """d and N; one that may be larger is none."""
    names = (f"associations/{SHARE:g}", f"filled/{SHARE:g}")
    arrays = [record.arrays[name] for name in names]
    for width, [number], [filled] in zip(record.arrays["widths"], *arrays, strict=True):
        yield width, float(number) if filled else None


def _by_units(record: RunRecord) -> Iterator[tuple[float, list[float | None]]]:
    for width, number in _numbers(record):
        if width == FIXED_WIDTH:
            yield float(record.config["models"]["width"]), [number]


def _by_width(record: RunRecord) -> Iterator[tuple[float, list[float | None]]]:
    for width, number in _numbers(record):
        yield float(width), [number]


def _runs(label: str, **settings: int) -> Runs:
    """The runs of a degree, with every number of units or with one."""
    models = {f"models.{key}": value for key, value in settings.items()}
    return Runs(label, TASK, MODEL, {**SETTINGS, **models})


OF_UNITS = {
    name: Growth(_runs(f"{name}, d = {FIXED_WIDTH}", degree=p), _by_units, "m")
    for name, p in DEGREES.items()
}
OF_WIDTH = {
    name: Growth(_runs(f"{name}, m = {FIXED_UNITS}", degree=p, width=FIXED_UNITS), _by_width, "d")
    for name, p in DEGREES.items()
}
CLAIMS = (
    Claim(
        "Hermite features, in proportion to their number",
        "With a random first layer of m units, a Hermite polynomial of degree 2 and one gradient "
        "step on the second layer, the number of associations grows in proportion to m, up to "
        "logarithms, for m below d and above it.",
        OF_UNITS["degree 2"].between(*ONE),
        control=Control("a linear layer in their place", OF_UNITS["degree 1"].between(*ONE)),
    ),
    Claim(
        "Hermite features, in proportion to the width",
        "And it grows in proportion to the width d of the embeddings.",
        OF_WIDTH["degree 2"].between(*ONE),
        control=Control("a linear layer in their place", OF_WIDTH["degree 1"].between(*ONE)),
    ),
)


def _dots(name: str, growths: dict[str, Growth]) -> Traces:
    def traces(records: Records) -> list[Trace]:
        return [over_draws(name, growths[name].by_size(records), colour=COLOURS[name])]

    return traces


def _plot(title: str, axis: str, ticks: list[int], growths: dict[str, Growth]) -> Plot:
    dots: list[Callable[[Records], list[Trace]]] = [_dots(name, growths) for name in DEGREES]
    return Plot(title, Axis(axis, "log2", ticks=ticks), Axis("N", "log2"), dots, legend="best")


planned = partial(OverSeeds, TASK, [MODEL], seeds=SEEDS)
EXPERIMENT = Experiment(
    TITLE,
    SLIDES,
    CLAIMS,
    runs=[
        planned({**SETTINGS, "models.degree": degree, "models.width": units})
        for degree in DEGREES.values()
        for units in UNITS
    ],
    records=[growth.runs for growth in OF_UNITS.values()],
    panels=[
        _plot(f"{SHARE:.0%} recalled, d = {FIXED_WIDTH}", "m", UNITS, OF_UNITS),
        _plot(f"{SHARE:.0%} recalled, m = {FIXED_UNITS}", "d", WIDTHS, OF_WIDTH),
    ],
    layout={"width": 10},
    variant=["models.degree", "models.width"],
    control=EACH_ITS_OWN,
)
