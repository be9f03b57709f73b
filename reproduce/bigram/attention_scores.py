"""Induction heads: does attention look where the circuit says, in both layers?"""

from __future__ import annotations

from bench.records.schema import RunRecord
from reproduce.bigram.bigram import PAPER, SLIDES
from reproduce.bigram.runs import COARSE, attends
from reproduce.claims.claims import Claim
from reproduce.claims.controls import UNTRAINED
from reproduce.claims.grammar import Measured, Number, Rule, Runs, once, setting, where, within
from reproduce.drawing.plots import Plot, metric_curves
from reproduce.experiment import Experiment, OverSeeds
from reproduce.plotting.panels import Axis

TITLE = "Bigram task: where both layers of an induction head look"
TASK = "bigram_probes"
# Seeds of earlier runs, whose attention was recorded and seen before there was a claim, are others.
FIRST_SEED, SEEDS = 20, 5
LEAST, EVALUATED = 400, 512  # SGD steps, and sequences
TRIGGERS = ("fixed", "random")
MATCHING = f"{SLIDES}, induction head mechanism: matches observed attention scores; {PAPER}"
LOOKS = {  # metric -> what it is called, colour
    "accuracy": ("in-context accuracy", "black"),
    "second_layer_after_trigger": ("layer 2: after the same trigger", "vermillion"),
    "first_layer_on_previous": ("layer 1: the token before", "blue"),
}
MOST = 0.9

BY_TRIGGERS = {
    kind: Runs(f"{kind} triggers", TASK, settings={"tasks.triggers": kind}, choose=attends)
    for kind in TRIGGERS
}


def sequences(record: RunRecord) -> int:
    """Those that are evaluated; places of one sequence are not independent."""
    return int(setting(record, "tasks.evaluated"))


def looks(metric: str, kind: str) -> Measured:
    """The share of places at which a layer looks most where it should."""
    number = Number("", metric, items=sequences)
    return number.of(BY_TRIGGERS[kind], f"{LOOKS[metric][0]}, {kind} triggers")


TRAINED = where(
    lambda records: all(setting(r, "tasks.steps", LEAST) >= LEAST for r in records),
    "where attention looks",
    f"asked after {LEAST} SGD steps or more",
    "laptop",
)


def mostly(metric: str, kind: str) -> Rule:
    """A metric holds at nearly all places that count."""
    return once(TRAINED, within(looks(metric, kind), low=MOST))


def _claims(kind: str) -> list[Claim]:
    return [
        Claim(
            f"layer 1 looks at the token before, {kind} triggers",
            "Once it is trained, the first layer looks most at the token before: after a trigger, "
            f"at the trigger, with {kind} triggers.",
            mostly("first_layer_on_previous", kind),
        ),
        Claim(
            f"layer 2 looks after the trigger, {kind} triggers",
            "Once it is trained, the second layer looks most at the token that followed the same "
            f"trigger before, with {kind} triggers.",
            mostly("second_layer_after_trigger", kind),
        ),
    ]


EXPERIMENT = Experiment(
    TITLE,
    MATCHING,
    [claim for kind in TRIGGERS for claim in _claims(kind)],
    runs=[
        OverSeeds(
            TASK,
            ["two_layer_attention"],
            {"tasks.triggers": kind, "tasks.probe_every": COARSE, "tasks.evaluated": EVALUATED},
            at={"laptop": {"tasks.steps": LEAST}},
            seeds=SEEDS,
            first_seed=FIRST_SEED,
        )
        for kind in TRIGGERS
    ],
    records=list(BY_TRIGGERS.values()),
    panels=[
        Plot(
            runs.label,
            Axis("SGD steps"),
            Axis("share of places", limits=(-0.02, 1.04)),
            [metric_curves(runs, LOOKS)],
            legend="best",
        )
        for runs in BY_TRIGGERS.values()
    ],
    layout={"width": 9},
    variant=["tasks.triggers"],
    control=UNTRAINED.by(bigram_probes="tasks.steps=1"),
)
