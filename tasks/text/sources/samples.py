"""Named samples of public text: which rows of a public dataset they are, without their text.

``tasks/text/samples/NAME.yaml`` says what a sample is, and ``NAME.npz`` beside it lists its rows in
their order. Public copies of a text differ in blanks and line ends, so a row is looked for by its
letters and digits alone, and then compared byte for byte:

    key         uint64 (rows,)  first 8 bytes of the SHA-256 of the row's letters and digits
    exact       uint32 (rows,)  first 4 bytes of the SHA-256 of its text in UTF-8
    beginning   uint64 (rows,)  as ``key``, of its first 100 letters and digits
    letters     uint32 (rows,)  how many letters and digits it has
    characters  uint32 (rows,)  how many characters it has

The last three are there only where a row may be the beginning of a longer document. The rows of the
first split come first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from tasks.text.corpora import Corpus, Report
from tasks.text.errors import TextError
from tasks.text.sources.files import END_MARK, READERS, fingerprint, read_documents

SAMPLES = Path(__file__).parents[1] / "samples"
SCHEME = "sample:"  # how the place of a sample begins: sample://NAME, or sample://NAME/FOLDER
BEGINNING = 100  # letters and digits
LIBRARY = "memory-bench"  # whose folder in the cache of the Hugging Face hub holds found rows
COLUMNS = ("text", "index", "exact")


@dataclass(frozen=True)
class RowList:
    """The rows of a sample, as hashes; the module says what each array holds."""

    key: NDArray[np.uint64]
    exact: NDArray[np.uint32]
    beginning: NDArray[np.uint64] | None = None
    letters: NDArray[np.uint32] | None = None
    characters: NDArray[np.uint32] | None = None

    @classmethod
    def of(cls, rows: Sequence[str], whole: bool = True) -> RowList:
        """The list of these rows; ``whole``: each of them is a whole document."""
        plain = [letters_of(row) for row in rows]
        key = np.array([_hash(letters) for letters in plain], dtype=np.uint64)
        exact = np.array([_exact(row) for row in rows], dtype=np.uint32)
        if whole:
            return cls(key, exact)
        beginnings = [_hash(letters[:BEGINNING]) for letters in plain]
        return cls(
            key,
            exact,
            np.array(beginnings, dtype=np.uint64),
            np.array([len(letters) for letters in plain], dtype=np.uint32),
            np.array([len(row) for row in rows], dtype=np.uint32),
        )

    @classmethod
    def read(cls, path: Path) -> RowList:
        """The list in a file."""
        # Arrays alone: a list is data, and runs nothing.
        with np.load(path, allow_pickle=False) as arrays:
            return cls(**{name: arrays[name] for name in arrays.files})

    def begins(self, letters: str, number: int) -> bool:
        """Whether a document with these letters and digits is a row, or begins with it."""
        length = len(letters) if self.letters is None else int(self.letters[number])
        # The beginning was only a key to look under; here the whole row is compared.
        return _hash(letters[:length]) == int(self.key[number])

    def cut(self, document: str, number: int) -> str:
        """The text of a row out of the document that is it, or begins with it."""
        if self.characters is None:
            return cleaned(document)
        return cleaned_article(document)[: int(self.characters[number])]

    def write(self, path: Path) -> None:
        """Keep the list in a file."""
        arrays = {name: array for name, array in vars(self).items() if array is not None}
        np.savez_compressed(path, **arrays)


@dataclass
class Selection:
    """What was found of a list: number of a row -> its text, and which are equal byte for byte."""

    texts: dict[int, str] = field(default_factory=dict)
    exact: set[int] = field(default_factory=set)

    def add(self, number: int, text: str, is_exact: bool) -> None:
        """Keep the text of a row; one that is equal byte for byte wins over one that is not."""
        # The first find stays, unless a later one is the very text.
        if is_exact or number not in self.texts:
            self.texts[number] = text
        if is_exact:
            self.exact.add(number)


def select(documents: Iterable[str], rows: RowList, found: Selection | None = None) -> Selection:
    """The listed rows among some documents; reading ends when all are found byte for byte.

    Args:
        found: what was found elsewhere, which is added to.
    """
    found = found or Selection()
    numbers: dict[int, list[int]] = {}
    looked_up = rows.key if rows.beginning is None else rows.beginning
    for number, value in enumerate(looked_up.tolist()):
        numbers.setdefault(value, []).append(number)
    for document in documents:
        letters = letters_of(document)
        looked_for = letters if rows.beginning is None else letters[:BEGINNING]
        # A row may stand twice in a list: every place of it gets the text.
        for number in numbers.get(_hash(looked_for), []):
            if number not in found.exact and rows.begins(letters, number):
                text = rows.cut(document, number)
                found.add(number, text, _exact(text) == int(rows.exact[number]))
        if len(found.exact) == len(rows.key):
            break
    return found


def letters_of(text: str) -> str:
    """The letters and digits of a text, in lower case."""
    return "".join(filter(str.isalnum, text.lower()))


def cleaned(text: str) -> str:
    """A story with single blanks and single line ends, and none at its ends."""
    return re.sub(r"\n+", "\n", _single_blanks(text))


def cleaned_article(text: str) -> str:
    """An article with single blanks, and a blank line at most between its paragraphs."""
    text = re.sub(r"(?m)^(=+) *(.*?) *\1$", r"\2", text)  # == A heading ==
    return re.sub(r"\n\n+", "\n\n", _single_blanks(text))


def _single_blanks(text: str) -> str:
    text = re.sub(r"  +", " ", text.replace("\r\n", "\n"))
    return re.sub(r" ?\n ?", "\n", text).strip()


def _hash(letters: str) -> int:
    return int.from_bytes(hashlib.sha256(letters.encode(errors="surrogatepass")).digest()[:8])


def _exact(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:4])


class SampleCorpus(Corpus):
    """The rows of a sample, from the public dataset or from a copy on this machine.

    Args:
        name: of the sample.
        place: a file or folder with documents among which the rows are; the Hugging Face hub if it
            is not given.
        folder: of the lists.
    """

    def __init__(self, name: str, place: Path | None = None, folder: Path | None = None) -> None:
        folder = folder or SAMPLES
        names = sorted(path.stem for path in folder.glob("*.yaml"))
        if name not in names:
            raise TextError(f"there is no sample '{name}' of text: expected {' or '.join(names)}")
        self._facts: Mapping[str, Any] = yaml.safe_load((folder / f"{name}.yaml").read_text())
        self._list = folder / f"{name}.npz"
        self._place = place
        self._found: Selection | None = None
        self.name, self.licence = name, str(self._facts["licence"])
        self.source = str(self._facts["page"])
        self.splits = tuple(self._facts["splits"])

    @property
    def notes(self) -> list[str]:
        """How many rows were found, where this process has looked for them."""
        if self._found is None:
            return []
        exact, present = len(self._found.exact), len(self._found.texts)
        sentence = (
            f"{self.name}: {present:,} of {self._rows:,} rows were found, {exact:,} byte for byte"
        )
        if exact == self._rows:
            return [f"{sentence}: it is the text of the committed records"]
        return [f"{sentence}: it is another text than that of the committed records"]

    @cached_property
    def _rows(self) -> int:
        return sum(self._facts["splits"].values())

    @cached_property
    def _list_sha256(self) -> str:
        return hashlib.sha256(self._list.read_bytes()).hexdigest()

    def key(self, split: str) -> dict[str, Any]:
        """The list of rows, and the files in which they are looked for."""
        files = [] if self._place is None else [fingerprint(path) for path in self._files()]
        return {"sample": self.name, "rows": self._list_sha256, "split": split, "files": files}

    def text_bytes(self, split: str) -> int:
        return int(self._facts["bytes"][split])

    def documents(
        self, split: str, *, scratch: Path | None = None, report: Report | None = None
    ) -> Iterator[str]:
        """The rows of the split that were found, in the order of the list."""
        texts = self._selected(report).texts
        first = 0
        for name, count in self._facts["splits"].items():
            if name == split:
                yield from (texts[n] for n in range(first, first + count) if n in texts)
            first += count

    def _selected(self, report: Report | None) -> Selection:
        """What was found; of the hub it is kept, so that the dataset is read once."""
        if self._found is None:
            cache = None if self._place is not None else self._cache()
            self._found = (
                _read_selection(cache) if cache and cache.is_file() else self._look(report)
            )
            # Only what came from the hub is kept: a copy on this machine is read again.
            if cache and not cache.is_file():
                _keep_selection(self._found, cache)
            # Another text than that of the committed records must not have its name alone.
            if len(self._found.exact) < self._rows:
                self.source += f", {len(self._found.exact):,} of the {self._rows:,} rows"
        if not self._found.texts:
            raise TextError(
                f"none of the {self._rows:,} rows of {self.name} is in "
                f"{self._place or self._facts['page']}: it is not the public text that the sample "
                "was drawn from"
            )
        return self._found

    def _cache(self) -> Path:
        from huggingface_hub import cached_assets_path

        folder = cached_assets_path(LIBRARY, namespace=self.name, subfolder=self._list_sha256[:16])
        return folder / "rows.parquet"

    def _look(self, report: Report | None) -> Selection:
        rows, selection = RowList.read(self._list), Selection()
        sources = [read_public(p) for p in self._facts["public"]]
        if self._place is not None:
            sources = [read_documents(path) for path in self._files()]
        for source in sources:
            watched = _watched(source, f"looking for {self.name}", selection, self._rows, report)
            select(watched, rows, selection)
            if len(selection.exact) == self._rows:
                break
        return selection

    def _files(self) -> list[Path]:
        """The files of documents at the place, in the order of their names."""
        place = self._place
        assert place is not None
        if place.is_file():
            return [place]
        files = [path for path in sorted(place.rglob("*")) if path.suffix.lower() in READERS]
        if not files:
            raise TextError(
                f"there is no file that ends with {', '.join(READERS)} in {place}: give the folder "
                f"of a copy of {self._facts['page']}, or leave it out"
            )
        return files


def _watched(
    documents: Iterable[str], description: str, found: Selection, rows: int, report: Report | None
) -> Iterator[str]:
    for document in documents:
        if report is not None:
            report(description, len(found.exact), rows)
        yield document


def read_public(place: Mapping[str, str]) -> Iterator[str]:
    """The documents of a public dataset, streamed.

    Args:
        place: its ``repository`` with a ``split``, or a ``file`` of it in which each document ends
            with the mark ``<|endoftext|>``; perhaps a ``revision`` and a ``configuration``.

    Raises:
        TextError: it cannot be read.
    """
    from datasets import load_dataset
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # it would print each of its retries
    repository, file = place["repository"], place.get("file")
    try:
        stream = load_dataset(
            repository,
            place.get("configuration"),
            data_files=None if file is None else {"train": file},
            split="train" if file is not None else place["split"],
            revision=place.get("revision"),
            streaming=True,
        ).select_columns(["text"])
        texts = (row["text"] or "" for row in stream)
        yield from texts if file is None else _marked(texts)
    except Exception as error:
        # The hub's client raises errors of half a dozen libraries; all mean the same here.
        raise TextError(
            f"the dataset {repository} cannot be read from the Hugging Face hub "
            f"({type(error).__name__}): give the same command again when the network is there, or "
            "say where a copy of it lies (tasks.stories=FOLDER, tasks.wiki=FOLDER); `python -m "
            "reproduce figure8 preset=laptop` shows the committed records without it"
        ) from error


def _marked(lines: Iterable[str]) -> Iterator[str]:
    """Documents out of lines, of which each ends with a mark."""
    document: list[str] = []
    for line in lines:
        *ended, rest = line.split(END_MARK)
        for last_line in ended:
            yield "\n".join([*document, last_line])
            document = []
        document.append(rest)
    yield "\n".join(document)


def _keep_selection(found: Selection, path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    numbers = sorted(found.texts)
    columns = (
        [found.texts[n] for n in numbers],
        numbers,
        [number in found.exact for number in numbers],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    parquet.write_table(pyarrow.table(dict(zip(COLUMNS, columns, strict=True))), partial)
    partial.replace(path)


def _read_selection(path: Path) -> Selection:
    from pyarrow import parquet

    rows = parquet.read_table(path).to_pylist()
    selection = Selection()
    for row in rows:
        selection.add(row["index"], row["text"], row["exact"])
    return selection


def sample_at(place: Path) -> SampleCorpus | None:
    """The sample that a place stands for, such as ``sample://tinystories_sample``; None of a plain
    path."""
    if not place.parts or place.parts[0] != SCHEME:
        return None
    name, *folders = place.parts[1:]
    return SampleCorpus(name, Path("/", *folders) if folders else None)
