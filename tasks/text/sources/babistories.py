"""BabiStories (Zhang et al., "Memory Mosaics", ICLR 2025, arXiv 2405.06394, section 7 and appendix
B): the official volumes, or the two files extracted from them."""

from __future__ import annotations

import io
import lzma
import re
import struct
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tasks.text.corpora import STORY_SPLITS, Corpus, Report
from tasks.text.errors import TextError
from tasks.text.sources.files import fingerprint, read_documents
from tasks.text.sources.local import FileCorpus

if TYPE_CHECKING:
    import py7zr

NAME, LICENCE = "babistories", "Apache-2.0"
SOURCE = "https://github.com/facebookresearch/MemoryMosaics/tree/main/BabiStories/data"
FILES = {"train": ("traindataset.txt",), "valid": ("valdataset.txt", "testdataset.txt")}
"""The official documents spell the second file both ways. Each line is a JSON string."""

JSON_LINES = ".jsonl"
VOLUME = re.compile(r"(?P<archive>.+\.7z)\.(?P<number>\d{3})")
SIGNATURE = b"7z\xbc\xaf\x27\x1c"
FIRST_HEADER = struct.Struct("<6s2xIQQI")
"""Signature, version, checksum; place, size and checksum of the header at the end."""


def babistories(path: Path) -> Corpus:
    """The corpus in a folder (or beside a file) of volumes or of extracted files.

    Raises:
        TextError: a file or volume is missing.
    """
    folder = path.parent if path.is_file() else path
    if not folder.is_dir():
        raise TextError(f"there is no folder {folder}: check the path of BabiStories")
    files = {
        split: [folder / name for name in names if (folder / name).is_file()][:1]
        for split, names in FILES.items()
    }
    volumes = sorted(file for file in folder.iterdir() if VOLUME.fullmatch(file.name))
    # Extracted files win over volumes: they need no unpacking.
    if all(files.values()):
        return FileCorpus(files, NAME, LICENCE, SOURCE, kind=JSON_LINES)
    if volumes:
        _check_volumes(volumes)
        return BabiStoriesArchive(volumes)
    missing = " or ".join(FILES["valid" if files["train"] else "train"])
    raise TextError(
        f"the folder {folder.name} has no {missing} and no volumes babistories-dataset.7z.001 to "
        f".005: download the volumes from {SOURCE}"
    )


def _check_volumes(volumes: list[Path]) -> None:
    """Name the volume that is missing, by the numbers and by the size that the first one states."""
    matches = [VOLUME.fullmatch(volume.name) for volume in volumes]
    archives = {match["archive"] for match in matches if match}
    if len(archives) > 1:
        raise TextError(f"volumes of several archives lie together: {', '.join(sorted(archives))}")
    archive = archives.pop()
    numbers = {int(match["number"]) for match in matches if match}
    advice = f"download it from {SOURCE} into the same folder"
    # Gaps by their numbers; a missing last volume only shows in the size, below.
    for number in range(1, max(numbers)):
        if number not in numbers:
            raise TextError(f"the volume {archive}.{number:03d} is missing: {advice}")
    with volumes[0].open("rb") as file:
        header = file.read(FIRST_HEADER.size)
    if len(header) < FIRST_HEADER.size or not header.startswith(SIGNATURE):
        raise TextError(f"{volumes[0].name} is not the first volume of a 7z archive: {advice}")
    *_, offset, size, _ = FIRST_HEADER.unpack(header)
    # A 7z archive ends with its header, whose place the first bytes state.
    expected = FIRST_HEADER.size + offset + size
    present = sum(volume.stat().st_size for volume in volumes)
    if present < expected:
        raise TextError(
            f"the volumes of {archive} have {present} of {expected} bytes: {archive}."
            f"{max(numbers) + 1:03d} is missing, or one of the others is cut short; {advice}"
        )


class BabiStoriesArchive(Corpus):
    """The volumes of the archive; a split is unpacked to disk before it is read."""

    name, licence, source, splits = NAME, LICENCE, SOURCE, STORY_SPLITS

    def __init__(self, volumes: list[Path]) -> None:
        self._volumes = volumes

    def key(self, split: str) -> dict[str, Any]:
        """Name, size and time of change of each volume."""
        return {"volumes": [fingerprint(volume) for volume in self._volumes], "split": split}

    def text_bytes(self, split: str) -> int:
        """As the archive states it."""
        with self._archive() as archive:
            return self._member(archive, split).uncompressed

    def documents(
        self, split: str, *, scratch: Path | None = None, report: Report | None = None
    ) -> Iterator[str]:
        """The stories of the unpacked file; without ``scratch`` it is deleted afterwards."""
        if scratch is not None:
            yield from read_documents(self._unpacked(split, scratch, report), JSON_LINES)
            return
        with tempfile.TemporaryDirectory() as folder:
            yield from read_documents(self._unpacked(split, Path(folder), report), JSON_LINES)

    def _unpacked(self, split: str, scratch: Path, report: Report | None) -> Path:
        done = scratch / FILES[split][0]
        if not done.exists():
            scratch.mkdir(parents=True, exist_ok=True)
            with (
                self._archive(report) as archive,
                tempfile.TemporaryDirectory(dir=scratch) as folder,
            ):
                member = self._member(archive, split).filename
                archive.extract(folder, targets=[member])
                # Moved when it is whole: an unpacking that was cut off leaves no file of that name.
                (Path(folder) / member).replace(done)
        return done

    @contextmanager
    def _archive(self, report: Report | None = None) -> Iterator[py7zr.SevenZipFile]:
        import py7zr

        try:
            with (
                JoinedFiles(self._volumes, report) as volumes,
                py7zr.SevenZipFile(io.BufferedReader(volumes, 1 << 20)) as archive,
            ):
                yield archive
        except (py7zr.exceptions.ArchiveError, lzma.LZMAError, EOFError) as error:
            raise TextError(
                f"the volumes {self._volumes[0].name} to {self._volumes[-1].name} are damaged: "
                f"download them again from {SOURCE}"
            ) from error

    @staticmethod
    def _member(archive: py7zr.SevenZipFile, split: str) -> py7zr.FileInfo:
        for member in archive.list():
            if PurePosixPath(member.filename).name in FILES[split]:
                return member
        raise TextError(f"the archive holds no {' or '.join(FILES[split])}")


class JoinedFiles(io.RawIOBase):
    """Some files read as one, as the volumes of an archive are.

    Args:
        report: hears how many bytes have been read.
    """

    def __init__(self, paths: list[Path], report: Report | None = None) -> None:
        self._ends = list(accumulate(path.stat().st_size for path in paths))
        self._files = [path.open("rb") for path in paths]
        self._position = 0
        self._report = report

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of one file of all their bytes."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._ends[-1]}
        self._position = origin[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """At most to the end of the file that holds the position; 0 at the end of the last."""
        number = bisect_right(self._ends, self._position)
        if number == len(self._files):
            return 0
        file, end = self._files[number], self._ends[number]
        # Counted from the end of its volume: the position within the file.
        file.seek(self._position - end, io.SEEK_END)
        read = file.readinto(buffer)
        self._position += read
        if self._report:
            self._report("unpacking the archive", self._position, self._ends[-1])
        return read

    def close(self) -> None:
        for file in self._files:
            file.close()
        super().close()
