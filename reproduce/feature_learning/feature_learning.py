"""Norms of features: how far one gradient step moves them, beside their length at the start."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.records.schema import RunRecord
from core.statistics import REAL
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Number, Records, Rule, Runs, each, within
from reproduce.claims.rules.growth import Growth
from reproduce.drawing.plots import Plot, Traces
from reproduce.drawing.traces import over_draws
from reproduce.experiment import Experiment, over_seeds_of
from reproduce.plotting.panels import Axis, Trace

TITLE = "Feature learning: norms of features and of what one gradient step adds"
SLIDES = (
    "Bietti 2024, Associative memories as a tractable building block in transformers, slides, "
    "link with feature learning: maximal updates"
)
TASK, MODEL = "feature_learning", "outer_product"
MAXIMAL, TANGENT = (
    Runs(f"{name} updates", TASK, MODEL, {"tasks.scaling": name}) for name in ("maximal", "tangent")
)
SEEDS = {"smoke": 1, "laptop": 5, "gpu": 5, "paper": 5}
FLAT = (-0.1, 0.1)  # slopes of norms that are Θ(1); without feature learning −1/2 is expected
LOOKS = {"start": ("|W₀ u|", "black"), "update": ("|ΔW u|", "blue")}


def _norms(name: str, record: RunRecord) -> Iterator[tuple[float, list[float]]]:
    """d, and the norm of each trial."""
    for width in record.config["tasks"]["widths"]:
        yield float(width), record.arrays[f"{name}/d={width}"]


def growth(name: str, runs: Runs) -> Growth:
    """The growth of a norm with the width."""
    label = f"{LOOKS[name][0]}, {runs.label}"
    return Growth(runs.but(label), partial(_norms, name), "d")


def flat(runs: Runs) -> Rule:
    """Both norms are the same at every width."""
    return each([growth(name, runs).between(*FLAT) for name in LOOKS])


def _at_largest(name: str, record: RunRecord) -> float | None:
    width = record.config["tasks"]["widths"][-1]
    return record.metrics["test"].get(f"{name}/d={width}")


def alike(runs: Runs) -> Rule:
    """At the largest width the step adds about as much as there was, and what it should."""
    ratio = Number("|ΔW u| / |W₀ u| at the largest d", "ratio")
    alignment = Number(
        "cosine of ΔW u and its v at the largest d", partial(_at_largest, "alignment"), REAL
    )
    return each([within(ratio.of(runs), 0.5, 2.0), within(alignment.of(runs), 0.9)])


CLAIMS = (
    Claim(
        "the first step moves features at any width",
        "From the standard start, with maximal updates, neither the length of features nor what "
        "the first gradient step adds to them depends on the width.",
        flat(MAXIMAL),
        control=Control("updates of a tangent kernel", flat(TANGENT)),
    ),
    Claim(
        "updates are of the order of the start",
        "At a large width the step adds about as much to features as there was, in the direction "
        "of the output embedding.",
        alike(MAXIMAL),
        control=Control("updates of a tangent kernel", alike(TANGENT)),
    ),
)


def _dots(name: str, runs: Runs) -> Traces:
    label, colour = LOOKS[name]

    def traces(records: Records) -> list[Trace]:
        return [over_draws(label, growth(name, runs).by_size(records), colour=colour)]

    return traces


EXPERIMENT = Experiment(
    TITLE,
    SLIDES,
    CLAIMS,
    runs=over_seeds_of((MAXIMAL, TANGENT), seeds=SEEDS),
    records=[MAXIMAL, TANGENT],
    panels=[
        Plot(
            runs.label,
            Axis("width d", "log2"),
            Axis("norm", "log"),
            [_dots(name, runs) for name in LOOKS],
            legend="best",
        )
        for runs in (MAXIMAL, TANGENT)
    ],
    layout={"width": 9},
    variant=["tasks.scaling"],
    control=EACH_ITS_OWN,
)
