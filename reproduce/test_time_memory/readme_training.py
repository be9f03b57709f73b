"""How the README's memory is trained: Adam, momentum and decay, and numbers as tokens."""

from __future__ import annotations

from typing import Any

from reproduce.claims.claims import Claim
from reproduce.claims.controls import UNTRAINED, Control
from reproduce.claims.grammar import Measured, Rule, Runs, above, each, measured, once, within
from reproduce.drawing.plots import Plot, dots_by_run, points
from reproduce.experiment import Experiment, over_seeds_of
from reproduce.plotting.panels import Axis
from reproduce.test_time_memory.metrics import items_behind
from reproduce.test_time_memory.runs import INTEGERS, TASK
from reproduce.test_time_memory.titans_memory import README

TITLE = "The README's memory: Adam, momentum and decay, tokens"
MODEL = "stored_by_optimizer"
FIFTY, HUNDRED, TEN_THOUSAND = 50, 100, 10_000
SEEDS = {"smoke": 1, "laptop": 3, "gpu": 5, "paper": 5}
LARGER = ("laptop", "gpu", "paper")
RATES = (1e-3, 1e-2, 1e-1)
USUAL = 1e-2
COMMON: dict[str, Any] = {
    "tasks.material": INTEGERS,
    "models.vocabulary": 1001,
    "models.loss": "squared",
    "models.clip": None,
    "models.tolerance": 0.001,
}
MANY = {
    **COMMON,
    "tasks.experiments": ["many"],
    "tasks.many": [FIFTY],
    "tasks.trials": 6,
    "models.steps": 4000,
    "models.batch_size": FIFTY,
}


def _many(label: str, rate: float, **models: Any) -> Runs:
    settings = {"optimizer": "adam", "tokens": True, **models, "lr": rate}
    return Runs(label, TASK, MODEL, {**MANY, **{f"models.{k}": v for k, v in settings.items()}})


ADAM = {rate: _many(f"Adam, step {rate:g}", rate) for rate in RATES}
SGD = {rate: _many(f"SGD, step {rate:g}", rate, optimizer="sgd") for rate in RATES}
AS_NUMBERS = {
    rate: _many(f"numbers as they are, step {rate:g}", rate, tokens=False) for rate in RATES
}
CAPACITY = {
    **COMMON,
    "tasks.experiments": ["capacity"],
    "tasks.trials": 1,
    "models.optimizer": "sgd",
    "models.lr": 1e-4,  # of the README's script on capacity
    "models.batch_size": 64,
    "models.steps": 1000,
    "tasks.capacities": [HUNDRED],
}
WITH = Runs(
    "momentum and decay",
    TASK,
    MODEL,
    {**CAPACITY, "models.momentum": 0.9, "models.weight_decay": 1e-5},
)
WITHOUT = Runs(
    "neither", TASK, MODEL, {**CAPACITY, "models.momentum": 0.0, "models.weight_decay": 0.0}
)
LARGE = Runs(
    "ten thousand by Adam",
    TASK,
    MODEL,
    {
        **COMMON,
        "tasks.experiments": ["capacity"],
        "tasks.trials": 1,
        # The smaller number is what validation has: the larger one takes too long to be made twice.
        "tasks.capacities": [200, TEN_THOUSAND],
        "models.optimizer": "adam",
        "models.tokens": True,
        "models.lr": USUAL,
        "models.batch_size": 256,
        "models.check_every": 20,
    },
)
LARGE_STEPS = {preset: {"models.steps": 200} for preset in LARGER}


def recall(runs: Runs) -> Measured:
    """The share of fifty sequences that comes back."""
    return items_behind(f"many_recall_{FIFTY}").of(runs)


def steady(by_rate: dict[float, Runs]) -> Rule:
    """No training diverges at any of the steps, and fifty sequences are memorised at the usual."""
    diverged = items_behind(f"many_{FIFTY}_diverged")
    rules = [
        within(diverged.of(runs, f"share diverged, {runs.label}"), high=0.25)
        for runs in by_rate.values()
    ]
    return each([*rules, within(recall(by_rate[USUAL]), 0.99)])


def better(tokens: Runs, others: dict[float, Runs]) -> Rule:
    """Tokens are recalled far more often than the others at any of their steps."""
    return each(above(recall(tokens), recall(runs), 0.3) for runs in others.values())


def held(runs: Runs) -> Measured:
    """The share of a hundred sequences that comes back."""
    return items_behind(f"capacity_recall_{HUNDRED}").of(runs)


ALL_BACK = within(items_behind(f"capacity_recall_{TEN_THOUSAND}").of(LARGE), 0.99)
CLAIMS = (
    Claim(
        "Adam avoids the trouble of training",
        "By Adam no training on fifty sequences diverges at steps over two decades, and they are "
        "memorised at the middle one.",
        steady(ADAM),
        control=Control("SGD with the same steps", steady(SGD)),
        source=f"{README}, initial tests: I probably could have avoided some of these training "
        "issues by using an optimiser like Adam",
    ),
    Claim(
        "numbers are tokens",
        "Numbers as they are do not let the network memorise random sequences: it recalls far "
        "fewer of fifty than with numbers as tokens, at any of three steps.",
        better(ADAM[USUAL], AS_NUMBERS),
        control=Control("numbers in the place of tokens", better(AS_NUMBERS[USUAL], AS_NUMBERS)),
        source=f"{README}, a tricky detail: we need to treat the numbers as token IDs",
    ),
    Claim(
        "momentum and decay help with more data",
        "With momentum and weight decay SGD memorises more of a hundred sequences than without, in "
        "as many passes at the same step.",
        above(held(WITH), held(WITHOUT), 0.1),
        control=Control("neither of them", above(held(WITHOUT), held(WITHOUT), 0.1)),
        source=f"{README}, testing capacity: momentum and weight decay in the SGD optimiser, as "
        "they help with training stability for these experiments that involve more data",
    ),
    Claim(
        "ten thousand sequences fit by Adam",
        "Trained by Adam the network holds at least 10,000 sequences.",
        once(measured(LARGE, f"{TEN_THOUSAND:,} sequences", "laptop"), ALL_BACK),
        source=f"{README}, testing capacity: the capacity is at least 10,000 sequences",
    ),
)

SMALL = [*ADAM.values(), *SGD.values(), *AS_NUMBERS.values(), WITH, WITHOUT]
COMPARED = [ADAM[USUAL], SGD[USUAL], AS_NUMBERS[USUAL]]
EXPERIMENT = Experiment(
    TITLE,
    README,
    CLAIMS,
    runs=[
        *over_seeds_of(SMALL, seeds=SEEDS),
        *over_seeds_of([LARGE], at=LARGE_STEPS, presets=LARGER, seeds=SEEDS),
    ],
    records=[*SMALL, LARGE],
    panels=[
        Plot(
            "recall of fifty sequences",
            Axis("step size", "log"),
            Axis(limits=(-0.03, 1.05)),
            [
                points("Adam, tokens", ADAM, f"many_recall_{FIFTY}", colour="blue"),
                points("SGD, tokens", SGD, f"many_recall_{FIFTY}", colour="vermillion"),
                points("Adam, numbers", AS_NUMBERS, f"many_recall_{FIFTY}", colour="black"),
            ],
            legend="best",
        ),
        dots_by_run(
            "recall of a hundred by SGD",
            f"capacity_recall_{HUNDRED}",
            [WITH, WITHOUT],
            Axis(limits=(-0.03, 1.05)),
        ),
    ],
    layout={"width": 10},
    variant=[
        "models.optimizer",
        "models.tokens",
        "models.lr",
        "models.momentum",
        "tasks.experiments",
        "tasks.capacities",
    ],
    control=UNTRAINED.by(stored_by_optimizer="models.steps=1"),
)
