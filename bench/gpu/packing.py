"""A store in a few files, each of which can be read alone."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from core.files import make_folder

PACK = "pack"  # folder of the store
# What is worth most comes first; the rest follows.
FIRST = ("summary.json", "summary.md", "layout.json", "parts", "records", "trials", "studies")
OVERHEAD = 4096  # bytes of a file's head and padding in an archive, and of the archive's end


def pack(store: Path, mib: int) -> tuple[list[Path], list[Path]]:
    """Archives of at most ``mib`` MiB with the files of a store, and files that are larger alone.

    ``tar -xzf`` of all of them in one folder gives the store again. Sizes are taken before they are
    compressed, so that no archive is larger than was asked.
    """
    folder = store / PACK
    make_folder(folder)
    for old in folder.glob("*.tar.gz"):
        old.unlink()
    limit = mib * 2**20
    too_large: list[Path] = []
    volumes: list[list[Path]] = [[]]
    filled = 0
    for path in _files(store):
        size = path.stat().st_size + OVERHEAD
        if size > limit:
            too_large.append(path)
            continue
        if filled + size > limit:
            volumes.append([])
            filled = 0
        volumes[-1].append(path)
        filled += size
    archives = []
    for number, paths in enumerate(volumes, 1):
        archive = folder / f"part-{number:02}.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for path in paths:
                with suppress(FileNotFoundError):  # a lock or a partial file that went meanwhile
                    tar.add(path, str(path.relative_to(store)), recursive=False)
        archives.append(archive)
    return archives, too_large


def _files(store: Path) -> Iterator[Path]:
    """Regular files, those of FIRST before all others."""
    paths = [path for path in sorted(store.rglob("*")) if path.is_file() and not path.is_symlink()]
    ranks = {name: rank for rank, name in enumerate(FIRST)}
    inside = [path for path in paths if path.relative_to(store).parts[0] != PACK]
    rest = len(ranks)
    yield from sorted(inside, key=lambda path: ranks.get(path.relative_to(store).parts[0], rest))
