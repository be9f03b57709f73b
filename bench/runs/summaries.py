"""What a training leaves in the folder of its run beside the weights."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from bench.records.schema import Cost, Restart
from bench.training.training import TrainingReport
from core.errors import RUN_FAILED, UserError
from core.files import open_regular, read_sealed
from core.reading import beyond_bounds

Summary = TypeVar("Summary")


@dataclass
class TrainedSummary:
    """What is kept of a training beside the weights."""

    report: TrainingReport
    restarts: list[Restart]
    cost: Cost
    weights_sha256: str
    examined: list[str] = field(default_factory=list)  # what fresh weights have passed


@dataclass
class DivergedSummary:
    """What is kept of a training that diverged."""

    cause: str
    report: TrainingReport
    cost: Cost


def read_summary(path: Path, kind: type[Summary]) -> Summary:
    """What a training left in its folder.

    Raises:
        UserError: the file is damaged, or holds anything else.
    """
    try:
        try:
            text = read_sealed(path)
        except ValueError:  # earlier versions wrote no seal; a file with a broken one is no JSON
            with open_regular(path) as file:
                text = file.read()
        content = json.loads(text)
        if beyond_bounds(content):
            raise ValueError
        return TypeAdapter(kind).validate_python(content)
    except (ValueError, RecursionError):
        raise UserError(
            f"{path} is damaged or edited: delete the folder {path.parent} and run again",
            RUN_FAILED,
        ) from None
