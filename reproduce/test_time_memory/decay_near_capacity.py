"""Forgetting by decay: does it matter far below the capacity of a memory, and near it?"""

from __future__ import annotations

from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.claims.controls import EACH_ITS_OWN, Control
from reproduce.claims.grammar import (
    Measured,
    Number,
    Rule,
    Runs,
    above,
    difference,
    each,
    measured,
    once,
)
from reproduce.drawing.plots import Plot, by_metric
from reproduce.experiment import Experiment, over_seeds_of
from reproduce.plotting.panels import Axis
from reproduce.test_time_memory.metrics import NEWEST, OLDEST
from reproduce.test_time_memory.runs import LINEAR, SEEDS, TASK

TITLE = "Decay of a test-time memory, far below its capacity and past it"
README = 'README "Titans: Learning to memorise at test time" (github.com/suyash144/titans)'
DECAY = 0.01
# Pairs that are written; a matrix of 64 × 64 that takes small steps holds some hundred.
FEW, MANY = [8, 16], [256, 512]
STEP = {"models.rate": 0.05, "models.momentum": 0.0}


def of(counts: list[int], decay: float) -> Runs:
    """The runs with so many pairs in the end, and a decay."""
    label = f"{counts[-1]} pairs, {'decay' if decay else 'no decay'}"
    return Runs(label, TASK, LINEAR, {**STEP, "tasks.counts": counts, "models.decay": decay})


ALL = [of(counts, decay) for counts in (FEW, MANY) for decay in (0.0, DECAY)]
COLOURS = ("grey", "blue", "black", "vermillion")
QUARTERS = {0: f"{NEWEST}_most", 1: f"{OLDEST}_most"}
GAIN, ALIKE = 0.2, 0.05


def questions(record: RunRecord) -> int:
    """A quarter of all pairs, in each trial."""
    tasks = record.config["tasks"]
    return int(tasks["trials"] * tasks["counts"][-1] // 4)


def quarter(name: str, counts: list[int], decay: float) -> Measured:
    """The recall of a quarter of what was written, in the end."""
    runs = of(counts, decay)
    number = Number("", f"{name}_most", items=questions, fresh=True)
    return number.of(runs, f"{name.replace('_', ' ')}, {runs.label}")


def matters_when_full(name: str) -> Rule:
    """Decay changes nothing where there are few pairs, and raises recall where there are many."""
    when_few = difference(quarter(name, FEW, DECAY), quarter(name, FEW, 0.0), -ALIKE, ALIKE)
    when_many = above(quarter(name, MANY, DECAY), quarter(name, MANY, 0.0), GAIN)
    return once(measured(of(MANY, DECAY), "decay", "laptop"), each([when_few, when_many]))


CLAIMS = (
    Claim(
        "decay matters near capacity",
        "Forgetting becomes important when the memory approaches its capacity: far below it, decay "
        "changes nothing, and past it the newest quarter of what was written is recalled better.",
        matters_when_full(NEWEST),
        control=Control("the oldest quarter in its place", matters_when_full(OLDEST)),
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    f"{README}: this becomes important when the memory module approaches its memory capacity",
    CLAIMS,
    runs=over_seeds_of(ALL, seeds=SEEDS),
    records=ALL,
    panels=[
        Plot(
            f"decay {DECAY:g} of a linear neural memory",
            Axis("quarter of what was written", categories=["newest", "oldest"]),
            Axis("share recalled", limits=(-0.03, 1.05)),
            [
                by_metric(QUARTERS, [runs], colour=colour)
                for runs, colour in zip(ALL, COLOURS, strict=True)
            ],
            legend="right",
        )
    ],
    layout={"width": 6},
    variant=["tasks.counts", "models.decay"],
    control=EACH_ITS_OWN,
)
