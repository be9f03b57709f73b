"""Large steps on the memories of a transformer: oscillations, and what they are worth."""

from __future__ import annotations

from bench.records.schema import RunRecord
from core.statistics import COUNT
from reproduce.claims.claims import Claim
from reproduce.claims.controls import UNTRAINED, Control
from reproduce.claims.grammar import (
    Measured,
    Number,
    Rule,
    Runs,
    above,
    each,
    once,
    provided,
    setting,
    where,
    within,
)
from reproduce.drawing.plots import Plot, metric_curves
from reproduce.experiment import Experiment, OverSeeds
from reproduce.gradient_descent.runs import ATTENTION, DYNAMICS
from reproduce.plotting.panels import Axis

TITLE = "Large steps of gradient descent on the memories of a two-layer transformer"
SLIDES = (
    "Bietti 2024, Associative memories as a tractable building block in transformers (slides), "
    "benefits of large step-sizes + oscillations"
)
TASK, MODELS = ATTENTION
FIRST_SEED, SEEDS, LEAST = 1, 5, 50  # seed 0 was seen before there was a claim
WIDTH = 64
RUNS = Runs(
    "two-layer attention",
    TASK,
    MODELS[0],
    {"models.width": WIDTH},
    choose=lambda record: record.seed >= FIRST_SEED,
)
# Learning rates, where W_O² alone is trained and where all three memories are.
ALONE, ALL = (20, 50, 100, 200), (2, 5, 10, 20)
COLOURS = ("grey", "blue", "green", "vermillion")
KNOWN = 1.0  # nats, of the mean margin of the scores that W_O² stores
LONG = where(
    lambda records: all(setting(record, "tasks.steps", LEAST) >= LEAST for record in records),
    "descent with large steps",
    f"asked after {LEAST} steps",
    "laptop",
)


def rises(trained: str, lr: int) -> Measured:
    """How often the loss rose from one step to the next."""
    number = Number("rises of the loss", f"increases/{trained},lr={lr}", COUNT)
    return number.of(RUNS, f"rises of the loss, {trained}, step size {lr}")


def steps_to_know(lr: int) -> Measured:
    """The steps of W_O² alone until its mean margin is one nat; one that never is counts as one
    more than all steps."""

    def read(record: RunRecord) -> float | None:
        curve = record.curves.get(f"memory_margin/output_2,lr={lr}")
        if curve is None:
            return None
        for step, margin in zip(curve.x, curve.y, strict=True):
            if (margin or 0.0) >= KNOWN:
                return step
        return float(setting(record, "tasks.steps")) + 1

    return Number("", read, COUNT).of(RUNS, f"steps to a margin of {KNOWN:g}, step size {lr}")


def asked(rule: Rule) -> Rule:
    """The rule, asked after a whole training."""
    return once(LONG, rule)


CLAIMS = (
    Claim(
        "larger steps oscillate more",
        "With correlated embeddings and tokens of unequal frequency, large steps oscillate: the "
        "loss rises more often the larger the steps are, where W_O² alone is trained and where all "
        "three memories are.",
        asked(
            provided(
                # One rise is no oscillation: a single step too far has one.
                each(
                    [
                        within(rises("output_2", ALONE[-1]), low=2),
                        within(rises("all", ALL[-1]), low=2),
                    ]
                ),
                each(
                    [
                        above(rises("output_2", ALONE[-1]), rises("output_2", ALONE[0])),
                        above(rises("all", ALL[-1]), rises("all", ALL[0])),
                    ]
                ),
            )
        ),
        source=f"{SLIDES}: correlated embeddings + imbalance ⟹ oscillatory regimes; {DYNAMICS}",
    ),
    Claim(
        "large steps know sooner",
        "Large steps reach a memory that knows its tokens sooner, despite oscillations: with a "
        "step size of 100 rather than 20.",
        asked(above(steps_to_know(20), steps_to_know(100))),
        source=f"{SLIDES}: large step-sizes help reach perfect accuracy faster; {DYNAMICS}",
        control=Control(
            "a step twice as large, which is too large,",
            asked(above(steps_to_know(20), steps_to_know(200))),
        ),
    ),
)


def _curves(kind: str, trained: str, lrs: tuple[int, ...]) -> Plot:
    looks = {
        f"{kind}/{trained},lr={lr}": (f"step size {lr}", colour)
        for lr, colour in zip(lrs, COLOURS, strict=True)
    }
    titles = {"output_2": "W_O² alone", "all": "all three memories"}
    names = {"loss": "loss, nats", "memory_margin": "margin of W_O², nats"}
    y = Axis(names[kind], "log" if kind == "loss" else "linear")
    return Plot(titles[trained], Axis("SGD steps"), y, [metric_curves(RUNS, looks)], legend="best")


EXPERIMENT = Experiment(
    TITLE,
    DYNAMICS,
    CLAIMS,
    runs=[OverSeeds(TASK, MODELS, {"models.width": WIDTH}, seeds=SEEDS, first_seed=FIRST_SEED)],
    records=[RUNS],
    panels=[
        [_curves(kind, "output_2", ALONE) for kind in ("loss", "memory_margin")],
        [_curves(kind, "all", ALL) for kind in ("loss", "memory_margin")],
    ],
    layout={"width": 10},
    control=UNTRAINED.by(attention_descent="tasks.steps=1"),
)
