"""The steps that lift a record from level to level, and what each found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from bench.records.counted import Counted, contradiction, other_data
from bench.records.identity import canonical_record
from bench.records.provenance import commit_and_dirty, library_versions, processor
from bench.records.schema import RunRecord
from bench.records.spread import Spread, spread_of
from bench.records.store import Store
from core.errors import VERIFICATION_FAILED, UserError
from core.privacy import public_system
from core.progress import Report, silent
from leaderboards.checks.admission import left_open
from leaderboards.tables.status import Check, Checked, Verification, earlier_verification, path_of
from leaderboards.tables.status import write_verification as write
from leaderboards.verification.comparison import (
    RESCORED,
    beside_the_headline,
    differs,
    other_libraries,
)
from leaderboards.verification.rerun import Bench

SERVED = "the store holds this very record, which nobody has made again: name another by store="


@dataclass(frozen=True)
class RecordToVerify:
    """A record that is to be verified.

    Attributes:
        path: its file.
        to: the folder of verifications that it belongs to.
        own: whether it is neither on the board nor of a submission.
        submitted: whether it came with others, as a submission.
    """

    record: RunRecord
    path: Path
    to: Path
    own: bool = False
    submitted: bool = False

    @property
    def store(self) -> Path:
        """The folder of the store that it lies in, if it lies in one."""
        folder = self.path.resolve().parent
        return folder.parent if folder.name == "records" else folder

    @property
    def weights(self) -> Path | None:
        """The record's saved weights, if they lie beside it as in a store."""
        path = Store(self.path.resolve().parent.parent).weights(self.record.run_id)
        beside = self.path.parent.name == "records" and path.is_file()
        return path if beside and self.record.weights_sha256 else None


@dataclass(frozen=True)
class Verifier:
    """Whoever verifies: how far, and with what.

    Attributes:
        others: trusted records of a task, which tell the spread over seeds.
    """

    bench: Bench
    level: Checked = "re-run"
    by: str = ""
    others: Mapping[str, Sequence[RunRecord]] = field(default_factory=dict)
    report: Report = silent

    def count(
        self, targets: Sequence[RecordToVerify], refused: list[UserError] | None = None
    ) -> dict[str, Counted]:
        """Run id -> what is counted again of its record, by one process for all, without those of
        one's own that are refused.

        Args:
            refused: where the errors of one's own records go that say otherwise.

        Raises:
            UserError: a record says otherwise.
        """
        counts_by_run = {}
        counting = "counting data, sizes and FLOPs again"
        self.report(counting, 0, len(targets))
        counted = self.bench.count([target.path for target in targets])
        for target, counts in zip(targets, counted, strict=True):
            if counts.refused or not (reason := contradiction(target.record, counts)):
                counts_by_run[target.record.run_id] = counts
                continue
            error = UserError(
                f"the record {target.record.run_id} is refused because {reason}",
                VERIFICATION_FAILED,
            )
            if refused is None or not target.own:
                raise error
            refused.append(error)
        self.report(counting, len(targets), len(targets))
        return counts_by_run

    def verify(
        self, targets: Sequence[RecordToVerify], counted: Mapping[str, Counted]
    ) -> list[Verification]:
        """What was found of records that belong together, as the seeds of one submission do, each
        written as soon as all are judged.

        Args:
            counted: as :meth:`count` gives it.
        """
        verifications = []
        for target in targets:
            counts = counted[target.record.run_id]
            verification = self._consistent(target, counts)
            if self.level != "consistent":
                verification = self._scored(target, counts, verification)
            verifications.append(verification)
        if self.level == "re-run":
            verifications = self._run(targets, verifications)
        for target, verification in zip(targets, verifications, strict=True):
            write(verification, path_of(target.record, target.to))
        return verifications

    @property
    def trusted(self) -> Iterator[RunRecord]:
        """Trusted records of all tasks."""
        return chain.from_iterable(self.others.values())

    def _check(self, level: Checked, passed: bool, **details: object) -> Check:
        machine = {
            "device": processor(),
            "system": public_system(),
            "libraries": library_versions(),
            "commit": commit_and_dirty()[0],
        }
        at = datetime.now(UTC).isoformat(timespec="seconds")
        fields = {"level": level, "passed": passed, "at": at, "by": self.by, **machine, **details}
        return Check(**fields)  # type: ignore[arg-type]

    def _consistent(self, target: RecordToVerify, counts: Counted) -> Verification:
        record = target.record
        refused = counts.refused and (self.bench.lacks(record) or counts.refused)
        wrong = refused or other_data(record, counts.data) or ""
        uncounted = ""
        if not counts.cost:
            reason = counts.uncounted or "nothing was trained for it"
            uncounted = f"sizes and FLOPs were not counted, since {reason}"
        check = self._check("consistent", not wrong, told=wrong or uncounted)
        return earlier_verification(
            record, target.to, left_open(record) or counts.uncounted
        ).with_check(check)

    def _scored(
        self, target: RecordToVerify, counts: Counted, so_far: Verification
    ) -> Verification:
        if target.weights is None or counts.refused:  # what stands in the way is told already
            return so_far
        record = target.record
        self.report(f"scoring the weights of {record.run_id}", 0, 1)
        scored = self.bench.score(record, target.path)
        if isinstance(scored, str):
            return so_far.with_check(self._check("re-scored", False, told=scored))
        recorded = record.headline.value
        spread = Spread(RESCORED * max(1.0, abs(recorded or 0.0)), "rounding of equal weights")
        metrics = scored.get("test", {})
        value = metrics.get(record.headline.name)
        numbers = {"recorded": recorded, "found": value, "metrics": metrics}
        bound = {"bound": spread.bound, "bound_from": spread.source}
        return so_far.with_check(
            self._check("re-scored", spread.holds(recorded, value), **numbers, **bound)
        )

    def _run(
        self, targets: Sequence[RecordToVerify], verifications: list[Verification]
    ) -> list[Verification]:
        repeated_runs: list[RunRecord | str] = []
        for number, target in enumerate(targets):
            self.report(f"making runs again: {target.record.run_id}", number, len(targets))
            repeated_runs.append(self.bench.run(target.record))
        self.report("making runs again: all", len(targets), len(targets))
        present_records = [record for record in repeated_runs if isinstance(record, RunRecord)]
        judged = []
        for target, so_far, repeated in zip(targets, verifications, repeated_runs, strict=True):
            check = self._judge(target.record, repeated, present_records)
            judged.append(so_far.with_check(check))
        return judged

    def _judge(
        self, record: RunRecord, repeated: RunRecord | str, present_records: Iterable[RunRecord]
    ) -> Check:
        """Whether a run that was made again is the one that its record tells of."""
        if isinstance(repeated, str):
            return self._check("re-run", False, told=repeated)
        if repeated.content_hash() == record.content_hash():
            return self._check("re-run", False, told=SERVED)
        trusted = self.others.get(record.task, ())
        # Seeds of a setting that only its submission tells of are those that were made here.
        identity = canonical_record(record).identity
        is_known = any(canonical_record(other).identity == identity for other in trusted)
        spread = spread_of(record, trusted if is_known else [*trusted, *present_records])
        recorded, value = record.headline.value, repeated.headline.value
        remark = differs(record, repeated)
        if not remark and spread.holds(recorded, value):
            remark = beside_the_headline(record, repeated)
        return self._check(
            "re-run",
            not remark and spread.holds(recorded, value),
            recorded=recorded,
            found=value,
            bound=spread.bound,
            bound_from=spread.source,
            metrics=repeated.metrics.get("test", {}),
            made=repeated.content_hash(),
            outcome=repeated.outcome,
            told=remark or other_libraries(record, repeated),
            **_machine_of(repeated),
        )


def _machine_of(repeated: RunRecord) -> dict[str, object]:
    """Where a run was made, as its record tells: a store may be that of another machine."""
    provenance = repeated.provenance
    machine = {
        "device": provenance.device,
        "system": provenance.platform,
        "commit": provenance.commit,
    }
    return {**machine, "libraries": provenance.libraries}
