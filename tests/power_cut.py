"""A simulator of power cuts: what a disk may hold when the power fails after any operation.

It follows what POSIX promises and no more. The content of a file is on the disk as of its last
fsync, and is empty before the first; a name is in a folder as of the last fsync of the folder. A
file system may have done more by itself, so each moment gives two disks: one with no name that was
not flushed, and one with all names, flushed or not.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Disk = dict[str, bytes]  # path below the root -> content
Names = dict[str, tuple[int, bool]]  # name in a folder -> inode, and whether it is a folder


class PowerCut:
    """Records the operations below ``root`` from now on; ``root`` itself is on the disk.

    Attributes:
        disks: what a power cut may leave, in the order of the operations.
        certain: what is on the disk by now whatever the file system does.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.disks: list[Disk] = [{}]
        self.certain: Disk = {}
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, Names] = {root.stat().st_ino: _names(root)}
        self._open: list[int] = []  # so that no inode is given to another file
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._flush)
        for name in ("replace", "rename", "link", "unlink", "remove", "mkdir"):
            monkeypatch.setattr(os, name, self._followed(getattr(os, name)))

    def _followed(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def follow(*arguments: Any, **options: Any) -> Any:
            result = operation(*arguments, **options)
            self._look()
            return result

        return follow

    def _flush(self, handle: int) -> None:
        self._fsync(handle)
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            self._names[status.st_ino] = _names(handle)
        else:
            self._open.append(os.dup(handle))
            self._contents[status.st_ino] = Path(f"/proc/self/fd/{handle}").read_bytes()
        self._look()

    def _look(self) -> None:
        root = self.root.stat().st_ino
        self.certain, likely = {}, {}
        self._collect(self.certain, self._names, root, "")
        self._collect(likely, self._now(), root, "")
        self.disks += [disk for disk in (self.certain, likely) if disk not in self.disks[-2:]]

    def _now(self) -> dict[int, Names]:
        return {Path(f).stat().st_ino: _names(Path(f)) for f, _, _ in os.walk(self.root)}

    def _collect(self, disk: Disk, names: dict[int, Names], folder: int, place: str) -> None:
        for name, (inode, is_folder) in names.get(folder, {}).items():
            if is_folder:
                self._collect(disk, names, inode, f"{place}{name}/")
            else:
                disk[place + name] = self._contents.get(inode, b"")

    def close(self) -> None:
        """Let the files go."""
        for handle in self._open:
            os.close(handle)


def _names(folder: Path | int) -> Names:
    with os.scandir(folder) as entries:
        return {entry.name: (entry.inode(), entry.is_dir()) for entry in entries}


def restore(disk: Disk, root: Path) -> None:
    """Write a disk as files below ``root``."""
    for place, content in disk.items():
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
