"""How associations are learned by gradient descent: measured paths, and their claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from bench.records.schema import RunRecord
from reproduce.gradient_descent.optimiser_grid import PAPER as SCALING_LAWS
from reproduce.judging.claims import (
    CONTRADICTED,
    REPRODUCED,
    Claim,
    Finding,
    Tolerance,
    difference_above,
    every,
    mean_within,
)
from reproduce.judging.trials import exact, in_seeds, missing, pooled, sample

PAPER = (
    "Cabannes, Simsek and Bietti 2024, Learning associative memories with gradient descent "
    "(arXiv 2402.18724)"
)
WORDS = ("tasks=training_dynamics", "models=matrix")
CORRELATED = 0.95
UNEQUAL, EQUAL = 0.75, 0.5  # frequencies of the first of two tokens
FLOATS = ("float64", "float32")
SIZES, STEPS = (3, 5, 10), (3, 10, 20)
CROWD = 30
MOMENTS = (150, 1000)  # steps at which schedules are shown beside the mean


def runs(seeds: int | None) -> tuple[tuple[str, ...], ...]:
    """Words of every run."""
    return tuple((*WORDS, f"seed={seed}") for seed in range(seeds or 1))


def of_descent(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The finished measurements, by seed; without those of a time when the task had another map."""
    found = [r for r in records if r.task == "training_dynamics" and r.outcome == "ok"]
    return sorted((r for r in found if "map_axes" in r.arrays), key=lambda record: record.seed)


Row = dict[str, Any]


COLUMNS = ("overlap", "p", "lr", "first_perfect", "perfect_from", "highest_loss", "increases")


def two_tokens(records: Sequence[RunRecord], dtype: str = "float64") -> list[Row]:
    """Paths of two tokens, by overlap, frequency of the first and step; no seed enters them."""
    for record in of_descent(records):
        rows = record.arrays.get(f"two_tokens/{dtype}", [])
        return [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    return []


def _paths(rows: Sequence[Row], overlap: float, p: float = UNEQUAL) -> list[Row]:
    own = (row for row in rows if row["overlap"] == overlap and row["p"] == p)
    return sorted(own, key=lambda row: row["lr"])


def margins_follow(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The largest distance from the law at the checkpoints."""
    found = of_descent(records)
    if not found:
        return missing("path of two tokens", records)
    metrics = found[0].metrics["test"]
    steps = max(int(name.rpartition("=")[2]) for name in metrics if name.startswith("margin/"))
    label = f"largest distance from ln(2 lr p t) at t = 100 to {steps:,}"
    return mean_within(exact(label, metrics["margin_gap"]), -1.0, numbers["distance"])


def orthogonal_tokens_are_calm(
    records: Sequence[RunRecord], numbers: Mapping[str, float]
) -> Finding:
    """No rise of the loss without overlap, whatever the step."""
    rows = _paths(two_tokens(records), 0.0)
    if not rows:
        return missing("pair of orthogonal tokens", records)
    evidence = ", ".join(f"{row['increases']} with step {row['lr']:g}" for row in rows)
    calm = all(row["increases"] <= numbers["increases"] for row in rows)
    return Finding(REPRODUCED if calm else CONTRADICTED, f"rises of the loss: {evidence}", 1)


def correlated_tokens_oscillate(
    records: Sequence[RunRecord], numbers: Mapping[str, float]
) -> Finding:
    """Large steps raise the loss many times, small ones never."""
    rows = _paths(two_tokens(records), CORRELATED)
    small = [row for row in rows if row["lr"] <= numbers["small"]]
    large = [row for row in rows if row["lr"] >= numbers["large"]]
    if not small or not large:
        return missing(f"pair of tokens with overlap {CORRELATED} and both steps", records)
    evidence = ", ".join(
        f"{row['increases']} with step {row['lr']:g} (highest loss {row['highest_loss']:.2f})"
        for row in rows
    )
    holds = all(row["increases"] == 0 for row in small) and all(
        row["increases"] >= numbers["increases"] for row in large
    )
    return Finding(REPRODUCED if holds else CONTRADICTED, f"rises of the loss: {evidence}", 1)


def equal_tokens_oscillate(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """One path of equally frequent tokens, judged in float64; what it is in float32 is said."""
    found = {
        dtype: row
        for dtype in FLOATS
        for row in _paths(two_tokens(records, dtype), CORRELATED, EQUAL)
        if row["lr"] == numbers["lr"]
    }
    if FLOATS[0] not in found:
        return missing(f"pair of equally frequent tokens with step {numbers['lr']:g}", records)
    evidence = "; ".join(
        f"in {dtype} {row['increases']} rises, highest loss {row['highest_loss']:.2f}, both right "
        f"from step {row['perfect_from']} on"
        for dtype, row in found.items()
    )
    row = found[FLOATS[0]]
    holds = (
        row["increases"] == numbers["increases"]
        and row["perfect_from"] == numbers["lasting"]
        and abs(row["highest_loss"] - numbers["loss"]) < numbers["distance"]
    )
    return Finding(REPRODUCED if holds else CONTRADICTED, evidence, 1)


def large_steps_are_sooner(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The step from which on both answers stay right falls with the learning rate."""
    rows = _paths(two_tokens(records), CORRELATED)
    if len(rows) < 2:
        return missing(f"pair of tokens with overlap {CORRELATED} and two steps", records)
    evidence = ", ".join(
        f"{row['first_perfect']} ({row['perfect_from']}) with step {row['lr']:g}" for row in rows
    )
    lasting = [row["perfect_from"] for row in rows]
    known = [step for step in lasting if step is not None]
    holds = len(known) == len(lasting) and all(
        later <= numbers["ratio"] * sooner for sooner, later in pairwise(known)
    )
    text = f"first perfect step (from which on all are): {evidence}"
    return Finding(REPRODUCED if holds else CONTRADICTED, text, 1)


def _increases(records: Sequence[RunRecord], size: int, lr: int) -> list[float]:
    return pooled(of_descent(records), f"increases/d={size},lr={lr}")


def rises_by_step_and_size(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Paired over embeddings: more rises with larger steps in three dimensions; and, over
    independent embeddings of other sizes, no more of them with more dimensions."""
    if not of_descent(records):
        return missing("path of five tokens", records)
    tests = []
    for small, large in pairwise(STEPS):
        a, b = (_increases(records, SIZES[0], lr) for lr in (large, small))
        label = f"rises at d = {SIZES[0]}, step {large} minus step {small}"
        found = sample(label, [x - y for x, y in zip(a, b, strict=True)])
        tests.append(partial(mean_within, found, numbers["more"], math.inf))
    first, *others = (
        sample(f"rises at d = {size}, step {STEPS[-1]}", _increases(records, size, STEPS[-1]))
        for size in SIZES
    )
    tests += [partial(difference_above, first, other, numbers["more"]) for other in others]
    return in_seeds(every(tests), of_descent(records))


def perfect_sooner(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Paired over embeddings of five and ten dimensions, where all answers become right."""
    if not of_descent(records):
        return missing("path of five tokens", records)
    tests = []
    for size in SIZES[1:]:
        for small, large in pairwise(STEPS):
            a, b = (
                pooled(of_descent(records), f"first_perfect/d={size},lr={lr}")
                for lr in (small, large)
            )
            pairs = [(x, y) for x, y in zip(a, b, strict=True) if None not in (x, y)]
            label = f"steps to perfect answers at d = {size}, step {small} minus step {large}"
            found = sample(label, [x - y for x, y in pairs])
            tests.append(partial(mean_within, found, numbers["sooner"], math.inf))
    return in_seeds(every(tests), of_descent(records))


def decreasing_step_wins(
    records: Sequence[RunRecord], numbers: Mapping[str, float], other: str, what: str
) -> Finding:
    """Paired over trials: mean after the decrease, of the decreasing step minus a constant one."""
    found = of_descent(records)
    if not found:
        return missing("comparison of step sizes", records)
    a, b = (pooled(found, f"late_{what}/{name}") for name in ("decreasing", other))
    label = f"{what} after the decrease, decreasing step minus {other} step"
    finding = mean_within(
        sample(label, [x - y for x, y in zip(a, b, strict=True)]), -math.inf, -numbers["margin"]
    )
    moments = []
    for step in MOMENTS:
        means = [_mean_at(found, f"{what}/{name}", step) for name in ("decreasing", other)]
        moments.append(f"{means[0]:.3f} and {means[1]:.3f} after {step:,} steps")
    evidence = f"{finding.evidence}; their means {', '.join(moments)}"
    return in_seeds(replace(finding, evidence=evidence), found)


def _mean_at(records: Sequence[RunRecord], name: str, step: int) -> float:
    found = [record.curves[name] for record in records]
    return math.fsum(curve.y[curve.x.index(step)] for curve in found) / len(found)


def lowest_loss_is_not_best(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The error at the lowest loss above the fewest possible errors."""
    found = of_descent(records)
    if not found:
        return missing("lowest loss", records)
    excess = sample(
        f"error at the lowest loss minus the lowest error, {CROWD} tokens in two dimensions",
        pooled(found, f"excess/N={CROWD}"),
    )
    return in_seeds(mean_within(excess, numbers["above"]), found)


def descent_forgets(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """A run whose loss falls and whose error rises; how many do is said."""
    found = of_descent(records)
    if not found:
        return missing("over-optimised run", records)
    record = found[0]
    loss, error = (record.curves[f"forgetting/{name}"].y for name in ("loss", "error"))
    fewest = record.curves["forgetting/fewest errors"].y[0]
    share = record.metrics["test"]["forgetting"]
    text = (
        f"the run of {record.config['tasks']['draws']} with the largest rise: cross-entropy "
        f"{loss[0]:.3f} to {loss[-1]:.3f}, error {error[0]:.3f} to {error[-1]:.3f} (fewest "
        f"possible {fewest:.3f}); the loss falls and the error rises in {share:.1%} of the runs"
    )
    holds = loss[-1] < loss[0] and error[-1] - error[0] > numbers["rise"]
    return Finding(REPRODUCED if holds else CONTRADICTED, text, 1)


AFTER = (
    "N = 10, d = 5, α = 1.5, batch 1, 1,000 steps, from step 10 to 0.3 after 100 steps: over "
    "random seeds, paired, the whole 95 % interval of the difference (mean over steps 101 to "
    "1,000) is below zero"
)
STEP_SIZES = f"{SCALING_LAWS}, experiment on step sizes"

CLAIMS = (
    Claim(
        "logarithmic growth of margins",
        f"{PAPER}, orthogonal embeddings",
        "With orthogonal embeddings the margin of x approaches ln(2 lr p(x) t).",
        Tolerance(
            "at 100, 1,000 and 10,000 steps (as far as the preset goes) each margin is within "
            "{distance:g} of it; without random numbers one value is exact",
            {"distance": 0.05},
        ),
        margins_follow,
    ),
    Claim(
        "orthogonal tokens never oscillate",
        f"{PAPER}, orthogonal embeddings",
        "With orthogonal embeddings the loss falls whatever the step.",
        Tolerance(
            "two orthogonal tokens, p = 0.75: at most {increases:g} rises of the loss at every "
            "step of the preset",
            {"increases": 0},
        ),
        orthogonal_tokens_are_calm,
    ),
    Claim(
        "correlated tokens oscillate",
        f"{PAPER}, two particles",
        "Correlated embeddings of unequal frequency make large steps oscillate.",
        Tolerance(
            "overlap 0.95, p = 0.75: at least {increases:g} rises of the loss with steps from "
            "{large:g} on, none with steps up to {small:g}",
            {"increases": 3, "large": 10, "small": 3},
        ),
        correlated_tokens_oscillate,
    ),
    Claim(
        "equally frequent correlated tokens oscillate",
        f"small version of this project after {PAPER}, two particles, measured first by another "
        "implementation",
        "With one large step, correlated tokens oscillate even if they are equally frequent.",
        Tolerance(
            "overlap 0.95, p = 0.5, step {lr:g}, in float64: {increases:g} rises of the loss, the "
            "highest within {distance:g} of {loss:g}, and both answers right from step "
            "{lasting:g} on",
            {"lr": 30, "increases": 10, "loss": 8.87, "distance": 0.01, "lasting": 26},
        ),
        equal_tokens_oscillate,
    ),
    Claim(
        "large steps are sooner right",
        f"{PAPER}, two particles",
        "Large steps reach perfect accuracy sooner, in spite of the spikes of the loss.",
        Tolerance(
            "overlap 0.95, p = 0.75: from each step of the preset to the next larger one, the "
            "time from which on both answers are right falls at least by the factor {ratio:g}",
            {"ratio": 0.9},
        ),
        large_steps_are_sooner,
    ),
    Claim(
        "oscillations of five tokens",
        f"{PAPER}, random embeddings",
        "Oscillations grow with the step and vanish with more dimensions.",
        Tolerance(
            "the mean number of rises of the loss in 99 steps grows from each step to the next "
            "(3, 10, 20) at d = 3, and at step 20 is larger at d = 3 than at d = 5 and 10, by "
            "more than {more:g} with the whole 95 % intervals over embeddings; contradicted "
            "if one interval, corrected for their number, lies on the other side",
            {"more": 0.0},
        ),
        rises_by_step_and_size,
    ),
    Claim(
        "five tokens are learned sooner with large steps",
        f"{PAPER}, random embeddings",
        "The time to perfect accuracy falls with the step.",
        Tolerance(
            "at d = 5 and 10 the first perfect step falls from each step to the next (3, 10, 20) "
            "by more than {sooner:g}, with the whole 95 % intervals over embeddings; contradicted "
            "if one interval, corrected for their number, lies on the other side",
            {"sooner": 0.0},
        ),
        perfect_sooner,
    ),
    Claim(
        "smaller late steps against a small step",
        STEP_SIZES,
        "Where d ≤ N, a step that is decreased leaves fewer errors than a small step throughout.",
        Tolerance(AFTER, {"margin": 0.0}),
        partial(decreasing_step_wins, other="small", what="error"),
    ),
    Claim(
        "smaller late steps against a large step",
        STEP_SIZES,
        "Where d ≤ N, a step that is decreased leaves fewer errors than a large step throughout.",
        Tolerance(AFTER, {"margin": 0.0}),
        partial(decreasing_step_wins, other="large", what="error"),
    ),
    Claim(
        "smaller late steps against a large step, by the loss",
        STEP_SIZES,
        "Where d ≤ N, a step that is decreased has a lower cross-entropy than a large step "
        "throughout.",
        Tolerance(AFTER, {"margin": 0.0}),
        partial(decreasing_step_wins, other="large", what="loss"),
    ),
    Claim(
        "the lowest loss is not the fewest errors",
        f"{PAPER}, limited capacity",
        "A memory too small for its tokens memorises less at the lowest cross-entropy than it "
        "could.",
        Tolerance(
            "the mean excess of errors is above {above:g}, with the whole 95 % interval over "
            "random tokens",
            {"above": 0.0},
        ),
        lowest_loss_is_not_best,
    ),
    Claim(
        "over-optimisation",
        f"{PAPER}, limited capacity",
        "Descent on the cross-entropy can forget: the loss falls while the error rises.",
        Tolerance(
            "there is a run (N = 10, d = 2, α = 2, batch 10, step 0.1, 1,000 steps) whose loss is "
            "lower at its end and whose error is higher by more than {rise:g}",
            {"rise": 0.01},
        ),
        descent_forgets,
    ),
)
