"""Verdict files: what runs say about published statements, decided by ``judging``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ground.errors import RUN_FAILED, UserError
from leaderboards.contents import ClaimLine

MAXIMUM_BYTES = 2**20


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
    figure: str
    preset: str
    title: str
    records: list[str]
    claims: list[Claim]


def read_verdicts(paths: Iterable[Path]) -> list[VerdictFile]:
    """Verdict files, in the order of ``paths``; of one figure at one preset the last file counts.

    Raises:
        UserError: a file is oversized, truncated, or not a verdict file.
    """
    files: dict[tuple[str, str], VerdictFile] = {}
    for path in paths:
        how = "make it again with the figure's reproduce command"
        if path.stat().st_size > MAXIMUM_BYTES:
            raise UserError(f"{path} is larger than 1 MiB: {how}", RUN_FAILED)
        try:
            file = VerdictFile.model_validate(json.loads(path.read_bytes()))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise UserError(
                f"{path} is not a verdict file ({place}: {first['msg']}): {how}", RUN_FAILED
            ) from None
        except (ValueError, RecursionError):
            raise UserError(f"{path} is truncated or not JSON: {how}", RUN_FAILED) from None
        files[file.figure, file.preset] = file
    return list(files.values())


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
