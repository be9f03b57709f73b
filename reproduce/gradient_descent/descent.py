"""The claims about paths of descent: margins, oscillations, step sizes, over-optimisation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from bench.records.schema import RunRecord
from core.statistics import CHANGE, COUNT, REAL, Kind, mean_of
from reproduce.claims.claims import Claim
from reproduce.claims.controls import Control
from reproduce.claims.grammar import Drawn, Records, Rule, above, each, told, within
from reproduce.claims.trials import drawn, exact, fact, over_trials, paired, pooled, settled
from reproduce.claims.verdicts import Finding
from reproduce.gradient_descent.runs import DYNAMICS, PATHS, SCALING_LAWS

CORRELATED = 0.95
UNEQUAL, EQUAL = 0.75, 0.5  # frequencies of the first of two tokens
DISTANCE = 0.05  # of margins from their law
CHECKED_FROM = 100  # steps, since the law is about late ones
SMALL, LARGE, RISES = 3, 10, 3  # steps without a rise of the loss, and steps with so many
SOONER = 0.9  # the factor by which a larger step is sooner right
# Of equally frequent tokens, as another implementation measured them.
ONE_LARGE_STEP, ITS_RISES, ITS_LOSS, RIGHT_FROM = 30, 10, 8.87, 26
SIZES, STEPS = (3, 5, 10), (3, 10, 20)
# Embeddings of five tokens, by what is said of them.
FITTING = {"at d = 5": "d=5", "at d = 10": "d=10"}
ORTHOGONAL = {"of orthogonal tokens": "orthogonal"}
CROWD, PAIR = 30, 2  # tokens in two dimensions
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


measured = PATHS.finished


def paths(
    records: Records, overlap: float, p: float = UNEQUAL, dtype: str = "float64"
) -> list[Path]:
    """The paths of gradient descent at this overlap and frequency, by step."""
    chosen = []
    for record in measured(records)[:1]:
        for row in record.arrays.get(f"two_tokens/{dtype}", []):
            if row[:2] == [overlap, p]:
                chosen.append(Path(*row))
    return sorted(chosen, key=lambda path: path.lr)


def margins_follow(records: Records) -> Iterator[Rule]:
    """The largest distance from the law at the checkpoints."""
    for record in measured(records)[:1]:
        metrics = record.metrics["test"]
        steps = max(int(name.rpartition("=")[2]) for name in metrics if name.startswith("margin/"))
        label = f"largest distance from ln(2 lr p t) at t = 100 to {steps:,}"
        yield within(exact(label, metrics["margin_gap"]), high=DISTANCE)


def margins_follow_another(records: Records) -> Iterator[Rule]:
    """The distance from the law of the other token, whose frequency is another, at those steps."""
    for record in measured(records)[:1]:
        gaps = []
        for token in (0, 1):
            curves = f"margin/token={token}", f"law/token={1 - token}"
            gaps += [abs(margin - law) for margin, law in _late(record, *curves)]
        yield within(exact("largest distance from the other's law", max(gaps)), high=DISTANCE)


def _late(record: RunRecord, *names: str) -> Iterator[tuple[float, ...]]:
    """What curves over the same steps are at those of the law."""
    curves = [record.curves[name] for name in names]
    for step, *values in zip(curves[0].x, *(curve.y for curve in curves), strict=True):
        if step >= CHECKED_FROM:
            yield tuple(values)


def rises(path: Path) -> Drawn:
    """How often the loss rises on a path, which its highest value explains."""
    label = f"rises of the loss with step {path.lr:g} (highest {path.highest_loss:.2f})"
    return exact(label, path.increases, COUNT)


def tokens_are_calm(records: Records, overlap: float = 0.0) -> Iterator[Rule]:
    """No rise of the loss without overlap, whatever the step."""
    return (within(rises(path), high=0) for path in paths(records, overlap))


def tokens_oscillate(records: Records, overlap: float = CORRELATED) -> Iterator[Rule]:
    """Large steps raise the loss many times, small ones never."""
    by_step = paths(records, overlap)
    small = [within(rises(path), high=0) for path in by_step if path.lr <= SMALL]
    large = [within(rises(path), low=RISES) for path in by_step if path.lr >= LARGE]
    yield from small + large if small and large else []


def equal_tokens_oscillate(records: Records, overlap: float = CORRELATED) -> Iterator[Rule]:
    """One path of equally frequent tokens, in float64."""
    for path in paths(records, overlap, EQUAL):
        if path.lr == ONE_LARGE_STEP:
            lasting = math.inf if path.perfect_from is None else path.perfect_from
            yield within(rises(path), ITS_RISES, ITS_RISES)
            yield within(exact("highest loss", path.highest_loss), ITS_LOSS - 0.01, ITS_LOSS + 0.01)
            always = exact("first step from which on both are right", lasting, COUNT)
            yield within(always, RIGHT_FROM, RIGHT_FROM)


def in_single_precision(records: Records) -> str:
    """What the same path is where rounding is larger."""
    same_path = [p for p in paths(records, CORRELATED, EQUAL, "float32") if p.lr == ONE_LARGE_STEP]
    return "".join(
        f"; in float32 {path.increases} rises, highest loss {path.highest_loss:.2f}, both right "
        f"from step {path.perfect_from} on"
        for path in same_path
    )


def large_steps_are_sooner(records: Records, overlap: float = CORRELATED) -> Iterator[Rule]:
    """The step from which on both answers stay right falls with the learning rate."""
    for small, large in pairwise(paths(records, overlap)):
        late, soon = small.perfect_from, large.perfect_from
        ratio = math.inf if late is None or soon is None else soon / late
        label = (
            f"first perfect step (from which on all are) {small.first_perfect} ({late}) with step "
            f"{small.lr:g} and {large.first_perfect} ({soon}) with step {large.lr:g}: ratio"
        )
        yield within(exact(label, ratio), high=SOONER)


def over_optimised(part: str, setting: str) -> Rule:
    """There is a run whose loss falls and whose error rises; how many do is said.

    Args:
        part: the name of the metric, and of the curves of the run with the largest rise.
        setting: of the runs, for the rule's text.
    """

    def with_part(records: Records) -> Records:
        return [record for record in measured(records)[:1] if f"{part}/loss" in record.curves]

    def judge(runs: Records, rise: float) -> Finding:
        [record] = runs
        loss, error, fewest = (
            record.curves[f"{part}/{name}"].y for name in ("loss", "error", "fewest errors")
        )
        text = (
            f"the run of {record.config['tasks']['draws']} with the largest rise: cross-entropy "
            f"{loss[0]:.3f} to {loss[-1]:.3f}, error {error[0]:.3f} to {error[-1]:.3f} (fewest "
            f"possible {fewest[0]:.3f}); the loss falls and the error rises in "
            f"{record.metrics['test'][part]:.1%} of the runs"
        )
        return settled(loss[-1] < loss[0] and error[-1] - error[0] > rise, text)

    text = f"there is a run ({setting}) whose loss is lower at its end and whose error is higher "
    return fact(text + "by more than {rise:g}", "over-optimised run", with_part, judge, rise=0.01)


def of_five(records: Records, quantity: str, where: str, lr: int) -> list[float]:
    """A number of every random embedding of five tokens."""
    return pooled(measured(records), f"{quantity}/{where},lr={lr}")


def rises_of_five(records: Records, sizes: Sequence[int] = SIZES) -> Iterator[Rule]:
    """Paired over embeddings: more rises with larger steps in the first number of dimensions; and,
    over independent embeddings of the other sizes, fewer of them than there."""
    for small, large in pairwise(STEPS):
        pair = (of_five(records, "increases", f"d={sizes[0]}", lr) for lr in (large, small))
        label = f"rises at d = {sizes[0]}, step {large} minus step {small}"
        yield within(paired(label, pair), low=0.0)
    last = STEPS[-1]
    first, *others = (
        drawn(f"rises at d = {size}, step {last}", of_five(records, "increases", f"d={size}", last))
        for size in sizes
    )
    yield from (above(first, other) for other in others)


def five_are_sooner(records: Records, embeddings: Mapping[str, str] = FITTING) -> Iterator[Rule]:
    """Paired over the embeddings of each kind, all of whose answers become right."""
    for label, where in embeddings.items():
        for small, large in pairwise(STEPS):
            pair = (of_five(records, "first_perfect", where, lr) for lr in (small, large))
            difference = f"steps to perfect answers {label}, step {small} minus step {large}"
            yield within(paired(difference, pair), low=0.0)


def lower_late(
    records: Records, quantity: str, kind: Kind, schedule: str = "decreasing"
) -> Iterator[Rule]:
    """Paired over trials: mean after the decrease, of one schedule minus the large step."""
    late = (pooled(measured(records), f"late_{quantity}/{name}") for name in (schedule, "large"))
    label = f"{quantity} after the decrease, {schedule} step minus large step"
    yield within(paired(label, late, kind), high=0.0)


def decreasing_wins(quantity: str, kind: Kind) -> Rule:
    """The decreasing step against a large one throughout."""

    def moments(records: Records) -> str:
        runs = measured(records)
        clauses = []
        for step in MOMENTS if runs else ():
            a, b = (_mean_at(runs, f"{quantity}/{name}", step) for name in ("decreasing", "large"))
            clauses.append(f"{a:.3f} and {b:.3f} after {step:,} steps")
        return f"; their means {', '.join(clauses)}"

    text = (
        "N = 10, d = 5, α = 1.5, batch 1, 1,000 steps, from step 10 to 0.3 after 100 steps: over "
        "random seeds, paired, the whole 95 % interval of the difference (mean over steps 101 to "
        "1,000) is below zero"
    )
    rules = partial(lower_late, quantity=quantity, kind=kind)
    return over_trials(told(each(rules, text), after=moments), PATHS.of, "comparison of step sizes")


def _mean_at(records: Records, name: str, step: int) -> float:
    curves = [record.curves[name] for record in records]
    return mean_of([curve.y[curve.x.index(step)] for curve in curves])


def excess(records: Records, tokens: int = CROWD) -> Iterator[Rule]:
    """The error at the lowest loss above the fewest possible errors."""
    label = f"error at the lowest loss minus the lowest error, {tokens} tokens in two dimensions"
    yield within(drawn(label, pooled(measured(records), f"excess/N={tokens}"), CHANGE), low=0.0)


OWN_VERSION = (
    f"small version of this project after {DYNAMICS}, two particles, measured first by another "
    "implementation"
)
EMBEDDINGS = (
    "with the whole 95 % intervals over embeddings; contradicted if one interval, corrected for "
    "their number, lies on the other side"
)


def _small_in_place(quantity: str, kind: Kind) -> Control:
    """The control of a claim that a step which is decreased does better than a large one."""
    rules = partial(lower_late, quantity=quantity, kind=kind, schedule="small")
    return Control("a small step throughout in the place of the decreasing one", each(rules))


# What claims about paths compare are points of a training, before which there is nothing; so a
# control is another path, another law or other tokens.
CLAIMS = (
    Claim(
        "logarithmic growth of margins",
        "With orthogonal embeddings the margin of x approaches ln(2 lr p(x) t).",
        over_trials(each(margins_follow), measured, "path of two tokens"),
        "at 100, 1,000 and 10,000 steps (as far as the preset goes) each margin is within "
        f"{DISTANCE:g} of it; without random numbers one value is exact",
        source=f"{DYNAMICS}, orthogonal embeddings",
        control=Control("the law of the other token", each(margins_follow_another)),
    ),
    Claim(
        "orthogonal tokens never oscillate",
        "With orthogonal embeddings the loss falls whatever the step.",
        over_trials(each(tokens_are_calm), measured, "pair of orthogonal tokens"),
        f"two orthogonal tokens, p = {UNEQUAL:g}: at most 0 rises of the loss at every step of the "
        "preset",
        source=f"{DYNAMICS}, orthogonal embeddings",
        control=Control("correlated tokens", each(partial(tokens_are_calm, overlap=CORRELATED))),
    ),
    Claim(
        "correlated tokens oscillate",
        "Correlated embeddings of unequal frequency make large steps oscillate.",
        over_trials(each(tokens_oscillate), measured, "pair of correlated tokens"),
        f"overlap {CORRELATED:g}, p = {UNEQUAL:g}: at least {RISES} rises of the loss with steps "
        f"from {LARGE} on, none with steps up to {SMALL}",
        source=f"{DYNAMICS}, two particles",
        control=Control("orthogonal tokens", each(partial(tokens_oscillate, overlap=0.0))),
    ),
    Claim(
        "equally frequent correlated tokens oscillate",
        "With one large step, correlated tokens oscillate even if they are equally frequent.",
        over_trials(
            told(each(equal_tokens_oscillate), after=in_single_precision),
            measured,
            "pair of equally frequent tokens",
        ),
        f"overlap {CORRELATED:g}, p = {EQUAL:g}, step {ONE_LARGE_STEP}, in float64: {ITS_RISES} "
        f"rises of the loss, the highest within 0.01 of {ITS_LOSS:g}, and both answers right from "
        f"step {RIGHT_FROM} on",
        source=OWN_VERSION,
        control=Control("orthogonal tokens", each(partial(equal_tokens_oscillate, overlap=0.0))),
    ),
    Claim(
        "large steps are sooner right",
        "Large steps reach perfect accuracy sooner, in spite of the spikes of the loss.",
        over_trials(each(large_steps_are_sooner), measured, "pair of correlated tokens"),
        f"overlap {CORRELATED:g}, p = {UNEQUAL:g}: from each step of the preset to the next larger "
        "one, the time from which on both answers are right falls at least by the factor "
        f"{SOONER:g}",
        source=f"{DYNAMICS}, two particles",
        control=Control("orthogonal tokens", each(partial(large_steps_are_sooner, overlap=0.0))),
    ),
    Claim(
        "oscillations of five tokens",
        "Oscillations grow with the step and vanish with more dimensions.",
        over_trials(each(rises_of_five), PATHS.of, "path of five tokens"),
        "the mean number of rises of the loss in 99 steps grows from each step to the next "
        "(3, 10, 20) at d = 3, and at step 20 is larger at d = 3 than at d = 5 and 10, by more "
        f"than 0 {EMBEDDINGS}",
        source=f"{DYNAMICS}, random embeddings",
        control=Control(
            "the growth with the step in ten dimensions",
            each(partial(rises_of_five, sizes=SIZES[-1:])),
        ),
    ),
    Claim(
        "five tokens are learned sooner with large steps",
        "The time to perfect accuracy falls with the step.",
        over_trials(each(five_are_sooner), PATHS.of, "path of five tokens"),
        "at d = 5 and 10 the first perfect step falls from each step to the next (3, 10, 20) by "
        f"more than 0, {EMBEDDINGS}",
        source=f"{DYNAMICS}, random embeddings",
        control=Control(
            "five orthogonal tokens", each(partial(five_are_sooner, embeddings=ORTHOGONAL))
        ),
    ),
    *(
        Claim(
            f"smaller late steps against a large step{by}",
            f"Where d ≤ N, a step that is decreased {leaves} than a large step throughout.",
            decreasing_wins(quantity, kind),
            source=f"{SCALING_LAWS}, experiment on step sizes",
            control=_small_in_place(quantity, kind),
        )
        for quantity, kind, by, leaves in (
            ("error", CHANGE, "", "leaves fewer errors"),
            ("loss", REAL, ", by the loss", "has a lower cross-entropy"),
        )
    ),
    Claim(
        "the lowest loss is not the fewest errors",
        "A memory too small for its tokens memorises less at the lowest cross-entropy than it "
        "could.",
        over_trials(each(excess), PATHS.of, "lowest loss"),
        "the mean excess of errors is above 0, with the whole 95 % interval over random tokens",
        source=f"{DYNAMICS}, limited capacity",
        control=Control(
            "two tokens, for which two dimensions are enough", each(partial(excess, tokens=PAIR))
        ),
    ),
    Claim(
        "over-optimisation",
        "Descent on the cross-entropy can forget: the loss falls while the error rises.",
        over_optimised("forgetting", "N = 10, d = 2, α = 2, batch 10, step 0.1, 1,000 steps"),
        source=f"{DYNAMICS}, limited capacity",
        control=Control(
            "orthogonal tokens in ten dimensions",
            over_optimised("forgetting_orthogonal", "N = 10, d = 10, orthogonal"),
        ),
    ),
)
