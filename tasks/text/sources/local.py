"""Text that a user already has: a file, or a folder of files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tasks.text.corpora import ARTICLE_SPLITS, STORY_SPLITS, Corpus, Report
from tasks.text.errors import TextError
from tasks.text.sources.files import READERS, fingerprint, read_documents, text_bytes

VALID_SHARE = 50
"""One document in so many is held out where the user gives a single file."""

SPLIT_NAMES = {"train": ("train",), "valid": ("val", "test")}
"""How the names of the files of a split begin; of several beginnings the first that occurs."""


class FileCorpus(Corpus):
    """The documents of some files, one after the other."""

    def __init__(
        self,
        files: dict[str, list[Path]],
        name: str = "local",
        licence: str = "not stated",
        source: str = "local file",
        kind: str | None = None,
    ) -> None:
        self.name, self.licence, self.source = name, licence, source
        self.splits = tuple(files)
        self._files, self._kind = files, kind

    def key(self, split: str) -> dict[str, Any]:
        return {"files": [fingerprint(path) for path in self._files[split]]}

    def text_bytes(self, split: str) -> int:
        return sum(text_bytes(path) for path in self._files[split])

    def documents(
        self, split: str, *, scratch: Path | None = None, report: Report | None = None
    ) -> Iterator[str]:
        empty = True
        for path in self._files[split]:
            for document in read_documents(path, self._kind):
                empty = False
                yield document
        if empty:
            names = ", ".join(path.name for path in self._files[split])
            raise TextError(f"there is no text in {names}: the corpus is empty")


class HashSplitFile(FileCorpus):
    """One file, of which a hash of each document's text decides on which side it is.

    About one document in 50 is for validation; in a file where the hash picks none, the document
    with the smallest hash is. Equal documents are on the same side.
    """

    def __init__(self, path: Path) -> None:
        super().__init__({split: [path] for split in STORY_SPLITS})
        self._path = path

    def key(self, split: str) -> dict[str, Any]:
        return {**super().key(split), "hash_split": VALID_SHARE}

    def text_bytes(self, split: str) -> int:
        valid = super().text_bytes(split) // VALID_SHARE
        return valid if split == "valid" else super().text_bytes(split) - valid

    def documents(
        self, split: str, *, scratch: Path | None = None, report: Report | None = None
    ) -> Iterator[str]:
        held_out = self._held_out()
        empty = True
        for document in super().documents(split):
            if held_out(_hash(document)) == (split == "valid"):
                empty = False
                yield document
        if empty:
            raise TextError(
                f"{self._path.name} has too few different documents to hold one out for "
                "validation: give a larger file, or a folder with train.* and valid.*"
            )

    def _held_out(self) -> Callable[[int], bool]:
        smallest = None
        for document in read_documents(self._path):
            value = _hash(document)
            if value % VALID_SHARE == 0:
                return lambda value: value % VALID_SHARE == 0
            smallest = value if smallest is None else min(smallest, value)
        return lambda value: value == smallest


def local_stories(path: Path) -> Corpus:
    """Stories of a folder with train.* and valid.* (val*, test*), or of a single file.

    Raises:
        TextError: nothing there, or a folder that lacks one of the two.
    """
    if path.is_file():
        _check_ending(path)
        return HashSplitFile(path)
    files = _files_of(path)
    splits: dict[str, list[Path]] = {}
    for split, beginnings in SPLIT_NAMES.items():
        matches = (
            [file for file in files if file.stem.lower().startswith(beginning)]
            for beginning in beginnings
        )
        splits[split] = next(filter(None, matches), [])
        if not splits[split]:
            raise TextError(
                f"the folder {path.name} has no file {split}.txt, .jsonl, .json or .parquet: a "
                "folder of stories has train.* and valid.*; a single file is split by itself"
            )
    return FileCorpus(splits)


def local_articles(path: Path) -> Corpus:
    """Articles of a file, or of all files of a folder in the order of their names.

    Raises:
        TextError: nothing there.
    """
    if path.is_file():
        _check_ending(path)
        files = [path]
    else:
        files = _files_of(path)
    return FileCorpus({ARTICLE_SPLITS[0]: files})


def _check_ending(path: Path) -> None:
    if path.suffix.lower() not in READERS:
        raise TextError(f"{path.name}: expected a file that ends with {', '.join(READERS)}")


def _files_of(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise TextError(f"there is no file or folder {folder}: check the path of the corpus")
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in READERS)
    if not files:
        raise TextError(f"the folder {folder.name} has no file that ends with {', '.join(READERS)}")
    return files


def _hash(document: str) -> int:
    return int.from_bytes(hashlib.blake2b(document.encode(), digest_size=8).digest())
