"""The builder of the board: records, published numbers and verdicts → tables → files.

``build`` makes a folder, and ``build_board`` the same lines in memory; both ask
:func:`leaderboards.tables.task_tables.tables_of_task`, one task at a time. Records are read one
setting at a time, so a board may be larger than memory. A build from nothing is a build without an
index; an incremental one takes over what was made from the same records, and gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from bench.records.schema import RunRecord
from core.errors import RUN_FAILED, UserError
from core.progress import Report, silent
from leaderboards.tables.folder import BY_TASK, StagedFolder, board_of, schema_of, table_of
from leaderboards.tables.index import Index, files_in
from leaderboards.tables.lines import Board, ClaimLine, Row
from leaderboards.tables.open_board import OpenBoard
from leaderboards.tables.sources import (
    SOURCES,
    RecordFolder,
    Sources,
    hash_of_code,
    hashes_by_task,
    task_of,
    unchanged_tasks,
    write_sources,
)
from leaderboards.tables.status import FOLDER, Verification, VerificationStatuses, read_statuses
from leaderboards.tables.summaries import (
    COMMITTED,
    OFF_THE_BOARD,
    SUBMITTED,
    YOURS,
    RecordSummary,
    summary_of,
)
from leaderboards.tables.task_tables import PreviousTables, tables_of_task
from leaderboards.tables.verdicts import FigureVerdicts, claim_lines, read_verdicts
from reproduce.published.numbers import PublishedFile, read_published

# Notes of an index: the board that it belongs to, what its verdicts were read from, all published
# numbers of this checkout, and by task what is known of its records.
BOARD, VERDICTS, PUBLISHED, CHECKED = "board", "verdicts", "published", "checked"
_PUBLISHED_FILES = TypeAdapter(list[PublishedFile])


@dataclass(frozen=True)
class Inputs:
    """What a board is made of.

    Attributes:
        published: the folder of published numbers.
        verdicts: files; of one figure at one preset the last one counts.
        own_verdicts: such files of the reader's runs, which count before the others.
        verifications: folders of what is known of records.
        committed: the board of these folders without one's own, whose tables stand for what is
            made of the same files; None where all is to be made.
    """

    folders: Sequence[RecordFolder]
    published: Path
    verdicts: Sequence[Path] = ()
    verifications: Sequence[Path] = (FOLDER,)
    own_verdicts: Sequence[Path] = ()
    committed: Path | None = None


def build(
    inputs: Inputs,
    output: Path,
    refused: list[UserError] | None = None,
    report: Report = silent,
    stale: list[Verification] | None = None,
) -> OpenBoard:
    """Make or renew the board at ``output``; what has not changed is not read.

    Args:
        refused: where files that cannot be trusted are put, instead of an error.
        stale: where verifications of records that are not among the inputs are put.

    Raises:
        UserError: without ``refused``, an input cannot be trusted; the board is then as it was.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        index = Index(output.with_name(f".{output.name}.index"), inputs.folders)
    except sqlite3.OperationalError:
        reason = f"{output} is being made by another process: wait until that has ended"
        raise UserError(reason, RUN_FAILED) from None
    finished = False
    try:
        _build(index, inputs, output, refused, report, stale)
        finished = True
    finally:
        index.close(keep=finished)
    return OpenBoard(output)


def _build(
    index: Index,
    inputs: Inputs,
    output: Path,
    refused: list[UserError] | None,
    report: Report,
    stale: list[Verification] | None,
) -> None:
    """See :func:`build`; the index holds what the last build knew, and then what this one does."""
    staged = StagedFolder(output)
    statuses = read_statuses(inputs.verifications, refused)
    last = _last_board(output, index) or _committed_board(inputs, index, statuses)
    claims = _changed_claims(inputs, index, last, refused)  # soon read, and often what is wrong
    published_files = _read_published(inputs, index, refused)
    verified_again = _tasks_verified_again(statuses, index)
    damaged = {t for t in index.taken_over() if last is None or not last.is_whole(t)}
    index.look_into(verified_again | damaged)
    touched = index.update(refused, report) | verified_again
    stale_now = _stale(statuses, index)
    if stale is not None:
        stale += stale_now
    summaries = last.summaries() if last else {}
    known_tasks = last.tasks() if last else {file.task for file in published_files}
    changed = claims is not None
    for task in sorted({*index.tasks(), *known_tasks}):
        whole = last is not None and last.is_whole(task)
        if last is not None and whole and task not in touched:
            for name, part in last.parts(task).items():
                staged.keep(name, part, last.path)
            continue
        changed = True
        previous = None
        if last is not None and whole:
            previous = PreviousTables({name: last.table(f"{name}/{task}") for name in BY_TASK})
        tables = tables_of_task(
            index.summaries(task),
            index.read,
            [file for file in published_files if file.task == task],
            previous,
            statuses,
            report,
        )
        for section, table in tables.items():
            if len(table):
                staged.put(f"{section}/{task}", table)
        rows = tables["rows"]
        in_summary = pc.and_(rows["headline"], pc.not_equal(rows["group"], ""))
        summaries[task] = rows.filter(in_summary)
    if last is not None and not changed:
        complete = not refused and not stale_now
        _keep_sources(index, inputs, statuses, output, last.sha256, complete)
        return
    empty = schema_of(Row).empty_table()
    staged.put("summary", pa.concat_tables([empty, *(summaries[t] for t in sorted(summaries))]))
    if claims is not None:
        staged.put("claims", claims)
    elif last is not None:
        staged.keep("claims", last.parts("")["claims"], last.path)
    manifest = staged.finish()
    index.note(BOARD, manifest.sha256)
    complete = not refused and not stale_now
    _keep_sources(index, inputs, statuses, output, manifest.sha256, complete)


def _keep_sources(
    index: Index,
    inputs: Inputs,
    statuses: VerificationStatuses,
    output: Path,
    sha256: str,
    complete: bool,
) -> None:
    """Write what a board was made of, from which boards of one's own begin.

    Args:
        sha256: the hash of the board.
        complete: whether nothing was refused or stale, which those boards have to tell themselves.
    """
    if complete and all(folder.origin != YOURS for folder in inputs.folders):
        tasks = hashes_by_task(index.hashes(), statuses.by_task())
        write_sources(output, Sources(board=sha256, code=hash_of_code(), tasks=tasks))
    else:
        (output / SOURCES).unlink(missing_ok=True)


def build_board(
    records: Iterable[RunRecord],
    published_files: Sequence[PublishedFile] = (),
    verdicts: Sequence[FigureVerdicts] = (),
    report: Report = silent,
    own: Iterable[RunRecord] = (),
    submitted: Iterable[RunRecord] = (),
    statuses: VerificationStatuses | None = None,
) -> Board:
    """The whole board in memory; ``report`` counts tables as they are made.

    Args:
        own: records of this machine. Those of a setting that ``records`` has stand beside it.
        submitted: records that came from elsewhere. Of equal names those of ``records`` count.
        statuses: how far the records were checked; without it none was.

    Raises:
        UserError: a record occurs twice under two names.
    """
    record_by_key: dict[tuple[str, str], RunRecord] = {}
    summaries_by_task: dict[str, list[RecordSummary]] = defaultdict(list)
    for origin, records_of_origin in ((COMMITTED, records), (SUBMITTED, submitted), (YOURS, own)):
        for record in records_of_origin:
            served = origin == SUBMITTED and (record.run_id, COMMITTED) in record_by_key
            if record.role not in OFF_THE_BOARD and not served:
                record_by_key[record.run_id, origin] = record
                summaries_by_task[record.task].append(summary_of(record, origin))
    tables = {"claims": table_of(ClaimLine, claim_lines(verdicts))}
    for task in sorted({*summaries_by_task, *(file.task for file in published_files)}):
        of_task = tables_of_task(
            summaries_by_task[task],
            lambda summary: record_by_key[summary.run_id, summary.origin],
            [file for file in published_files if file.task == task],
            statuses=statuses,
            report=report,
        )
        tables |= {f"{section}/{task}": table for section, table in of_task.items()}
    return board_of(tables)


def _read_published(
    inputs: Inputs, index: Index, refused: list[UserError] | None
) -> list[PublishedFile]:
    """Published numbers, from the index where this checkout has read its YAML files before."""
    noted = index.note(PUBLISHED)
    if noted is not None:
        return _PUBLISHED_FILES.validate_json(noted)
    refused_before = len(refused or ())
    files = read_published(inputs.published, refused)
    if len(refused or ()) == refused_before:  # else what was refused is to be named again
        index.note(PUBLISHED, _PUBLISHED_FILES.dump_json(files).decode())
    return files


def _last_board(output: Path, index: Index) -> OpenBoard | None:
    """The board as the last build left it; None if there was none, or it is another one now."""
    try:
        board = OpenBoard(output)
    except UserError:
        return None
    return board if board.sha256 == index.note(BOARD) and board.is_whole("") else None


def _committed_board(
    inputs: Inputs, index: Index, statuses: VerificationStatuses
) -> OpenBoard | None:
    """The committed board, whose tables are taken over of all tasks that are as they were when it
    was made; None if there is no such task, or if the index has files already."""
    if inputs.committed is None or index.tasks():
        return None
    try:
        board = OpenBoard(inputs.committed)
    except UserError:
        return None
    verified, files = statuses.by_task(), list(files_in(inputs.folders))
    unchanged = unchanged_tasks(board, files, inputs.folders, verified)
    unchanged = {task for task in unchanged if board.is_whole(task)}
    if not unchanged or not board.is_whole(""):
        return None
    index.admitted = unchanged
    own = {task_of(path) for place, path, _ in files if inputs.folders[place].origin == YOURS}
    index.take_over(unchanged - own)
    index.note(CHECKED, json.dumps({t: sha256 for t, sha256 in verified.items() if t in unchanged}))
    return board


def _stale(statuses: VerificationStatuses, index: Index) -> list[Verification]:
    """What was checked of records that are gone, or were replaced: none of a task that was taken
    over, since there was none when its board was made."""
    taken_over = index.taken_over()
    stale = statuses.stale(index.contents(statuses.names()))
    return [check for check in stale if task_of(check.run_id) not in taken_over]


def _tasks_verified_again(statuses: VerificationStatuses, index: Index) -> set[str]:
    """The tasks of which something else is known than at the last build."""
    now = statuses.by_task()
    before = json.loads(index.note(CHECKED) or "{}")
    index.note(CHECKED, json.dumps(now))
    return {task for task, _ in now.items() ^ before.items()}


def _changed_claims(
    inputs: Inputs, index: Index, last: OpenBoard | None, refused: list[UserError] | None
) -> pa.Table | None:
    """The verdicts; None where those of the last board were made from the same files."""
    digest = hashlib.sha256()
    for paths in (inputs.verdicts, inputs.own_verdicts):
        for path in paths:
            if path.is_file():
                digest.update(hashlib.sha256(path.read_bytes()).digest())
        digest.update(b"\n")  # so that it matters whose a file is
    if last is not None and index.note(VERDICTS) == digest.hexdigest():
        return None
    refused_before = len(refused or ())
    committed = read_verdicts(inputs.verdicts, refused)
    claims = table_of(
        ClaimLine, claim_lines(committed, read_verdicts(inputs.own_verdicts, refused))
    )
    whole = len(refused or ()) == refused_before  # else what was refused is to be named again
    index.note(VERDICTS, digest.hexdigest() if whole else "")
    return claims
