"""Samples until one gradient step has learned: the feed-forward layer beside attention."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import Records, Runs
from reproduce.claims.rules.growth import Growth
from reproduce.drawing.plots import Plot, Traces, metric_curves
from reproduce.drawing.traces import over_draws
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.panels import Axis, Trace

TITLE = "Samples to learn a global bigram by the feed-forward layer, and to copy by attention"
CHEN = (
    "Chen, Bruna and Bietti 2024 (arXiv 2406.03068), theorem (informal) as in Bietti 2024, "
    "Associative memories as a tractable building block in transformers (slides), global vs "
    "in-context associations"
)
TASK, MODEL = "samples_to_learn", "outer_product"
RUNS = Runs("one gradient step", TASK, MODEL)
LAYERS = {  # as metrics call them: label and colour
    "feed_forward": ("the feed-forward layer", "blue"),
    "attention": ("attention", "vermillion"),
}
SEEDS = {"smoke": 2, "laptop": 8, "gpu": 8, "paper": 8}


def _needed(layer: str, record: RunRecord) -> Iterator[tuple[float, list[float | None]]]:
    """N, and the samples to half that a run needs there."""
    for tokens in record.config["tasks"]["tokens"]:
        yield float(tokens), [record.metrics["test"].get(f"samples_to_half/{layer}/N={tokens}")]


GROWTHS = {
    layer: Growth(RUNS.but(label), partial(_needed, layer), "N")
    for layer, (label, _) in LAYERS.items()
}
FEED_FORWARD, ATTENTION = GROWTHS.values()
NONE, ONE = (-0.25, 0.25), (0.75, 1.25)

CLAIMS = (
    Claim(
        "the feed-forward layer needs as many samples at any N",
        "The feed-forward layer learns a global bigram after O(1) samples: how many it needs does "
        "not grow with the number N of tokens.",
        FEED_FORWARD.between(*NONE),
        control=Control("attention in its place", ATTENTION.between(*NONE)),
    ),
    Claim(
        "attention needs samples in proportion to N",
        "Attention learns what to copy after O(N) samples.",
        ATTENTION.between(*ONE),
        control=Control("the feed-forward layer in its place", FEED_FORWARD.between(*ONE)),
    ),
)


def _samples_to_half(layer: str) -> Traces:
    label, colour = LAYERS[layer]

    def traces(records: Records) -> list[Trace]:
        return [over_draws(label, GROWTHS[layer].by_size(records), colour=colour)]

    return traces


def _learning(tokens: int) -> Plot:
    curves = {f"{layer}/N={tokens}": look for layer, look in LAYERS.items()}
    return Plot(
        f"N = {tokens}",
        Axis("samples", "log2"),
        Axis("recall", limits=(0, 1.05)),
        [metric_curves(RUNS, curves)],
        legend="best",
    )


EXPERIMENT = Experiment(
    TITLE,
    CHEN,
    CLAIMS,
    runs=[OverSeeds(TASK, [MODEL], seeds=SEEDS)],
    records=[RUNS],
    panels=[
        _learning(32),
        _learning(256),
        Plot(
            "samples to half",
            Axis("N tokens", "log2"),
            Axis("samples", "log2"),
            list(map(_samples_to_half, LAYERS)),
            legend="best",
        ),
    ],
    layout={"width": 13},
    control=EACH_ITS_OWN,
)
