"""Kernel regression: does β = √n make a memory's answers approach the conditional mean?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from core.statistics import ERROR, mean_interval
from reproduce.claims.claims import Claim
from reproduce.claims.controls import NOTHING_TRAINED, Control
from reproduce.claims.grammar import Records, Rule, Runs, each, measured, once, within
from reproduce.claims.trials import drawn, over_trials, paired, pooled
from reproduce.drawing.traces import over_draws
from reproduce.experiment import Experiment, OverSeeds, over_seeds_of
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Trace

TITLE = "Kernel regression with more and more pairs, by dimension and by bandwidth"
MOSAICS = "Zhang et al. 2025, Memory Mosaics (arXiv 2405.06394), section 3, footnote 1"
SECOND = "Zhang et al. 2025, Memory Mosaics at scale (arXiv 2507.03285)"
TASK = "kernel_regression"
DIMENSIONS = (1, 3, 6)
FEWEST = 64  # pairs, at which every rule below has the same bandwidth, 1/4
# The memory's kernel is exp(−β/2 |k − k'|²), the paper's exp(−β |k − k'|²): twice the β.
ROOT = {"models.kernel": "gaussian", "models.beta": 0.0, "models.growth": 2.0}
RULES = {
    "β = √n": {**ROOT, "models.exponent": 0.5},
    "β = 8": {**ROOT, "models.exponent": 0.0, "models.growth": 16.0},
    "β ∝ n^(1/5)": {**ROOT, "models.exponent": 0.2, "models.growth": 16.0 / FEWEST**0.2},
}
BY_ROOT, CONSTANT, SLOWER = RULES
COLOURS = {BY_ROOT: "green", CONSTANT: "grey", SLOWER: "blue"}
NEAREST = "the nearest pair"


def of(rule: str, dimension: int) -> Runs:
    """The runs of a bandwidth, or of the nearest neighbour."""
    model = "nearest_neighbour" if rule == NEAREST else "kernel"
    settings = {"tasks.dimension": dimension, **RULES.get(rule, {})}
    return Runs(f"{rule}, d = {dimension}", TASK, model, settings)


SEEDS = 3
# Where the error hardly falls any more in the end, three left an interval across the border.
MORE_SEEDS = {(BY_ROOT, 6): {"smoke": 3, "laptop": 8, "gpu": 3, "paper": 3}}
PLANNED: list[OverSeeds] = []
for dimension in DIMENSIONS:
    for rule in (*RULES, NEAREST):
        seeds = MORE_SEEDS.get((rule, dimension), SEEDS)
        PLANNED += over_seeds_of([of(rule, dimension)], seeds=seeds)


def counts(records: Records) -> list[int]:
    """Numbers of pairs that were measured."""
    return list(records[0].config["tasks"]["pairs"]) if records else []


def errors(records: Records, runs: Runs) -> dict[int, list[float]]:
    """n -> the errors of all trials of all seeds."""
    finished = runs.finished(records)
    return {n: pooled(finished, f"errors/n={n}") for n in counts(finished)}


# What is claimed

STILL = 0.8  # of the error is left, or less, wherever there are four times the pairs
LAST, FIRST = 16384, FEWEST


def converges(rule: str, dimension: int) -> Rule:
    """The error falls at every step of the number of pairs, four times as many each."""
    runs = of(rule, dimension)

    def rules(records: Records) -> list[Rule]:
        columns = errors(records, runs)
        if not {FIRST, LAST} <= {*columns}:
            return []
        falls = []
        for less, more in zip(list(columns), list(columns)[1:], strict=False):
            logarithms = (list(map(math.log, columns[more])), list(map(math.log, columns[less])))
            label = f"ln error at n = {more:,} minus that at {less:,}, {runs.label},"
            falls.append(within(paired(label, logarithms), high=math.log(STILL)))
        return falls

    text = (
        f"{runs.label}: at each n from 256 to {LAST:,} the error is at most {STILL:g} times that "
        "at a quarter of n: the mean difference of logarithms, trial by trial, with its whole 95 % "
        "interval"
    )
    judged = over_trials(each(rules, text), runs.of, f"errors at n from {FIRST} to {LAST:,}")
    return once(measured(runs, runs.label, "laptop"), judged)


def small(dimension: int, high: float) -> Rule:
    """What is left at the most pairs."""
    runs = of(BY_ROOT, dimension)

    def rules(records: Records) -> list[Rule]:
        at_last = errors(records, runs).get(LAST, [])
        return [within(drawn(f"error at n = {LAST:,}, {runs.label},", at_last, ERROR), high=high)]

    text = f"{runs.label}: the error at n = {LAST:,} is at most {high:g} with its whole interval"
    return over_trials(each(rules, text), runs.of, f"errors at n = {LAST:,}")


def kept(dimension: int) -> Control:
    """A bandwidth that stays leaves a bias that no pair removes."""
    return Control("the bandwidth of 64 pairs, kept,", converges(CONSTANT, dimension))


ROOT_CONVERGES = (
    "With β = √n, Gaussian kernel regression converges to the conditional mean as pairs are "
    "added: keys of {} number{}."
)
CLAIMS = [
    Claim(
        f"β = √n converges, d = {dimension}",
        ROOT_CONVERGES.format(dimension, "" if dimension == 1 else "s"),
        converges(BY_ROOT, dimension),
        source=MOSAICS,
        control=kept(dimension),
    )
    for dimension in DIMENSIONS
]
CLAIMS += [
    Claim(
        "little is left with √n, d = 1",
        "With keys of one number and 16,384 pairs the error is a hundredth of the variance.",
        small(1, 0.01),
        source=f"our reading of {MOSAICS}: the limit is the conditional mean",
        control=Control(
            NEAREST,
            each(
                lambda records: [
                    within(
                        drawn(NEAREST, errors(records, of(NEAREST, 1)).get(LAST, []), ERROR),
                        high=0.01,
                    )
                ],
                "the nearest pair in its place",
            ),
        ),
    ),
    Claim(
        "a bandwidth by dimension converges, d = 6",
        "With 1/√β ∝ n^(−1/(d+4)), as the second Mosaic has it, keys of six numbers converge too.",
        converges(SLOWER, 6),
        source=f"{SECOND}, adaptive bandwidth",
        control=kept(6),
    ),
]


# How it is drawn


def picture(records: Records) -> Picture:
    """The error against the number of pairs, a panel for each dimension."""
    x, panels = Axis("pairs n", "log2"), []
    for dimension in DIMENSIONS:
        traces = _traces(records, dimension)
        panels.append(
            Panel(f"keys of {dimension}", x, Axis("squared error", "log"), traces, legend="best")
        )
    return Picture(TITLE, [PanelRow(panels, 3.8)], width=13)


def _traces(records: Records, dimension: int) -> Sequence[Trace]:
    traces = []
    for rule in (*RULES, NEAREST):
        columns = errors(records, of(rule, dimension))
        look = COLOURS.get(rule, "orange")
        if columns:
            trace = over_draws(rule, columns, partial(mean_interval, kind=ERROR), colour=look)
            traces.append(trace)
    return traces


EXPERIMENT = Experiment(
    TITLE,
    f"{MOSAICS}; {SECOND}",
    CLAIMS,
    runs=PLANNED,
    records=[Runs("all", TASK)],
    panels=picture,
    variant=["tasks.dimension", "models.kernel", "models.growth", "models.exponent"],
    control=NOTHING_TRAINED,
)
