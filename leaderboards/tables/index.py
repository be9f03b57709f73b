"""What is known of the files of records since the last build, so that the next one reads what has
changed alone.

A file is looked into when its size or one of its times has changed, as git does it, and counts as
another record when the hash of its content has. The index lies beside a board, in a SQLite
database that can be deleted at any time: the next build then reads everything. It is for
this checkout as it is now: changed code, settings or libraries make it void.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.records.record_files import packed_in
from bench.records.schema import RECORD, RunRecord, json_of, read_file
from core.errors import RUN_FAILED, UserError
from core.progress import Report, silent, with_progress
from leaderboards.checks.admission import check, contradiction
from leaderboards.checks.agreement import NEAR, agree, shared
from leaderboards.tables.sources import RecordFolder, hash_of_code, task_of
from leaderboards.tables.summaries import (
    OFF_THE_BOARD,
    YOURS,
    RecordSummary,
    SettingFacts,
    summary_of,
)

LIBRARIES = ("numpy", "omegaconf", "pyarrow", "pydantic", "scipy")
MANY = 500  # new files, after which one question to the database is faster than one for each
TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE files (
    id INTEGER PRIMARY KEY, place INTEGER, path TEXT UNIQUE, state TEXT, bytes TEXT,
    task TEXT, run_id TEXT, family TEXT, run TEXT, shown INTEGER, summary TEXT);
CREATE TABLE facts (identity TEXT PRIMARY KEY, content TEXT);
CREATE TABLE said (what TEXT, key BLOB, value TEXT, file INTEGER);
CREATE INDEX of_task ON files (task);
CREATE INDEX of_run_id ON files (run_id);
CREATE INDEX of_run ON files (run);
CREATE INDEX of_family ON files (family);
CREATE INDEX of_key ON said (key);
CREATE INDEX of_file ON said (file);
"""
# What a check stumbles over where somebody else's numbers or settings have another shape.
UNSHAPED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_FIELDS = [field.name for field in fields(RecordSummary) if field.name not in ("facts", "origin")]


class Index:
    """The index of one board.

    Args:
        path: of the database; None for one that is thrown away.
    """

    def __init__(self, path: Path | None, folders: Sequence[RecordFolder]) -> None:
        self.folders = folders
        # Tasks of which all records but one's own were checked when the committed board was made.
        self.admitted: Collection[str] = ()
        self._database = _open(path, made_by(folders))
        self._facts: dict[str, SettingFacts] = {}

    def close(self, keep: bool) -> None:
        """Let the index be what it is now, or what it was before."""
        if keep:
            self._database.commit()
        self._database.close()

    def note(self, key: str, value: str | None = None) -> str | None:
        """What was noted under a key; with a value, note it."""
        if value is not None:
            self._database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
        row = self._database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def update(self, refused: list[UserError] | None = None, report: Report = silent) -> set[str]:
        """Look at all files; the tasks of which a record is new, changed or gone.

        Raises:
            UserError: without ``refused``, a record cannot be trusted, or contradicts another.
        """
        files = list(files_in(self.folders))
        known = dict(self._database.execute("SELECT path, state FROM files"))
        changed_files = known.items() ^ {(path, state) for _, path, state in files}
        looked_into = {task_of(path) for path, _ in changed_files} & self.taken_over()
        self.look_into(looked_into)
        state_by_path = dict(self._database.execute("SELECT path, state FROM files"))
        gone = state_by_path.keys() - {path for _, path, _ in files}
        new = [file for file in files if state_by_path.get(file[1]) != file[2]]
        changed = [path for _, path, _ in new if path in state_by_path]
        forgotten = []
        for path in [*gone, *changed]:
            query = "SELECT id FROM files WHERE path = ?"
            forgotten.append(int(self._database.execute(query, (path,)).fetchone()[0]))
        touched, keys = self._forget(forgotten)
        all_of_them = len(new) > MANY
        for place, path, state in with_progress(new, "reading records", report):
            try:
                task, keys_of_file = self._take(place, Path(path), state)
            except (UserError, *UNSHAPED) as error:
                refusal = _reason_with_name(path, error)
                if refused is None:
                    raise refusal from None
                refused.append(refusal)
                continue
            keys |= set() if all_of_them else keys_of_file
            touched.add(task)
        if all_of_them:  # of every thing of which two files say something else
            query = "SELECT key FROM said GROUP BY key HAVING min(value) != max(value)"
            keys = {key for (key,) in self._database.execute(query)}
        return touched | looked_into | self._compare(keys, refused)

    def take_over(self, tasks: Collection[str]) -> None:
        """Note the files of some tasks, of which another board has all tables: none is looked into
        until a file of its task has changed."""
        rows = []
        for place, path, state in files_in(self.folders):
            if (task := task_of(path)) in tasks:
                rows.append((place, path, state, task, Path(path).stem))
        self._database.executemany(
            "INSERT INTO files (place, path, state, task, run_id) VALUES (?, ?, ?, ?, ?)", rows
        )

    def taken_over(self) -> set[str]:
        """The tasks of which no file was looked into."""
        query = "SELECT DISTINCT task FROM files WHERE summary IS NULL"
        return {task for (task,) in self._database.execute(query)}

    def look_into(self, tasks: Iterable[str]) -> None:
        """Let the next update look into all files of some tasks that were taken over."""
        query = "DELETE FROM files WHERE summary IS NULL AND task = ?"
        self._database.executemany(query, [(task,) for task in tasks])

    def hashes(self) -> Iterator[tuple[RecordFolder, str, str]]:
        """Folder, path and SHA-256 of every file that is not one's own."""
        for place, path, sha256 in self._database.execute("SELECT place, path, bytes FROM files"):
            if self.folders[place].origin != YOURS:
                yield self.folders[place], path, sha256

    def tasks(self) -> list[str]:
        """The tasks of all records."""
        return [task for (task,) in self._database.execute("SELECT DISTINCT task FROM files")]

    def contents(self, run_ids: Iterable[str]) -> set[str]:
        """The content hashes of the records of some names, of those too that no board shows; none
        of a record that was not looked into."""
        place = _FIELDS.index("content")
        query = f"SELECT json_extract(summary, '$[{place}]') FROM files WHERE run_id = ?"
        contents: set[str] = set()
        for run_id in run_ids:
            contents.update(str(row[0]) for row in self._database.execute(query, (run_id,)))
        return contents

    def summaries(self, task: str) -> Iterator[RecordSummary]:
        """The summaries of the records of a task; of equal run ids that of the first folder, and
        one of your own beside it."""
        query = "SELECT place, summary FROM files WHERE task = ? AND shown ORDER BY place, path"
        seen = set()
        for place, text in self._database.execute(query, (task,)):
            summary = RecordSummary(
                **dict(zip(_FIELDS, json.loads(text), strict=True)),
                facts=SettingFacts({}, {}),
                origin=self.folders[place].origin,
            )
            name = summary.run_id, summary.origin == YOURS
            if name not in seen:
                seen.add(name)
                object.__setattr__(summary, "facts", self._facts_of(summary.identity))
                yield summary

    def read(self, summary: RecordSummary) -> RunRecord:
        """The record of a summary.

        Raises:
            UserError: its file has changed since it was looked at.
        """
        places = [n for n, folder in enumerate(self.folders) if folder.origin == summary.origin]
        marks = ", ".join("?" * len(places))
        query = f"SELECT path, bytes FROM files WHERE run_id = ? AND place IN ({marks})"
        files = self._database.execute(f"{query} ORDER BY place", (summary.run_id, *places))
        path, expected = files.fetchone()
        content = json_of(Path(path))
        if hashlib.sha256(content).hexdigest() != expected:
            raise RECORD.refused(Path(path), "changed while the board was made")
        tree = RECORD.tree(Path(path), content)
        tree.pop("content_sha256", None)  # which a line of a segment has not
        return RECORD.typed(Path(path), tree)

    def _facts_of(self, identity: str) -> SettingFacts:
        if identity not in self._facts:
            query = "SELECT content FROM facts WHERE identity = ?"
            (content,) = self._database.execute(query, (identity,)).fetchone()
            self._facts[identity] = SettingFacts(*json.loads(content))
        return self._facts[identity]

    def _forget(self, numbers: Iterable[int]) -> tuple[set[str], set[bytes]]:
        """Forget files; their tasks, and of what they said something."""
        tasks, keys = set(), set()
        for number in numbers:
            files = self._database.execute("SELECT task FROM files WHERE id = ?", (number,))
            tasks.add(str(files.fetchone()[0]))
            statements = self._database.execute("SELECT key FROM said WHERE file = ?", (number,))
            keys |= {key for (key,) in statements}
            self._database.execute("DELETE FROM files WHERE id = ?", (number,))
            self._database.execute("DELETE FROM said WHERE file = ?", (number,))
        return tasks, keys

    def _take(self, place: int, path: Path, state: str) -> tuple[str, set[bytes]]:
        """Take in a file; its task, and of what it says something that others may say too."""
        file = read_file(path)
        record = file.record
        if self.folders[place].origin == YOURS or record.task not in self.admitted:
            check(record, path)
        content = hashlib.sha256(file.content).hexdigest()
        summary = summary_of(record, content=file.content_sha256)
        values = [getattr(summary, name) for name in _FIELDS]
        is_shown = record.role not in OFF_THE_BOARD
        row = (place, str(path), state, content, record.task, record.run_id, summary.beside_data)
        run = f"{summary.identity} {summary.seed}"
        statements = [] if self._is_beside(place, run, summary.beside_data) else [*shared(record)]
        number = self._database.execute(
            "INSERT INTO files VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, run, is_shown, json.dumps(values)),
        ).lastrowid
        self._database.execute(
            "INSERT OR IGNORE INTO facts VALUES (?, ?)",
            (summary.identity, json.dumps([dict(part) for part in summary.facts])),
        )
        rows = []
        for subject, identity, value in statements:
            key = hashlib.sha256(f"{subject}\n{identity}".encode()).digest()[:16]
            rows.append((subject, key, _value(subject, value), number))
        self._database.executemany("INSERT INTO said VALUES (?, ?, ?, ?)", rows)
        return record.task, {key for _, key, _, _ in rows}

    def _is_beside(self, place: int, run: str, family: str) -> bool:
        """Whether a run stands beside another: it says the same things with the numbers of its own
        machine. It is compared with nothing, and changes nothing of what is compared.

        Args:
            run: identity and seed, under the name that all equal code gives them.
        """
        yours = self.folders[place].origin == YOURS
        query = "SELECT 1 FROM files WHERE place < ? AND (run = ? OR (? AND family = ?))"
        files = self._database.execute(query, (place, run, yours, family))
        return files.fetchone() is not None

    def _compare(self, keys: Iterable[bytes], refused: list[UserError] | None) -> set[str]:
        """Of every thing that was said, the first file decides, and the others must agree; the
        tasks of those that do not, which are forgotten.

        Raises:
            UserError: without ``refused``, for the first file that does not.
        """
        query = (
            "SELECT what, value, run_id, place, path, files.id FROM said "
            "JOIN files ON files.id = said.file WHERE key = ? ORDER BY place, path"
        )
        waiting, touched = set(keys), set()
        while waiting:
            wrong = []
            for key in waiting:
                statements = self._database.execute(query, (key,)).fetchall()
                for subject, text, run_id, *place in statements:
                    if not agree(subject, json.loads(text), json.loads(statements[0][1])):
                        error = contradiction(run_id, subject, statements[0][2], Path(place[1]))
                        wrong.append((*place, error))
            if not wrong:
                break
            _, path, number, error = min(
                wrong, key=lambda disagreement: (*disagreement[:2], str(disagreement[3]))
            )
            sentence = UserError(f"{path}: {error}", error.exit_code)
            if refused is None:
                raise sentence
            refused.append(sentence)
            tasks, more = self._forget([number])
            touched |= tasks
            waiting |= more
        return touched


def made_by(folders: Sequence[RecordFolder]) -> str:
    """Hash of everything beside the records that decides what their lines are."""
    digest = hashlib.sha256(json.dumps([[str(f.path), f.origin] for f in folders]).encode())
    digest.update(sys.version.encode())
    for name in LIBRARIES:
        digest.update(f"{name} {version(name)}\n".encode())
    digest.update(hash_of_code().encode())
    return digest.hexdigest()


def _open(path: Path | None, key: str) -> sqlite3.Connection:
    database = sqlite3.connect(path or "", isolation_level=None)
    try:
        database.execute("PRAGMA trusted_schema = OFF")
        noted = database.execute("SELECT value FROM meta WHERE key = 'made by'").fetchone()
        usable = noted is not None and noted[0] == key
    except sqlite3.DatabaseError:
        usable = False
    if not usable:
        database.close()
        if path is not None:
            path.unlink(missing_ok=True)
        database = sqlite3.connect(path or "", isolation_level=None)  # "": a temporary file
        database.executescript(TABLES)
    # What is lost in a power cut is made again.
    database.execute("PRAGMA synchronous = OFF")
    database.execute("BEGIN IMMEDIATE")
    if not usable:
        database.execute("INSERT INTO meta VALUES ('made by', ?)", (key,))
    return database


def files_in(folders: Sequence[RecordFolder]) -> Iterator[tuple[int, str, str]]:
    """Number of the folder, path and state of every record, in their order."""
    for place, folder in enumerate(folders):
        files = []
        waiting = [str(folder.path)] if folder.path.is_dir() else []
        while waiting:
            directory = waiting.pop()
            states = {}
            for record in packed_in(Path(directory)).values():
                path = os.path.join(directory, f"{record.run_id}.json")  # noqa: PTH118
                states[path] = f"{record.segment.name} {record.state}"
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.name.endswith(".json"):
                        at = entry.stat()
                        states[entry.path] = f"{at.st_size} {at.st_mtime_ns} {at.st_ctime_ns}"
            files += [(place, path, state) for path, state in states.items()]
        yield from sorted(files)


def _reason_with_name(path: str, error: Exception) -> UserError:
    """Why a file is no record that can be shown, with its name."""
    code = error.exit_code if isinstance(error, UserError) else RUN_FAILED
    reason = str(error)
    if not isinstance(error, UserError):
        reason = (
            f"holds what no run of this version leaves ({type(error).__name__}: {error!s:.200})"
        )
    return UserError(reason if path in reason else f"{path}: {reason}", code)


def _value(subject: str, value: Any) -> str:
    """What is said, short: numbers that need not be equal as they are, of all else the hash."""
    if subject in NEAR:
        return json.dumps(value)
    text = json.dumps(value, sort_keys=True, default=lambda model: model.model_dump(mode="json"))
    return json.dumps(hashlib.sha256(text.encode()).hexdigest())
