"""Files that hold what was written: atomic writes, and seals that show a flipped bit.

Writes are atomic: a reader sees the old file or the whole new one, never a part, and a power cut
takes back nothing that a caller was told is written.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

NOT_REGULAR = "is not a regular file"
ROOT = Path(__file__).resolve().parents[1]  # of the checkout
_started_in: Path | None = None


def when_changed(folder: Path) -> int:
    """When a file of a folder last came or went, in nanoseconds; 0 where there is none."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


@contextmanager
def fixed_working_directory() -> Iterator[None]:
    """In this block relative places refer to where it was entered: a model's package may change the
    working directory while a command runs."""
    global _started_in
    before, _started_in = _started_in, Path.cwd()
    try:
        yield
    finally:
        _started_in = before


def working_directory() -> Path:
    """Where the command was given; outside of commands, where this process stands."""
    return _started_in or Path.cwd()


def write_atomically(path: Path, *content: bytes | memoryview) -> None:
    """Write to a temporary file beside ``path``, flush it to disk, then rename it.

    Writers of one path take turns at one temporary file, ``.NAME.partial``. So whoever writes a
    path next also takes away what a killed process left of it, and hurts nobody who is alive.

    Raises:
        OSError: the disk is full or not writable, or ``path`` is a device or a pipe, which a rename
            would take away; ``path`` is then as it was before.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, NOT_REGULAR, str(path))
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.partial")
    with _own(temporary) as file:
        try:
            file.truncate()
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    flush_folder(path.parent)


def _own(temporary: Path) -> BinaryIO:
    """The temporary file, once nobody else has it; a killed owner has lost it."""
    while True:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK  # no pipe is waited for
        file = os.fdopen(os.open(temporary, flags, 0o600), "wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(temporary.stat(), os.fstat(file.fileno())):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()  # the owner before us has renamed or removed it


def lock(path: Path) -> BinaryIO:
    """A lock file, made where it is missing, that this process alone has until it closes it. What
    it holds stays, and nothing else is opened where a link or a pipe lies in its place.

    Raises:
        BlockingIOError: another process has it.
        OSError: it cannot be opened.
    """
    make_folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    file = os.fdopen(handle, "r+b", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file


def open_regular(path: Path) -> BinaryIO:
    """A regular file, to be read: a pipe would be waited for, and a device never ends.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise OSError(errno.EINVAL, NOT_REGULAR, str(path))


def write_sealed(path: Path, content: bytes | memoryview) -> None:
    """Write atomically, with the hash of the content in a last line."""
    write_atomically(path, content, _seal(content))


def read_sealed(path: Path) -> bytes:
    """The content of a file that :func:`write_sealed` wrote.

    Raises:
        ValueError: a bit of it is not what was written, or it has no seal.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        content = file.read(max(0, os.fstat(file.fileno()).st_size - len(_seal(b""))))
        if file.read() != _seal(content):
            raise ValueError(f"{path} is not what was written")
    return content


def _seal(content: bytes | memoryview) -> bytes:
    return b'\n{"sha256": "%s"}\n' % hashlib.sha256(content).hexdigest().encode()


def link(path: Path, source: Path) -> None:
    """Let ``path`` have the content of ``source``: a link, or a copy where there are none."""
    make_folder(path.parent)
    path.unlink(missing_ok=True)
    try:
        path.hardlink_to(source)
    except OSError:  # a file system without links
        write_atomically(path, source.read_bytes())
    flush_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, so that they survive a power cut."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        flush_folder(folder.parent)


def flush_folder(folder: Path) -> None:
    """Make a rename inside ``folder`` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
