"""The claims about what gradient steps weigh, and about learned embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from bench.records.schema import RunRecord
from ground.statistics import SHARE, mean_of
from judging.claims import Claim
from judging.grammar import Records, Rule, above, each, largest_of, within
from judging.trials import drawn, exact, finished, over_trials
from reproduce.gradient_descent.runs import LEARNED, SCALING_LAWS, SCHEMES, numbered

RELEASED_CODE = f"{SCALING_LAWS}, section on optimisation, released code"
# ρ of q ~ p^ρ in the released code of the paper (repository VivienCabannes/memory-theory, commit
# 99cca43), by step.
RELEASED = {0.001: 1.0, 0.1: 0.35, 1.0: 0.05}
GAP = 0.05  # of a measured one from it


def effective_tokens(record: RunRecord) -> float:
    """How many equally frequent tokens would make an error vary as much as these: 1 / Σ p²."""
    task = record.config["tasks"]
    weights = [rank ** -task["alpha"] for rank in range(1, task["tokens"] + 1)]
    return sum(weights) ** 2 / sum(weight * weight for weight in weights)


def embeddings_hold(error: float, most: int) -> Rule:
    """The error in two dimensions at every number of classes up to a limit."""

    def parts(records: Records) -> Iterator[tuple[float, Rule]]:
        found = finished(LEARNED.of(records))
        classes = sorted(found[0].config["tasks"]["classes"]) if found else []
        for place, number in enumerate(classes):
            trials = [one for record in found for one in record.arrays["error"][place]]
            if 1 < number <= most:
                items = effective_tokens(found[0])
                at = drawn(f"error at M = {number}", trials, SHARE, items)
                yield mean_of(trials), within(at, high=error)

    text = (
        "N = 100, α = 2, Adam, embeddings and matrix trained: at every number of classes of the "
        f"preset from 2 to {most} the mean error is below {error:g}, with the whole 95 % interval "
        "over trials; contradicted if one interval, corrected for their number, lies above it"
    )
    rule = largest_of(parts, "numbers of classes", text)
    return over_trials(rule, LEARNED.of, f"training with 2 to {most} classes")


def exponents(records: Records) -> dict[float, float]:
    """The exponent of q in the count by step, which no random number enters."""
    for record in finished(SCHEMES.of(records))[:1]:
        metrics = record.metrics["test"]
        return {lr: metrics[name] for lr, name in numbered(metrics, "exponent/lr=").items()}
    return {}


def larger_steps_flatten(records: Records) -> Iterator[Rule]:
    """From each step to the next."""
    found = [exact(f"exponent with step {lr:g}", e) for lr, e in exponents(records).items()]
    return (above(small, large) for small, large in pairwise(found))


def exponents_are_released(records: Records) -> Iterator[Rule]:
    """The same exponents beside the released ones, step by step."""
    found = exponents(records)
    for lr, released in RELEASED.items():
        label = f"exponent with step {lr:g} (released {released:g})"
        value = exact(label, found[lr]) if lr in found else drawn(label, [])
        yield within(value, released - GAP, released + GAP)


CLAIMS = (
    Claim(
        "learned embeddings need no dimensions",
        "With learned embeddings two dimensions hold many classes: the error stays near zero.",
        embeddings_hold(0.05, 100),
        source=f"{SCALING_LAWS}, learned embeddings in two dimensions, released code",
    ),
    Claim(
        "larger steps on single samples flatten the weights",
        "The larger the steps of descent on single samples, the flatter the weights.",
        over_trials(each(larger_steps_flatten), SCHEMES.of, "weights of single samples"),
        "the slope of log q(c) against log c, c = 1 to 1,000, M = 10, falls by more than 0 from "
        "each step of the preset to the next; without random numbers one value is exact",
        source=RELEASED_CODE,
    ),
    Claim(
        "exponents of single samples",
        "Single samples weigh like p with step 0.001, like p^0.35 with step 0.1 and like p^0.05 "
        "with step 1.",
        over_trials(each(exponents_are_released), SCHEMES.of, "weights with every released step"),
        f"the slope of log q(c) against log c, c = 1 to 1,000, M = 10, is within {GAP:g} of the "
        "released exponent at each of these steps; without random numbers one value is exact",
        source=RELEASED_CODE,
    ),
)
