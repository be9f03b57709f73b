"""One layer of attention against two on multi-query recall."""

from __future__ import annotations

from reproduce.claims.claims import Claim
from reproduce.claims.controls import Control
from reproduce.claims.grammar import (
    Number,
    Records,
    Rule,
    Runs,
    any_of,
    once,
    provided,
    setting,
    trained_for,
    within,
)
from reproduce.drawing.traces import over_seeds
from reproduce.plotting.panels import Axis, Panel, Picture, Row
from reproduce.reproduction import Plan, Reproduction

TITLE = "Multi-query recall: one layer of attention against two"
SOURCE = (
    "Zhang et al. 2025, Memory Mosaics (ICLR, arXiv 2405.06394), section 3; Bietti, Associative "
    "memories as a tractable building block in transformers (slides, EPFL, December 2024), after "
    "Sanford, Hsu and Telgarsky 2024, One-layer transformers fail to solve the induction heads task"
)
NAMES = {1: "attention, 1 layer", 2: "attention, 2 layers"}
PAIRS, STEPS = 4, 1600
WORDS = ("tasks=multi_query_recall", "models=gpt2", f"tasks.pairs=[{PAIRS}]")


def _runs(layers: int) -> Runs:
    settings = {"models.layers": layers, "tasks.pairs": [PAIRS], "tasks.protocol": "as_set"}
    plain = lambda r: r.role == "final" and not setting(r, "tasks.rewritten")  # noqa: E731
    return Runs(NAMES[layers], "multi_query_recall", "gpt2", settings, choose=plain)


ONE, TWO = map(_runs, NAMES)
ACCURACY = Number("accuracy", "accuracy", items=lambda r: int(setting(r, "tasks.test_size")))


def plan(preset: str, seeds: int | None) -> Plan:
    """Sweeps of both depths at four pairs; at ``laptop`` for longer than its preset."""
    longer = (f"training.steps={STEPS}", f"training.validate_every={STEPS // 10}")
    own = longer if preset == "laptop" else ()
    return Plan(sweeps=tuple((*WORDS, f"models.layers={layers}", *own) for layers in NAMES))


def panels(records: Records) -> Picture:
    """Accuracy of each seed."""
    found = {place: runs.of(records) for place, runs in enumerate((ONE, TWO))}
    x, y = Axis(categories=list(NAMES.values())), Axis("accuracy", limits=(0, 1.05))
    dots = [over_seeds("accuracy", found, "accuracy", mark="dots")]
    return Picture(TITLE, [Row([Panel(f"{PAIRS} pairs", x, y, dots)])])


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
select = any_of(ONE.has, TWO.has)
depth = lambda record: setting(record, "models.layers")  # noqa: E731
VARIED = ("models.layers", "tasks.pairs")
REPRODUCTION = Reproduction(TITLE, SOURCE, plan, select, CLAIMS, panels, depth, varied=VARIED)
