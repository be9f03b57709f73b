"""Optuna's journal with a seal on every line, so that damage is seen before it is believed.

A line's seal is a hash of its content and of the seal before it: a flipped bit, a lost line and one
that stands twice all break it. What a broken journal has lost is no number: the trials that it told
of have their records, which are served when the sweep asks for the same settings again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from core.files import make_folder, open_regular, write_atomically


def open_journal(path: Path) -> JournalStorage:
    """The studies in a journal, whose only writer the caller is.

    Takes away what a killed driver leaves: its lock, and a last line that was only half written.
    From the first line on that is not what was written, the journal is cut; a copy is kept.
    """
    make_folder(path.parent)
    for lock in path.parent.glob(f"{path.name}.lock*"):  # with those that were being released
        lock.unlink(missing_ok=True)
    content = b""
    if path.exists():
        with open_regular(path) as file:
            content = file.read()
    complete = content[: content.rfind(b"\n") + 1]
    lines = complete.splitlines(keepends=True)
    sealed = _sealed(lines)
    if len(sealed) < len(lines):
        _keep_copy(path, content, len(sealed) + 1)
    intact = b"".join(lines[: len(sealed)])
    if intact != content or path.is_symlink():  # what a link leads to is not for a sweep to change
        write_atomically(path, intact)
    return JournalStorage(_SealedJournal(path, sealed[-1] if sealed else ""))


def _sealed(lines: list[bytes]) -> list[str]:
    """The seals of the lines, up to the first that is not what was written."""
    seals: list[str] = []
    for line in lines:
        try:
            log = json.loads(line)
            claimed = log.pop("seal")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return seals
        if claimed != _seal(log, seals[-1] if seals else ""):
            return seals
        seals.append(claimed)
    return seals


def _seal(log: dict[str, Any], before: str) -> str:
    content = json.dumps([before, log], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _keep_copy(path: Path, content: bytes, line: int) -> None:
    copy = path.with_name(f"{path.name}.damaged-{hashlib.sha256(content).hexdigest()[:12]}")
    write_atomically(copy, content)
    print(
        f"note: line {line} of {path} is damaged, or of an earlier version: the sweep keeps the "
        f"lines before it, takes what followed from the records, and leaves a copy in {copy.name}",
        file=sys.stderr,
    )


class _SealedJournal(JournalFileBackend):
    """Optuna's file, each of whose lines gets its seal when it is written."""

    def __init__(self, path: Path, last: str) -> None:
        super().__init__(str(path))
        self._last = last

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        last, sealed = self._last, []
        for log in logs:
            last = _seal(log, last)
            sealed.append({**log, "seal": last})
        super().append_logs(sealed)
        self._last = last
