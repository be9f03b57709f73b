"""Capacity of a perceptron whose units have a threshold: the third way past d²."""

from __future__ import annotations

from collections.abc import Iterator

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Records, Rule, Runs, each
from reproduce.claims.rules.growth import Growth
from reproduce.drawing.plots import Plot, Traces
from reproduce.drawing.traces import over_draws
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.panels import Axis, Trace

TITLE = "Capacity of a perceptron with a threshold for each key, by width"
SLIDES = (
    "Bietti 2024, Associative memories as a tractable building block in transformers, slides, "
    "Strategies to increase memory capacity (from linear to exponential in d): MLP"
)
WIDTHS = [11, 13, 15, 17, 19]  # between those of the figure on growth
SHARE, LARGEST = 0.9, 16.0  # recalled; times d² are tried
SETTINGS = {
    "tasks.widths": WIDTHS,
    "tasks.wide": [],
    "tasks.headline_width": WIDTHS[0],
    "tasks.thresholds": [SHARE],
    "tasks.classes": 0,
    "tasks.embeddings": "gaussian",  # as the slides have them
    "tasks.trials": 4,
    "tasks.largest": LARGEST,
}


def _read(record: RunRecord) -> Iterator[tuple[float, list[float | None]]]:
    """N of each trial at each width; one that may be larger is none."""
    names = (f"associations/{SHARE:g}", f"filled/{SHARE:g}")
    arrays = [record.arrays[name] for name in names]
    for width, counts, filled in zip(record.arrays["widths"], *arrays, strict=True):
        yield (
            float(width),
            [float(n) if full else None for n, full in zip(counts, filled, strict=True)],
        )


def _growth(label: str, model: str) -> Growth:
    return Growth(Runs(label, "capacity", model, SETTINGS), _read, "d", exponential=True)


CUT = _growth("a threshold for each key", "thresholded")
SUM = _growth("a sum of outer products", "outer_product")
# Of log₂ N for each dimension, as it is asked of tables and of the soft-max.
DOUBLINGS, PAST = (0.4, 0.8), 1.0


def exponential(growth: Growth) -> Rule:
    """N grows by a factor for each dimension, and is past d² in the end."""
    last = WIDTHS[-1]
    label = f"N / d² at d = {last}, {growth.runs.label}"
    past = growth.within(label, lambda draw: draw[last] / last**2, PAST)
    return each([growth.between(*DOUBLINGS), past])


CLAIMS = (
    Claim(
        "perceptron with a threshold, exponential in the width",
        "A perceptron with a unit for each stored key, whose threshold leaves out keys that are "
        "far, holds a number of associations that grows exponentially with d, past d².",
        exponential(CUT),
        control=Control("a sum of outer products", exponential(SUM)),
    ),
)


def _dots(growth: Growth) -> Traces:
    def traces(records: Records) -> list[Trace]:
        numbers = growth.by_size(records)
        return [over_draws(growth.runs.label, numbers, colour=str(growth.runs.model))]

    return traces


def _squares() -> Trace:
    return Trace("d²", WIDTHS, [width**2 for width in WIDTHS], role="reference")


EXPERIMENT = Experiment(
    TITLE,
    SLIDES,
    CLAIMS,
    runs=[OverSeeds("capacity", ["thresholded", "outer_product"], SETTINGS, seeds=2)],
    records=[CUT.runs, SUM.runs],
    panels=[
        Plot(
            f"associations, {SHARE:.0%} recalled",
            Axis("d", ticks=WIDTHS),
            Axis("N", "log2"),
            [_dots(CUT), _dots(SUM), _squares()],
            legend="upper left",
        )
    ],
    layout={"width": 6},
    control=EACH_ITS_OWN,
)
