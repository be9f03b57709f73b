"""Answers on disk: one line each, appended as they come, found again by their index."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tasks.text.recipe.errors import RecipeError
from tasks.text.recipe.writers import WrittenStory

SECONDS_BETWEEN_FLUSHES = 1.0


class Answers:
    """The file ``answers.jsonl`` of a collection, in any order of indices.

    A line is in the file as a whole or, if the process was killed in the middle of it, as a last
    line without its end, which is cut off on opening. Only one process may hold it open.

    Raises:
        RecipeError: a line that this class did not write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Unbuffered: what is written has left the process, and outlives its death.
        self._file = path.open("a+b", buffering=0)
        self._offsets: dict[int, int] = {}
        self._flushed = time.monotonic()
        try:
            self._end = self._scan()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Answers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def __contains__(self, index: int) -> bool:
        return index in self._offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, index: int, answer: WrittenStory) -> None:
        """Keep one answer; it outlives a kill at once, and a power cut after a second.

        Raises:
            OSError: the disk is full; what was there before is as it was.
        """
        line = json.dumps({"index": index, **vars(answer)}).encode() + b"\n"
        written = 0
        try:
            # A raw file may take a part of a line only.
            while written < len(line):
                written += self._file.write(line[written:])
            self._offsets[index] = self._end
            self._end += len(line)
        except BaseException:  # a full disk, or the user's Ctrl-C
            self._cut()
            raise
        if time.monotonic() - self._flushed > SECONDS_BETWEEN_FLUSHES:
            os.fsync(self._file.fileno())
            self._flushed = time.monotonic()

    def _cut(self) -> None:
        """Take back a line that is not wholly written, or not wholly entered."""
        self._offsets = {i: offset for i, offset in self._offsets.items() if offset < self._end}
        self._file.truncate(self._end)

    def read(self, index: int) -> WrittenStory:
        """The answer of an index that is in here."""
        self._file.seek(self._offsets[index])
        entry = self._parse(self._line())
        return WrittenStory(entry["text"], entry["model"], entry["finish"])

    def _line(self) -> bytes:
        # The file itself is unbuffered; lines are a few hundred to a few thousand bytes.
        parts: list[bytes] = []
        while part := self._file.read(4096):
            head, end, _ = part.partition(b"\n")
            parts.append(head)
            if end:
                break
        return b"".join(parts)

    def _scan(self) -> int:
        offset = 0
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                # The end of a line that was cut off by a kill.
                if not line.endswith(b"\n"):
                    self._file.truncate(offset)
                    break
                entry = self._parse(line, number)
                # Of two answers to one index the first: what was judged once stays.
                self._offsets.setdefault(entry["index"], offset)
                offset += len(line)
        return offset

    def _parse(self, line: bytes, number: int | None = None) -> dict[str, Any]:
        try:
            entry = json.loads(line)
            if isinstance(entry["index"], int) and isinstance(entry["text"], str):
                return entry
        except (ValueError, KeyError, TypeError):
            pass
        place = f"line {number} of {self._path}" if number else str(self._path)
        raise RecipeError(
            f"{place} was damaged; delete that line and give the same command again, "
            "and the story is written anew"
        )
