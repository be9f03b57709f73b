"""A stream while it grows: files that are only appended to, with safe points to go on from."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from tasks.text.stream import STARTS, TOKENS

SAFE_POINT = "progress.json"


class Counts(BaseModel):
    """What has been written so far; the hashes are of the two files up to there."""

    documents: int = 0
    tokens: int = 0
    characters: int = 0
    bytes: int = 0
    tokens_sha256: str = ""
    starts_sha256: str = ""


class GrowingFile:
    """A file that is appended to, and the SHA-256 of its content."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab")
        self._digest = hashlib.sha256()

    def cut(self, size: int) -> str:
        """Keep the first ``size`` bytes; their SHA-256."""
        self._file.truncate(size)
        # Hashed again from the disk: only what is there counts, not what was thought to be.
        with self.path.open("rb") as file:
            self._digest = hashlib.file_digest(file, "sha256")
        return self.sha256

    def append(self, values: NDArray[np.generic]) -> None:
        """Write the bytes of an array."""
        content = values.tobytes()
        self._file.write(content)
        self._file.flush()
        self._digest.update(content)

    def sync(self) -> None:
        """Return when the content has reached the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    @property
    def sha256(self) -> str:
        """SHA-256 of all that was appended, hexadecimal."""
        return self._digest.hexdigest()


class StreamOutput:
    """Tokens and starts of documents in a folder, going on from its last safe point.

    Attributes:
        counts: what is in the files.
        unsaved_bytes: of text since the last safe point.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob(".*.json.*"):  # of a process that was killed in the writing
            unfinished.unlink()
        self.folder = folder
        self.counts = Counts()
        self.unsaved_bytes = 0
        self._tokens = GrowingFile(folder / TOKENS)
        self._starts = GrowingFile(folder / STARTS)
        self._whole = True
        if not self._resumed():
            self._tokens.cut(0)
            self._starts.cut(0)
            self._starts.append(np.zeros(1, dtype="<i8"))

    def _resumed(self) -> bool:
        try:
            counts = Counts.model_validate_json((self.folder / SAFE_POINT).read_bytes())
        except (FileNotFoundError, ValidationError):
            return False
        self.counts = counts
        # Two bytes for a token, eight for a start; the index has one start more than documents.
        hashes = self._tokens.cut(2 * counts.tokens), self._starts.cut(8 * (counts.documents + 1))
        if hashes != (counts.tokens_sha256, counts.starts_sha256):
            self.counts = Counts()
            return False
        return True

    def append(
        self,
        tokens: NDArray[np.uint16],
        lengths: NDArray[np.int64],
        characters: int,
        text_bytes: int,
    ) -> None:
        """Add documents: their tokens in one array, and how many belong to each."""
        self._whole = False
        # Where documents end is where the next ones start.
        starts = self.counts.tokens + np.cumsum(lengths)
        self._tokens.append(tokens.astype("<u2", copy=False))
        self._starts.append(starts.astype("<i8", copy=False))
        self.counts = Counts(
            documents=self.counts.documents + len(lengths),
            tokens=self.counts.tokens + len(tokens),
            characters=self.counts.characters + characters,
            bytes=self.counts.bytes + text_bytes,
        )
        self.unsaved_bytes += text_bytes
        self._whole = True

    def save(self) -> None:
        """Make a safe point of what was appended."""
        if not self._whole:  # the last append failed in the middle: the safe point before it holds
            return
        # Both files first: a safe point must not promise more than the disk has.
        self._tokens.sync()
        self._starts.sync()
        self.counts = self.counts.model_copy(
            update={"tokens_sha256": self._tokens.sha256, "starts_sha256": self._starts.sha256}
        )
        write_synced(self.folder / SAFE_POINT, self.counts.model_dump_json().encode())
        self.unsaved_bytes = 0

    def close(self) -> None:
        self._tokens.close()
        self._starts.close()


def write_synced(path: Path, content: bytes) -> None:
    """Replace a file: a reader sees the old content or the whole new one, never a part."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp makes private files
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    # The rename too must outlive a power cut.
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename inside ``folder`` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
