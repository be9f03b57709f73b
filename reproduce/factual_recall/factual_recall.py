"""Factual recall: attention against MLP, facts against parameters, and learning by phases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bench.records.schema import RunRecord
from reproduce.factual_recall.figure import TITLE, draw
from reproduce.factual_recall.records import (
    DIAGRAM,
    PHASES,
    SEARCH,
    TASK,
    cell,
    described,
    fit_of,
    of_part,
    searches,
)
from reproduce.judging.claims import (
    Claim,
    Finding,
    Tolerance,
    every,
    mean_within,
    place_of,
    share_of_seeds,
)
from reproduce.judging.observations import Sample, latest, observe
from reproduce.judging.reproduction import Plan, Reproduction
from reproduce.judging.trials import missing

PAPER = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538)"
# Plateaus and what one head alone recalls differ much between seeds: three leave wide intervals.
SEEDS = {"smoke": 2, "laptop": 8, "gpu": 3, "paper": 5}
# Few seeds cannot show what holds in every seed, and a run of the phases takes seconds.
PHASE_SEEDS = SEEDS | {"gpu": 5}
# The published border: attention parameters d d_h H, and MLP parameters d m.
LEAST_ATTENTION, MLP_AT_NONE, MLP_PER_ATTENTION = 1280.0, 2300.0, -0.5


def plan(preset: str, seeds: int | None) -> Plan:
    """The diagram and the phases with several seeds, the search with one."""
    diagram = (f"tasks={TASK}", "models=fact_transformer", f"tasks.part={DIAGRAM}")
    learning = (f"tasks={TASK}", "models=one_hot_attention", f"tasks.part={PHASES}")
    counts = {diagram: seeds or SEEDS[preset], learning: seeds or PHASE_SEEDS[preset]}
    planned = [(*words, f"seed={seed}") for words, n in counts.items() for seed in range(n)]
    if preset != "smoke":
        search = (f"tasks={TASK}", "models=fact_transformer", f"tasks.part={SEARCH}")
        planned += [(*search, f"seed={seed}") for seed in range(seeds or 1)]
    return Plan(runs=tuple(planned))


def select(records: Sequence[RunRecord]) -> list[RunRecord]:
    """All runs of the task, the last made of each setting."""
    runs = [record for record in records if record.task == TASK]
    return latest(runs, key=lambda r: (r.model, r.role, r.seed, r.label, variant(r)))


def variant(record: RunRecord) -> str:
    """The part of the task and its settings."""
    return repr(sorted(record.config["tasks"].items()))


def small_diagrams(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Diagrams of 8 × 8 facts that have one head with an MLP of width 64; failed ones too."""
    runs = [r for r in of_part(records, DIAGRAM) if r.config["tasks"].get("subjects") == 8]
    return [r for r in runs if r.outcome != "ok" or cell(r, 1, 64) is not None]


def trade_off(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """64 facts: too few heads alone, more of them with an MLP, and enough heads alone."""

    def gain(record: RunRecord) -> float | None:
        alone, helped = cell(record, 1, 0), cell(record, 1, 64)
        return None if alone is None or helped is None else helped - alone

    poor, good, more = numbers["poor"], numbers["good"], numbers["more"]
    return _in_diagram(
        small_diagrams(records),
        [
            ("one head alone", partial(cell, heads=1, mlp_width=0), -math.inf, poor),
            ("an MLP of width 64 adds to it", gain, more, math.inf),
            ("two heads and that MLP", partial(cell, heads=2, mlp_width=64), good, math.inf),
            ("eight heads alone", partial(cell, heads=8, mlp_width=0), good, math.inf),
        ],
    )


def cells_as_measured(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The first form of the trade-off: single cells of the small diagram."""
    poor, good = numbers["poor"], numbers["good"]
    return _in_diagram(
        small_diagrams(records),
        [
            ("one head alone", partial(cell, heads=1, mlp_width=0), -math.inf, poor),
            ("one head, MLP of width 64", partial(cell, heads=1, mlp_width=64), good, math.inf),
            ("two heads, MLP of width 8", partial(cell, heads=2, mlp_width=8), good, math.inf),
            ("four heads alone", partial(cell, heads=4, mlp_width=0), good, math.inf),
            ("eight heads alone", partial(cell, heads=8, mlp_width=0), good, math.inf),
        ],
    )


def _in_diagram(
    runs: Sequence[RunRecord],
    asked: Sequence[tuple[str, Callable[[RunRecord], float | None], float, float]],
) -> Finding:
    """Label, number of a run, and the limits of its mean over seeds."""
    if not runs:
        return missing("diagram of 8 × 8 facts with one head and an MLP of width 64")
    return every(
        [
            partial(mean_within, observe(label, runs, value), low, high)
            for label, value, low, high in asked
        ]
    )


def border_agreement(record: RunRecord) -> float | None:
    """The share of cells that lie on the published side of the border; both axes as published."""
    cells = [
        ((a >= LEAST_ATTENTION and m >= MLP_AT_NONE + MLP_PER_ATTENTION * a), share >= 0.99)
        for a, row in zip(
            record.arrays["attention_parameters"], record.arrays["accuracy"], strict=True
        )
        for m, share in zip(record.arrays["mlp_parameters"], row, strict=True)
    ]
    return sum(expected == found for expected, found in cells) / len(cells) if cells else None


def border(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Do the cells of the published diagram lie where they should?"""
    runs = [
        r
        for r in of_part(records, DIAGRAM)
        if r.config["tasks"].get("subjects") == 32 and r.config["tasks"].get("relations") == 32
    ]
    if not runs:
        return missing("diagram of 32 × 32 facts (presets gpu and paper)")
    data = observe("share of cells on the published side", runs, border_agreement)
    return mean_within(data, numbers["share"], math.inf)


def slope(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Facts for each parameter, fitted over the sizes of the search."""
    runs = searches(records)
    long = [r for r in runs if r.config["tasks"].get("steps", 0) >= numbers["steps"]]
    fit = fit_of(long)
    if fit is None:
        shorter = fit_of(runs)
        seen = f" (shorter trainings: {described(shorter, runs)})" if shorter else ""
        found = missing(f"search with trainings of {numbers['steps']:,.0f} steps")
        return Finding(found.verdict, found.evidence + seen, found.seeds)
    verdict = place_of(fit.interval, numbers["low"], numbers["high"])
    seeds = len({run.seed for run in long})
    return Finding(verdict, f"facts for each parameter {described(fit, long)}", seeds)


def phases(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """A long stretch at ln D with the relation known, and all facts known at the end; by seed."""
    runs = of_part(records, PHASES)
    if not runs:
        return missing("run of the phases")

    def metric(record: RunRecord, name: str) -> float | None:
        return record.metrics.get("test", {}).get(name)

    asked = (
        ("plateau_steps", f"plateau of at least {numbers['steps']:g} steps", numbers["steps"]),
        ("accuracy", f"accuracy {numbers['accuracy']:g} at the end", numbers["accuracy"]),
    )
    tests = []
    for name, label, least in asked:
        known = [value for run in runs if (value := metric(run, name)) is not None]
        seen = f"{label} (lowest {min(known):g})" if known else label

        def reached(record: RunRecord, name: str = name, least: float = least) -> float | None:
            value = metric(record, name)
            return None if value is None else float(value >= least)

        tests.append(_in_every_seed(observe(seen, runs, reached)))
    return every(tests)


def _in_every_seed(found: Sample) -> Callable[[float], Finding]:
    return lambda level: share_of_seeds(found, 1.0, level=level)


def curves(records: Sequence[RunRecord]) -> dict[str, Any]:
    """What the figure shows, by part and run."""
    return {
        part: {
            run.run_id: {
                "arrays": run.arrays,
                "metrics": run.metrics.get("test", {}),
                "curves": {name: {"x": c.x, "y": c.y} for name, c in run.curves.items()},
            }
            for run in of_part(records, part)
            if run.outcome == "ok"
        }
        for part in (DIAGRAM, SEARCH, PHASES)
    }


REPRODUCTION = Reproduction(
    title=TITLE,
    source=f"{PAPER}, factual recall task",
    plan=plan,
    select=select,
    variant=variant,
    draw=draw,
    curves=curves,
    claims=(
        Claim(
            "attention or MLP, 64 facts",
            f"{PAPER}, factual recall; small version of this project",
            "Facts can be stored in either: one head alone recalls few, a wide MLP makes up for "
            "heads, and many heads need no MLP.",
            Tolerance(
                "accuracy of one head alone at most {poor:g}, an MLP of width 64 adds at least "
                "{more:g} to it, and two heads with that MLP as well as eight heads alone reach at "
                "least {good:g}; each with its whole 95 % interval over seeds (a qualitative form, "
                "set after the first numbers had been seen)",
                {"poor": 0.6, "more": 0.2, "good": 0.97},
            ),
            trade_off,
        ),
        Claim(
            "cells of the small diagram, 64 facts",
            f"small version of this project after {PAPER}, first measured with one seed",
            "One head alone is not enough; one head with an MLP of width 64, two heads with one of "
            "width 8, and four or eight heads alone recall all facts.",
            Tolerance(
                "accuracy of one head alone at most {poor:g}; of each of the other four cells at "
                "least {good:g}; each with its whole 95 % interval over seeds; contradicted if one "
                "interval, corrected for their number, lies on the other side",
                {"poor": 0.6, "good": 0.97},
            ),
            cells_as_measured,
        ),
        Claim(
            "border of the diagram, 1024 facts",
            f"{PAPER}, phase diagram",
            "All facts are recalled where attention has 1280 parameters (d d_h H) and the MLP "
            "(d m) 2300 minus half of those of attention.",
            Tolerance(
                "at least {share:.0%} of the cells of the published grid lie on that side of the "
                "border, with the whole 95 % interval over seeds",
                {"share": 0.9},
            ),
            border,
        ),
        Claim(
            "facts for each parameter",
            f"{PAPER}, facts against parameters",
            "The number of facts grows as 0.15 times the number of parameters, whatever the shares "
            "of attention and MLP.",
            Tolerance(
                "with trainings of at least {steps:g} steps, the slope of facts = slope × "
                "parameters (least squares through the origin, over all sizes and seeds) is "
                "between {low:g} and {high:g} with the whole 95 % interval of the regression",
                {"steps": 16384, "low": 0.1, "high": 0.2},
            ),
            slope,
        ),
        Claim(
            "relations before facts",
            f"{PAPER}, sequential learning and hallucination",
            "Linear attention first learns which answers a relation has, stays there while it "
            "guesses among them, and only then learns the facts.",
            Tolerance(
                "relation accuracy above 0.99, accuracy below 0.2 and loss within 0.05 of ln 8 for "
                "at least {steps:g} steps on end, and accuracy {accuracy:g} at the end, both in "
                "every seed, of which there are enough that a share below one half is excluded "
                "(95 %); contradicted by one seed without",
                {"steps": 800, "accuracy": 1},
            ),
            phases,
        ),
    ),
)
