"""A board made on disk: what a new or changed record touches is made again, the rest stays.

Records are read one setting at a time, and of what is made one task at a time is in memory, so a
board may be larger than that. What the files of the last build hold is taken over where it was made
from the same records; the bytes are those of a build from nothing.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from ground.errors import RUN_FAILED, UserError
from ground.progress import Report, silent
from leaderboards.tables.folder import KINDS, Staged, schema_of, table_of
from leaderboards.tables.index import Folder, Index
from leaderboards.tables.lines import Board, ClaimLine, Replication, Row
from leaderboards.tables.open_board import OpenBoard
from leaderboards.tables.summaries import Sketch
from leaderboards.tables.task_tables import Listed, Nothing, TaskLines, TaskMaker
from leaderboards.tables.verdicts import claim_lines, read_verdicts
from leaderboards.verification.status import FOLDER, Standings, Verification, read_standings
from published.numbers import PublishedFile, read_published

# Notes of an index: the board that it belongs to, what its verdicts were read from, all published
# numbers of this checkout, and by task what is known of its records.
BOARD, VERDICTS, PUBLISHED, CHECKED = "board", "verdicts", "published", "checked"
_FILES = TypeAdapter(list[PublishedFile])
SEVERAL = 2000  # lines that wait for being packed together


@dataclass(frozen=True)
class Inputs:
    """What a board is made of.

    Attributes:
        published: the folder of published numbers.
        verdicts: files; of one figure at one preset the last one counts.
        own_verdicts: such files of the reader's runs, which count before the others.
        verifications: folders of what is known of records.
    """

    folders: Sequence[Folder]
    published: Path
    verdicts: Sequence[Path] = ()
    verifications: Sequence[Path] = (FOLDER,)
    own_verdicts: Sequence[Path] = ()


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
        why = f"{output} is being made by another process: wait until that has ended"
        raise UserError(why, RUN_FAILED) from None
    made = False
    try:
        staged = Staged(output)
        last = _last(output, index)
        claims = _claims(inputs, index, last, refused)  # soon read, and often what is wrong
        published = _Published(inputs, index, refused)
        standings = read_standings(inputs.verifications, refused)
        touched = index.look(refused, report) | _checked_again(standings, index)
        if stale is not None:
            stale += standings.stale(index.contents(standings.names()))
        summaries = last.summaries() if last else {}
        changed = claims is not None
        for task in sorted({*index.tasks(), *(last.tasks() if last else published.tasks())}):
            whole = last is not None and last.is_whole(task)
            if last is not None and whole and task not in touched:
                for name, part in last.parts(task).items():
                    staged.keep(name, part)
                continue
            changed = True
            before = Files(last, task) if last is not None and whole else None
            tables = _made(index, published.of(task), task, before, standings, report)
            for name, table in tables.items():
                if len(table):
                    staged.put(name, table)
            summaries[task] = _headlines(tables[f"rows/{task}"])
        if last is not None and not changed:
            made = True
            return last
        empty = schema_of(Row).empty_table()
        staged.put("summary", pa.concat_tables([empty, *(summaries[t] for t in sorted(summaries))]))
        if claims is not None:
            staged.put("claims", claims)
        elif last is not None:
            staged.keep("claims", last.parts("")["claims"])
        index.note(BOARD, staged.finish().sha256)
        made = True
    finally:
        index.close(keep=made)
    return OpenBoard(output)


def each_task(
    inputs: Inputs,
    refused: list[UserError] | None = None,
    report: Report = silent,
    stale: list[Verification] | None = None,
) -> Iterator[tuple[str, Board]]:
    """The lines of each task as a board of its own, made from nothing and written nowhere; before
    them, under no name, the verdicts and nothing else.

    Raises:
        UserError: as :func:`build`.
    """
    index = Index(None, inputs.folders)
    try:
        claims = _claim_lines(inputs, refused)
        published = _Published(inputs, index, refused)
        standings = read_standings(inputs.verifications, refused)
        index.look(refused, report)
        if stale is not None:
            stale += standings.stale(index.contents(standings.names()))
        yield "", Board((), (), tuple(claims), ())
        for task in sorted({*index.tasks(), *published.tasks()}):
            rows, curves, records = Listed(), Listed(), Listed()
            lines = TaskLines(rows, curves, records, [])
            files = published.of(task)
            maker = TaskMaker(lines, index.read, Nothing(), files, report, standings)
            maker.make(index.sketches(task))
            again = tuple(lines.replications)
            yield task, Board(tuple(rows), tuple(curves), (), tuple(records), again)
    finally:
        index.close(keep=False)


class _Published:
    """Published numbers, from the index where this checkout has read its YAML files before."""

    def __init__(
        self, inputs: Inputs, index: Index, refused: list[UserError] | None = None
    ) -> None:
        known = index.note(PUBLISHED)
        if known is None:
            before = len(refused or ())
            self._files = read_published(inputs.published, refused)
            if len(refused or ()) == before:  # else what was refused is to be named again
                index.note(PUBLISHED, _FILES.dump_json(self._files).decode())
        else:
            self._files = _FILES.validate_json(known)

    def of(self, task: str) -> list[PublishedFile]:
        """Those of one task."""
        return [file for file in self._files if file.task == task]

    def tasks(self) -> set[str]:
        """All tasks that have any."""
        return {file.task for file in self._files}


class Files:
    """What the files of a board hold of a task, by what it was made from."""

    def __init__(self, board: OpenBoard, task: str) -> None:
        self.tables = {
            section: board.table(f"{section}/{task}") for section in ("rows", "curves", "records")
        }
        self._groups: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        rows = self.tables["rows"]
        both = zip(rows["group"].to_pylist(), rows["made_from"].to_pylist(), strict=True)
        for number, (group, made) in enumerate(both):
            if group:  # else it is published, and made anew
                self._groups[group][made].append(number)
        self._curves: dict[str, list[int]] = defaultdict(list)
        for number, made in enumerate(self.tables["curves"]["made_from"].to_pylist()):
            self._curves[made].append(number)
        columns = [self.tables["records"][name].to_pylist() for name in RECORD_KEY]
        self._records = {key: number for number, key in enumerate(zip(*columns, strict=True))}

    def row_numbers(self, group: str) -> dict[str, list[int]]:
        """See :class:`leaderboards.tables.task_tables.Before`."""
        return self._groups.get(group, {})

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """The rows of these numbers."""
        found = self.tables["rows"].take(pa.array(numbers, pa.int64()))
        columns = {name: found[name].to_pylist() for name in found.column_names}
        for name in ("run_ids", "marks"):
            columns[name] = list(map(tuple, columns[name]))
        # By their order: with names it takes three times as long.
        return list(map(Row, *(columns[field.name] for field in fields(Row))))

    def line_numbers(self, made: str) -> list[int]:
        """The curves that were made from these records."""
        return self._curves.get(made, []) if made else []

    def record_number(self, sketch: Sketch, checked: str) -> int | None:
        """The line of the very record, of which no more is known than then."""
        return self._records.get((sketch.run_id, sketch.origin, sketch.content, checked))


RECORD_KEY = ("run_id", "origin", "sha256", "checked")


class Patchwork:
    """Lines of one kind: some of a table of before, and new ones, in their order."""

    def __init__(self, kind: type, before: pa.Table | None) -> None:
        self._kind = kind
        self._tables = [schema_of(kind).empty_table() if before is None else before]
        self._count = len(self._tables[0])
        self._waiting: list[Any] = []
        self._order: list[int] = []
        self._variants: dict[int, str] = {}  # place in the order -> words that have changed

    def keep(self, numbers: Sequence[int], variant: str) -> None:
        """Take over lines of before; with a variant, under these words."""
        if variant and numbers and self._tables[0]["variant"][numbers[0]].as_py() != variant:
            start = len(self._order)
            self._variants |= dict.fromkeys(range(start, start + len(numbers)), variant)
        self._order += numbers

    def add(self, lines: Iterable[Any]) -> None:
        """Take new lines."""
        for line in lines:
            self._waiting.append(line)
            self._order.append(self._count)
            self._count += 1
            if len(self._waiting) == SEVERAL:
                self._pack()

    def table(self) -> pa.Table:
        """All of them."""
        self._pack()
        table = pa.concat_tables(self._tables)
        if self._order != list(range(self._count)):
            table = pa.concat_tables([table.slice(0, 0), *_slices(table, self._order)])
        if self._variants:
            words = table["variant"].to_pylist()
            for place, variant in self._variants.items():
                words[place] = variant
            number = table.schema.get_field_index("variant")
            table = table.set_column(number, table.schema.field(number), pa.array(words))
        return table

    def _pack(self) -> None:
        if self._waiting:
            self._tables.append(table_of(self._kind, self._waiting))
            self._waiting = []


def _slices(table: pa.Table, order: Sequence[int]) -> Iterator[pa.Table]:
    """Lines in a new order: most follow each other as before, and need not be copied one by one."""
    start = 0
    for place, number in enumerate(order):
        if place + 1 == len(order) or order[place + 1] != number + 1:
            yield table.slice(order[start], place + 1 - start)
            start = place + 1


def _made(
    index: Index,
    files: Sequence[PublishedFile],
    task: str,
    before: Files | None,
    standings: Standings,
    report: Report,
) -> dict[str, pa.Table]:
    """Name of a file -> its table."""
    old = before.tables if before else {}
    patches = {
        section: Patchwork(KINDS[section], old.get(section))
        for section in ("rows", "curves", "records")
    }
    lines = TaskLines(patches["rows"], patches["curves"], patches["records"], [])
    maker = TaskMaker(lines, index.read, before or Nothing(), files, report, standings)
    maker.make(index.sketches(task))
    found = {f"{section}/{task}": patch.table() for section, patch in patches.items()}
    found[f"replications/{task}"] = table_of(Replication, lines.replications)
    return found


def _last(output: Path, index: Index) -> OpenBoard | None:
    """The board as the last build left it; None if there was none, or it is another one now."""
    try:
        board = OpenBoard(output)
    except UserError:
        return None
    return board if board.sha256 == index.note(BOARD) and board.is_whole("") else None


def _checked_again(standings: Standings, index: Index) -> set[str]:
    """The tasks of which something else is known than at the last build."""
    now = standings.by_task()
    before = json.loads(index.note(CHECKED) or "{}")
    index.note(CHECKED, json.dumps(now))
    return {task for task in now.keys() | before.keys() if now.get(task) != before.get(task)}


def _claims(
    inputs: Inputs, index: Index, last: OpenBoard | None, refused: list[UserError] | None
) -> pa.Table | None:
    """The verdicts; None where those of the last board were made from the same files."""
    digest = hashlib.sha256()
    for kind in (inputs.verdicts, inputs.own_verdicts):
        digest.update(
            b"".join(hashlib.sha256(p.read_bytes()).digest() for p in kind if p.is_file())
        )
        digest.update(b"\n")  # so that it matters whose a file is
    if last is not None and index.note(VERDICTS) == digest.hexdigest():
        return None
    before = len(refused or ())
    found = table_of(ClaimLine, _claim_lines(inputs, refused))
    whole = len(refused or ()) == before  # else what was refused is to be named again
    index.note(VERDICTS, digest.hexdigest() if whole else "")
    return found


def _claim_lines(inputs: Inputs, refused: list[UserError] | None) -> list[ClaimLine]:
    read = (read_verdicts(paths, refused) for paths in (inputs.verdicts, inputs.own_verdicts))
    return claim_lines(*read)


def _headlines(rows: pa.Table) -> pa.Table:
    """The rows that are in the summary (:func:`leaderboards.tables.folder.is_in_summary`)."""
    return rows.filter(pc.and_(rows["headline"], pc.not_equal(rows["group"], "")))
