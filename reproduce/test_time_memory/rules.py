"""What has to hold of memories at test time, by numbers of their runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.records.schema import RunRecord
from ground.statistics import SHARE
from judging import verdicts
from judging.grammar import (
    Measured,
    Number,
    Records,
    Rule,
    Runs,
    above,
    each,
    once,
    setting,
    told,
    within,
)
from judging.verdicts import Finding, not_asked
from pictures.models import label
from reproduce.test_time_memory.runs import (
    CAPACITY,
    DELTA,
    HEBB,
    INTEGERS,
    KERNEL,
    MEMORIES,
    NEAREST,
    NUMBERS,
    RIDGE,
    TASK,
    WEIGHTS,
    variant_of,
)

INFINITY = float("inf")
LABELS = {model: label(model) for model in MEMORIES}

NEWEST, OLDEST = "recall_newest_quarter", "recall_oldest_quarter"
NEW, STALE, KEPT = "overwrite_new", "overwrite_stale", "overwrite_untouched"
# Into how many the task's ``items`` are divided for a share; the others are of all of them.
PARTS = {"overwrite": 4, "tracking": 4, "exceptions": 2, NEWEST: 2, OLDEST: 2}
SEQUENCES = {"one_recall": 1, "forgetting_first_after": 50, "forgetting_second_after": 50}


def items_behind(metric: str) -> Number:
    """A metric with the number of questions that it is a mean over; every seed draws its own."""

    def count(record: RunRecord) -> int:
        trials = int(setting(record, "tasks.trials"))
        return trials if "diverged" in metric else trials * _asked(record, metric)

    return Number("", metric, items=count, fresh=True)


def _asked(record: RunRecord, metric: str) -> int:
    """The questions to one memory."""
    last = metric.rpartition("_")[2]
    if metric in SEQUENCES:
        return SEQUENCES[metric]
    if last.isdigit() and setting(record, "tasks.material") == INTEGERS:
        return int(last)
    if metric == "recall":
        counts = setting(record, "tasks.counts")
        return int(counts[len(counts) // 2])
    divided = (parts for name, parts in PARTS.items() if metric.startswith(name))
    return int(setting(record, "tasks.items")) // next(divided, 1)


def of(model: str, metric: str, variant: str = "") -> Measured:
    """A metric of a memory in one of its settings."""
    runs = Runs(model, TASK, model, choose=lambda record: variant_of(record) == variant)
    label = LABELS.get(model, model) + (f", {variant}" if variant else "")
    return items_behind(metric).of(runs, f"{label}: {metric}")


def all_within(
    models: Iterable[str],
    metric: str,
    variants: Sequence[str] = ("",),
    low: float = -INFINITY,
    high: float = INFINITY,
) -> Rule:
    """A metric of each memory in each setting."""
    return each(
        within(of(model, metric, variant), low, high) for model in models for variant in variants
    )


def sums_cannot_overwrite(low: float, high: float, both: float, kept: float) -> Rule:
    """Old and new values are each found at times, nothing else is, and the other keys are kept."""
    rules = []
    for model in (HEBB, KERNEL, RIDGE):
        new, stale = of(model, NEW), of(model, STALE)
        read = lambda record, new=new, stale=stale: _sum(new, stale, record)  # noqa: E731
        number = Number("", read, new.number.kind, new.number.items, True)
        together = number.of(new.runs, f"{new.label} + {STALE}", kind=SHARE)
        rules += [within(new, low, high), within(stale, low, high)]
        rules += [within(together, low=both), within(of(model, KEPT), low=kept)]
    return each(rules, low=low, high=high, both=both, kept=kept)


def _sum(a: Measured, b: Measured, record: RunRecord) -> float | None:
    values = a.number.value(record), b.number.value(record)
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def overwrites(new: float, stale: float, kept: float) -> Rule:
    """New values are found, old ones are not, and the other keys are kept."""
    shares = {NEW: {"low": new}, STALE: {"high": stale}, KEPT: {"low": kept}}
    rules = [
        within(of(model, share), **limits)
        for model in (DELTA, NEAREST)
        for share, limits in shares.items()
    ]
    return each(rules, new=new, stale=stale, kept=kept)


def forgets_the_oldest_first(gap: float, loss: float, even: float) -> Rule:
    """The delta rule has the newest quarter and not the oldest; the sum, where it is so full that
    it loses some, has as much of one as of the other."""
    new, old = of(HEBB, f"{NEWEST}_most"), of(HEBB, f"{OLDEST}_most")
    return each(
        [
            above(of(DELTA, NEWEST), of(DELTA, OLDEST), gap),
            within(new, high=loss),
            above(new, old, -even),
            above(old, new, -even),
        ],
        gap=gap,
        loss=loss,
        even=even,
    )


def most_fragile(exact: float, clean: float) -> Rule:
    """Ridge recalls clean keys, and with noisy ones less than each other memory that does so. A run
    without a number recalls none of its clean keys."""

    def recalls_clean(records: Records, model: str) -> bool | None:
        found = [item.low for item in of(model, "recall_noise_0").sample(records).observations]
        return sum(found) / len(found) >= clean if found else None

    def rivals(records: Records, that_do: bool) -> list[str]:
        others = [model for model in MEMORIES if model != RIDGE]
        return [model for model in others if recalls_clean(records, model) is that_do]

    def rules(records: Records) -> list[Rule]:
        noisy = "recall_noise_1"
        found = [above(of(model, noisy), of(RIDGE, noisy)) for model in rivals(records, True)]
        return [within(of(RIDGE, "recall_noise_0"), low=exact), *found] if found else []

    def left_out(records: Records) -> str:
        names = ", ".join(LABELS[model] for model in rivals(records, False))
        return f"; left out, since they recall fewer: {names or 'none'}"

    return told(each(rules, exact=exact, clean=clean), after=left_out)


def memorised(experiment: str, variant: str, count: int | None = None, low: float = 0.99) -> Rule:
    """The README's network recalls so many sequences; the evidence also says which share of the
    trainings diverged, and so recall nothing."""
    suffix = "" if count is None else f"_{count}"
    diverged = of(WEIGHTS, f"{experiment}{suffix}_diverged", variant)

    def lost(records: Records) -> str:
        sample = diverged.sample(records)
        return f"; share diverged {verdicts.describe_mean(sample)}" if sample.values else ""

    return told(within(of(WEIGHTS, f"{experiment}_recall{suffix}", variant), low), after=lost)


def breaks_are_recalled(low: float, rule: float) -> Rule:
    """Retrieval and kernel regression recall what breaks a pattern, and never answer the rule."""
    shares = {"exceptions_recalled": {"low": low}, "exceptions_answered_by_rule": {"high": rule}}
    rules = [
        within(of(model, share, NUMBERS), **limits)
        for model in (NEAREST, KERNEL)
        for share, limits in shares.items()
    ]
    return each(rules, low=low, rule=rule)


def as_many(count: int) -> Rule:
    """The largest number of sequences that the README tells of, which small presets do not try."""

    def ready(records: Records) -> Finding | None:
        tried = [max(setting(record, "tasks.capacities")) for record in records]
        if tried and max(tried) < count:
            return not_asked("10,000 sequences", f"no run tries {count:,} sequences", "gpu")
        return None

    return once(ready, memorised("capacity", CAPACITY, count))
