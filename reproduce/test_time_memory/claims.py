"""What is claimed of memories at test time, and how the runs are judged."""

from __future__ import annotations

from functools import partial

from reproduce.judging.claims import Claim, Tolerance
from reproduce.test_time_memory.records import (
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
)
from reproduce.test_time_memory.tests import (
    NEWEST,
    OLDEST,
    between_old_and_new,
    exceptions,
    higher,
    memorised,
    most_fragile,
    oldest_first,
    overwritten,
    within,
)

TITANS = "Behrouz, Zhong and Mirrokni 2025, Titans (arXiv 2501.00663)"
README = 'README "Titans: Learning to memorise at test time" (github.com/suyash144/titans)'
FACTS = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538), capacity of linear memories"
OWN = "the battery of this project; what theory says of the memory"

BATTERY = (
    Claim(
        "sums cannot overwrite",
        OWN,
        "A sum of outer products, kernel regression and ridge answer a rewritten key with its "
        "old value about as often as with the new one, and keep the keys that were not rewritten.",
        Tolerance(
            "the share of new values and that of old ones lie in {low:g} to {high:g} each, their "
            "sum is at least {both:g}, and at least {kept:g} of the others are kept, with the "
            "whole 95 % interval over seeds, for each of the three",
            {"low": 0.25, "high": 0.75, "both": 0.9, "kept": 0.95},
        ),
        partial(between_old_and_new, models=(HEBB, KERNEL, RIDGE)),
    ),
    Claim(
        "the delta rule overwrites",
        OWN,
        "The delta rule and retrieval answer a rewritten key with its new value, never with the "
        "old one, and keep the keys that were not rewritten.",
        Tolerance(
            "the share of new values is at least {new:g}, that of old ones at most {stale:g}, and "
            "at least {kept:g} of the others are kept",
            {"new": 0.95, "stale": 0.05, "kept": 0.9},
        ),
        partial(overwritten, models=(DELTA, NEAREST)),
    ),
    Claim(
        "the delta rule forgets the oldest first",
        OWN,
        "After one pass the delta rule has lost the oldest pairs and holds the newest; a sum "
        "loses all ages alike.",
        Tolerance(
            "for the delta rule recall of the newest quarter is more than {gap:g} above that of "
            "the oldest; for the sum, at the largest count of the capacity curve, recall of the "
            "newest quarter is at most {loss:g}, so that there is a loss, and newest and oldest "
            "differ by at most {even:g}",
            {"gap": 0.7, "loss": 0.9, "even": 0.1},
        ),
        oldest_first,
    ),
    Claim(
        "ridge is the most fragile",
        OWN,
        "Ridge regression recalls exactly, and is the first to fail when keys are noisy.",
        Tolerance(
            "ridge recalls at least {exact:g} of the clean keys; at σ = 1 each other memory that "
            "recalls at least {clean:g} of the clean keys recalls more, by Welch's interval",
            {"exact": 0.99, "clean": 0.95},
        ),
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
        partial(memorised, experiment="one", variant=ONE),
    ),
    Claim(
        "one sequence is memorised with a smaller step",
        f"{README}, initial tests",
        "The network memorises one sequence of four numbers, with the step of the script that "
        "memorises many (1e-5).",
        Tolerance("recall is at least {low:g} over random sequences", {"low": 0.99}),
        partial(memorised, experiment="one", variant=MANY),
    ),
    Claim(
        "fifty sequences are memorised",
        f"{README}, initial tests",
        "The network memorises fifty sequences and more.",
        Tolerance("recall of 50 sequences is at least {low:g}", {"low": 0.99}),
        partial(memorised, experiment="many", variant=MANY, count=50),
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
        partial(memorised, experiment="capacity", variant=CAPACITY, count=10_000),
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
