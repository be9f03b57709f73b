"""Linear regression in context: sequence models and memories beside least squares and descent."""

from __future__ import annotations

import math
from collections.abc import Callable

from bench.config.files import group_file
from reproduce.claims.claims import Claim
from reproduce.claims.controls import Control
from reproduce.claims.grammar import (
    Number,
    Records,
    Rule,
    Runs,
    above,
    once,
    provided,
    trained_for,
    within,
)
from reproduce.drawing.plots import Plot, RowOf, by_categories, curves, dots_by_run
from reproduce.drawing.traces import summary
from reproduce.experiment import Baselines, Experiment, OverSeeds, Sweep
from reproduce.plotting.models import label
from reproduce.plotting.panels import Axis, Trace

TITLE = "In-context regression: linear functions learned from the pairs of one sequence"
GARG = "Garg et al. 2022, What can transformers learn in-context? (arXiv 2208.01066)"
TASK, BY_MEMORIES = "in_context_regression", "in_context_regression_memories"
COMPARED = {TASK: "sequence models", BY_MEMORIES: "memories, as they are"}


def of(model: str) -> Runs:
    """The runs of a sequence model or of a memory."""
    return Runs(label(model), model=model)


def runs_of(task: str, nearest_first: bool = False) -> Callable[[Records], list[Runs]]:
    """Whatever was run on a task, by name or by its distance from ridge."""

    def runs(records: Records) -> list[Runs]:
        models = sorted({r.model for r in records if r.task == task and r.role != "baseline"})
        by_name = list(map(of, models))
        return (
            sorted(by_name, key=lambda run: _distance(run, records)) if nearest_first else by_name
        )

    return runs


def _distance(runs: Runs, records: Records) -> float:
    """The mean over seeds; infinite where every run failed."""
    return summary(runs.finished(records), "from_ridge").mean or math.inf


def _predictors(records: Records) -> list[Trace]:
    """The errors of ridge and of gradient steps by pairs."""
    traces = []
    for record in records:
        if record.role == "baseline":
            curve, name = record.curves["error_by_pairs"], record.label
            traces.append(Trace(name, curve.x, curve.y, role="theory", end=name, legend=""))
    return traces


PAIRS, ERROR = Axis("pairs seen"), Axis("squared error", limits=(-0.03, 1.4))
DISTANCE = Axis("mean squared distance from ridge", limits=(-0.03, 1.05))
BY_PAIRS, DISTANCES = [], []
for task, title in COMPARED.items():
    by_name, ordered = runs_of(task), runs_of(task, nearest_first=True)
    series = [_predictors, curves("error_by_pairs", by_name)]
    BY_PAIRS.append(Plot(title, PAIRS, ERROR, series))
    DISTANCES.append(dots_by_run(title, "from_ridge", ordered, DISTANCE))

END = Number("error at the end", "error_at_end")
FROM_RIDGE = Number("distance from ridge", "from_ridge")
FROM_STEP = Number("distance from a gradient step", "from_1_step")
STEP = END.of(Runs("one gradient step", TASK, baseline="1 gradient step"))


def _does_not_regress(model: str) -> Rule:
    """Further from the function than the delta rule, and nearer than who always says 0: his error
    is the variance of the values, 1, whatever he has seen."""
    at_end = END.of(of(model))
    return provided(within(at_end, high=1.0), above(at_end, END.of(of("delta_rule")), 0.2))


CLAIMS = (
    Claim(
        "attention learns from the pairs",
        "A trained transformer predicts better from the pairs than a gradient step on them does.",
        once(trained_for(3000, "laptop"), above(STEP, END.of(of("gpt2")))),
        source=f"{GARG}, figure 2",
    ),
    Claim(
        "attention is near least squares",
        "Its answers are nearer to those of ridge than to those of one gradient step.",
        once(
            trained_for(50_000, "gpu"), above(FROM_STEP.of(of("gpt2")), FROM_RIDGE.of(of("gpt2")))
        ),
        source="Akyürek et al. 2022, Investigations with linear models (arXiv 2211.15661)",
    ),
    Claim(
        "exact sums are least squares",
        "A memory that keeps the sums of ridge regression answers as the best predictor does.",
        within(FROM_RIDGE.of(of("ridge")), high=0.02),
        source="von Oswald et al. 2023, Uncovering mesa-optimization algorithms (arXiv 2309.05858)",
        control=Control("a sum", within(FROM_RIDGE.of(of("outer_product")), high=0.02)),
    ),
    Claim(
        "corrected writes beat one step",
        "The delta rule writes each pair once, and predicts better than a gradient step on all.",
        above(STEP, END.of(of("delta_rule"))),
        source="our conclusion from Strohmer and Vershynin 2009 (arXiv math/0702226)",
        control=Control("a sum", above(STEP, END.of(of("outer_product")))),
    ),
    Claim(
        "averages do not regress",
        "A kernel average of values stays further from a function that its pairs determine.",
        _does_not_regress("kernel"),
        source="our conclusion: an average of values leaves no interval that they span",
        control=Control("ridge", _does_not_regress("ridge")),
    ),
)

EXPERIMENT = Experiment(
    TITLE,
    GARG,
    CLAIMS,
    sweeps=[Sweep(TASK)],
    runs=[OverSeeds(BY_MEMORIES, group_file("tasks", BY_MEMORIES)["sweep"]["models"], seeds=3)],
    baselines=[Baselines(TASK, ["gpt2"])],
    records=[lambda r: r.task in COMPARED and r.role not in ("trial", "control")],
    panels=[BY_PAIRS, RowOf(DISTANCES, height=by_categories)],
    layout={"width": 13, "legend": "below"},
)
