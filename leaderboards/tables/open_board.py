"""A board on disk, of which only what is asked for is read.

Example, the headline rows of one table::

    board = OpenBoard(COMMITTED)
    board.rows("regbench", preset="laptop", variant="training_automata=500", metric="accuracy")

A word of a question is a column and the value that it has to have, or a list of such values.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.config.outside_tasks import use_cards_of
from bench.records.schema import RunRecord
from core.errors import UserError
from core.files import open_regular
from core.reading import Kind
from leaderboards.tables.folder import (
    HOW,
    KINDS,
    LIST,
    MANIFEST,
    MAXIMUM_BYTES,
    BoardFile,
    BoardManifest,
    schema_of,
)
from leaderboards.tables.lines import Board, ClaimLine, ModelCurve, RecordLine, Replication, Row

Item = TypeVar("Item")
PARQUET = b"PAR1"  # with which such a file begins
WAITS = 0.05  # seconds for a build that is putting its files in place,
PATIENCE = 4  # so often


class _Shown(RunRecord):
    """What the board keeps of a record."""

    content_sha256: str


SHOWN = Kind("board", _Shown, HOW)
_LINES = {kind: Kind("board", tuple[kind, ...], HOW) for kind in set(KINDS.values())}  # type: ignore[valid-type]


class OpenBoard:
    """A board's folder. Nothing that was read is kept, but for which files were found to be whole.

    Raises:
        UserError: there is none, or it is of another version. Every question may find that a file
            of it is missing, that a bit of it was changed, or that it holds something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        use_cards_of(path.parent)  # how tasks from outside are called, which a store keeps
        self._manifest = self._read_list()
        self._whole: dict[str, tuple[object, str]] = {}

    @property
    def sha256(self) -> str:
        """The hash of the board, by which it may be cited."""
        return self._manifest.sha256

    def tasks(self) -> list[str]:
        """Every task of which the board has rows."""
        names = self._manifest.parts
        return sorted(name.partition("/")[2] for name in names if name.startswith("rows/"))

    def count(self, section: str) -> int:
        """How many lines of a kind there are."""
        parts = self._manifest.parts.items()
        return sum(part.lines for name, part in parts if name.partition("/")[0] == section)

    def rows(self, task: str, **where: Any) -> list[Row]:
        """Rows of a task, in the order of the board: table by table and metric by metric."""
        return self._lines(Row, f"rows/{task}", where)

    def summary(self, **where: Any) -> list[Row]:
        """Rows by headline, of all tasks."""
        return self._lines(Row, "summary", where)

    def lines(self, task: str, **where: Any) -> list[ModelCurve]:
        """Curves of a task."""
        return self._lines(ModelCurve, f"curves/{task}", where)

    def claims(self, **where: Any) -> list[ClaimLine]:
        """Verdicts."""
        return self._lines(ClaimLine, "claims", where)

    def replications(self, task: str, **where: Any) -> list[Replication]:
        """Runs of a task that were made once more."""
        return self._lines(Replication, f"replications/{task}", where)

    def records(self, task: str, **where: Any) -> list[RecordLine]:
        """Records of a task, each with its content as JSON; ask ``distinct`` for a list of them."""
        records = self._lines(RecordLine, f"records/{task}", where)
        for record in records:
            SHOWN.typed(self.path, SHOWN.tree(self.path, record.content.encode()))
        return records

    def record(self, run_id: str, origin: str = "") -> RecordLine | None:
        """One record, of an origin if that is given; else that of the board before one of the same
        name that is a replication. Its name begins with its task."""
        where = {"origin": origin} if origin else {}
        records = self.records(run_id.partition("-")[0], run_id=run_id, **where)
        return records[0] if records else None

    def distinct(
        self, section: str, task: str, *columns: str, **where: Any
    ) -> list[tuple[Any, ...]]:
        """The different values of some columns of a task's ``rows``, ``curves``, ``records`` or
        ``replications``, in the order of their first appearance."""
        name = f"{section}/{task}" if task else section
        table = self._table(name, where, list(columns))
        values = [table[column].to_pylist() for column in columns] if table else []
        return list(dict.fromkeys(zip(*values, strict=True)))

    def table(self, name: str, **where: Any) -> pa.Table:
        """The columns of a file, such as ``rows/regbench``; none where the board has none."""
        table = self._table(name, where)
        return schema_of(KINDS[name.partition("/")[0]]).empty_table() if table is None else table

    def summaries(self) -> dict[str, pa.Table]:
        """The columns of the summary, by task."""
        table = self.table("summary")
        tasks = dict.fromkeys(table["task"].to_pylist())
        return {task: table.filter(pc.equal(table["task"], task)) for task in tasks}

    def parts(self, task: str) -> dict[str, BoardFile]:
        """The files of a task; under no name, those of all tasks."""
        parts = self._manifest.parts.items()
        return {name: part for name, part in parts if name.partition("/")[2] == task}

    def is_whole(self, task: str) -> bool:
        """Whether every file of :meth:`parts` is what the list of files tells."""
        try:
            return all(self._checked(name) for name in self.parts(task))
        except UserError:
            return False

    def check(self) -> None:
        """Look at all bytes of the board.

        Raises:
            UserError: a file is missing, or a bit of it was changed.
        """
        for name in self._manifest.parts:
            self._checked(name)

    def of_task(self, task: str) -> Board:
        """The lines of one task; under no name, the verdicts."""
        if not task:
            return Board((), (), tuple(self.claims()), ())
        return Board(
            tuple(self.rows(task)),
            tuple(self.lines(task)),
            (),
            tuple(self.records(task)),
            tuple(self.replications(task)),
        )

    def whole(self) -> Board:
        """Everything at once, as boards that fit into memory may be read."""
        self.check()
        sections: list[list[Any]] = [[] for _ in dataclasses.fields(Board)]
        for task in ["", *self._manifest.tasks()]:
            board = self.of_task(task)
            for section, lines in zip(sections, vars(board).values(), strict=True):
                section += lines
        return Board(*map(tuple, sections))

    def _lines(self, kind: type[Item], name: str, where: dict[str, Any]) -> list[Item]:
        table = self._table(name, where)
        path = self.path / f"{name}.parquet"
        try:
            tree = table.to_pylist() if table else []
        except UnicodeDecodeError:
            raise LIST.refused(path, "does not hold the lines of a board") from None
        # The columns have their types, so that only lists of Parquet have to become tuples.
        return list(_LINES[kind].typed(path, tree, strict=False))

    def _table(
        self, name: str, where: dict[str, Any], columns: list[str] | None = None
    ) -> pa.Table | None:
        """The lines of a file of the board that match ``where``; None where it has no file."""
        path = self._checked(name)
        if path is None:
            return None
        schema = schema_of(KINDS[name.partition("/")[0]])
        try:
            if not pq.read_schema(path).equals(schema):
                raise LIST.refused(path, "does not hold the columns of a board of this version")
            if not where:  # the other way imports pandas, if it is there
                return pq.ParquetFile(path).read(columns=columns, use_threads=False)
            filters = [_condition(key, value) for key, value in where.items()]
            return pq.read_table(path, columns=columns, filters=filters, use_threads=False)
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise LIST.refused(path, "does not hold the lines of a board") from None

    def _checked(self, name: str) -> Path | None:
        """The file of that name, once its bytes are those that the list tells; None if the board
        has no such file."""
        path = self.path / f"{name}.parquet"
        for wait in range(PATIENCE):
            part = self._manifest.parts.get(name)
            if part is None:
                return None
            state = _state(path)
            if state and self._whole.get(name) == (state, part.sha256):
                return path
            if state and _sha256(path) == part.sha256:
                self._whole[name] = state, part.sha256
                return path
            if not self._may_be_changing(path) or wait == PATIENCE - 1:
                break
            time.sleep(WAITS)
            self._manifest = self._read_list()
        reason = (
            "is missing" if not path.exists() else "is damaged (its hash is not the one listed)"
        )
        raise LIST.refused(path, reason)

    def _may_be_changing(self, path: Path) -> bool:
        """Whether a build is putting its files in place: the list is the last of them."""
        file_state, list_state = _state(path), _state(self.path / MANIFEST)
        if file_state is None or list_state is None or file_state[1] > list_state[1]:
            return True
        return self._read_list() != self._manifest

    def _read_list(self) -> BoardManifest:
        path = self.path / MANIFEST
        if self.path.is_file():
            with open_regular(self.path) as file:
                old = file.read(len(PARQUET)) == PARQUET
            reason = "is the board of an earlier version, in one file"
            raise LIST.refused(self.path, reason if old else "is no board, which is a folder")
        if not self.path.exists():
            raise UserError(f"there is no board at {self.path}: {LIST.how}")
        manifest = LIST.read_json(path)
        if manifest.sha256 != manifest.hash():
            raise LIST.refused(path, "is damaged (it does not hold the hash of its content)")
        return manifest


class KeptBoard(OpenBoard):
    """A board that keeps what it was asked, for whoever asks for all of it page by page."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._tables: dict[str, pa.Table | None] = {}
        self._found: dict[str, list[Any]] = {}

    def _lines(self, kind: type[Item], name: str, where: dict[str, Any]) -> list[Item]:
        question = f"{name} {sorted(where.items())!r}"
        if question not in self._found:
            self._found[question] = super()._lines(kind, name, where)
        return list(self._found[question])

    def _table(
        self, name: str, where: dict[str, Any], columns: list[str] | None = None
    ) -> pa.Table | None:
        if name not in self._tables:
            self._tables[name] = super()._table(name, {})
        table = self._tables[name]
        if table is not None and where:
            # A mask is made at once: an expression starts threads, however small the table.
            for key, value in where.items():
                column, (_, test, wanted) = table[key], _condition(key, value)
                if test == "==":
                    table = table.filter(pc.fill_null(pc.equal(column, wanted), False))
                else:
                    values = pa.array(wanted, column.type)
                    table = table.filter(pc.is_in(column, value_set=values))
        return table if table is None or columns is None else table.select(columns)


def read_board(path: Path) -> Board:
    """Read a whole board.

    Raises:
        UserError: there is none, a bit of it was changed, or it is not a board of this version;
            names the command that makes one.
    """
    return OpenBoard(path).whole()


def _condition(column: str, value: Any) -> tuple[str, str, Any]:
    several = isinstance(value, Collection) and not isinstance(value, str)
    return column, "in" if several else "==", list(value) if several else value


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _sha256(path: Path) -> str | None:
    try:
        with open_regular(path) as file:
            if path.stat().st_size > MAXIMUM_BYTES:
                raise LIST.refused(path, "is larger than a file of a board may be")
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    except OSError:
        return None
