"""What the drivers of one PostgreSQL database tell each other: who is at work, who makes which run,
and the records that were made. So several machines work at one plan, and each run is made once.
"""

from __future__ import annotations

import platform
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeVar

import sqlalchemy as sql
from sqlalchemy.dialects.postgresql import insert

from bench.records.store import Store
from core.database import LOCK, alone_at, cannot_be_opened, engine_of, patiently
from core.errors import UserError
from core.files import make_folder, write_atomically

SECONDS_BETWEEN_HEARTBEATS = 10.0
SECONDS_UNTIL_DEAD = 60.0  # without a heartbeat, after which its work is another driver's

_TABLES = sql.MetaData()
_DRIVERS = sql.Table(
    "memory_bench_drivers",
    _TABLES,
    sql.Column("name", sql.String(100), primary_key=True),
    sql.Column("seen", sql.DateTime(timezone=True), nullable=False),
    sql.Column("studies", sql.Text, nullable=False, server_default=""),  # of its plan, in lines
)
_RUNS = sql.Table(
    "memory_bench_runs",
    _TABLES,
    sql.Column("run", sql.String(400), primary_key=True),  # its place below a store
    sql.Column("driver", sql.String(100), nullable=False),
    sql.Column("record", sql.Text),
)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Lease:
    """What is known of a run that a driver wants to make.

    Attributes:
        state: it is the driver's to make; another one is at it; or its record is there.
        record: the content of its file.
    """

    state: Literal["owned", "held", "done"]
    record: str = ""


class Coordinator:
    """One driver's view of what all of them tell.

    Args:
        name: of this driver; the next one in the same store has it too, and takes over its runs.

    Raises:
        UserError: the database cannot be used.
    """

    def __init__(self, address: str, name: str, folder: Path) -> None:
        self.name = name
        self._engine = engine_of(address, pool_pre_ping=True)
        try:
            with alone_at(address, folder):
                _TABLES.create_all(self._engine)
        except sql.exc.SQLAlchemyError as error:
            raise cannot_be_opened(address, error) from None
        self._send_heartbeat()
        threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def _send_heartbeat(self) -> None:
        new = insert(_DRIVERS).values(name=self.name, seen=sql.func.now())
        seen = new.on_conflict_do_update(index_elements=["name"], set_={"seen": sql.func.now()})
        with self._engine.begin() as connection:
            connection.execute(seen)

    def _send_heartbeats(self) -> None:
        ended = threading.Event()
        while not ended.wait(SECONDS_BETWEEN_HEARTBEATS):
            with suppress(sql.exc.SQLAlchemyError):  # it is being restarted
                self._send_heartbeat()

    def alone(self, act: Callable[[], Result]) -> Result:
        """What ``act`` gives, while no other driver is in such a call."""
        return self._alone(lambda connection: act())

    def _alone(self, act: Callable[[sql.Connection], Result]) -> Result:
        def locked() -> Result:
            with self._engine.begin() as connection:
                connection.execute(sql.select(sql.func.pg_advisory_xact_lock(LOCK + 1)))
                return act(connection)

        return patiently(locked)

    def alive(self, driver: str | None) -> bool:
        """Whether a driver sent a heartbeat lately. Right after a restart of the server, when
        none could, all that it knows are alive."""

        def sent_heartbeat() -> bool:
            with self._engine.connect() as connection:
                return _is_alive(connection, driver)

        return driver == self.name or patiently(sent_heartbeat)

    @contextmanager
    def working_on(self, studies: Iterable[str]) -> Iterator[None]:
        """In this block the driver works on a plan of these studies, to its end."""
        this_driver = sql.update(_DRIVERS).where(_DRIVERS.c.name == self.name)
        begin, end = this_driver.values(studies="\n".join(studies)), this_driver.values(studies="")
        self._alone(lambda connection: connection.execute(begin))
        try:
            yield
        finally:
            with suppress(UserError):  # the server is gone, and this driver soon dead to others
                self._alone(lambda connection: connection.execute(end))

    def lease(self, run: str, near: str = "", study: str = "") -> Lease:
        """Ask for a run.

        Args:
            near: a run whose weights this one takes: it is for the driver that has them, if that
                one comes to it too, since it is at the same study.
        """
        return self._alone(lambda connection: self._lease(connection, run, near, study))

    def _lease(self, connection: sql.Connection, run: str, near: str, study: str) -> Lease:
        wanted = sql.select(_RUNS).where(_RUNS.c.run.in_([run, near]))
        rows = {row.run: row for row in connection.execute(wanted)}
        row_of_run = rows.get(run)
        if row_of_run is not None and row_of_run.record is not None:
            return Lease("done", row_of_run.record)
        for row in rows.values():
            if row.driver == self.name:
                continue
            of_driver = sql.select(_DRIVERS.c.studies).where(_DRIVERS.c.name == row.driver)
            studies = str(connection.execute(of_driver).scalar()).splitlines()
            may_make_it = row is row_of_run or study in studies
            if may_make_it and _is_alive(connection, row.driver):
                return Lease("held")
        self._put(connection, run, None)
        return Lease("owned")

    def publish(self, run: str, record: str) -> None:
        """Tell all of a finished run; one that all know stays with the driver that made it."""
        self._alone(lambda connection: self._put(connection, run, record))

    def _put(self, connection: sql.Connection, run: str, record: str | None) -> None:
        changes = {"driver": self.name, "record": record}
        new = insert(_RUNS).values(run=run, **changes)
        is_new = _RUNS.c.record.is_(None) | _RUNS.c.record.is_distinct_from(record)
        update = new.on_conflict_do_update(index_elements=["run"], set_=changes, where=is_new)
        connection.execute(update)

    def release(self, run: str) -> None:
        """Give up a run that came to no record."""
        unfinished = (_RUNS.c.run == run) & (_RUNS.c.driver == self.name) & _RUNS.c.record.is_(None)
        self._alone(lambda connection: connection.execute(sql.delete(_RUNS).where(unfinished)))

    def write_missing(self, store: Path) -> None:
        """Write every record that a store lacks."""
        finished = sql.select(_RUNS.c.run).where(_RUNS.c.record.is_not(None))
        for (run,) in self._alone(lambda connection: connection.execute(finished).all()):
            if not (store / run).exists():
                self.write_record(store, run, self.lease(run).record)

    def write_record(self, store: Path, run: str, record: str) -> None:
        """Write one record; whoever reads it checks what it holds."""
        folder, _, name = run.partition("/")
        folders = {path.name for path in map(Store(store).record_folder, ("trial", "control", ""))}
        if folder in folders and name.endswith(".json") and "/" not in name:
            write_atomically(store / folder / name, record.encode())


def _is_alive(connection: sql.Connection, driver: str | None) -> bool:
    long_ago = sql.func.now() - timedelta(seconds=SECONDS_UNTIL_DEAD)
    seen = sql.select(_DRIVERS.c.seen > long_ago).where(_DRIVERS.c.name == driver)
    is_recent = connection.execute(seen).scalar()
    just_restarted = sql.select(sql.func.pg_postmaster_start_time() > long_ago)
    return bool(is_recent) or (
        is_recent is not None and bool(connection.execute(just_restarted).scalar())
    )


def join_drivers(address: str, store: Path) -> Coordinator:
    """The coordinator of a store's driver, at a server's address."""
    studies = Store(store).studies
    return Coordinator(address, f"{platform.node()[:60]}-{_name_in(studies)}", studies)


def _name_in(studies: Path) -> str:
    """The name of a store's driver, which a copy of the store does not have: of two drivers of one
    name, each would take the other's runs for its own lost ones.

    With the name is kept which folder it was made in. A copy, and a store that comes to another
    file system, is another folder, and gets a new name; what the old one left is then a dead
    driver's. It is the folder's number and not the file's, since a copy by hard links has that too.
    """
    make_folder(studies)
    path, folder = studies / "driver.name", studies.stat()
    place = [str(folder.st_dev), str(folder.st_ino)]
    words = path.read_text().split() if path.exists() else []
    if words[1:] != place:
        words = [uuid.uuid4().hex[:16], *place]
        write_atomically(path, " ".join(words).encode())
    return words[0][:32]
