"""One layer of attention against two on multi-query recall."""

from __future__ import annotations

from reproduce.claims.claims import Claim
from reproduce.claims.controls import Control
from reproduce.claims.grammar import (
    Number,
    Rule,
    Runs,
    once,
    provided,
    setting,
    trained_for,
    within,
)
from reproduce.drawing.plots import Plot, names, points
from reproduce.experiment import Experiment, Sweep
from reproduce.plotting.panels import Axis

TITLE = "Multi-query recall: one layer of attention against two"
SOURCE = (
    "Zhang et al. 2025, Memory Mosaics (ICLR, arXiv 2405.06394), section 3; Bietti, Associative "
    "memories as a tractable building block in transformers (slides, EPFL, December 2024), after "
    "Sanford, Hsu and Telgarsky 2024, One-layer transformers fail to solve the induction heads task"
)
NAMES = {1: "attention, 1 layer", 2: "attention, 2 layers"}
PAIRS = 4
LONGER = {"laptop": {"training.steps": 1600, "training.validate_every": 160}}  # than its preset


def _runs(layers: int) -> Runs:
    settings = {"models.layers": layers, "tasks.pairs": [PAIRS], "tasks.protocol": "as_set"}
    plain = lambda r: r.role == "final" and not setting(r, "tasks.rewritten")  # noqa: E731
    return Runs(NAMES[layers], "multi_query_recall", "gpt2", settings, choose=plain)


ONE, TWO = map(_runs, NAMES)
ACCURACY = Number("accuracy", "accuracy", items=lambda r: int(setting(r, "tasks.test_size")))


LONG = trained_for(400, "laptop")
LEARNED = within(ACCURACY.of(TWO), low=0.5)  # where neither recalls, one layer has not failed


def _fails(runs: Runs) -> Rule:
    return once(LONG, provided(LEARNED, within(ACCURACY.of(runs), high=0.5)))


CLAIMS = (
    Claim(
        "one layer of attention fails to recall",
        "A transformer of one layer cannot recall what followed a key: it needs two.",
        _fails(ONE),
        control=Control(NAMES[2], _fails(TWO)),
    ),
    Claim(
        "two layers of attention recall",
        "A transformer of two layers recalls what followed a key.",
        once(LONG, within(ACCURACY.of(TWO), low=0.97)),
        ranks=lambda records: [TWO],
    ),
)
ACCURACIES = Plot(
    f"{PAIRS} pairs",
    names([ONE, TWO]),
    Axis("accuracy", limits=(0, 1.05)),
    [points("accuracy", {0: ONE, 1: TWO}, "accuracy", mark="dots")],
)
EXPERIMENT = Experiment(
    TITLE,
    SOURCE,
    CLAIMS,
    sweeps=[
        Sweep("multi_query_recall", ["gpt2"], {"tasks.pairs": [PAIRS], "models.layers": n}, LONGER)
        for n in NAMES
    ],
    records=[ONE, TWO],
    panels=[[ACCURACIES]],
    variant=["models.layers"],
    varied=("models.layers", "tasks.pairs"),
)
