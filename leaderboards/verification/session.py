"""One verification from its request to its report: which records, how far, and what is told."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.config.outside_tasks import use_cards_of
from bench.records.schema import RunRecord
from core.errors import OK, VERIFICATION_FAILED, UserError
from core.escaping import terminal
from core.files import write_atomically
from core.places import readable
from core.progress import Report, progress
from leaderboards.checks.admission import examine, records_beside
from leaderboards.tables.status import Checked, Verification
from leaderboards.verification.messages import holds, lines_about, seeds_left_out
from leaderboards.verification.report import refusal, report
from leaderboards.verification.rerun import Bench
from leaderboards.verification.targets import comparable_records, drawn_records, records_named
from leaderboards.verification.verifier import RecordToVerify, Verifier

Batch = list[RecordToVerify]  # records that belong together, as the seeds of one submission do


@dataclass(frozen=True)
class VerificationRequest:
    """What is to be verified, and how.

    Attributes:
        names: folders, run ids and files; or else ``sample`` committed records, drawn by ``seed``.
        places: "tasks.key" -> where data lie on this machine.
        package: the packages, or files, whose models and tasks may be imported, with commas
            between them.
        own_store: where a run id is looked up that is not on the board.
        store: where runs are made again.
        to: the folder for what is found, in place of the usual ones.
        hours: the longest time of one process.
        by: who verifies.
        report: the file for a report.
    """

    names: Sequence[str]
    sample: int | None
    seed: int
    level: Checked
    places: Mapping[str, str]
    package: str | None
    own_store: Path
    store: Path
    to: Path | None
    hours: float | None
    by: str
    report: Path | None


def verify(request: VerificationRequest) -> int:
    """Verify, print and report; the exit code.

    Raises:
        UserError: a record is refused that has no place on a board, or nothing can be read.
    """
    try:
        with progress() as tell:
            # Of a store the records that hold are told with those that do not.
            has_stores = any(Path(name).is_dir() for name in request.names)
            refused: list[UserError] | None = [] if has_stores else None
            verifier, batches = _prepare(request, refused, tell)
            return _verify(verifier, batches, refused, request.report)
    except UserError as error:
        if request.report is not None:
            write_atomically(request.report, refusal(str(error)).encode())
        raise


def _prepare(
    request: VerificationRequest, refused: list[UserError] | None, tell: Report
) -> tuple[Verifier, list[Batch]]:
    """The verifier, and the records that belong together; all are checked without running.

    Args:
        refused: where the errors of one's own records go that are refused.
    """
    if request.sample is not None:
        batches = drawn_records(request.sample, request.seed, request.to)
    else:
        batches = [
            records_named(name, request.own_store, request.to, refused) for name in request.names
        ]
    own: list[RunRecord] = []
    others: list[RunRecord] = []
    for batch in batches:
        for target in batch:
            (own if target.own else others).append(target.record)
    trusted = list(records_beside([*others, *own]))
    examine(others, trusted)
    # A store keeps what its own tasks measure. What comes from elsewhere is not judged by that.
    for store in dict.fromkeys(t.store for batch in batches for t in batch if t.own):
        for error in use_cards_of(store):
            print(terminal(f"note: {error}"), file=sys.stderr)
    accepted = examine(own, comparable_records(own, trusted), refused)
    batches = [[t for t in batch if not t.own or t.record.run_id in accepted] for batch in batches]
    trusted_by_task: dict[str, list[RunRecord]] = defaultdict(list)
    for record in trusted:
        trusted_by_task[record.task].append(record)
    bench = Bench(request.store, request.package, request.places, hours=request.hours)
    return Verifier(bench, request.level, request.by, trusted_by_task, tell), batches


def _verify(
    verifier: Verifier,
    batches: list[Batch],
    refused: list[UserError] | None,
    report_file: Path | None,
) -> int:
    """Verify, tell what was found, and how the board changes."""
    counted = verifier.count([target for batch in batches for target in batch], refused)
    records: list[RunRecord] = []
    verifications: list[Verification] = []
    lines: list[str] = []
    written_to: set[Path] = set()

    def tell(more: Sequence[str]) -> None:
        for line in more:
            print(line, flush=True)
        lines.extend(more)

    tell([terminal(f"refused: {error}") for error in refused or ()])
    for batch in batches:
        targets = [target for target in batch if target.record.run_id in counted]
        records += [target.record for target in targets]
        written_to |= {target.to for target in targets}
        for target, verification in zip(targets, verifier.verify(targets, counted), strict=True):
            verifications.append(verification)
            tell(lines_about(target.record, verification, verifier.level))
        if any(target.submitted for target in targets):
            tell(seeds_left_out([target.record for target in targets], verifier.trusted))
    levels = Counter[str](verification.level for verification in verifications)
    levels.update(["refused"] * len(refused or ()))
    print(", ".join(f"{count} {level}" for level, count in sorted(levels.items())))
    if written_to:
        print(f"what was found lies in {' and '.join(map(readable, sorted(written_to)))}")
    if report_file is not None:
        write_atomically(report_file, report(records, verifications, lines).encode())
    held = not refused and all(holds(done, verifier.level) for done in verifications)
    return OK if held else VERIFICATION_FAILED
