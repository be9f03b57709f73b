"""Databases that several processes open at once, and that may be gone for a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ground.errors import RUN_FAILED, UserError

LOCK = 0x6D656D6F7279  # a number that nobody else locks by accident
SECONDS_OF_PATIENCE = 120.0  # with a server that was there before
SECONDS_BETWEEN_TRIES = 1.0

Result = TypeVar("Result")


def is_server(address: str) -> bool:
    """Whether an address is that of a PostgreSQL server, which several machines reach."""
    return address.startswith("postgresql")


def with_driver(address: str) -> str:
    """The address with the library that speaks to PostgreSQL here, where it names none."""
    return address.replace("postgresql://", "postgresql+psycopg://", 1)


def patiently(act: Callable[[], Result]) -> Result:
    """What ``act`` gives, which is called again while its server is being restarted.

    Raises:
        UserError: the server does not come back.
    """
    lost_at = 0.0
    while True:
        try:
            return act()
        except Exception as error:
            if not _is_lost(error):
                raise
            lost_at = lost_at or _note_loss()
            if time.monotonic() - lost_at > SECONDS_OF_PATIENCE:
                raise UserError(
                    "the database given by storage= is gone: what has ended is recorded, and the "
                    "same command goes on from there once the server is back",
                    RUN_FAILED,
                ) from None
            time.sleep(SECONDS_BETWEEN_TRIES)


def _note_loss() -> float:
    print(
        f"note: the database does not answer; waiting for it, {SECONDS_OF_PATIENCE:.0f} s at most",
        file=sys.stderr,
    )
    return time.monotonic()


def _is_lost(error: BaseException) -> bool:
    """Whether a connection broke or could not be made; Optuna wraps what SQLAlchemy raises."""
    from sqlalchemy.exc import InterfaceError, OperationalError

    lost = (InterfaceError, OperationalError)
    return isinstance(error, lost) or isinstance(error.__cause__, lost)


@contextmanager
def alone_at(address: str, folder: Path) -> Iterator[None]:
    """Wait until no other process is in this block for the same database, then be in it.

    Optuna and MLflow create their tables at the first look, and fail where two do so at once.
    The lock is a file beside an SQLite file, one of the server for PostgreSQL, and a file in
    ``folder`` for any other address.

    Raises:
        OSError: the lock cannot be made; or what the database's own library raises.
    """
    import sqlalchemy
    from filelock import FileLock

    if is_server(address):
        engine = sqlalchemy.create_engine(with_driver(address), poolclass=sqlalchemy.NullPool)
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(f"SELECT pg_advisory_xact_lock({LOCK})"))
            yield
        return
    file = sqlite_file(address) or folder / "database"
    place = file.parent.resolve(strict=True)  # a lock would make the folder of a misspelt address
    with FileLock(place / f"{file.name}.lock"):
        yield


def sqlite_file(address: str) -> Path | None:
    """The file of an SQLite address; None for any other."""
    import sqlalchemy

    if not address.startswith("sqlite:"):
        return None
    name = sqlalchemy.make_url(address).database
    return Path(name) if name and name != ":memory:" else None
