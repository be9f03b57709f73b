"""How far a record has been checked: the levels, and the small file beside a record that keeps what
was found. ``python -m leaderboards.verify`` alone writes it; it is data, and is read as such."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from bench.records.schema import FrozenModel, RunRecord
from core.errors import UserError
from core.files import ROOT, write_atomically
from core.reading import Kind, Several, read_all
from leaderboards.tables.summaries import SUBMITTED, RecordSummary, hash_of

FOLDER = ROOT / "leaderboards" / "verifications"  # TASK/PRESET/RUN_ID.json
OWN = "verifications"  # the same in a store, of records that are on no board but one's own
SUBMISSIONS = ROOT / "leaderboards" / "submissions"  # NAME/records/RUN_ID.json

Level = Literal["reported", "consistent", "re-scored", "re-run", "replicated"]
LEVELS: tuple[Level, ...] = get_args(Level)
Checked = Literal["consistent", "re-scored", "re-run"]


class Check(FrozenModel):
    """One check, by one machine.

    Attributes:
        level: what it can lift a record to, if it passed.
        by: who made it, as far as they say.
        found: what the headline was here, and ``bound`` how far it may lie from the recorded one;
            ``bound_from`` says where that comes from.
        metrics: all of the test split, as they were here.
        device: the processor or accelerator that made it; ``system``, the operating system and kind
            of processor, as a record tells it.
        made: content hash of the record that the run again gave; ``outcome``, how that ended.
        told: what is wrong, or notable, in a clause.
    """

    level: Checked
    passed: bool
    at: str = Field(max_length=40)
    device: str = Field(max_length=200)
    system: str = Field(default="", max_length=200)
    libraries: dict[str, str]
    commit: str | None = None
    by: str = Field(default="", max_length=200)
    recorded: float | None = None
    found: float | None = None
    bound: float | None = None
    bound_from: str = Field(default="", max_length=300)
    metrics: dict[str, float] = Field(default_factory=dict)
    made: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    outcome: str = Field(default="", max_length=40)
    told: str = Field(default="", max_length=1000)

    @property
    def is_outside(self) -> bool:
        """Whether this was the run of the record, made again, and its headline was another one than
        is explained."""
        if self.level != "re-run" or self.bound is None:
            return False
        if self.recorded is None or self.found is None:
            return self.recorded is not self.found
        return abs(self.found - self.recorded) > self.bound


class Verification(FrozenModel):
    """What was checked of one record.

    Attributes:
        record_sha256: its content hash; of another record of that name nothing was checked.
        open: why its headline cannot be worked out from the record, or its size not be counted, as
            a clause; "" if both can.
    """

    schema_version: Literal[1] = 1
    run_id: str
    record_sha256: str = Field(pattern="^[0-9a-f]{64}$")
    open: str = Field(default="", max_length=1000)
    checks: Several[Check] = Field(default_factory=list)

    def passed(self, level: Checked) -> list[Check]:
        """The checks of one level that passed."""
        return [check for check in self.checks if check.passed and check.level == level]

    @property
    def machines(self) -> int:
        """The number of kinds of machine, or of people, by which it was run again within the
        spread: the larger one."""
        reruns = self.passed("re-run")
        people = {check.by for check in reruns} - {""}
        return max(len({check.device for check in reruns}), len(people))

    @property
    def level(self) -> Level:
        """The highest that it has reached."""
        if self.machines:
            return "replicated" if self.machines > 1 else "re-run"
        if self.passed("re-scored"):
            return "re-scored"
        return "consistent" if self.passed("consistent") and not self.open else "reported"

    def with_check(self, check: Check) -> Verification:
        """The same with one more check, in the place of an earlier one by the same machine, if that
        is about the same record of a run again or came to none."""
        same = (check.level, check.device, check.by)
        checks = []
        for old in self.checks:
            if (old.level, old.device, old.by) != same or old.made not in (None, check.made):
                checks.append(old)
        return self.model_copy(update={"checks": [*checks, check]})


VERIFICATION = Kind(
    "verification",
    Verification,
    how="restore it from version control, or delete it and verify again",
)


def path_of(record: RunRecord, folder: Path = FOLDER) -> Path:
    """Where what was checked of a record is kept."""
    return folder / record.task / record.preset / f"{record.run_id}.json"


def read_verification(path: Path) -> Verification:
    """The file of one record.

    Raises:
        UserError: it is missing, or was edited into something else.
    """
    verification = VERIFICATION.read_json(path)
    if verification.run_id != path.stem:
        raise VERIFICATION.refused(path, f"is about '{verification.run_id}'")
    return verification


def earlier_verification(record: RunRecord, folder: Path = FOLDER, open: str = "") -> Verification:
    """What was checked of exactly this record before; nothing, where there is no such file."""
    path, sha256 = path_of(record, folder), record.content_hash()
    verification = read_verification(path) if path.exists() else None
    if verification is None or verification.record_sha256 != sha256:
        return Verification(run_id=record.run_id, record_sha256=sha256, open=open)
    return verification.model_copy(update={"open": open})


def write_verification(verification: Verification, path: Path) -> None:
    """Write it atomically."""
    text = json.dumps(verification.model_dump(mode="json"), indent=1, sort_keys=True)
    write_atomically(path, f"{text}\n".encode())


@dataclass(frozen=True)
class VerificationStatus:
    """What a row of the board says of how far it was checked.

    Attributes:
        level: the lowest of its seeds.
        words: the level with what a reader needs beside it, such as "replicated ×3".
        verified: whether it may be ranked beside rows of this project (``may_rank`` below).
    """

    level: Level
    words: str
    verified: bool


# By this project: nobody has checked it.
REPORTED = VerificationStatus("reported", "reported", True)


@dataclass(frozen=True)
class VerificationStatuses:
    """What is known of all records: their verifications by content hash of the record. So what is
    known of another record of the same name is nothing."""

    verifications: Mapping[str, Verification] = field(default_factory=dict)

    @classmethod
    def of(cls, verifications: Iterable[Verification]) -> VerificationStatuses:
        """The standings that follow from some verifications; of equal records the last counts."""
        return cls({verification.record_sha256: verification for verification in verifications})

    def about(self, summary: RecordSummary) -> Verification:
        """What was checked of a record."""
        verification = self.verifications.get(summary.content)
        return verification or Verification(run_id=summary.run_id, record_sha256=summary.content)

    def may_rank(self, summary: RecordSummary) -> bool:
        """Whether a record may be ranked beside those of this project: what was sent has to be run
        again first, since all else can be made up."""
        if summary.origin != SUBMITTED:
            return True
        return LEVELS.index(self.about(summary).level) >= LEVELS.index("re-run")

    def of_record(self, summary: RecordSummary) -> str:
        """The level of one record, in words."""
        if summary.content not in self.verifications:
            return REPORTED.words
        verification = self.about(summary)
        return _level_in_words(verification.level, [verification])

    def names(self) -> set[str]:
        """The run ids of all records that anything is known of."""
        return {verification.run_id for verification in self.verifications.values()}

    def stale(self, contents: Collection[str]) -> list[Verification]:
        """What was checked of records that are gone, or were replaced.

        Args:
            contents: hashes of all records of these names (:meth:`names`) that there are.
        """
        verifications = self.verifications.items()
        return [verification for sha256, verification in verifications if sha256 not in contents]

    def of_row(self, summaries: Sequence[RecordSummary]) -> VerificationStatus:
        """The standing of a row of the board: that of its least checked seed."""
        may_rank = all(map(self.may_rank, summaries))
        if self.verifications.keys().isdisjoint(summary.content for summary in summaries):
            return replace(REPORTED, verified=may_rank)
        verifications = list(map(self.about, summaries))
        level = min((verification.level for verification in verifications), key=LEVELS.index)
        return VerificationStatus(level, _level_in_words(level, verifications), may_rank)

    def by_task(self) -> dict[str, str]:
        """Hash of all that is known of the records of each task, whose names begin with it."""
        texts: dict[str, list[str]] = defaultdict(list)
        for verification in self.verifications.values():
            texts[verification.run_id.partition("-")[0]].append(verification.model_dump_json())
        return {task: hash_of(sorted(of_task)) for task, of_task in texts.items()}


def _level_in_words(level: Level, verifications: Sequence[Verification]) -> str:
    words: str = level
    machines = [verification.machines for verification in verifications]
    if level == "replicated":
        words = f"replicated ×{min(machines)}"
    rerun = len(machines) - machines.count(0)
    if 0 < rerun < len(machines):
        words += f", {rerun} of {len(machines)} seeds re-run"
    outside = 0
    for verification in verifications:
        outside += any(check.is_outside for check in verification.checks)
    return f"{words}, {outside} outside the spread" if outside else words


def read_statuses(
    folders: Sequence[Path] = (FOLDER,), refused: list[UserError] | None = None
) -> VerificationStatuses:
    """What is known of all records.

    Args:
        refused: where files that cannot be trusted are put, instead of an error.

    Raises:
        UserError: without ``refused``, a file cannot be trusted.
    """
    return VerificationStatuses.of(read_all(_files(folders), read_verification, refused))


def drop(stale: Iterable[Verification], folders: Sequence[Path]) -> list[Path]:
    """Delete the files of some verifications; their paths."""
    unwanted = {verification.record_sha256 for verification in stale}
    paths = [p for p in _files(folders) if read_verification(p).record_sha256 in unwanted]
    for path in paths:
        path.unlink()
    return paths


def _files(folders: Sequence[Path]) -> list[Path]:
    paths: list[Path] = []
    for folder in folders:
        paths += sorted(folder.rglob("*.json"))
    return paths
