"""One interface to every corpus, and the choice of one by name."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from tasks.text.errors import TextError

SOURCES = "tasks.text.sources"
# Each corpus and its reader, "module:function" in SOURCES. A reader is looked up by name when it is
# needed. So its source is no part of the identity of a run, and need not be: what it can change
# there is the tokens, and the hash of all tokens is part of it.
STORY_CORPORA = {
    "grammar": "generated:GeneratedStories",
    "local": "local:local_stories",
    "babistories": "babistories:babistories",
    "tinystories": "hub:tinystories",
}
ARTICLE_CORPORA = {
    "grammar": "generated:GeneratedArticles",
    "local": "local:local_articles",
    "simple_wikipedia": "hub:simple_wikipedia",
}
# Those that are made, or streamed, to a number of documents.
SIZED = ("grammar", "tinystories", "simple_wikipedia")
STORY_SPLITS = ("train", "valid")
ARTICLE_SPLITS = ("articles",)

# report(description, done, total): cheap, called often.
Report = Callable[[str, int, int], None]


class Corpus(ABC):
    """Documents in a fixed order, read as a stream.

    Attributes:
        name: what results are filed under; corpora of different names are never compared.
        licence: of the text.
        source: an address, or "local file"; never a path of one machine.
        splits: ("train", "valid") for stories, ("articles",) for articles.
    """

    name: str
    licence: str
    source: str
    splits: tuple[str, ...]

    @abstractmethod
    def key(self, split: str) -> dict[str, Any]:
        """Cheap facts that change when the documents do, as JSON: sizes and times of files, seed
        and number of generated documents, revision of a dataset."""

    @abstractmethod
    def text_bytes(self, split: str) -> int:
        """About how many bytes the documents have; for progress only."""

    @abstractmethod
    def documents(
        self, split: str, *, scratch: Path | None = None, report: Report | None = None
    ) -> Iterator[str]:
        """Every document of a split, none of which is empty or blank, in constant memory.

        ``scratch`` is a folder that may keep unpacked files from one call to the next;
        ``report`` hears of such work.

        Raises:
            TextError: the input cannot be read as this corpus.
        """

    def documents_from(
        self, start: int, split: str, *, scratch: Path | None = None, report: Report | None = None
    ) -> Iterator[str]:
        """The same without the first ``start`` documents."""
        return islice(self.documents(split, scratch=scratch, report=report), start, None)


class HalfCorpus(Corpus):
    """One of two halves that share no document, so that what was seen on one can be asked of the
    other. A hash of its text says where a document belongs.

    Args:
        number: 1 or 2.
    """

    def __init__(self, whole: Corpus, number: int) -> None:
        self.name, self.licence = f"{whole.name}_half_{number}", whole.licence
        self.source, self.splits = whole.source, whole.splits
        self._whole, self._number = whole, number

    def key(self, split: str) -> dict[str, Any]:
        """The key of the whole corpus, and which half."""
        return {**self._whole.key(split), "half": self._number}

    def text_bytes(self, split: str) -> int:
        """Half of the whole, about."""
        return self._whole.text_bytes(split) // 2

    def documents(
        self, split: str, *, scratch: Path | None = None, report: Report | None = None
    ) -> Iterator[str]:
        """The documents of the whole corpus whose hash is odd (half 2) or even (half 1)."""
        for text in self._whole.documents(split, scratch=scratch, report=report):
            # Half a surrogate pair is a wrong text, and is said where it is encoded; here it only
            # needs a hash.
            last = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=1).digest()[0]
            if last % 2 == self._number - 1:
                yield text


def stories_corpus(
    name: str, *, path: str | Path | None = None, size: int | None = None, seed: int = 0
) -> Corpus:
    """Stories with the splits "train" and "valid".

    Args:
        name: "grammar" (generated), "local" (a file or folder of yours), "babistories" (the
            official volumes or the files extracted from them), "tinystories" (Hugging Face).
        path: the file or folder of "local" and "babistories".
        size: training documents of "grammar" (20,000 if not given), or so many of the first ones
            of "tinystories" (all); a twentieth of that number is for validation.
        seed: of "grammar".

    Raises:
        TextError: an unknown name, or an argument that this corpus lacks or does not take.
    """
    return _corpus(STORY_CORPORA, name, path, size, seed)


def articles_corpus(
    name: str,
    *,
    path: str | Path | None = None,
    size: int | None = None,
    seed: int = 0,
    half: int | None = None,
) -> Corpus:
    """Articles, all in the split "articles".

    Args:
        name: "grammar" (generated), "local" (a file or folder of yours), "simple_wikipedia"
            (Hugging Face).
        path: the file or folder of "local".
        size: documents of "grammar" (2,000 if not given), or so many of the first ones of
            "simple_wikipedia" (all).
        seed: of "grammar".
        half: 1 or 2: one of two halves that share no article; all if not given.

    Raises:
        TextError: an unknown name, or an argument that this corpus lacks or does not take.
    """
    corpus = _corpus(ARTICLE_CORPORA, name, path, size, seed)
    return corpus if half is None else HalfCorpus(corpus, half)


def _corpus(
    readers: Mapping[str, str], name: str, path: str | Path | None, size: int | None, seed: int
) -> Corpus:
    _check(name, readers, path, size)
    module, _, function = readers[name].partition(":")
    read = getattr(import_module(f"{SOURCES}.{module}"), function)
    arguments: tuple[Any, ...] = () if path is None else (Path(path),)
    if name in SIZED:
        arguments = (size, seed) if name == "grammar" else (size,)
    corpus: Corpus = read(*arguments)
    return corpus


def _check(name: str, known: Collection[str], path: str | Path | None, size: int | None) -> None:
    if name not in known:
        raise TextError(f"there is no corpus '{name}' of this kind: expected {', '.join(known)}")
    takes_path = name in ("local", "babistories")
    if takes_path and path is None:
        wanted = (
            "the folder of the downloaded volumes babistories-dataset.7z.001 to .005 or of the "
            "files extracted from them"
            if name == "babistories"
            else "a .txt, .jsonl, .json or .parquet file, or a folder of such files"
        )
        raise TextError(f"the corpus '{name}' needs a path: {wanted}")
    if not takes_path and path is not None:
        raise TextError(f"the corpus '{name}' takes no path: leave it out, or choose corpus local")
    if size is not None and name not in SIZED:
        sized = " and ".join(corpus for corpus in known if corpus in SIZED)
        raise TextError(f"the corpus '{name}' takes no size: only {sized} have as many as wanted")
    if size is not None and size < 1:
        raise TextError(f"a corpus has at least 1 document, not {size}")
