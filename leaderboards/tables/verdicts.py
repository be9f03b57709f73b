"""Verdict files: what runs say about published statements, decided by ``reproduce.claims``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from bench.records.schema import FrozenModel
from core.effects import Effect, discoveries
from core.errors import UserError
from core.reading import Kind, Several, read_all
from core.statistics import LEVEL
from leaderboards.tables.lines import ClaimLine
from leaderboards.tables.summaries import COMMITTED, YOURS

DECIDED = ("reproduced", "contradicted")


class JudgedClaim(FrozenModel):
    """One published statement and the verdict on it."""

    name: str
    source: str
    sentence: str
    tolerance: str
    verdict: Literal["reproduced", "contradicted", "not enough evidence", "not asked here"]
    evidence: str
    seeds: int
    seeds_needed: int | None = None
    asked_at: str = ""
    cost: str = ""
    p: float | None = Field(default=None, ge=0, le=1)
    effect: Effect | None = None
    frozen: str | None = None
    set: str | None = None
    after_runs: bool = True
    confirmed: bool | None = None
    asked_again: bool = False


class FigureVerdicts(FrozenModel):
    """The verdicts on one published figure, from the records that it names, and those of its
    controls."""

    schema_version: Literal[1]
    figure: str = Field(pattern="^[a-z][a-z0-9_]{0,79}$")
    preset: Literal["smoke", "laptop", "gpu", "paper"]
    title: str
    records: Several[str]
    claims: Several[JudgedClaim]
    controls: Several[str] = Field(default_factory=list)


VERDICTS = Kind(
    "verdict file", FigureVerdicts, how="make it again with the figure's reproduce command"
)


def read_verdicts(
    paths: Iterable[Path], refused: list[UserError] | None = None
) -> list[FigureVerdicts]:
    """Verdict files, in the order of ``paths``; of one figure at one preset the last file counts.
    With ``refused``, files that cannot be trusted are put there instead.

    Raises:
        UserError: a file is oversized, truncated, or not a verdict file.
    """
    files = read_all(paths, VERDICTS.read_json, refused)
    return list({(file.figure, file.preset): file for file in files}.values())


def claim_lines(
    files: Iterable[FigureVerdicts], own: Iterable[FigureVerdicts] = ()
) -> list[ClaimLine]:
    """One line for each claim, by figure and preset; the order inside a file is kept.

    Args:
        own: verdicts from the reader's runs, which stand in the place of those of ``files`` on the
            same figure at the same preset.
    """
    committed = {(file.figure, file.preset): file for file in files}
    yours = {(file.figure, file.preset): file for file in own}
    ordered = [file for _, file in sorted((committed | yours).items())]
    lines = []
    for file in ordered:
        before: dict[str, str] = {}
        is_own = (file.figure, file.preset) in yours
        if is_own and (replaced := committed.get((file.figure, file.preset))):
            before = {claim.name: claim.verdict for claim in replaced.claims}
        for claim in file.claims:
            line = ClaimLine(
                figure=file.figure,
                title=file.title,
                preset=file.preset,
                run_ids=tuple(file.records),
                effect="" if claim.effect is None else str(claim.effect),
                origin=YOURS if is_own else COMMITTED,
                committed=before.get(claim.name, ""),
                **claim.model_dump(exclude={"effect", "frozen"}),
            )
            lines.append(line)
    return corrected(lines)


def corrected(lines: Sequence[ClaimLine]) -> list[ClaimLine]:
    """The lines, marked with whether a verdict stays when all questions of its preset are taken
    together (:func:`core.effects.discoveries`). What was asked and left open is a question too;
    what no chance enters is none, and would only make room for the others."""
    marked = list(lines)
    for preset in {line.preset for line in lines}:
        numbers: list[int] = []
        p_values: list[float | None] = []
        for number, line in enumerate(lines):
            if line.preset == preset and line.p != 0 and line.verdict != "not asked here":
                numbers.append(number)
                # Verdicts of before p-values were kept were decided at the level of all.
                decided = line.verdict in DECIDED
                p_values.append(1 - LEVEL if decided and line.p is None else line.p)
        for number, stays in zip(numbers, discoveries(p_values), strict=True):
            if lines[number].verdict in DECIDED:
                marked[number] = replace(lines[number], stays=stays)
    return marked
