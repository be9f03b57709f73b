"""Where studies are kept: a journal in the store, or a database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage, RDBStorage, get_storage

from bench.search.journal import open_journal
from bench.search.plan import JOURNAL
from core.errors import UserError
from core.places import is_server


def open_storage(storage: str, folder: Path) -> BaseStorage:
    """The journal in ``folder``, whose only writer the caller is, or the database of an address.

    Raises:
        UserError: the database cannot be opened; one whose server is away is not waited for.
    """
    if storage == JOURNAL:
        return open_journal(folder / "journal.log")
    # SQLAlchemy, which takes a fifth of a second
    from core.database import alone_at, cannot_be_opened, with_driver

    try:
        with alone_at(storage, folder):
            opened = get_storage(RDBStorage(with_driver(storage)))
    except UserError:
        raise
    except Exception as error:  # each database driver has exceptions of its own
        raise cannot_be_opened(storage, error) from None
    return _patient(opened) if is_server(storage) else opened


def _patient(storage: BaseStorage) -> BaseStorage:
    """A storage each of whose operations waits for a server that is being restarted.

    An operation that a restart cut off is made again. What may then be there twice is a trial that
    waits or runs and that nobody has: the study fails it and tries its setting again.
    """
    from core.database import patiently

    def patient(name: str) -> Any:
        operation = getattr(storage, name)
        return lambda self, *words, **named: patiently(lambda: operation(*words, **named))

    operations = {name: patient(name) for name in BaseStorage.__abstractmethods__}
    kind: type[BaseStorage] = type("PatientStorage", (BaseStorage,), operations)
    return kind()
