"""What a record must satisfy beyond its schema and hash before it may stand on a board.

A record is data made by others: nothing in it names a path outside the board's folders, and nothing
in it can break the board's file or its page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.records.schema import RunRecord, read_record
from ground.errors import RUN_FAILED, UserError
from ground.reading import read_all

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
MAXIMUM_LABEL = 80
LARGEST_INTEGER = 2**63 - 1


def check_name(name: str, what: str) -> str:
    """A name that can stand in a path.

    Raises:
        UserError: it has other characters than letters, digits, ``_ . -``, or begins with a dot.
    """
    if not NAME.fullmatch(name) or ".." in name:
        raise UserError(
            f"the {what} {name[:80]!r} cannot be a file name: letters, digits, '_', '.' and '-' "
            "are allowed, 200 at most, not beginning with '.' or '-' and without '..'",
            RUN_FAILED,
        )
    return name


def check(record: RunRecord) -> RunRecord:
    """The record itself, if it may stand on a board.

    Raises:
        UserError: one sentence that says what is wrong with it.
    """
    for what in ("run_id", "task", "model", "preset"):
        check_name(getattr(record, what), what)
    if not record.label.isprintable() or not 0 < len(record.label) <= MAXIMUM_LABEL:
        raise _refused(record, f"its label is not 1 to {MAXIMUM_LABEL} printable characters")
    for name, curve in record.curves.items():
        if len(curve.x) != len(curve.y):
            raise _refused(record, f"its curve '{name[:80]}' has more x than y, or fewer")
    integers = [record.seed, *(v for v in vars(record.cost).values() if isinstance(v, int))]
    if not all(0 <= value <= LARGEST_INTEGER for value in integers):
        raise _refused(record, "its seed or a cost is negative or larger than 64 bits hold")
    if not isinstance(record.config.get("tasks"), dict):
        raise _refused(record, "its config does not hold the task's settings under 'tasks'")
    try:
        json.dumps(record.model_dump(mode="json"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _refused(record, "it holds text that is not valid Unicode") from None
    return record


def read_checked(
    folders: Iterable[Path], refused: list[UserError] | None = None
) -> Iterator[RunRecord]:
    """All records below ``folders``, sorted by run id; of equal run ids the first folder wins, and
    the others are read too: a damaged file is never passed over, but with ``refused`` put there.

    Raises:
        UserError: without ``refused``, at the first record that cannot be trusted.
    """
    found: dict[str, list[Path]] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.json")):
            found.setdefault(path.stem, []).append(path)
    for _, paths in sorted(found.items()):
        yield from list(read_all(paths, lambda path: check(read_record(path)), refused))[:1]


def _refused(record: RunRecord, why: str) -> UserError:
    return UserError(
        f"the record {record.run_id} is refused because {why}: make it with bench.train or "
        "bench.sweep, which write none like it",
        RUN_FAILED,
    )
