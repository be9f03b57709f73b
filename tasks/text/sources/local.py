"""Text that a user already has: a file, or a folder of files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.text.corpora import ARTICLE_SPLITS, STORY_SPLITS, Corpus, Report
from tasks.text.errors import TextError
from tasks.text.sources.files import (
    END_MARK,
    READERS,
    fingerprint,
    marks_within_lines,
    read_documents,
    text_bytes,
)
from tasks.text.sources.samples import sample_at

VALID_SHARE = 50
"""One document in so many is held out where the user gives a single file."""

SPLIT_NAMES = {"train": ("train",), "valid": ("val", "test")}
"""How the names of the files of a split begin; of several beginnings the first that occurs."""

WHOLE_NAMES = {"train": r"train(ing)?", "val": r"val(id(ation)?)?", "test": r"test"}
"""For each beginning the whole name that says no more than which split it is."""

PART = r"([-_.]?\d+([-_.]?of[-_.]?\d+)?)?"
"""What may follow it: the number of a part, as in train-00000-of-00004.parquet."""


class FileCorpus(Corpus):
    """The documents of some files, one after the other.

    Attributes:
        notes: what a reader of these files should know, in sentences.
        apart: whether no document can be in two splits.
    """

    apart = False

    def __init__(
        self,
        files: dict[str, list[Path]],
        name: str = "local",
        licence: str = "not stated",
        source: str = "local file",
        kind: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.name, self.licence, self.source = name, licence, source
        self.splits = tuple(files)
        self._files, self._kind = files, kind
        # A file may serve two splits, and is looked at once.
        all_paths = list(dict.fromkeys(path for paths in files.values() for path in paths))
        self.notes = [*notes, *(_note_on_marks(path) for path in self._with_marks(all_paths))]

    def key(self, split: str) -> dict[str, Any]:
        """Name, size and time of change of each file."""
        key: dict[str, Any] = {"files": [fingerprint(path) for path in self._files[split]]}
        if any(_kind(path) == TEXT for path in self._with_marks(self._files[split])):
            key["end_marks"] = "within lines"  # earlier versions read them as ordinary text
        return key

    def _with_marks(self, paths: Sequence[Path]) -> list[Path]:
        """The files that have end marks within lines, where their names say what they are."""
        return [path for path in paths if self._kind is None and marks_within_lines(path)]

    def text_bytes(self, split: str) -> int:
        return sum(text_bytes(path) for path in self._files[split])

    def documents(
        self, split: str, *, scratch: Path | None = None, report: Report | None = None
    ) -> Iterator[str]:
        """The documents of all files in turn; a TextError where there are none."""
        empty = True
        for path in self._files[split]:
            for document in read_documents(path, self._kind):
                empty = False
                yield document
        if empty:
            names = ", ".join(path.name for path in self._files[split])
            raise TextError(f"there is no text in {names}: the corpus is empty")


TEXT = ".txt"


def _kind(path: Path) -> str:
    return path.suffix.lower()


def _note_on_marks(path: Path) -> str:
    if _kind(path) == TEXT:
        return (
            f"{path.name} has end marks {END_MARK} within lines: each of them ends a document, and "
            "a line end does not"
        )
    return f"{path.name} has marks {END_MARK} within its documents, where they are ordinary text"


class HashSplitFile(FileCorpus):
    """One file, of which a hash of each document's text decides on which side it is.

    About one document in 50 is for validation; in a file where the hash picks none, the document
    with the smallest hash is. Equal documents are on the same side.
    """

    apart = True

    def __init__(self, path: Path) -> None:
        super().__init__({split: [path] for split in STORY_SPLITS})
        self._path = path

    def key(self, split: str) -> dict[str, Any]:
        """The key of the file, and the share by which it is split."""
        return {**super().key(split), "hash_split": VALID_SHARE}

    def text_bytes(self, split: str) -> int:
        valid = super().text_bytes(split) // VALID_SHARE
        return valid if split == "valid" else super().text_bytes(split) - valid

    def documents(
        self, split: str, *, scratch: Path | None = None, report: Report | None = None
    ) -> Iterator[str]:
        """Those whose hash puts them on this side; a TextError where there are none."""
        held_out = self._held_out()
        empty = True
        for document in super().documents(split):
            # Both splits read the whole file: nothing is kept of the other side.
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
                # As soon as one document has such a hash, the rule is the plain one.
                return lambda value: value % VALID_SHARE == 0
            smallest = value if smallest is None else min(smallest, value)
        # A file in which no hash is 0 modulo 50: its smallest one then.
        return lambda value: value == smallest


def local_stories(path: Path) -> Corpus:
    """Stories of a folder with train.* and valid.* (val*, test*), of a single file, or of a sample
    with a name (``sample://NAME``).

    Raises:
        TextError: nothing there, or a folder that lacks one of the two.
    """
    if sample := sample_at(path):
        return sample
    if path.is_file():
        _check_ending(path)
        return HashSplitFile(path)
    files = _files_of(path)
    splits: dict[str, list[Path]] = {}
    for split, beginnings in SPLIT_NAMES.items():
        matches = (_named(files, beginning) for beginning in beginnings)
        splits[split] = _one_form(next(filter(None, matches), []))
        if not splits[split]:
            raise TextError(
                f"the folder {path.name} has no file {split}.txt, .jsonl, .json or .parquet: a "
                "folder of stories has train.* and valid.*; a single file is split by itself"
            )
    return FileCorpus(splits, notes=_note_on_others(path, files, splits))


def _named(files: Sequence[Path], beginning: str) -> list[Path]:
    """The files of a split: those of its very name and their parts, else all that begin so."""
    whole = re.compile(WHOLE_NAMES[beginning] + PART)
    # train.txt and train_000.txt, but not training_notes.txt, where there are such files.
    exact = [file for file in files if whole.fullmatch(file.stem.lower())]
    # Other names only where no file has the plain one: a folder may hold notes beside its splits.
    return exact or [file for file in files if file.stem.lower().startswith(beginning)]


def _one_form(files: Sequence[Path]) -> list[Path]:
    """One file of each text: of files that differ in their ending alone, which hold one text in
    several forms, the first form in the order of READERS."""
    forms = list(READERS)
    chosen: dict[str, Path] = {}
    for file in sorted(files, key=lambda path: forms.index(_kind(path))):
        chosen.setdefault(file.stem, file)
    return sorted(chosen.values())


def _note_on_others(
    folder: Path, files: Sequence[Path], splits: Mapping[str, Sequence[Path]]
) -> list[str]:
    """Which files of a folder are read, if others are not."""
    read = [path for paths in splits.values() for path in paths]
    others = [path.name for path in files if path not in read]
    if not others:
        return []
    train, valid = (", ".join(p.name for p in splits[split]) for split in STORY_SPLITS)
    return [
        f"of the folder {folder.name} the training text is {train} and the held-out text {valid}; "
        f"not read: {', '.join(others)}"
    ]


def local_articles(path: Path) -> Corpus:
    """Articles of a file, of all files of a folder in the order of their names, or of a sample with
    a name.

    Raises:
        TextError: nothing there.
    """
    if sample := sample_at(path):
        return sample
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
