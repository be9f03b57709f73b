"""The grammar of claims: which runs, which number of them, what must hold.

A condition is judged from the same numbers that its text is made of, so rule and test cannot drift
apart. Example::

    ONE = Runs("attention, 1 layer", task="bigram", model="gpt2", settings={"models.layers": 1})
    TWO = ONE.but("attention, 2 layers", {"models.layers": 2})
    ACCURACY = Number("in-context accuracy", "in_context_accuracy")

    Claim(
        "two layers of attention",
        "A transformer of two layers gets about 99 % of the outputs right.",
        once(trained_for(900, "laptop"), within(ACCURACY.of(TWO), low=0.97)),
    )
    Claim(..., above(ACCURACY.of(TWO), ACCURACY.of(ONE), by=0.3))

``within``, ``difference``, ``above``, ``each`` and ``share_of`` make conditions; ``once`` asks
where something is ready; ``told`` adds to the evidence; :class:`Rule` is for all other tests.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from bench.records.code import is_of_file, named_class
from bench.records.numbers import by_data_seed, drawn_anew, items_of, kind_of
from bench.records.schema import RunRecord
from core.statistics import Items, Kind
from reproduce.claims import verdicts
from reproduce.claims.mistakes import limits, no_quantity
from reproduce.claims.observations import Read, Sample, by_seed, observe
from reproduce.claims.verdicts import Finding, not_asked

Records = Sequence[RunRecord]
INTERVAL = "with its whole 95 % interval"


@dataclass(frozen=True)
class Runs:
    """Which runs a claim is about, and what the evidence calls them.

    Attributes:
        task, model: names; of a model several that share a row. A class of one's own may be named
            by its file, ``./net.py:GRU``: these are the runs of that file as it is now. Of
            ``package.GRU`` the name of the class counts alone.
        settings: keys of the configuration such as "models.layers", with the values they must have.
        choose: a further condition on a record.
        baseline: the predictor without training of this label, instead of trained runs.
    """

    label: str
    task: str = ""
    model: str | tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    choose: Callable[[RunRecord], bool] | None = None
    baseline: str = ""

    def __post_init__(self) -> None:
        for attribute in ("task", "model"):
            name = getattr(self, attribute)
            if isinstance(name, str):
                object.__setattr__(self, attribute, named_class(name))
            elif isinstance(name, list | tuple):
                names = tuple(named_class(n) if isinstance(n, str) else n for n in name)
                object.__setattr__(self, attribute, names)

    def but(self, label: str, settings: Mapping[str, Any] | None = None, **changes: Any) -> Runs:
        """The same runs but for a label, settings and other attributes."""
        merged = {**self.settings, **(settings or {})}
        return replace(self, label=label, settings=merged, **changes)

    def of(self, records: Records) -> list[RunRecord]:
        """The runs among ``records``, the latest of each seed, in the order of seeds."""
        return by_seed(filter(self.has, records))

    def finished(self, records: Records) -> list[RunRecord]:
        """The runs of these, among all records, that have a result."""
        return [record for record in self.of(records) if record.outcome == "ok"]

    def has(self, record: RunRecord) -> bool:
        """Whether a record is one of them."""
        # What most records differ in is looked at first: claims ask this a million times.
        if isinstance(self.model, str):
            if record.model != self.model:
                return False
        elif self.model and record.model not in self.model:
            return False
        if self.task not in ("", record.task):
            return False
        if self.baseline and (record.role != "baseline" or record.label != self.baseline):
            return False
        if record.role == "baseline" and not self.baseline:
            return False
        for key, value in self.settings.items():
            if setting(record, key) != value:
                return False
        models = (self.model,) if isinstance(self.model, str) else self.model
        if not (is_of_file((self.task,), record, "tasks") and is_of_file(models, record, "models")):
            return False
        return self.choose is None or self.choose(record)


def setting(record: RunRecord, key: str, default: Any = None) -> Any:
    """A value of a record's configuration: ``setting(record, "tasks.training_automata")``."""
    section, _, name = key.partition(".")
    return record.config.get(section, {}).get(name, default)


def metric(name: str, split: str = "test") -> Read:
    """A reader of a metric of a split."""
    return lambda record: record.metrics.get(split, {}).get(name)


class Quantity(Protocol):
    """A number over seeds that is still to be read from records."""

    @property
    def label(self) -> str:
        """What the evidence calls it."""

    def sample(self, records: Records) -> Sample:
        """The number of each seed."""


@dataclass(frozen=True)
class Number:
    """A number of a run.

    Attributes:
        name: what rules and evidence call it.
        read: a metric of the test split, or a function of the record.
        kind: by what its intervals are made; without it, what the task's card says of the metric.
        items: how many test items it is a mean over, where the records hold no number for each:
            a function of a record.
        fresh: whether each seed draws items of its own, so that the spread over seeds holds theirs
            and their counts add up.
        diverged: what a diverged run counts as; only the worst value, and only for the model that
            a claim favours.
        bounds: the range of the number for runs that gave none, if narrower than its kind's.
    """

    name: str
    read: str | Read
    kind: Kind | None = None
    items: Callable[[RunRecord], int] | None = None
    fresh: bool = False
    diverged: float | None = None
    bounds: tuple[float, float] | None = None

    def of(self, runs: Runs, label: str | None = None, **changes: Any) -> Measured:
        """This number of these runs; ``changes`` are other attributes, such as ``diverged=0.0``."""
        return Measured(replace(self, **changes) if changes else self, runs, label)

    def value(self, record: RunRecord) -> float | None:
        """The number of one record."""
        read = metric(self.read) if isinstance(self.read, str) else self.read
        return read(record)


@dataclass(frozen=True)
class Measured:
    """A number of some runs."""

    number: Number
    runs: Runs
    named: str | None = None

    @property
    def label(self) -> str:
        """The given label, or that of the runs."""
        return self.runs.label if self.named is None else self.named

    def sample(self, records: Records) -> Sample:
        """The number of each seed, with its kind and test items."""
        records_of, number = self.runs.of(records), self.number
        name = number.read if isinstance(number.read, str) else ""
        kind = number.kind or kind_of(records_of[0].task if records_of else self.runs.task, name)
        return observe(
            self.label,
            records_of,
            number.value,
            kind,
            number.diverged,
            _items(records_of, name, number),
            number.bounds,
        )


def _items(records: Records, name: str, number: Number) -> Items | None:
    if number.items is None:
        return items_of(records, name) if name else None
    parts = [[number.items(record) for record in part] for part in by_data_seed(records)]
    if number.fresh:
        return Items(sum(map(sum, parts)), 0.0)
    by_part = [Items(min(counts)) for counts in parts]
    return drawn_anew(by_part) if len(by_part) > 1 else (by_part[0] if by_part else None)


@dataclass(frozen=True)
class Drawn:
    """A number that a function reads from all records at once, such as one over trials."""

    label: str
    draw: Callable[[Records], Sample]

    def sample(self, records: Records) -> Sample:
        """What the function gives."""
        return self.draw(records)


@dataclass(frozen=True)
class Rule:
    """What must hold: its text, and its test at a level."""

    text: str
    judge: Callable[[Records, float], Finding]
    numbers: Mapping[str, float] = field(default_factory=dict)


def within(quantity: Quantity, low: float = -math.inf, high: float = math.inf) -> Rule:
    """The mean over seeds lies between ``low`` and ``high``, ends included."""
    numbers = limits(low=low, high=high)

    def judge(records: Records, level: float) -> Finding:
        return verdicts.mean_within(quantity.sample(records), low, high, level)

    return Rule(f"{named(quantity)} {_between(low, high)} {INTERVAL}", judge, numbers)


def above(a: Quantity, b: Quantity, by: float = 0.0) -> Rule:
    """The mean of ``a`` is more than ``by`` above that of ``b``."""
    numbers = limits(by=by)

    def judge(records: Records, level: float) -> Finding:
        return verdicts.difference_above(a.sample(records), b.sample(records), by, level)

    more = (
        f"more than {by:g} above" if by > 0 else "above" if not by else f"less than {-by:g} below"
    )
    return Rule(f"{named(a)} {more} {named(b)}, {INTERVAL}", judge, numbers)


def difference(
    a: Quantity,
    b: Quantity,
    low: float = -math.inf,
    high: float = math.inf,
    together: Callable[[Records], Items | None] | None = None,
) -> Rule:
    """The mean of ``a`` minus that of ``b`` lies between ``low`` and ``high``.

    Args:
        together: reads the test items of this very difference, where both were measured on the same
            ones and the records hold its variance rather than a number for each.
    """

    def judge(records: Records, level: float) -> Finding:
        shared = together(records) if together else None
        samples = a.sample(records), b.sample(records)
        return verdicts.difference_within(*samples, low, high, level, shared)

    text = f"{named(a)} minus {named(b)} {_between(low, high)} {INTERVAL}"
    return Rule(text, judge, limits(low=low, high=high))


def share_of(quantity: Quantity, at_least: float, certain: float = 0.5) -> Rule:
    """A predicate (a number of 1) holds for so many of the seeds."""

    def judge(records: Records, level: float) -> Finding:
        return verdicts.share_of_seeds(quantity.sample(records), at_least, certain, level)

    text = (
        f"{named(quantity)} in {at_least:g} of the seeds or more, and in more than {certain:g} of "
        "all seeds there could be, by the exact 95 % interval"
    )
    return Rule(text, judge, {"at_least": at_least, "certain": certain})


def each(
    rules: Iterable[Rule] | Callable[[Records], Iterable[Rule]], text: str = "", **numbers: float
) -> Rule:
    """Every rule holds; contradicted at a level that is corrected for their number.

    Args:
        rules: them, or a function that finds them in the records (then ``text`` says what they
            are), such as one rule for every size that was run.
        numbers: names for numbers of the rules, for the words of a claim.
    """
    fixed_rules = () if callable(rules) else tuple(rules)

    def judge(records: Records, level: float) -> Finding:
        rules_now = rules(records) if callable(rules) else fixed_rules
        return verdicts.every([partial(rule.judge, records) for rule in rules_now], level)

    named_numbers = {(key, value) for rule in fixed_rules for key, value in rule.numbers.items()}
    often = Counter(key for key, _ in named_numbers)
    # A key with two values names no one number, so that the words of a claim cannot have it.
    once_each = {key: value for key, value in named_numbers if often[key] == 1}
    joined = "; ".join(dict.fromkeys(rule.text for rule in fixed_rules))
    return Rule(text or joined, judge, {**once_each, **numbers})


Ready = Callable[[Records], Finding | None]  # None: it can be asked
Words = Callable[[Records], str]


def once(ready: Ready, rule: Rule) -> Rule:
    """The rule, asked only where ``ready`` finds nothing missing."""

    def judge(records: Records, level: float) -> Finding:
        return ready(records) or rule.judge(records, level)

    return replace(rule, judge=judge)


def provided(premise: Rule, rule: Rule) -> Rule:
    """The rule, of runs in which something else holds without which it would say nothing: a model
    has no sink where another has one. Unlike ``once`` it has an answer elsewhere: not enough."""

    def judge(records: Records, level: float) -> Finding:
        premise_finding = premise.judge(records, level)
        if premise_finding.verdict == verdicts.REPRODUCED:
            return rule.judge(records, level)
        if premise_finding.verdict == verdicts.NOT_ASKED:
            return premise_finding
        evidence = f"{premise_finding.evidence}, so that the claim would say nothing"
        return replace(premise_finding, verdict=verdicts.UNDECIDED, evidence=evidence)

    return replace(rule, text=f"{rule.text}; judged where {premise.text}", judge=judge)


def where(holds: Callable[[Records], bool], topic: str, reason: str, asked_at: str = "") -> Ready:
    """Ready where something holds; elsewhere the topic is not asked, for this reason."""
    return lambda records: None if holds(records) else not_asked(topic, reason, asked_at)


def trained_for(steps: int, asked_at: str, topic: str = "accuracy of trained models") -> Ready:
    """Ready where the longest training had so many steps."""

    def holds(records: Records) -> bool:
        trained = [int(setting(r, "training.steps") or 0) for r in records if r.role != "baseline"]
        return not trained or max(trained) >= steps

    return where(holds, topic, f"asked after {steps} steps or more", asked_at)


def measured(runs: Runs, topic: str, asked_at: str) -> Ready:
    """Ready where there is any run of these."""
    reason = f"no runs of {runs.label} at this preset"
    return where(lambda records: any(map(runs.has, records)), topic, reason, asked_at)


def told(rule: Rule, before: Words = lambda _: "", after: Words = lambda _: "") -> Rule:
    """The rule with more words in its evidence: the corpus before it, something seen after it."""

    def judge(records: Records, level: float) -> Finding:
        finding = rule.judge(records, level)
        if finding.verdict == verdicts.NOT_ASKED:
            return finding
        return replace(finding, evidence=f"{before(records)}{finding.evidence}{after(records)}")

    return replace(rule, judge=judge)


def named(quantity: Quantity) -> str:
    """ "in-context accuracy of attention, 2 layers", for the text of a rule."""
    if not hasattr(quantity, "sample"):
        raise no_quantity(quantity)
    label = quantity.label
    name = quantity.number.name if isinstance(quantity, Measured) else ""
    return f"{name} of {label}" if name and name not in label else label


def _between(low: float, high: float) -> str:
    if math.isinf(high):
        return f"at least {low:g}"
    return f"at most {high:g}" if math.isinf(low) else f"between {low:g} and {high:g}"
