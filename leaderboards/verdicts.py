"""Verdict files: what runs say about published statements, decided by ``judging``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ground.errors import UserError
from ground.reading import Kind, Several, read_all
from leaderboards.contents import ClaimLine


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Claim(_Frozen):
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


class VerdictFile(_Frozen):
    """The verdicts on one published figure, from the records that it names."""

    schema_version: Literal[1]
    figure: str = Field(pattern="^[a-z][a-z0-9_]{0,79}$")
    preset: Literal["smoke", "laptop", "gpu", "paper"]
    title: str
    records: Several[str]
    claims: Several[Claim]


VERDICTS = Kind(
    "verdict file", VerdictFile, how="make it again with the figure's reproduce command"
)


def read_verdicts(
    paths: Iterable[Path], refused: list[UserError] | None = None
) -> list[VerdictFile]:
    """Verdict files, in the order of ``paths``; of one figure at one preset the last file counts.
    With ``refused``, files that cannot be trusted are put there instead.

    Raises:
        UserError: a file is oversized, truncated, or not a verdict file.
    """
    files = read_all(paths, VERDICTS.read_json, refused)
    return list({(file.figure, file.preset): file for file in files}.values())


def claim_lines(files: Iterable[VerdictFile]) -> list[ClaimLine]:
    """One line for each claim, by figure and preset; the order inside a file is kept."""
    ordered = sorted(files, key=lambda file: (file.figure, file.preset))
    return [
        ClaimLine(
            figure=file.figure,
            title=file.title,
            preset=file.preset,
            run_ids=tuple(file.records),
            **claim.model_dump(),
        )
        for file in ordered
        for claim in file.claims
    ]
