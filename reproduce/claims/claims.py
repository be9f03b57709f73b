"""Published statements as objects that runs can confirm or refute."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

from bench.records.schema import RunRecord
from core.statistics import LEVEL
from reproduce.claims.controls import AnyControl, is_untrained, without_untrained
from reproduce.claims.fairness import not_ranked
from reproduce.claims.frozen import Hashes, begun_after, entry_of, set_after
from reproduce.claims.grammar import Records, Rule, Runs
from reproduce.claims.levels import smallest_p
from reproduce.claims.verdicts import CONTRADICTED, NOT_ASKED, REPRODUCED, UNDECIDED, Finding

SCHEMA_VERSION = 1
RANKED = "Judged where every row is tuned and has converged, but at smoke, which tunes nothing"
BY_THEMSELVES = "contradicted where the rows that are do so by themselves"


class Closed(NamedTuple):
    """A decision that a claim gets no more seeds here.

    Attributes:
        decision: the title of an entry of ``reproduce/claims/history.yaml``.
        repeated: the seeds of a repetition by somebody who took no part in it, as many new ones as
            all that were seen; 0 where a larger preset asks the claim with other runs.
    """

    decision: str
    repeated: int = 0


@dataclass(frozen=True)
class Claim:
    """A published statement.

    Attributes:
        name: a few words.
        sentence: what is claimed, in our words.
        rule: when it counts as reproduced, and how that is tested.
        words: the rule in better words than its own, with its numbers in braces.
        source: paper, section, figure or table, where it is not that of the figure it belongs to.
        control: what must fail the same test, since only then the claim counts as reproduced;
            without it, that of the reproduction it belongs to.
        ranks: the rows that it ranks with each other, as a table does: where one of them is not
            tuned or has not converged, the claim is open (:mod:`reproduce.claims.fairness`).
        of_each: whether it says something of each of these rows ("every baseline"): then those that
            are ranked can contradict it by themselves, whatever another one lacks.
        asked_with: words of ``python -m reproduce`` beside the preset without which no run is what
            it speaks about, such as a corpus; FOLDER stands for a place on the user's machine.
        closed: preset -> by which decision it gets no more seeds there, whatever it would need.

    What follows ``of_each`` is no part of its test, and in none of its hashes.
    """

    name: str
    sentence: str
    rule: Rule
    words: str = ""
    source: str = ""
    control: AnyControl | None = None
    ranks: Callable[[Records], Sequence[Runs]] | None = None
    of_each: bool = False
    asked_with: str = ""
    closed: Mapping[str, Closed] | None = None

    @property
    def tolerance(self) -> str:
        """When the claim counts as reproduced, with the numbers of the test."""
        text = self.words.format(**self.rule.numbers) if self.words else self.rule.text
        text += f". {RANKED}" if self.ranks else ""
        text += f"; {BY_THEMSELVES}" if self.of_each else ""
        return f"{text}. {self.control.text}" if self.control else text

    @cached_property
    def hashes(self) -> Hashes:
        """The hashes by which a change of the claim is seen."""
        words = [self.sentence, self.source, self.tolerance, self.rule.text, self.rule.numbers]
        beside, test = self.control.parts if self.control else ([], None)
        test_code = [self.rule.judge, test, *([self.ranks] if self.ranks else [])]
        return Hashes.of(self.name, [words, beside], test_code)

    def judge(self, records: Sequence[RunRecord]) -> ClaimResult:
        """The verdict on this claim: a pure function of ``records``, untrained runs included."""
        runs, finding = without_untrained(records), self.finding(records)
        p = smallest_p(finding, partial(self.rule.judge, runs))
        late, confirmed, asked_again = set_after(self.hashes, runs), None, None
        if late and finding.verdict in (REPRODUCED, CONTRADICTED):
            later = begun_after(self.hashes, records)
            alone = self.finding(later) if later else None
            confirmed = alone is not None and alone.verdict == finding.verdict
            asked_again = confirmed or self._has_as_many_seeds(alone, later, records)
        return ClaimResult(self, finding, p, late, confirmed, asked_again)

    def _has_as_many_seeds(
        self, alone: Finding | None, later: Sequence[RunRecord], records: Sequence[RunRecord]
    ) -> bool:
        """Whether later runs have as many seeds as those that were seen when the claim was set."""
        if alone is None or not alone.seeds:
            return False
        ids = {id(record) for record in later}
        seen = [record for record in records if id(record) not in ids]
        return alone.seeds >= self.finding(seen).seeds

    def finding(self, records: Records) -> Finding:
        """What the rule says beside its control, where every row is ranked that has to be: the
        verdict without when the claim was set and at which level it stands."""
        finding = self.without_control(records)
        if self.control is not None:
            finding = self.control.check(finding, self.rule, records, LEVEL)
        return self._among_tuned(finding, without_untrained(records))

    def _among_tuned(self, finding: Finding, runs: Records) -> Finding:
        """What is left of a verdict where a row is not ranked."""
        if self.ranks is None or finding.verdict in (NOT_ASKED, UNDECIDED):
            return finding
        rows = [(row.label, row.finished(runs)) for row in self.ranks(runs)]
        if not (lacking := not_ranked(rows)):
            return finding
        if self.of_each and finding.verdict == CONTRADICTED:
            out = {record.run_id for row in rows if not_ranked([row]) for record in row[1]}
            ranked = [record for record in runs if record.run_id not in out]
            if self.rule.judge(ranked, LEVEL).verdict == CONTRADICTED:
                evidence = f"{finding.evidence}; {lacking}, but the others contradict it alone"
                return replace(finding, evidence=evidence)
        evidence = f"{finding.evidence}; but {lacking}, so that these rows are not ranked"
        return replace(finding, verdict=UNDECIDED, evidence=evidence, seeds_needed=None)

    def without_control(self, records: Sequence[RunRecord]) -> Finding:
        """What the rule alone says of the runs."""
        return self.rule.judge(without_untrained(records), LEVEL)


@dataclass(frozen=True)
class ClaimResult:
    """A claim and what the runs say about it.

    Attributes:
        p: the smallest share of error at which the verdict stands, see :mod:`.levels`.
        after_runs: whether the claim was set, or its test edited, after the first run had begun.
        confirmed: whether the runs alone that began after that, their controls too, give the same
            verdict; None of a claim that was set before its runs, or is not decided.
        asked_again: whether those have as many seeds as the runs that were seen before, or confirm
            it with fewer; None likewise. Asked again and not confirmed is *not confirmed*.
    """

    claim: Claim
    finding: Finding
    p: float | None = None
    after_runs: bool = True
    confirmed: bool | None = None
    asked_again: bool | None = None

    def to_json(self, cost: Callable[[str], str]) -> dict[str, Any]:
        """The entry of a verdict file; of what is not asked here with the cost of asking."""
        at = self.finding.asked_at
        ask_at_cost = {"asked_at": at, "cost": cost(at)} if at else {}
        effect, frozen = self.finding.effect, entry_of(self.claim.hashes)
        return {
            "name": self.claim.name,
            "source": self.claim.source,
            "sentence": self.claim.sentence,
            "tolerance": self.claim.tolerance,
            "verdict": self.finding.verdict,
            "evidence": self.finding.evidence,
            "seeds": self.finding.seeds,
            "seeds_needed": self.finding.seeds_needed,
            "p": self.p,
            "effect": None if effect is None else asdict(effect),
            "frozen": None if frozen is None else f"{frozen.words}-{frozen.test}",
            "set": None if frozen is None else frozen.since,
            "after_runs": self.after_runs,
            **({} if self.confirmed is None else {"confirmed": self.confirmed}),
            **({"asked_again": True} if self.asked_again else {}),
            **ask_at_cost,
        }


def verdict_file(
    figure: str,
    preset: str,
    title: str,
    records: Sequence[RunRecord],
    results: Sequence[ClaimResult],
    cost: Callable[[str], str],
) -> bytes:
    """``verdicts.json``: the same bytes for equal records, of which the untrained runs stand apart.

    Args:
        cost: of asking at a preset, for what is not asked here.
    """
    controls = sorted(record.run_id for record in records if is_untrained(record))
    content = {
        "schema_version": SCHEMA_VERSION,
        "figure": figure,
        "preset": preset,
        "title": title,
        "records": [record.run_id for record in without_untrained(records)],
        **({"controls": controls} if controls else {}),
        "claims": [result.to_json(cost) for result in results],
    }
    return f"{json.dumps(content, indent=1, sort_keys=True, allow_nan=False)}\n".encode()
