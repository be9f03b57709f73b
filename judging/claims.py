"""Published statements as objects that runs can confirm or refute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.records.schema import RunRecord
from ground.statistics import LEVEL
from judging.grammar import Rule
from judging.verdicts import Finding


@dataclass(frozen=True)
class Claim:
    """A published statement.

    Attributes:
        name: a few words.
        sentence: what is claimed, in our words.
        rule: when it counts as reproduced, and how that is tested.
        words: the rule in better words than its own, with its numbers in braces.
        source: paper, section, figure or table, where it is not that of the figure it belongs to.
    """

    name: str
    sentence: str
    rule: Rule
    words: str = ""
    source: str = ""

    @property
    def tolerance(self) -> str:
        """When the claim counts as reproduced, with the numbers of the test."""
        return self.words.format(**self.rule.numbers) if self.words else self.rule.text

    def judge(self, records: Sequence[RunRecord]) -> ClaimResult:
        """The verdict on this claim: a pure function of ``records``."""
        return ClaimResult(self, self.rule.judge(records, LEVEL))


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
