"""What is claimed of memories at test time, and how the runs are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from bench.claims import Claim, Finding, Tolerance, difference_above, every, mean_within
from bench.records import RunRecord
from reproduce.titans_records import (
    CAPACITY,
    DECAY,
    DELTA,
    FORGETTING,
    HEBB,
    INTEGERS,
    KERNEL,
    LARGE_STEP,
    LINEAR,
    MANY,
    MOMENTUM,
    NEAREST,
    NEURAL,
    NO_DECAY,
    NO_REPLAY,
    NUMBERS,
    ONE,
    RIDGE,
    STREAM,
    STREAM_ALONE,
    TEXT,
    TRAINED,
    WEIGHTS,
    sample,
)

TITANS = "Behrouz, Zhong and Mirrokni 2025, Titans (arXiv 2501.00663)"
README = 'README "Titans: Learning to memorise at test time" (github.com/suyash144/titans)'
FACTS = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538), capacity of linear memories"
OWN = "the battery of this project; what theory says of the memory"

Case = tuple[str, str, str]  # memory, setting, metric


def within(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    models: Sequence[str],
    metric: str,
    variants: Sequence[str] = ("",),
    bounds: tuple[float, float] = (-1.0, 1.0),
) -> Finding:
    """The mean of a metric lies between "low" and "high" for each of the memories and settings."""
    low, high = numbers.get("low", float("-inf")), numbers.get("high", float("inf"))
    return every(
        [
            partial(mean_within, sample(records, m, metric, variant, bounds), low, high)
            for m in models
            for variant in variants
        ]
    )


def oldest_first(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """The delta rule has the newest quarter and not the oldest; the sum forgets alike."""
    newest = sample(records, DELTA, "recall_newest_quarter")
    oldest = sample(records, DELTA, "recall_oldest_quarter")
    both = [sample(records, HEBB, f"recall_{age}_quarter") for age in ("newest", "oldest")]
    return every(
        [
            partial(difference_above, newest, oldest, numbers["gap"]),
            partial(difference_above, both[1], both[0], -numbers["even"]),
        ]
    )


def most_fragile(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """With noisy keys ridge recalls less than each other memory that recalls clean keys."""
    del numbers
    ridge = sample(records, RIDGE, "recall_noise_1")
    others = (HEBB, DELTA, KERNEL, NEAREST, LINEAR, NEURAL)
    return every(
        [
            partial(difference_above, sample(records, name, "recall_noise_1"), ridge, 0.0)
            for name in others
        ]
    )


def higher(
    records: Sequence[RunRecord],
    numbers: Mapping[str, float],
    pairs: Sequence[tuple[Case, Case]],
) -> Finding:
    """Of each pair the first number is more than "margin" above the second."""
    tests = []
    for better, worse in pairs:
        a, b = (
            sample(records, model, metric, variant, (-1.0, 1.0))
            for model, variant, metric in (better, worse)
        )
        tests.append(partial(difference_above, a, b, numbers["margin"]))
    return every(tests)


def exceptions(records: Sequence[RunRecord], numbers: Mapping[str, float]) -> Finding:
    """Retrieval and kernel regression recall what breaks a pattern, and never answer the rule."""
    tests = []
    for model in (NEAREST, KERNEL):
        recalled = sample(records, model, "exceptions_recalled", NUMBERS)
        ruled = sample(records, model, "exceptions_answered_by_rule", NUMBERS)
        tests += [
            partial(mean_within, recalled, numbers["low"], float("inf")),
            partial(mean_within, ruled, float("-inf"), numbers["rule"]),
        ]
    return every(tests)


NEWEST, OLDEST = "recall_newest_quarter", "recall_oldest_quarter"

BATTERY = (
    Claim(
        "sums cannot overwrite",
        OWN,
        "A sum of outer products, kernel regression and ridge answer a rewritten key with its "
        "old value about as often as with the new one.",
        Tolerance(
            "the share of new values lies in {low:g} to {high:g} for each, with its whole 95 % "
            "interval over seeds",
            {"low": 0.25, "high": 0.75},
        ),
        partial(within, models=(HEBB, KERNEL, RIDGE), metric="overwrite_new"),
    ),
    Claim(
        "the delta rule overwrites",
        OWN,
        "The delta rule and retrieval answer a rewritten key with its new value.",
        Tolerance("the share of new values is at least {low:g}", {"low": 0.95}),
        partial(within, models=(DELTA, NEAREST), metric="overwrite_new"),
    ),
    Claim(
        "the delta rule forgets the oldest first",
        OWN,
        "After one pass the delta rule has lost the oldest pairs and holds the newest; a sum "
        "loses all ages alike.",
        Tolerance(
            "recall of the newest quarter is more than {gap:g} above that of the oldest for "
            "the delta rule; for the sum the oldest is at most {even:g} below the newest",
            {"gap": 0.4, "even": 0.1},
        ),
        oldest_first,
    ),
    Claim(
        "ridge is the most fragile",
        OWN,
        "Ridge regression recalls exactly, and is the first to fail when keys are noisy.",
        Tolerance("at σ = 1 each other memory recalls more, by Welch's interval"),
        most_fragile,
    ),
    Claim(
        "similarity knows the unseen",
        OWN,
        "The similarity of query and key tells seen from unseen keys.",
        Tolerance("the area under the curve is at least {low:g}", {"low": 0.95}),
        partial(within, models=(KERNEL, NEAREST), metric="auroc"),
    ),
    Claim(
        "matrices hold in proportion to their size",
        FACTS,
        "A sum of outer products and a trained matrix hold about as many items as they have "
        "entries, up to logarithms: N ~ d².",
        Tolerance(
            "the slope of log items at a recall of 0.99 on log numbers kept is within {low:g} to "
            "{high:g}",
            {"low": 0.75, "high": 1.25},
        ),
        partial(
            within,
            models=(HEBB, TRAINED),
            metric="slope_items_by_numbers",
            bounds=(float("-inf"), float("inf")),
        ),
    ),
    Claim(
        "momentum and random writes",
        OWN,
        "On writes without order a large momentum lowers the recall of the linear neural "
        "memory: gradients of the past are added to keys of today.",
        Tolerance(
            "recall at momentum 0.5 is more than {margin:g} above that at 0.9", {"margin": 0.1}
        ),
        partial(higher, pairs=[((LINEAR, "", "recall"), (LINEAR, MOMENTUM, "recall"))]),
    ),
    Claim(
        "forgetting gives up the old",
        f"{TITANS}, equations 13 and 14",
        "Decay of the weights erases the oldest pairs.",
        Tolerance(
            "recall of the oldest quarter without decay is more than {margin:g} above that "
            "with a decay of 0.02 a step",
            {"margin": 0.0},
        ),
        partial(higher, pairs=[((LINEAR, NO_DECAY, OLDEST), (LINEAR, DECAY, OLDEST))]),
    ),
    Claim(
        "forgetting gains for the new",
        f"{TITANS}, equations 13 and 14",
        "Decay of the weights leaves room for the newest pairs: the other half of the trade.",
        Tolerance(
            "recall of the newest quarter with a decay of 0.02 a step is more than {margin:g} "
            "above that without decay",
            {"margin": 0.0},
        ),
        partial(higher, pairs=[((LINEAR, DECAY, NEWEST), (LINEAR, NO_DECAY, NEWEST))]),
    ),
    Claim(
        "weights forget without replay",
        README,
        "A memory in the weights of a perceptron recalls a first batch significantly less once "
        "it was trained on others.",
        Tolerance(
            "backward transfer with replay of all is more than {margin:g} above that without",
            {"margin": 0.3},
        ),
        partial(
            higher,
            pairs=[((WEIGHTS, "", "backward_transfer"), (WEIGHTS, NO_REPLAY, "backward_transfer"))],
        ),
    ),
)

ROWS = (
    Claim(
        "retrieval is the reference",
        f"{README}, next steps: comparison with retrieval",
        "Retrieval by the nearest key recalls all that was written, of every material.",
        Tolerance("recall is at least {low:g} of each material", {"low": 0.99}),
        partial(within, models=(NEAREST,), metric="recall", variants=("", NUMBERS, TEXT, INTEGERS)),
    ),
    Claim(
        "the latest value is tracked",
        f"{README}, next steps: memory tracking",
        "Where a key gets new values again and again, retrieval and the delta rule answer with the "
        "latest.",
        Tolerance("the latest value is found at least {low:g} of the time", {"low": 0.95}),
        partial(within, models=(NEAREST, DELTA), metric="tracking_latest", variants=("", NUMBERS)),
    ),
    Claim(
        "time stamps stand in for overwriting",
        f"{README}, next steps: memory tracking",
        "Kernel regression and ridge, which mix old and new, find the latest value once each key "
        "is written with its time.",
        Tolerance(
            "the latest value is found more than {margin:g} more often with time stamps than "
            "without",
            {"margin": 0.3},
        ),
        partial(
            higher,
            pairs=[
                ((name, "", "tracking_stamped"), (name, "", "tracking_latest"))
                for name in (KERNEL, RIDGE)
            ],
        ),
    ),
    Claim(
        "what breaks a pattern is recalled",
        f"{README}, next steps: tricky examples",
        "Retrieval and kernel regression recall sequences that break a pattern as they were, and "
        "do not answer what the pattern would say.",
        Tolerance(
            "at least {low:g} of the exceptions are recalled, and at most {rule:g} answered by "
            "the rule",
            {"low": 0.95, "rule": 0.05},
        ),
        exceptions,
    ),
)

EXPERIMENTS = (
    Claim(
        "one sequence is memorised",
        f"{README}, initial tests",
        "The network memorises one sequence of four numbers, with the step of its script (5e-4).",
        Tolerance("recall is at least {low:g} over random sequences", {"low": 0.99}),
        partial(within, models=(WEIGHTS,), metric="one_recall", variants=(ONE,)),
    ),
    Claim(
        "one sequence is memorised with a smaller step",
        f"{README}, initial tests",
        "The network memorises one sequence of four numbers, with the step of the script that "
        "memorises many (1e-5).",
        Tolerance("recall is at least {low:g} over random sequences", {"low": 0.99}),
        partial(within, models=(WEIGHTS,), metric="one_recall", variants=(MANY,)),
    ),
    Claim(
        "fifty sequences are memorised",
        f"{README}, initial tests",
        "The network memorises fifty sequences and more.",
        Tolerance("recall of 50 sequences is at least {low:g}", {"low": 0.99}),
        partial(within, models=(WEIGHTS,), metric="many_recall_50", variants=(MANY,)),
    ),
    Claim(
        "gradients explode",
        f"{README}, initial tests",
        "Exploding gradients are a common issue of memorising many sequences.",
        Tolerance(
            "with ten times the step at least {low:g} of the trainings on 50 sequences diverge",
            {"low": 0.5},
        ),
        partial(within, models=(WEIGHTS,), metric="many_50_diverged", variants=(LARGE_STEP,)),
    ),
    Claim(
        "a stream needs replay",
        f"{README}, testing forgetting",
        "In a stream of memorising and asking, training again on everything seen is crucial for "
        "good recall.",
        Tolerance(
            "recall in the stream is more than {margin:g} above that without replay",
            {"margin": 0.3},
        ),
        partial(
            higher,
            pairs=[((WEIGHTS, STREAM, "stream_recall"), (WEIGHTS, STREAM_ALONE, "stream_recall"))],
        ),
    ),
    Claim(
        "ten thousand sequences fit",
        f"{README}, testing capacity",
        "The network of 11,337 weights holds at least 10,000 sequences.",
        Tolerance("recall of 10,000 sequences is at least {low:g}", {"low": 0.99}),
        partial(within, models=(WEIGHTS,), metric="capacity_recall_10000", variants=(CAPACITY,)),
    ),
    Claim(
        "a second batch drives out the first",
        f"{README}, testing forgetting",
        "Trained on one batch and then on another, without replay, the network recalls the first "
        "significantly less than the second.",
        Tolerance(
            "recall of the second batch is more than {margin:g} above that of the first",
            {"margin": 0.3},
        ),
        partial(
            higher,
            pairs=[
                (
                    (WEIGHTS, FORGETTING, "forgetting_second_after"),
                    (WEIGHTS, FORGETTING, "forgetting_first_after"),
                )
            ],
        ),
    ),
)

CLAIMS = BATTERY + ROWS + EXPERIMENTS
