"""Memory that learns while it is used: Titans' neural memory beside every other memory here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from bench.records.schema import RunRecord
from core.statistics import SHARE
from reproduce.claims.claims import Claim
from reproduce.claims.controls import UNTRAINED, Control
from reproduce.claims.grammar import Measured, Records, Rule, above, each, told, within
from reproduce.claims.verdicts import describe_mean
from reproduce.experiment import Experiment
from reproduce.plotting.models import label
from reproduce.test_time_memory import runs
from reproduce.test_time_memory.figure import TITLE, picture, table
from reproduce.test_time_memory.metrics import KEPT, NEW, NEWEST, OLDEST, STALE, items_behind

TITANS = "Behrouz, Zhong and Mirrokni 2025, Titans (arXiv 2501.00663)"
README = 'README "Titans: Learning to memorise at test time" (github.com/suyash144/titans)'
FACTS = "Nichani, Lee and Bietti 2025 (arXiv 2412.06538), capacity of linear memories"
OWN = "the battery of this project; what theory says of the memory"

LABELS = {model: label(model) for model in runs.MEMORIES}


def of(model: str, metric: str, variant: str = "") -> Measured:
    """A metric of a memory in one of its settings."""
    label = LABELS.get(model, model) + (f", {variant}" if variant else "")
    return items_behind(metric).of(runs.of(model, variant), f"{label}: {metric}")


def all_within(
    models: Iterable[str],
    metrics: Mapping[str, Mapping[str, float]],
    variants: Sequence[str] = ("",),
    **numbers: float,
) -> Rule:
    """Metrics of each memory in each setting, each between its ends ``low`` and ``high``."""
    rules = [
        within(of(model, metric, variant), **ends)
        for model in models
        for variant in variants
        for metric, ends in metrics.items()
    ]
    return each(rules, "", **numbers)


SUMS = (runs.HEBB, runs.KERNEL, runs.RIDGE)


def instead(model: str, rule: Rule) -> Control:
    """A memory known to lack the property in the place of those that have it."""
    return Control(f"{LABELS[model]} in their place", rule)


def sums_cannot_overwrite(
    low: float, high: float, both: float, kept: float, models: Sequence[str] = SUMS
) -> Rule:
    """Old and new values are each found at times, nothing else is, and the other keys are kept."""
    rules = []
    for model in models:
        new, stale = of(model, NEW), of(model, STALE)
        number = replace(new.number, read=partial(_sum, new, stale), kind=SHARE)
        together = number.of(new.runs, f"{new.label} + {STALE}")
        rules += [within(new, low, high), within(stale, low, high)]
        rules += [within(together, low=both), within(of(model, KEPT), low=kept)]
    return each(rules, low=low, high=high, both=both, kept=kept)


def _sum(a: Measured, b: Measured, record: RunRecord) -> float | None:
    values = a.number.value(record), b.number.value(record)
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None


def forgets_oldest(gap: float, loss: float, even: float, model: str = runs.DELTA) -> Rule:
    """The delta rule has the newest quarter and not the oldest; the sum, where it is so full that
    it loses some, has as much of one as of the other."""
    new, old = of(runs.HEBB, f"{NEWEST}_most"), of(runs.HEBB, f"{OLDEST}_most")
    first = above(of(model, NEWEST), of(model, OLDEST), gap)
    rules = [first, within(new, high=loss), above(new, old, -even), above(old, new, -even)]
    return each(rules, gap=gap, loss=loss, even=even)


def most_fragile(exact: float, clean: float, fragile: str = runs.RIDGE) -> Rule:
    """It recalls clean keys, and with noisy ones less than each other memory that does so. A run
    without a number recalls none of its clean keys."""

    def recalls_clean(records: Records, model: str) -> bool | None:
        lowest = [item.low for item in of(model, "recall_noise_0").sample(records).observations]
        return sum(lowest) / len(lowest) >= clean if lowest else None

    def rivals(records: Records, that_do: bool) -> list[str]:
        others = [model for model in runs.MEMORIES if model != fragile]
        return [model for model in others if recalls_clean(records, model) is that_do]

    def rules(records: Records) -> list[Rule]:
        noisy = "recall_noise_1"
        beaten = [above(of(model, noisy), of(fragile, noisy)) for model in rivals(records, True)]
        return [within(of(fragile, "recall_noise_0"), low=exact), *beaten] if beaten else []

    def left_out(records: Records) -> str:
        names = ", ".join(LABELS[model] for model in rivals(records, False))
        return f"; left out, since they recall fewer: {names or 'none'}"

    return told(each(rules, exact=exact, clean=clean), after=left_out)


def memorised(experiment: str, variant: str, count: int | None = None, low: float = 0.99) -> Rule:
    """The README's network recalls so many sequences; the evidence also says which share of the
    trainings diverged, and so recall nothing."""
    suffix = "" if count is None else f"_{count}"
    diverged = of(runs.WEIGHTS, f"{experiment}{suffix}_diverged", variant)

    def lost(records: Records) -> str:
        sample = diverged.sample(records)
        return f"; share diverged {describe_mean(sample)}" if sample.values else ""

    return told(within(of(runs.WEIGHTS, f"{experiment}_recall{suffix}", variant), low), after=lost)


def recalled_more(metric: str, better: str, worse: str) -> Rule:
    """The README's network recalls more in one setting than in another."""
    return above(of(runs.WEIGHTS, metric, better), of(runs.WEIGHTS, metric, worse), 0.3)


def erased_by(less: str, more: str) -> Rule:
    """The oldest pairs, in one setting of the linear neural memory and not in the other."""
    return above(of(runs.LINEAR, OLDEST, less), of(runs.LINEAR, OLDEST, more))


def lowered_by_momentum(metric: str) -> Rule:
    """Nothing that was written later is added to the newest."""
    return above(of(runs.LINEAR, metric), of(runs.LINEAR, metric, runs.MOMENTUM), 0.1)


def gains_from_stamps(*models: str) -> Rule:
    """Memories that find the latest value more often where each key has its time."""
    return each(above(of(m, "tracking_stamped"), of(m, "tracking_latest"), 0.3) for m in models)


OVERWRITES = {NEW: {"low": 0.95}, STALE: {"high": 0.05}, KEPT: {"low": 0.9}}
PROPORTIONAL = {"slope_items_by_numbers": {"low": 0.75, "high": 1.25}}
EXCEPTIONS = {"exceptions_recalled": {"low": 0.95}, "exceptions_answered_by_rule": {"high": 0.05}}
BATTERY = (
    Claim(
        "sums cannot overwrite",
        "A sum of outer products, kernel regression and ridge answer a rewritten key with its "
        "old value about as often as with the new one, and keep the keys that were not rewritten.",
        sums_cannot_overwrite(low=0.25, high=0.75, both=0.9, kept=0.95),
        "the share of new values and that of old ones lie in {low:g} to {high:g} each, their sum "
        "is at least {both:g}, and at least {kept:g} of the others are kept, with the whole 95 % "
        "interval, for each of the three",
        control=instead(runs.DELTA, sums_cannot_overwrite(0.25, 0.75, 0.9, 0.95, [runs.DELTA])),
        source=OWN,
    ),
    Claim(
        "the delta rule overwrites",
        "The delta rule and retrieval answer a rewritten key with its new value, never with the "
        "old one, and keep the keys that were not rewritten.",
        all_within((runs.DELTA, runs.NEAREST), OVERWRITES, new=0.95, stale=0.05, kept=0.9),
        "the share of new values is at least {new:g}, that of old ones at most {stale:g}, and at "
        "least {kept:g} of the others are kept",
        control=instead(runs.HEBB, all_within((runs.HEBB,), OVERWRITES)),
        source=OWN,
    ),
    Claim(
        "the delta rule forgets the oldest first",
        "After one pass the delta rule has lost the oldest pairs and holds the newest; a sum "
        "loses all ages alike.",
        forgets_oldest(gap=0.7, loss=0.9, even=0.1),
        "for the delta rule recall of the newest quarter is more than {gap:g} above that of the "
        "oldest; for the sum, at the largest count of the capacity curve, recall of the newest "
        "quarter is at most {loss:g}, so that there is a loss, and newest and oldest differ by at "
        "most {even:g}",
        control=instead(runs.HEBB, forgets_oldest(0.7, 0.9, 0.1, runs.HEBB)),
        source=OWN,
    ),
    Claim(
        "ridge is the most fragile",
        "Ridge regression recalls exactly, and is the first to fail when keys are noisy.",
        most_fragile(exact=0.99, clean=0.95),
        "ridge recalls at least {exact:g} of the clean keys; at σ = 1 each other memory that "
        "recalls at least {clean:g} of the clean keys recalls more",
        control=instead(runs.KERNEL, most_fragile(0.99, 0.95, runs.KERNEL)),
        source=OWN,
    ),
    Claim(
        "similarity knows the unseen",
        "The similarity of query and key tells seen from unseen keys.",
        all_within((runs.KERNEL, runs.NEAREST), {"auroc": {"low": 0.95}}),
        "the area under the curve is at least {low:g}",
        control=instead(runs.DELTA, all_within((runs.DELTA,), {"auroc": {"low": 0.95}})),
        source=OWN,
    ),
    Claim(
        "matrices hold in proportion to their size",
        "A sum of outer products and a trained matrix hold about as many items as they have "
        "entries, up to logarithms: N ~ d².",
        all_within((runs.HEBB, runs.TRAINED), PROPORTIONAL),
        "the slope of log items at a recall of 0.99 on log numbers kept is within {low:g} to "
        "{high:g}",
        # Its matrix holds patterns in proportion to its neurons (Amit et al. 1985): a slope of 1/2.
        control=instead(runs.HOPFIELD, all_within((runs.HOPFIELD,), PROPORTIONAL)),
        source=FACTS,
    ),
    Claim(
        "momentum and random writes",
        "On writes without order a large momentum lowers the recall of the linear neural "
        "memory: gradients of the past are added to keys of today.",
        lowered_by_momentum("recall"),
        "recall at momentum 0.5 is more than {by:g} above that at 0.9",
        control=Control("the newest quarter alone", lowered_by_momentum(NEWEST)),
        source=OWN,
    ),
    Claim(
        "forgetting gives up the old",
        "Decay of the weights erases the oldest pairs.",
        erased_by(runs.NO_DECAY, runs.DECAY),
        "recall of the oldest quarter without decay is more than {by:g} above that with a decay of "
        "0.02 a step",
        control=Control("a smaller rate in its place", erased_by(runs.NO_DECAY, "")),
        source=f"{TITANS}, equations 13 and 14",
    ),
    Claim(
        "weights forget without replay",
        "A memory in the weights of a perceptron recalls a first batch significantly less once "
        "it was trained on others.",
        recalled_more("backward_transfer", "", runs.NO_REPLAY),
        "backward transfer with replay of all is more than {by:g} above that without",
        source=README,
    ),
)

ROWS = (
    Claim(
        "retrieval is the reference",
        "Retrieval by the nearest key recalls all that was written, of every material.",
        all_within(
            (runs.NEAREST,), {"recall": {"low": 0.99}}, ("", runs.NUMBERS, runs.TEXT, runs.INTEGERS)
        ),
        "recall is at least {low:g} of each material",
        control=instead(runs.DELTA, all_within((runs.DELTA,), {"recall": {"low": 0.99}})),
        source=f"{README}, next steps: comparison with retrieval",
    ),
    Claim(
        "the latest value is tracked",
        "Where a key gets new values again and again, retrieval and the delta rule answer with the "
        "latest.",
        all_within(
            (runs.NEAREST, runs.DELTA), {"tracking_latest": {"low": 0.95}}, ("", runs.NUMBERS)
        ),
        "the latest value is found at least {low:g} of the time",
        control=instead(runs.HEBB, all_within((runs.HEBB,), {"tracking_latest": {"low": 0.95}})),
        source=f"{README}, next steps: memory tracking",
    ),
    Claim(
        "time stamps stand in for overwriting",
        "Kernel regression and ridge, which mix old and new, find the latest value once each key "
        "is written with its time.",
        gains_from_stamps(runs.KERNEL, runs.RIDGE),
        "the latest value is found more than {by:g} more often with time stamps than without",
        control=instead(runs.DELTA, gains_from_stamps(runs.DELTA)),
        source=f"{README}, next steps: memory tracking",
    ),
    Claim(
        "what breaks a pattern is recalled",
        "Retrieval and kernel regression recall sequences that break a pattern as they were, and "
        "do not answer what the pattern would say.",
        all_within((runs.NEAREST, runs.KERNEL), EXCEPTIONS, (runs.NUMBERS,)),
        "at least {low:g} of the exceptions are recalled, and at most {high:g} answered by the "
        "rule",
        control=instead(runs.DELTA, all_within((runs.DELTA,), EXCEPTIONS, (runs.NUMBERS,))),
        source=f"{README}, next steps: tricky examples",
    ),
)

EXPERIMENTS = (
    *(
        Claim(
            f"one sequence is memorised{smaller}",
            f"The network memorises one sequence of four numbers, with the step of {step}.",
            memorised("one", script),
            "recall is at least {low:g} over random sequences",
            source=f"{README}, initial tests",
        )
        for smaller, step, script in (
            ("", "its script (5e-4)", runs.ONE),
            (" with a smaller step", "the script that memorises many (1e-5)", runs.ONE_SMALL),
        )
    ),
    Claim(
        "fifty sequences are memorised",
        "The network memorises fifty sequences and more.",
        memorised("many", runs.MANY, 50),
        "recall of 50 sequences is at least {low:g}",
        source=f"{README}, initial tests",
    ),
    Claim(
        "gradients explode",
        "Exploding gradients are a common issue of memorising many sequences.",
        all_within((runs.WEIGHTS,), {"many_50_diverged": {"low": 0.5}}, (runs.MANY,)),
        "with the step of the script at least {low:g} of the trainings on 50 sequences diverge",
        source=f"{README}, initial tests",
    ),
    Claim(
        "a stream needs replay",
        "In a stream of memorising and asking, training again on everything seen is crucial for "
        "good recall.",
        recalled_more("stream_recall", runs.STREAM, runs.STREAM_ALONE),
        "recall in the stream is more than {by:g} above that without replay",
        source=f"{README}, testing forgetting",
    ),
    Claim(
        "a second batch drives out the first",
        "Trained on one batch and then on another, without replay, the network recalls the first "
        "significantly less than the second.",
        above(
            of(runs.WEIGHTS, "forgetting_second_after", runs.FORGETTING),
            of(runs.WEIGHTS, "forgetting_first_after", runs.FORGETTING),
            0.3,
        ),
        "recall of the second batch is more than {by:g} above that of the first",
        source=f"{README}, testing forgetting",
    ),
)


EXPERIMENT = Experiment(
    TITLE,
    f"{TITANS}; {README}",
    (*BATTERY, *ROWS, *EXPERIMENTS),
    runs=runs.planned,
    records=runs.select,
    panels=picture,
    variant=runs.variant_of,
    varied=("tasks.material", "tasks.experiments"),
    table=table,
    control=UNTRAINED.by(stored_in_weights="models.steps=1"),
)
