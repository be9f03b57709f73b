"""What the commands about runs that are there are asked for. It imports no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.records.equality.renames import Renames
from core.errors import UserError

if TYPE_CHECKING:  # it imports pydantic, which help on a command does without
    from bench.records.equivalence import Proof


@dataclass(frozen=True)
class EvaluationRequest:
    """Which run is evaluated, and how: of ``bench.evaluate``.

    Attributes:
        run: its id, a part of one that no other has, or the path of its record.
        device: None is the kind of device that made the record.
        task: the one that measures; None is the run's own.
        settings: of the task that measures, by their names there; places of data among them.
        trust: the packages or files that classes of somebody else may be imported from.
        output: the file that gets what was measured.
    """

    run: str
    store: Path
    device: str | None
    task: str | None
    settings: Mapping[str, Any]
    trust: str | None
    output: Path | None


@dataclass(frozen=True)
class ExaminationRequest:
    """Which run is examined: of ``bench.examine``.

    Attributes:
        run, device, trust: as of :class:`EvaluationRequest`.
        places: setting of the task -> where its data lie.
        write: whether the record in the store is completed by it.
    """

    run: str
    store: Path
    device: str | None
    places: Mapping[str, Any]
    trust: str | None
    write: bool


@dataclass(frozen=True)
class RecountRequest:
    """Which records are counted again: of ``bench.recount``.

    Attributes:
        paths: of records.
        places: "tasks.key" -> where data lie.
        trust: as of :class:`EvaluationRequest`.
        output: the file that gets the lines; None is the screen.
    """

    paths: Sequence[Path]
    places: Mapping[str, Any]
    trust: str | None
    output: Path | None


@dataclass(frozen=True)
class ProofRequest:
    """What is proven equal to the code of an older commit: of ``bench.equivalence``.

    Attributes:
        commit: the older one; None is, for each stale committed record, its own.
        by: what is compared: definitions, or the bytes of runs, or their numbers up to rounding.
        renames: names of the older commit that are others now.
        store: where the runs lie whose code is looked at, by definitions; up to rounding, where
            runs are made in full, and what was compared is kept.
        task, models, preset: what is run; None is every one of the committed records.
        extra: settings for every run of a task that has them.
    """

    commit: str | None
    by: Proof
    renames: Renames
    store: Path
    task: str | None
    models: Sequence[str] | None
    preset: str | None
    extra: Mapping[str, Any]


def refuse_unused(settings: Mapping[str, Any], run: object, usage: str) -> None:
    """Nothing where a run is named and no other setting is left.

    Raises:
        UserError: a setting that the command does not have, or no run.
    """
    if settings or not run:
        unknown = next(iter(settings), None)
        wrong = f"there is no setting '{unknown}'" if unknown else "no run is named"
        raise UserError(f"{wrong}: usage is {usage}")


def take_task_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Take those of the task, ``tasks.KEY``, out of a command's settings; by KEY."""
    keys = [key for key in settings if key.startswith("tasks.")]
    return {key.removeprefix("tasks."): settings.pop(key) for key in keys}


def store_of(value: object) -> str:
    """The folder of the runs that ``store=`` names; None is the one of the working directory.

    Raises:
        UserError: it is empty.
    """
    if value == "":
        raise UserError("store= is empty: give the folder of the runs, or leave it out for runs")
    return str(value or "runs")
