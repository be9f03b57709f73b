"""Linear regression in context: sequence models and memories beside least squares and descent."""

from __future__ import annotations

import math
from statistics import fmean

from bench.config.config import group_file
from reproduce.claims.claims import Claim
from reproduce.claims.controls import Control
from reproduce.claims.grammar import (
    Number,
    Records,
    Rule,
    Runs,
    above,
    any_of,
    once,
    provided,
    trained_for,
    within,
)
from reproduce.drawing.traces import curve_over_seeds, dots
from reproduce.plotting.models import label
from reproduce.plotting.panels import Axis, Panel, Picture, Row, Trace
from reproduce.reproduction import Plan, Reproduction

TITLE = "In-context regression: linear functions learned from the pairs of one sequence"
GARG = "Garg et al. 2022, What can transformers learn in-context? (arXiv 2208.01066)"
TASK, BY_MEMORIES = "in_context_regression", "in_context_regression_memories"
COMPARED = {TASK: "sequence models", BY_MEMORIES: "memories, as they are"}


def plan(preset: str, seeds: int | None) -> Plan:
    """A sweep over the sequence models, every memory as it is, and the predictors."""
    memories = group_file("tasks", BY_MEMORIES)["sweep"]["models"]
    words = [(f"tasks={BY_MEMORIES}", f"models={name}") for name in memories]
    runs = tuple((*one, f"seed={seed}") for one in words for seed in range(seeds or 3))
    return Plan(runs, ((f"tasks={TASK}", "models=gpt2"),), ((f"tasks={TASK}",),))


def of(model: str) -> Runs:
    """The runs of a sequence model or of a memory."""
    return Runs(label(model), model=model)


def panels(records: Records) -> Picture:
    """Error by pairs, of sequence models and of memories, and how far all are from ridge."""
    x, y = Axis("pairs seen"), Axis("squared error", limits=(-0.03, 1.4))
    by_pairs = [Panel(title, x, y, _curves(records, task)) for task, title in COMPARED.items()]
    return Picture(TITLE, [Row(by_pairs), _distances(records)], width=13, legend="below")


def _distances(records: Records) -> Row:
    """From ridge, of sequence models and of memories, the nearest above."""
    panels = []
    for task, title in COMPARED.items():
        models = {r.model for r in records if r.task == task and r.role != "baseline"}
        every = {model: of(model).of(records) for model in models}
        every = dict(sorted(every.items(), key=lambda one: (_distance(one[1]), one[0])))
        x = Axis(categories=[label(model) for model in every])
        y = Axis("mean squared distance from ridge", limits=(-0.03, 1.05))
        panels.append(Panel(title, x, y, dots(every, "from_ridge"), sideways=True))
    tall = max(1.2, *(0.8 + 0.26 * len(panel.x.categories) for panel in panels))
    return Row(panels, height=tall)


def _distance(runs: Records) -> float:
    """The mean over seeds; infinite where every run failed."""
    found = [run.metrics["test"]["from_ridge"] for run in runs if run.outcome == "ok"]
    return fmean(found) if found else math.inf


def _curves(records: Records, task: str) -> list[Trace]:
    """Those of all models of a task, and of the predictors."""
    runs = [record for record in records if record.task == task and record.role != "baseline"]
    known = [(r.label, r.curves["error_by_pairs"]) for r in records if r.role == "baseline"]
    lines = [Trace(n, one.x, one.y, role="theory", end=n, legend="") for n, one in known]
    for name in sorted({run.model for run in runs}):
        found = of(name).of(runs)
        lines.append(curve_over_seeds(label(name), found, "error_by_pairs", colour=name))
    return lines


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

SELECTED = any_of(lambda r: r.task in (TASK, BY_MEMORIES) and r.role not in ("trial", "control"))
REPRODUCTION = Reproduction(TITLE, GARG, plan, SELECTED, CLAIMS, panels)
