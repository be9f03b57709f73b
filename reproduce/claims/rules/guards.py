"""Rules that are judged only where something else is sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reproduce.claims.grammar import Records, Rule
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED, UNDECIDED, Finding


def where_passed(rule: Rule, passed: Mapping[str, Rule]) -> Rule:
    """A rule on models that come out alike, which shows nothing where they fail alike.

    Args:
        passed: what has to be sure, by what is said where it is not.
    """

    def judge(records: Records, level: float) -> Finding:
        finding = rule.judge(records, level)
        if finding.verdict == CONTRADICTED:
            return finding
        for reason, premise in passed.items():
            if premise.judge(records, level).verdict != REPRODUCED:
                evidence = f"{finding.evidence}; but {reason}, and to fail alike shows nothing"
                return replace(finding, verdict=UNDECIDED, evidence=evidence, seeds_needed=None)
        return finding

    return replace(rule, judge=judge)
