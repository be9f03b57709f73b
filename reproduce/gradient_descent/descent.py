"""The claims about paths of descent: margins, oscillations, step sizes, over-optimisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from bench.ground.statistics import CHANGE, REAL, Kind, mean_of
from bench.records.schema import RunRecord
from reproduce.gradient_descent.runs import DYNAMICS, PATHS, SCALING_LAWS
from reproduce.judging.claims import UNDECIDED, Claim, Finding
from reproduce.judging.grammar import Records, Rule, above, each, told, within
from reproduce.judging.trials import drawn, fact, finished, over_trials, paired, pooled, settled

CORRELATED = 0.95
UNEQUAL, EQUAL = 0.75, 0.5  # frequencies of the first of two tokens
ONE_LARGE_STEP = 30.0
FLOATS = ("float64", "float32")
SIZES, STEPS = (3, 5, 10), (3, 10, 20)
CROWD = 30
MOMENTS = (150, 1000)  # steps at which schedules are shown beside the mean


class Path(NamedTuple):
    """One path of two tokens; no seed enters it."""

    overlap: float
    p: float
    lr: float
    first_perfect: int | None
    perfect_from: int | None
    highest_loss: float
    increases: int


def measured(records: Records) -> list[RunRecord]:
    """Runs with a result."""
    return finished(PATHS.of(records))


def paths(
    overlap: float, p: float = UNEQUAL, dtype: str = FLOATS[0]
) -> Callable[[Records], list[Path]]:
    """Reads the paths of this overlap and frequency, by step."""

    def read(records: Records) -> list[Path]:
        rows = (r.arrays.get(f"two_tokens/{dtype}", []) for r in measured(records)[:1])
        own = [Path(*row) for every in rows for row in every if row[:2] == [overlap, p]]
        return sorted(own, key=lambda path: path.lr)

    return read


def margins_follow(found: Sequence[RunRecord], distance: float) -> Finding:
    """The largest distance from the law at the checkpoints."""
    metrics = found[0].metrics["test"]
    steps = max(int(name.rpartition("=")[2]) for name in metrics if name.startswith("margin/"))
    gap = metrics["margin_gap"]
    text = f"largest distance from ln(2 lr p t) at t = 100 to {steps:,} {gap:.3f}"
    return settled(gap <= distance, text)


def never_rises(found: Sequence[Path], increases: float) -> Finding:
    """No rise of the loss, whatever the step."""
    evidence = ", ".join(f"{path.increases} with step {path.lr:g}" for path in found)
    calm = all(path.increases <= increases for path in found)
    return settled(calm, f"rises of the loss: {evidence}")


def large_steps_rise(
    found: Sequence[Path], increases: float, large: float, small: float
) -> Finding:
    """Large steps raise the loss many times, small ones never."""
    text = "rises of the loss: " + ", ".join(
        f"{path.increases} with step {path.lr:g} (highest loss {path.highest_loss:.2f})"
        for path in found
    )
    calm = [path.increases == 0 for path in found if path.lr <= small]
    wild = [path.increases >= increases for path in found if path.lr >= large]
    return settled(all(calm + wild), text) if calm and wild else Finding(UNDECIDED, text, 1)


def equal_tokens(records: Records) -> dict[str, Path]:
    """The path of equally frequent tokens by precision, of which float64 must be there."""
    found = {
        dtype: path
        for dtype in FLOATS
        for path in paths(CORRELATED, EQUAL, dtype)(records)
        if path.lr == ONE_LARGE_STEP
    }
    return found if FLOATS[0] in found else {}


def equal_tokens_oscillate(
    found: dict[str, Path], increases: float, loss: float, distance: float, lasting: float
) -> Finding:
    """Judged in float64; what it is in float32 is said."""
    evidence = "; ".join(
        f"in {dtype} {path.increases} rises, highest loss {path.highest_loss:.2f}, both right "
        f"from step {path.perfect_from} on"
        for dtype, path in found.items()
    )
    path = found[FLOATS[0]]
    counted = path.increases == increases and path.perfect_from == lasting
    return settled(counted and abs(path.highest_loss - loss) < distance, evidence)


def large_steps_are_sooner(found: Sequence[Path], ratio: float) -> Finding:
    """The step from which on both answers stay right falls with the learning rate."""
    text = "first perfect step (from which on all are): " + ", ".join(
        f"{path.first_perfect} ({path.perfect_from}) with step {path.lr:g}" for path in found
    )
    if len(found) < 2:
        return Finding(UNDECIDED, text, 1)
    lasting = [math.inf if path.perfect_from is None else path.perfect_from for path in found]
    falls = all(later <= ratio * sooner < math.inf for sooner, later in pairwise(lasting))
    return settled(falls, text)


def descent_forgets(found: Sequence[RunRecord], rise: float) -> Finding:
    """A run whose loss falls and whose error rises; how many do is said."""
    record = found[0]
    loss, error, fewest = (
        record.curves[f"forgetting/{name}"].y for name in ("loss", "error", "fewest errors")
    )
    text = (
        f"the run of {record.config['tasks']['draws']} with the largest rise: cross-entropy "
        f"{loss[0]:.3f} to {loss[-1]:.3f}, error {error[0]:.3f} to {error[-1]:.3f} (fewest "
        f"possible {fewest[0]:.3f}); the loss falls and the error rises in "
        f"{record.metrics['test']['forgetting']:.1%} of the runs"
    )
    return settled(loss[-1] < loss[0] and error[-1] - error[0] > rise, text)


def of_five(records: Records, what: str, size: int, lr: int) -> list[float]:
    """Of every random embedding of five tokens."""
    return pooled(measured(records), f"{what}/d={size},lr={lr}")


def rises_of_five(records: Records) -> Iterator[Rule]:
    """Paired over embeddings: more rises with larger steps in three dimensions; and, over
    independent embeddings of other sizes, no more of them with more dimensions."""
    for small, large in pairwise(STEPS):
        both = (of_five(records, "increases", SIZES[0], lr) for lr in (large, small))
        label = f"rises at d = {SIZES[0]}, step {large} minus step {small}"
        yield within(paired(label, both), low=0.0)
    last = STEPS[-1]
    first, *others = (
        drawn(f"rises at d = {size}, step {last}", of_five(records, "increases", size, last))
        for size in SIZES
    )
    yield from (above(first, other) for other in others)


def five_are_sooner(records: Records) -> Iterator[Rule]:
    """Paired over embeddings of five and ten dimensions, where all answers become right."""
    for size in SIZES[1:]:
        for small, large in pairwise(STEPS):
            both = (of_five(records, "first_perfect", size, lr) for lr in (small, large))
            label = f"steps to perfect answers at d = {size}, step {small} minus step {large}"
            yield within(paired(label, both), low=0.0)


def decreasing_wins(other: str, what: str, kind: Kind) -> Rule:
    """Paired over trials: mean after the decrease, of the decreasing step minus a constant one."""
    both = ("decreasing", other)

    def rules(records: Records) -> Iterator[Rule]:
        late = (pooled(measured(records), f"late_{what}/{name}") for name in both)
        label = f"{what} after the decrease, decreasing step minus {other} step"
        yield within(paired(label, late, kind), high=0.0)

    def moments(records: Records) -> str:
        found = measured(records)
        said = []
        for step in MOMENTS if found else ():
            a, b = (_mean_at(found, f"{what}/{name}", step) for name in both)
            said.append(f"{a:.3f} and {b:.3f} after {step:,} steps")
        return f"; their means {', '.join(said)}"

    text = (
        "N = 10, d = 5, α = 1.5, batch 1, 1,000 steps, from step 10 to 0.3 after 100 steps: over "
        "random seeds, paired, the whole 95 % interval of the difference (mean over steps 101 to "
        "1,000) is below zero"
    )
    return over_trials(told(each(rules, text), after=moments), PATHS.of, "comparison of step sizes")


def _mean_at(records: Records, name: str, step: int) -> float:
    curves = [record.curves[name] for record in records]
    return mean_of([curve.y[curve.x.index(step)] for curve in curves])


def excess(records: Records) -> Iterator[Rule]:
    """The error at the lowest loss above the fewest possible errors."""
    label = f"error at the lowest loss minus the lowest error, {CROWD} tokens in two dimensions"
    yield within(drawn(label, pooled(measured(records), f"excess/N={CROWD}"), CHANGE), low=0.0)


STEP_SIZES = f"{SCALING_LAWS}, experiment on step sizes"
EMBEDDINGS = (
    "with the whole 95 % intervals over embeddings; contradicted if one interval, corrected for "
    "their number, lies on the other side"
)

CLAIMS = (
    Claim(
        "logarithmic growth of margins",
        f"{DYNAMICS}, orthogonal embeddings",
        "With orthogonal embeddings the margin of x approaches ln(2 lr p(x) t).",
        fact(
            "at 100, 1,000 and 10,000 steps (as far as the preset goes) each margin is within "
            "{distance:g} of it; without random numbers one value is exact",
            "path of two tokens",
            measured,
            margins_follow,
            distance=0.05,
        ),
    ),
    Claim(
        "orthogonal tokens never oscillate",
        f"{DYNAMICS}, orthogonal embeddings",
        "With orthogonal embeddings the loss falls whatever the step.",
        fact(
            "two orthogonal tokens, p = 0.75: at most {increases:g} rises of the loss at every "
            "step of the preset",
            "pair of orthogonal tokens",
            paths(0.0),
            never_rises,
            increases=0,
        ),
    ),
    Claim(
        "correlated tokens oscillate",
        f"{DYNAMICS}, two particles",
        "Correlated embeddings of unequal frequency make large steps oscillate.",
        fact(
            "overlap 0.95, p = 0.75: at least {increases:g} rises of the loss with steps from "
            "{large:g} on, none with steps up to {small:g}",
            f"pair of tokens with overlap {CORRELATED}",
            paths(CORRELATED),
            large_steps_rise,
            increases=3,
            large=10,
            small=3,
        ),
    ),
    Claim(
        "equally frequent correlated tokens oscillate",
        f"small version of this project after {DYNAMICS}, two particles, measured first by another "
        "implementation",
        "With one large step, correlated tokens oscillate even if they are equally frequent.",
        fact(
            f"overlap 0.95, p = 0.5, step {ONE_LARGE_STEP:g}, in float64: {{increases:g}} rises of "
            "the loss, the highest within {distance:g} of {loss:g}, and both answers right from "
            "step {lasting:g} on",
            f"pair of equally frequent tokens with step {ONE_LARGE_STEP:g}",
            equal_tokens,
            equal_tokens_oscillate,
            increases=10,
            loss=8.87,
            distance=0.01,
            lasting=26,
        ),
    ),
    Claim(
        "large steps are sooner right",
        f"{DYNAMICS}, two particles",
        "Large steps reach perfect accuracy sooner, in spite of the spikes of the loss.",
        fact(
            "overlap 0.95, p = 0.75: from each step of the preset to the next larger one, the "
            "time from which on both answers are right falls at least by the factor {ratio:g}",
            f"pair of tokens with overlap {CORRELATED}",
            paths(CORRELATED),
            large_steps_are_sooner,
            ratio=0.9,
        ),
    ),
    Claim(
        "oscillations of five tokens",
        f"{DYNAMICS}, random embeddings",
        "Oscillations grow with the step and vanish with more dimensions.",
        over_trials(each(rises_of_five), PATHS.of, "path of five tokens"),
        "the mean number of rises of the loss in 99 steps grows from each step to the next "
        "(3, 10, 20) at d = 3, and at step 20 is larger at d = 3 than at d = 5 and 10, by more "
        f"than 0 {EMBEDDINGS}",
    ),
    Claim(
        "five tokens are learned sooner with large steps",
        f"{DYNAMICS}, random embeddings",
        "The time to perfect accuracy falls with the step.",
        over_trials(each(five_are_sooner), PATHS.of, "path of five tokens"),
        "at d = 5 and 10 the first perfect step falls from each step to the next (3, 10, 20) by "
        f"more than 0, {EMBEDDINGS}",
    ),
    Claim(
        "smaller late steps against a small step",
        STEP_SIZES,
        "Where d ≤ N, a step that is decreased leaves fewer errors than a small step throughout.",
        decreasing_wins("small", "error", CHANGE),
    ),
    Claim(
        "smaller late steps against a large step",
        STEP_SIZES,
        "Where d ≤ N, a step that is decreased leaves fewer errors than a large step throughout.",
        decreasing_wins("large", "error", CHANGE),
    ),
    Claim(
        "smaller late steps against a large step, by the loss",
        STEP_SIZES,
        "Where d ≤ N, a step that is decreased has a lower cross-entropy than a large step "
        "throughout.",
        decreasing_wins("large", "loss", REAL),
    ),
    Claim(
        "the lowest loss is not the fewest errors",
        f"{DYNAMICS}, limited capacity",
        "A memory too small for its tokens memorises less at the lowest cross-entropy than it "
        "could.",
        over_trials(each(excess), PATHS.of, "lowest loss"),
        "the mean excess of errors is above 0, with the whole 95 % interval over random tokens",
    ),
    Claim(
        "over-optimisation",
        f"{DYNAMICS}, limited capacity",
        "Descent on the cross-entropy can forget: the loss falls while the error rises.",
        fact(
            "there is a run (N = 10, d = 2, α = 2, batch 10, step 0.1, 1,000 steps) whose loss is "
            "lower at its end and whose error is higher by more than {rise:g}",
            "over-optimised run",
            measured,
            descent_forgets,
            rise=0.01,
        ),
    ),
)
