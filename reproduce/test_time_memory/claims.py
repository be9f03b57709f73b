"""What is claimed of memories at test time."""

from __future__ import annotations

from judging.claims import Claim
from judging.grammar import above, each
from reproduce.test_time_memory.rules import (
    NEWEST,
    OLDEST,
    all_within,
    as_many,
    breaks_are_recalled,
    forgets_the_oldest_first,
    memorised,
    most_fragile,
    of,
    overwrites,
    sums_cannot_overwrite,
)
from reproduce.test_time_memory.runs import (
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

TITANS = "Behrouz, Zhong and Mirrokni 2025, Titans (arXiv 2501.00663)"
README = 'README "Titans: Learning to memorise at test time" (github.com/suyash144/titans)'
FACTS = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538), capacity of linear memories"
OWN = "the battery of this project; what theory says of the memory"

BATTERY = (
    Claim(
        "sums cannot overwrite",
        "A sum of outer products, kernel regression and ridge answer a rewritten key with its "
        "old value about as often as with the new one, and keep the keys that were not rewritten.",
        sums_cannot_overwrite(low=0.25, high=0.75, both=0.9, kept=0.95),
        "the share of new values and that of old ones lie in {low:g} to {high:g} each, their sum "
        "is at least {both:g}, and at least {kept:g} of the others are kept, with the whole 95 % "
        "interval, for each of the three",
        source=OWN,
    ),
    Claim(
        "the delta rule overwrites",
        "The delta rule and retrieval answer a rewritten key with its new value, never with the "
        "old one, and keep the keys that were not rewritten.",
        overwrites(new=0.95, stale=0.05, kept=0.9),
        "the share of new values is at least {new:g}, that of old ones at most {stale:g}, and at "
        "least {kept:g} of the others are kept",
        source=OWN,
    ),
    Claim(
        "the delta rule forgets the oldest first",
        "After one pass the delta rule has lost the oldest pairs and holds the newest; a sum "
        "loses all ages alike.",
        forgets_the_oldest_first(gap=0.7, loss=0.9, even=0.1),
        "for the delta rule recall of the newest quarter is more than {gap:g} above that of the "
        "oldest; for the sum, at the largest count of the capacity curve, recall of the newest "
        "quarter is at most {loss:g}, so that there is a loss, and newest and oldest differ by at "
        "most {even:g}",
        source=OWN,
    ),
    Claim(
        "ridge is the most fragile",
        "Ridge regression recalls exactly, and is the first to fail when keys are noisy.",
        most_fragile(exact=0.99, clean=0.95),
        "ridge recalls at least {exact:g} of the clean keys; at σ = 1 each other memory that "
        "recalls at least {clean:g} of the clean keys recalls more",
        source=OWN,
    ),
    Claim(
        "similarity knows the unseen",
        "The similarity of query and key tells seen from unseen keys.",
        all_within((KERNEL, NEAREST), "auroc", low=0.95),
        "the area under the curve is at least {low:g}",
        source=OWN,
    ),
    Claim(
        "matrices hold in proportion to their size",
        "A sum of outer products and a trained matrix hold about as many items as they have "
        "entries, up to logarithms: N ~ d².",
        all_within((HEBB, TRAINED), "slope_items_by_numbers", low=0.75, high=1.25),
        "the slope of log items at a recall of 0.99 on log numbers kept is within {low:g} to "
        "{high:g}",
        source=FACTS,
    ),
    Claim(
        "momentum and random writes",
        "On writes without order a large momentum lowers the recall of the linear neural "
        "memory: gradients of the past are added to keys of today.",
        above(of(LINEAR, "recall"), of(LINEAR, "recall", MOMENTUM), 0.1),
        "recall at momentum 0.5 is more than {by:g} above that at 0.9",
        source=OWN,
    ),
    Claim(
        "forgetting gives up the old",
        "Decay of the weights erases the oldest pairs.",
        above(of(LINEAR, OLDEST, NO_DECAY), of(LINEAR, OLDEST, DECAY)),
        "recall of the oldest quarter without decay is more than {by:g} above that with a decay of "
        "0.02 a step",
        source=f"{TITANS}, equations 13 and 14",
    ),
    Claim(
        "forgetting gains for the new",
        "Decay of the weights leaves room for the newest pairs: the other half of the trade.",
        above(of(LINEAR, NEWEST, DECAY), of(LINEAR, NEWEST, NO_DECAY)),
        "recall of the newest quarter with a decay of 0.02 a step is more than {by:g} above that "
        "without decay",
        source=f"{TITANS}, equations 13 and 14",
    ),
    Claim(
        "weights forget without replay",
        "A memory in the weights of a perceptron recalls a first batch significantly less once "
        "it was trained on others.",
        above(of(WEIGHTS, "backward_transfer"), of(WEIGHTS, "backward_transfer", NO_REPLAY), 0.3),
        "backward transfer with replay of all is more than {by:g} above that without",
        source=README,
    ),
)

ROWS = (
    Claim(
        "retrieval is the reference",
        "Retrieval by the nearest key recalls all that was written, of every material.",
        all_within((NEAREST,), "recall", ("", NUMBERS, TEXT, INTEGERS), low=0.99),
        "recall is at least {low:g} of each material",
        source=f"{README}, next steps: comparison with retrieval",
    ),
    Claim(
        "the latest value is tracked",
        "Where a key gets new values again and again, retrieval and the delta rule answer with the "
        "latest.",
        all_within((NEAREST, DELTA), "tracking_latest", ("", NUMBERS), low=0.95),
        "the latest value is found at least {low:g} of the time",
        source=f"{README}, next steps: memory tracking",
    ),
    Claim(
        "time stamps stand in for overwriting",
        "Kernel regression and ridge, which mix old and new, find the latest value once each key "
        "is written with its time.",
        each(
            above(of(model, "tracking_stamped"), of(model, "tracking_latest"), 0.3)
            for model in (KERNEL, RIDGE)
        ),
        "the latest value is found more than {by:g} more often with time stamps than without",
        source=f"{README}, next steps: memory tracking",
    ),
    Claim(
        "what breaks a pattern is recalled",
        "Retrieval and kernel regression recall sequences that break a pattern as they were, and "
        "do not answer what the pattern would say.",
        breaks_are_recalled(low=0.95, rule=0.05),
        "at least {low:g} of the exceptions are recalled, and at most {rule:g} answered by the "
        "rule",
        source=f"{README}, next steps: tricky examples",
    ),
)

EXPERIMENTS = (
    Claim(
        "one sequence is memorised",
        "The network memorises one sequence of four numbers, with the step of its script (5e-4).",
        memorised("one", ONE),
        "recall is at least {low:g} over random sequences",
        source=f"{README}, initial tests",
    ),
    Claim(
        "one sequence is memorised with a smaller step",
        "The network memorises one sequence of four numbers, with the step of the script that "
        "memorises many (1e-5).",
        memorised("one", MANY),
        "recall is at least {low:g} over random sequences",
        source=f"{README}, initial tests",
    ),
    Claim(
        "fifty sequences are memorised",
        "The network memorises fifty sequences and more.",
        memorised("many", MANY, 50),
        "recall of 50 sequences is at least {low:g}",
        source=f"{README}, initial tests",
    ),
    Claim(
        "gradients explode",
        "Exploding gradients are a common issue of memorising many sequences.",
        all_within((WEIGHTS,), "many_50_diverged", (LARGE_STEP,), low=0.5),
        "with ten times the step at least {low:g} of the trainings on 50 sequences diverge",
        source=f"{README}, initial tests",
    ),
    Claim(
        "a stream needs replay",
        "In a stream of memorising and asking, training again on everything seen is crucial for "
        "good recall.",
        above(
            of(WEIGHTS, "stream_recall", STREAM), of(WEIGHTS, "stream_recall", STREAM_ALONE), 0.3
        ),
        "recall in the stream is more than {by:g} above that without replay",
        source=f"{README}, testing forgetting",
    ),
    Claim(
        "ten thousand sequences fit",
        "The network of 11,337 weights holds at least 10,000 sequences.",
        as_many(10_000),
        "recall of 10,000 sequences is at least {low:g}",
        source=f"{README}, testing capacity",
    ),
    Claim(
        "a second batch drives out the first",
        "Trained on one batch and then on another, without replay, the network recalls the first "
        "significantly less than the second.",
        above(
            of(WEIGHTS, "forgetting_second_after", FORGETTING),
            of(WEIGHTS, "forgetting_first_after", FORGETTING),
            0.3,
        ),
        "recall of the second batch is more than {by:g} above that of the first",
        source=f"{README}, testing forgetting",
    ),
)

CLAIMS = BATTERY + ROWS + EXPERIMENTS
