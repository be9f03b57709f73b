"""Databases that several processes open at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = 0x6D656D6F7279  # a number that nobody else locks by accident


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

    if address.startswith("postgresql"):
        engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.NullPool)
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
