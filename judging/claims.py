"""Published statements as objects that runs can confirm or refute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.records.schema import RunRecord
from ground.statistics import LEVEL
from judging.grammar import Rule
from judging.verdicts import REPRODUCED, UNDECIDED, Finding


@dataclass(frozen=True)
class Control:
    """What must not satisfy a claim: an untrained model, a model known to lack the property, a
    context that tells nothing.

    Attributes:
        label: what it is, in words.
        rule: the claim's rule put to it.
    """

    label: str
    rule: Rule

    def check(self, finding: Finding, records: Sequence[RunRecord], level: float) -> Finding:
        """What is left of a reproduced claim: a test that its control passes tells nothing."""
        if finding.verdict != REPRODUCED:
            return finding
        own = self.rule.judge(records, level)
        if own.verdict == REPRODUCED:
            verdict, so = UNDECIDED, "holds too, so that the claim tells nothing"
        elif own.seeds == 0:
            verdict, so = UNDECIDED, "was not run"
        else:
            verdict, so = REPRODUCED, f"fails as it must ({own.evidence})"
        evidence = f"{finding.evidence}. The control, {self.label}, {so}"
        return replace(finding, verdict=verdict, evidence=evidence)


@dataclass(frozen=True)
class Claim:
    """A published statement.

    Attributes:
        name: a few words.
        sentence: what is claimed, in our words.
        rule: when it counts as reproduced, and how that is tested.
        words: the rule in better words than its own, with its numbers in braces.
        source: paper, section, figure or table, where it is not that of the figure it belongs to.
        control: what must fail the same test; only then the claim counts as reproduced.
    """

    name: str
    sentence: str
    rule: Rule
    words: str = ""
    source: str = ""
    control: Control | None = None

    @property
    def tolerance(self) -> str:
        """When the claim counts as reproduced, with the numbers of the test."""
        text = self.words.format(**self.rule.numbers) if self.words else self.rule.text
        return f"{text}. Control: {self.control.label} must fail" if self.control else text

    def judge(self, records: Sequence[RunRecord]) -> ClaimResult:
        """The verdict on this claim: a pure function of ``records``."""
        finding = self.rule.judge(records, LEVEL)
        if self.control is not None:
            finding = self.control.check(finding, records, LEVEL)
        return ClaimResult(self, finding)


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
