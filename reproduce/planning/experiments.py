"""What would decide each claim that is open or not asked: runs that this preset's plan misses, more
seeds, or a larger preset whose plan has runs for it that this one has not."""

from __future__ import annotations

from dataclasses import dataclass

from reproduce.claims.claims import Claim, ClaimResult
from reproduce.claims.verdicts import NOT_ASKED
from reproduce.planned import PlannedRun, without_record
from reproduce.planning.cost import GPU_PRESETS, ExpectedCost
from reproduce.planning.reading import chosen_by, reads_more
from reproduce.planning.survey import OPEN, PRESETS, Review, Survey


@dataclass(frozen=True)
class DecidingRuns:
    """What would decide an open claim.

    Attributes:
        words: of ``python -m reproduce``; empty where no plan of the project decides it.
        cost: in core-seconds, or GPU-seconds where ``on_gpu``, of training alone: 0 where nothing
            is trained; None where there are no words.
        why: what stands open, in the words of the verdict.
        closed: by which decision the claim gets no more seeds here; the words are then those of a
            repetition by others.
    """

    figure: str
    claim: str
    verdict: str
    words: str
    cost: ExpectedCost | None
    on_gpu: bool
    why: str
    closed: str = ""


def experiments(survey: Survey) -> list[DecidingRuns]:
    """One for each claim that is open or not asked."""
    deciding = []
    for review in survey.reviews.values():
        for result in review.results:
            if result.finding.verdict in OPEN:
                deciding.append(_experiment(survey, review, result))
    return deciding


def _experiment(survey: Survey, review: Review, result: ClaimResult) -> DecidingRuns:
    figure, claim, finding = review.figure, result.claim, result.finding
    candidates = [c for c in survey.candidates if c.figure == figure and claim.name in c.claims]
    preset = survey.preset if candidates else _elsewhere(survey, review, result)
    words, closed, cost, trains = "", "", None, False
    decision = review.decision(claim) if not preset else None
    if preset or decision:
        seeds_word = f" seeds={decision.repeated}" if decision else ""
        preset = preset or survey.preset
        seeds = decision.repeated if decision else None
        runs = (
            candidates[0].runs
            if candidates
            else without_record(_runs_at(survey, figure, preset, claim, seeds))
        )
        trains = any(run.role != "baseline" for run in runs)
        paid = survey.catalog.weights if candidates else ()
        cost = survey.speeds.together(runs, paid) if trains else ExpectedCost()
        plan = candidates[0].shown if candidates else f"{figure} preset={preset}{seeds_word}"
        words = f"{plan} {claim.asked_with}"
    if decision:
        place = "reproduce/claims/history.yaml"
        closed = f"by others; closed here by decision ({place}: {decision.decision})"
    details = (words.rstrip(), cost, trains and preset in GPU_PRESETS, finding.evidence, closed)
    return DecidingRuns(figure, claim.name, finding.verdict, *details)


def _elsewhere(survey: Survey, review: Review, result: ClaimResult) -> str:
    """The preset that asks a claim which is not asked here, or the next larger one that has more
    runs for an open one; empty where there is none."""
    if result.finding.verdict == NOT_ASKED:
        at = result.finding.asked_at
        return at if at != survey.preset or not review.asks(result.claim) else ""
    larger = PRESETS[PRESETS.index(survey.preset) + 1 :]
    return next((preset for preset in larger if _adds(survey, review, result.claim, preset)), "")


def _adds(survey: Survey, review: Review, claim: Claim, preset: str) -> bool:
    """Whether a preset's plan has runs for a claim that the review's has not: of other settings, or
    more seeds. The same ones again would leave open what they have left open."""
    planned = set(map(_setting_and_seed, review.runs))
    runs = _runs_at(survey, review.figure, preset, claim)
    old = [run for run in runs if _setting_and_seed(run) in planned]
    return reads_more(claim, review.reproduction, review.judged, runs, old)


def _setting_and_seed(run: PlannedRun) -> str:
    """Equal for runs that differ in nothing but the preset."""
    return f"{run.configuration.seed} {run.configuration.setting}"


def _runs_at(
    survey: Survey, figure: str, preset: str, claim: Claim, seeds: int | None = None
) -> list[PlannedRun]:
    """The runs of a figure's plan at a preset, with what a claim is asked of."""
    settings = {**survey.settings[figure], "preset": preset, **chosen_by(claim)}
    if seeds is not None:
        settings["seeds"] = seeds
    return survey.runs_of(figure, settings)
