"""Published statements as objects that runs can confirm or refute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.records.schema import RunRecord
from reproduce.judging.grammar import Rule
from reproduce.judging.verdicts import (  # noqa: F401  TRANSITION: until every claim is in the grammar
    CONTRADICTED,
    LEVEL,
    MAXIMUM_SEEDS,
    REPRODUCED,
    UNDECIDED,
    Finding,
    Verdict,
    agreed,
    describe_mean,
    difference_above,
    every,
    mean_within,
    no_runs,
    place_of,
    share_of_seeds,
)

# TRANSITION: the old form of a claim, removed once every reproduction is in the grammar.
Test = Callable[[Sequence[RunRecord], Mapping[str, float]], Finding]


@dataclass(frozen=True)
class Tolerance:
    """TRANSITION."""

    template: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A published statement.

    Attributes:
        name: a few words.
        source: paper, section, figure or table.
        sentence: what is claimed, in our words.
        rule: when it counts as reproduced, and how that is tested.
        words: the rule in better words than its own, with its numbers in braces.
    """

    name: str
    source: str
    sentence: str
    rule: Rule | Tolerance
    words: str | Test = ""

    def __post_init__(self) -> None:  # TRANSITION
        if isinstance(self.rule, Tolerance):
            old, test = self.rule, self.words

            def judge(records: Sequence[RunRecord], level: float) -> Finding:
                return test(records, old.numbers)  # type: ignore[operator]

            rule = Rule(old.template, judge, old.numbers)
            object.__setattr__(self, "rule", rule)
            object.__setattr__(self, "words", old.template)

    @property
    def tolerance(self) -> str:
        """When the claim counts as reproduced, with the numbers of the test."""
        return self.words.format(**self.rule.numbers) if self.words else self.rule.text  # type: ignore

    def judge(self, records: Sequence[RunRecord]) -> ClaimResult:
        """The verdict on this claim: a pure function of ``records``."""
        return ClaimResult(self, self.rule.judge(records, LEVEL))  # type: ignore[union-attr]


@dataclass(frozen=True)
class ClaimResult:
    """A claim and what the runs say about it."""

    claim: Claim
    finding: Finding

    def to_json(self) -> dict[str, Any]:
        """The entry of a verdict file."""
        asked = {"asked_at": self.finding.asked_at} if self.finding.asked_at else {}
        return {
            "name": self.claim.name,
            "source": self.claim.source,
            "sentence": self.claim.sentence,
            "tolerance": self.claim.tolerance,
            "verdict": self.finding.verdict,
            "evidence": self.finding.evidence,
            "seeds": self.finding.seeds,
            "seeds_needed": self.finding.seeds_needed,
            **asked,
        }
