"""From documents to a token stream on disk: streaming, parallel, resumable."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.text.corpora import Corpus, Report
from tasks.text.errors import TextError
from tasks.text.output import SAFE_POINT, StreamOutput, sync_folder, write_synced
from tasks.text.stream import MANIFEST, Manifest, TokenStream
from tasks.text.tokenizers import Tokenizer, Tokens

FORMAT_VERSION = 2
CHUNK = 1 << 20  # characters that a thread encodes at once
SAVED_EVERY = 1 << 24  # bytes of text between two safe points
LONGEST_BLANK = 100_000  # characters; several times as many overflow tiktoken's stack
WAIT_SECONDS = 0.2  # between two looks at another process that is at work


def prepare(
    corpus: Corpus,
    split: str,
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    workers: int | None = None,
    report: Report | None = None,
) -> TokenStream:
    """The token stream of a split below ``folder``, made if it is not there.

    Documents are encoded by ``workers`` threads (default: the processors at hand), whose number
    changes no byte. After an interruption, ``kill -9`` included, the same call goes on from the
    last safe point; of several processes that ask at once, one works and the others wait.

    Args:
        report: called with a description, bytes of text done, and about how many there are.

    Raises:
        TextError: the corpus cannot be read, the disk is full, or a finished stream was damaged.
    """
    if split not in corpus.splits:
        raise TextError(
            f"the corpus '{corpus.name}' has no split '{split}': expected "
            f"{' or '.join(corpus.splits)}"
        )
    folder = Path(folder)
    report = report or _silent
    key = corpus.key(split)
    final = folder / stream_name(corpus, split, tokenizer, key)
    if not final.is_dir():
        with sentence_on_failed_writes(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with only_one(folder / f".{final.name}.lock", report):
                # Once more under the lock: the process that was waited for may have made it.
                if not final.is_dir():
                    work = final.with_name(final.name + ".partial")
                    _fill(work, corpus, split, key, tokenizer, workers or _processors(), report)
                    # The final name is given to a whole stream only.
                    work.rename(final)
                    sync_folder(folder)
                    (final / SAFE_POINT).unlink(missing_ok=True)
    return TokenStream.open(final)


def stream_name(corpus: Corpus, split: str, tokenizer: Tokenizer, key: dict[str, Any]) -> str:
    """The name of a stream's folder, which differs if anything differs that it depends on."""
    facts = json.dumps([key, tokenizer.sha256, FORMAT_VERSION], sort_keys=True)
    digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
    return f"{corpus.name}-{split}-{tokenizer.name}-{digest}"


def _fill(
    work: Path,
    corpus: Corpus,
    split: str,
    key: dict[str, Any],
    tokenizer: Tokenizer,
    workers: int,
    report: Report,
) -> None:
    """Write tokens, starts and manifest into ``work``, from its last safe point on."""
    description = f"preparing {corpus.name} {split}"
    scratch = work / "scratch"
    total = corpus.text_bytes(split)
    with closing(StreamOutput(work)) as output:
        start = output.counts.documents
        documents = corpus.documents_from(start, split, scratch=scratch, report=report)
        try:
            for encoded in _encoded(documents, start, tokenizer, workers):
                output.append(*encoded)
                if output.unsaved_bytes >= SAVED_EVERY:
                    output.save()
                done = output.counts.bytes
                report(description, done, max(total, done + 1))  # the total is an estimate
        finally:
            # Also after Ctrl-C or a full disk: the next call goes on from here.
            output.save()
        counts = output.counts
    if not counts.documents:
        raise TextError(f"the split '{split}' of the corpus '{corpus.name}' is empty")
    if corpus.key(split) != key:
        shutil.rmtree(work)
        raise TextError(
            f"the files of the corpus '{corpus.name}' changed while they were being prepared: "
            "give the same command again when they are complete"
        )
    manifest = Manifest(
        corpus=corpus.name,
        licence=corpus.licence,
        source=corpus.source,
        split=split,
        key=key,
        tokenizer=tokenizer.name,
        tokenizer_sha256=tokenizer.sha256,
        vocabulary=tokenizer.vocabulary,
        end_of_text=tokenizer.end_of_text,
        tokens_without_ends=counts.tokens - counts.documents,
        **counts.model_dump(),
    )
    content = manifest.sealed().model_dump_json(indent=2) + "\n"
    write_synced(work / MANIFEST, content.encode())
    shutil.rmtree(scratch, ignore_errors=True)
    report(description, counts.bytes, counts.bytes)


Encoded = tuple[Tokens, NDArray[np.int64], int, int]
"""Tokens of some documents, how many belong to each; characters and bytes of their text."""


def _encoded(
    documents: Iterator[str], start: int, tokenizer: Tokenizer, workers: int
) -> Iterator[Encoded]:
    """The documents encoded in order, some chunks ahead of what is taken."""
    pending: deque[Future[Encoded]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for number, texts in _chunks(documents, start):
            pending.append(pool.submit(_encode, tokenizer, number, texts))
            # So many chunks ahead of what is taken: memory stays bounded, and no thread waits.
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _chunks(documents: Iterator[str], start: int) -> Iterator[tuple[int, list[str]]]:
    """(number of the first, documents) of about ``CHUNK`` characters each."""
    texts: list[str] = []
    characters = 0
    for text in documents:
        texts.append(text)
        characters += len(text)
        if characters >= CHUNK:
            yield start, texts
            start += len(texts)
            texts, characters = [], 0
    if texts:
        yield start, texts


def _encode(tokenizer: Tokenizer, start: int, texts: list[str]) -> Encoded:
    text_bytes = 0
    for number, text in enumerate(texts, start + 1):
        try:
            # ASCII is as long in bytes as in characters; no copy is made to find out.
            text_bytes += len(text) if text.isascii() else len(text.encode())
        except UnicodeEncodeError as error:
            raise TextError(
                f"document {number} holds half of a surrogate pair, which is no text: mend or "
                "leave out this document"
            ) from error
        if _has_long_blank(text):
            beginning = text.strip()[:40].rstrip()
            raise TextError(
                f"document {number} of the split, which begins {beginning!r}, has more "
                f"than {LONGEST_BLANK:,} blanks or line ends in a row: shorten them or leave out "
                "this document"
            )
    tokens, lengths = tokenizer.encode_documents(texts)
    return tokens, lengths, sum(map(len, texts)), text_bytes


def _has_long_blank(text: str) -> bool:
    if len(text) <= LONGEST_BLANK:
        return False
    return any(run.end() - run.start() > LONGEST_BLANK for run in re.finditer(r"\s+", text))


@contextmanager
def only_one(path: Path, report: Report) -> Iterator[None]:
    """Wait until no other process prepares the same stream."""
    with path.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                report("waiting for another process that prepares the same text", 0, 1)
                time.sleep(WAIT_SECONDS)
        yield


@contextmanager
def sentence_on_failed_writes(folder: Path) -> Iterator[None]:
    """A full disk or a folder without access is told in one sentence."""
    try:
        yield
    except OSError as error:
        raise TextError(
            f"the text cannot be prepared below {folder} ({error.strerror or error}): what is done "
            "is kept; make room or access there, then give the same command again"
        ) from error


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _silent(description: str, done: int, total: int) -> None:
    """A report that says nothing."""
