"""Databases that several processes open at once, and that may be gone for a while."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy
from filelock import FileLock
from sqlalchemy.exc import InterfaceError, OperationalError

from core.errors import RUN_FAILED, USAGE, UserError
from core.places import is_server

LOCK = 0x6D656D6F7279  # a number that nobody else locks by accident
SECONDS_OF_PATIENCE = 120.0  # with a server that was there before
SECONDS_BETWEEN_TRIES = 1.0
SECONDS_TO_CONNECT = "10"

Result = TypeVar("Result")
# When the server that did not come back was lost: who asks it again on the way out does not wait.
_lost_since: list[float] = []
_noted_at: list[float] = []  # when the last loss was told: each connection finds out by itself


def with_driver(address: str) -> str:
    """The address with the library that speaks to PostgreSQL here, where it names none."""
    return address.replace("postgresql://", "postgresql+psycopg://", 1)


def engine_of(address: str, **options: Any) -> Any:
    """SQLAlchemy's engine for the address of a server; nothing is connected yet.

    Raises:
        UserError: it is no address, or its library is not installed.
    """
    if "+" not in address.partition(":")[0] and not find_spec("psycopg"):
        raise UserError(
            "storage=postgresql://… needs psycopg, which is not installed: "
            "python -m pip install -c constraints.txt -e '.[cluster]'"
        )
    # libpq would wait for minutes, silently, for a host that does not answer; whoever gives a time
    # of their own, here or in the address, has it.
    os.environ.setdefault("PGCONNECT_TIMEOUT", SECONDS_TO_CONNECT)
    try:
        return sqlalchemy.create_engine(with_driver(address), **options)
    except (ImportError, ValueError, sqlalchemy.exc.ArgumentError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(
            f"the address given by storage= cannot be used ({first}): it is such as "
            "postgresql://USER@HOST:5432/DATABASE"
        ) from None


def cannot_be_opened(address: str, error: Exception) -> UserError:
    """What is said of a database that a command finds unusable at its start, when nothing waits for
    it: a server may be away for good, or never have been."""
    first = str(error).strip().splitlines()[0]
    away = is_server(address) and _is_lost(error)  # no word of the command need be wrong
    if away:
        way_on = (
            "start its server and give the same command again, or give the address, user and "
            "password of one that runs"
        )
    elif is_server(address):
        way_on = "give its user the rights to make tables, or another user or database"
    else:
        way_on = "storage is 'journal' or an address such as sqlite:///studies.db"
    return UserError(
        f"the database given by storage= cannot be opened ({type(error).__name__}: {first}): "
        f"{way_on}",
        RUN_FAILED if away else USAGE,
    )


def patiently(act: Callable[[], Result]) -> Result:
    """What ``act`` gives, which is called again while its server is being restarted.

    Raises:
        UserError: the server does not come back.
    """
    lost_at = 0.0
    while True:
        try:
            result = act()
        except Exception as error:
            if not _is_lost(error):
                raise
            lost_at = lost_at or (_lost_since[0] if _lost_since else _note_loss())
            if time.monotonic() - lost_at > SECONDS_OF_PATIENCE:
                _lost_since[:] = [lost_at]
                raise UserError(
                    "the database given by storage= is gone: what has ended is recorded, and the "
                    "same command goes on from there once the server is back",
                    RUN_FAILED,
                ) from None
            time.sleep(SECONDS_BETWEEN_TRIES)
        else:
            _lost_since.clear()
            return result


def _note_loss() -> float:
    now = time.monotonic()
    if not _noted_at or now - _noted_at[0] > SECONDS_OF_PATIENCE:
        longest = f"{SECONDS_OF_PATIENCE:.0f} s at most"
        print(f"note: the database does not answer; waiting for it, {longest}", file=sys.stderr)
        _noted_at[:] = [now]
    return now


def _is_lost(error: BaseException) -> bool:
    """Whether a connection broke or could not be made; Optuna wraps what SQLAlchemy raises."""
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
    if is_server(address):
        engine = engine_of(address, poolclass=sqlalchemy.NullPool)
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
    if not address.startswith("sqlite:"):
        return None
    name = sqlalchemy.make_url(address).database
    return Path(name) if name and name != ":memory:" else None
