"""Claims that were set after their runs had begun, and the new runs that judge them alone.

Such a claim describes what was seen. Its figure's plan is made again with seeds that no committed
record has, of the trainings and of the data that go with them, as many as the plan has. Where those
runs alone, judged by the same rule and with their own controls, give the same verdict, the claim is
confirmed; where they do not, it is not confirmed, and both verdicts stand.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.records.schema import RunRecord
from core.errors import UserError
from reproduce.claims.claims import Claim
from reproduce.claims.controls import without_untrained
from reproduce.claims.frozen import set_after
from reproduce.claims.grammar import Records
from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED
from reproduce.planned import PlannedRun
from reproduce.planning.survey import Candidate, Review, Survey, selected_by
from reproduce.request import Request

DECIDED = (REPRODUCED, CONTRADICTED)
CONFIRMED, NOT_CONFIRMED, NOT_ASKED_AGAIN = "confirmed", "not confirmed", "not asked again"
WITHOUT_SEED = ("baseline", "trial")  # runs that a further seed of a figure does not repeat
LONGEST_SEARCH = 8  # plans that are tried for one with enough new seeds


@dataclass(frozen=True)
class ReviewAlone(Review):
    """A reproduction whose claims were set after their runs, with the plan that asks them again.

    Attributes:
        settings: of that plan, beside the figure's name.
    """

    settings: dict[str, Any] | None = None

    @property
    def verdicts(self) -> dict[str, str]:
        """Claim -> what its later runs alone say. A part of them says nothing, since who stops at
        the first agreement finds some by chance."""
        standing = {}
        for result in self.results:
            alone = NOT_ASKED_AGAIN
            if not self.missing and result.asked_again:
                alone = CONFIRMED if result.confirmed else NOT_CONFIRMED
            standing[result.claim.name] = alone
        return standing


class SurveyAlone(Survey):
    """The same of the claims that were set after their runs and were not put to later ones: the
    runs of a candidate judge all those of one figure by themselves."""

    WANTED: ClassVar[str] = "claims that were set after their runs"

    def _review(self, name: str) -> Review:
        reproduction = self._reproductions[name]
        settings = self.settings[name]
        request = Request.of(settings, name, reproduction)
        if request.view.overrides:
            raise UserError(
                f"{request.view.overrides[0]} makes other runs than those by which the claims of "
                f"{name} were judged: leave it out"
            )
        committed = selected_by(reproduction, self.catalog.committed)
        claims = [claim for claim in reproduction.claims if only_described(claim, committed)]
        if not claims:
            return ReviewAlone(name, reproduction, request, (), ())
        seeds, runs = self._with_new_seeds(name, committed)
        if not runs:
            return ReviewAlone(name, reproduction, request, (), ())
        judged, note = self._with_local(reproduction, runs, changed=False)
        results = tuple(claim.judge(judged) for claim in claims)
        extended = {**settings, "seeds": seeds}
        details = (tuple(runs), judged, note, frozenset[str](), extended)
        return ReviewAlone(name, reproduction, request, results, *details)

    def _with_new_seeds(self, name: str, committed: Records) -> tuple[int, list[PlannedRun]]:
        """The smallest number of seeds, and its plan, that has as many seeds above those of all
        committed records as the figure's own plan has seeds; no runs of a figure whose plan has
        the same ones whatever number is given, as one that only counts a text."""
        highest = max(record.seed for record in committed)
        wanted = len(_seeds(self.runs_of(name, self.settings[name]), above=-1))
        number = wanted
        for _ in range(LONGEST_SEARCH if wanted else 0):
            runs = self.runs_of(name, {**self.settings[name], "seeds": number})
            lacking = wanted - len(_seeds(runs, above=highest))
            if lacking <= 0:
                return number, runs
            number += lacking
        return 0, []

    def _candidates(self, review: Review) -> list[Candidate]:
        assert isinstance(review, ReviewAlone)
        if review.settings is None or not review.missing:
            return []
        names = frozenset(result.claim.name for result in review.results)
        return [Candidate(review.figure, review.settings, tuple(review.missing), names)]


def only_described(claim: Claim, committed: Sequence[RunRecord]) -> bool:
    """Whether a claim is decided, was set after its runs had begun, and was not put to later ones.
    What no chance enters, and one run says, has no other seeds to be put to."""
    if not set_after(claim.hashes, without_untrained(committed)):
        return False
    if claim.finding(committed).verdict not in DECIDED:
        return False
    result = claim.judge(committed)
    return not result.asked_again and not (result.p == 0 and result.finding.seeds <= 1)


def _seeds(runs: Collection[PlannedRun], above: int) -> set[int]:
    """The seeds of the runs that a further seed repeats."""
    return {
        run.configuration.seed
        for run in runs
        if run.role not in WITHOUT_SEED and run.configuration.seed > above
    }
