"""The steps that lift a record from level to level, and what each found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from bench.records.counted import Counted, contradiction, other_data
from bench.records.identity import settled
from bench.records.provenance import commit_and_dirty, library_versions, processor
from bench.records.schema import RunRecord
from bench.records.store import Store
from ground.errors import VERIFICATION_FAILED, UserError
from ground.privacy import told_system
from ground.progress import Report, silent
from leaderboards.checks.admission import left_open
from leaderboards.verification.comparison import (
    RESCORED,
    beside_the_headline,
    differs,
    other_libraries,
)
from leaderboards.verification.rerun import Bench
from leaderboards.verification.spread import Spread, spread_of
from leaderboards.verification.status import Check, Checked, Verification, about, path_of
from leaderboards.verification.status import write_verification as write

SERVED = "the store holds this very record, which nobody has made again: name another by store="


@dataclass(frozen=True)
class Asked:
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
    def weights(self) -> Path | None:
        """Its saved weights, if they lie beside it as in a store."""
        found = Store(self.path.resolve().parent.parent).weights(self.record.run_id)
        beside = self.path.parent.name == "records" and found.is_file()
        return found if beside and self.record.weights_sha256 else None


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
        self, asked: Sequence[Asked], refused: list[UserError] | None = None
    ) -> dict[str, Counted]:
        """Run id -> what is counted again of its record, by one process for all, without those of
        one's own that are refused.

        Args:
            refused: where the errors of one's own records go that say otherwise.

        Raises:
            UserError: a record says otherwise.
        """
        found = {}
        self.report("counting data, sizes and FLOPs again", 0, len(asked))
        counted = self.bench.count([one.path for one in asked])
        for one, counts in zip(asked, counted, strict=True):
            if counts.refused or not (why := contradiction(one.record, counts)):
                found[one.record.run_id] = counts
                continue
            error = UserError(
                f"the record {one.record.run_id} is refused because {why}", VERIFICATION_FAILED
            )
            if refused is None or not one.own:
                raise error
            refused.append(error)
        self.report("data, sizes and FLOPs are counted", len(asked), len(asked))
        return found

    def verify(self, asked: Sequence[Asked], counted: Mapping[str, Counted]) -> list[Verification]:
        """What was found of records that belong together, as the seeds of one submission do, each
        written as soon as all are judged.

        Args:
            counted: as :meth:`count` gives it.
        """
        counts = [counted[one.record.run_id] for one in asked]
        found = [self._consistent(*pair) for pair in zip(asked, counts, strict=True)]
        if self.level != "consistent":
            found = [self._scored(*three) for three in zip(asked, counts, found, strict=True)]
        if self.level == "re-run":
            found = self._run(asked, found)
        for one, verification in zip(asked, found, strict=True):
            write(verification, path_of(one.record, one.to))
        return found

    @property
    def trusted(self) -> Iterator[RunRecord]:
        """Trusted records of all tasks."""
        return chain.from_iterable(self.others.values())

    def _check(self, level: Checked, passed: bool, **found: object) -> Check:
        here = {
            "device": processor(),
            "system": told_system(),
            "libraries": library_versions(),
            "commit": commit_and_dirty()[0],
        }
        at = datetime.now(UTC).isoformat(timespec="seconds")
        told = {"level": level, "passed": passed, "at": at, "by": self.by, **here, **found}
        return Check(**told)  # type: ignore[arg-type]

    def _consistent(self, asked: Asked, counts: Counted) -> Verification:
        record = asked.record
        refused = counts.refused and (self.bench.lacks(record) or counts.refused)
        wrong = refused or other_data(record, counts.data) or ""
        check = self._check("consistent", not wrong, told=wrong or _not_counted(counts))
        return about(record, asked.to, left_open(record) or counts.uncounted).with_check(check)

    def _scored(self, asked: Asked, counts: Counted, found: Verification) -> Verification:
        if asked.weights is None or counts.refused:  # what stands in the way is told already
            return found
        record = asked.record
        self.report(f"scoring the weights of {record.run_id}", 0, 1)
        scored = self.bench.score(record, asked.path)
        if isinstance(scored, str):
            return found.with_check(self._check("re-scored", False, told=scored))
        recorded = record.headline.value
        spread = Spread(RESCORED * max(1.0, abs(recorded or 0.0)), "rounding of equal weights")
        metrics = scored.get("test", {})
        value = metrics.get(record.headline.name)
        told = {"recorded": recorded, "found": value, "metrics": metrics}
        bound = {"bound": spread.bound, "bound_from": spread.source}
        return found.with_check(
            self._check("re-scored", spread.holds(recorded, value), **told, **bound)
        )

    def _run(self, asked: Sequence[Asked], found: list[Verification]) -> list[Verification]:
        made: list[RunRecord | str] = []
        for number, one in enumerate(asked):
            self.report(f"making {one.record.run_id} again", number, len(asked))
            made.append(self.bench.run(one.record))
        self.report("all runs are made", len(asked), len(asked))
        here = [record for record in made if isinstance(record, RunRecord)]
        triples = zip(asked, found, made, strict=True)
        return [
            so_far.with_check(self._judge(one.record, again, here))
            for one, so_far, again in triples
        ]

    def _judge(self, record: RunRecord, again: RunRecord | str, here: Iterable[RunRecord]) -> Check:
        """Whether a run that was made again is the one that its record tells of."""
        if isinstance(again, str):
            return self._check("re-run", False, told=again)
        if again.content_hash() == record.content_hash():
            return self._check("re-run", False, told=SERVED)
        trusted = self.others.get(record.task, ())
        # Seeds of a setting that only its submission tells of are those that were made here.
        identity = settled(record).identity
        known = any(settled(other).identity == identity for other in trusted)
        spread = spread_of(record, trusted if known else [*trusted, *here])
        recorded, value = record.headline.value, again.headline.value
        told = differs(record, again)
        if not told and spread.holds(recorded, value):
            told = beside_the_headline(record, again)
        return self._check(
            "re-run",
            not told and spread.holds(recorded, value),
            recorded=recorded,
            found=value,
            bound=spread.bound,
            bound_from=spread.source,
            metrics=again.metrics.get("test", {}),
            made=again.content_hash(),
            outcome=again.outcome,
            told=told or other_libraries(record, again),
            **_machine_of(again),
        )


def _machine_of(again: RunRecord) -> dict[str, object]:
    """Where a run was made, as its record tells: a store may be that of another machine."""
    made = again.provenance
    found = {"device": made.device, "system": made.platform, "commit": made.commit}
    return {**found, "libraries": made.libraries}


def _not_counted(counts: Counted) -> str:
    why = counts.uncounted or "nothing was trained for it"
    return "" if counts.cost else f"sizes and FLOPs were not counted, since {why}"
