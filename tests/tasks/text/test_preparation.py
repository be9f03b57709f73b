"""Prepared streams: what they hold, and that nothing that happens on the way changes a byte."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.text import preparation
from tasks.text.corpora import Corpus, articles_corpus, stories_corpus
from tasks.text.errors import TextError
from tasks.text.output import SAFE_POINT
from tasks.text.preparation import prepare
from tasks.text.stream import TOKENS, TokenStream
from tasks.text.tokenizers import Tokenizer

# Small chunks and safe points, so that little text has many of them.
CHILD = """
import sys
from tasks.text import preparation
from tasks.text.corpora import articles_corpus
from tasks.text.errors import TextError
from tasks.text.tokenizers import load_tokenizer

preparation.CHUNK, preparation.SAVED_EVERY = 1 << 11, 1 << 13
path, folder, limit = sys.argv[1:]
if int(limit):
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
heard = []
try:
    corpus = articles_corpus("local", path=path)
    preparation.prepare(
        corpus, "articles", load_tokenizer("grammar"), folder, workers=2,
        report=lambda description, done, total: heard.append(done),
    )
except TextError as error:
    sys.exit(f"error: {error}")
print(min(heard, default=0))
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def child(text: Path, folder: Path, limit: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(text), str(folder), str(limit)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )


def safe_point(folder: Path) -> dict[str, Any]:
    for path in folder.glob(f"*.partial/{SAFE_POINT}"):
        with suppress(FileNotFoundError):  # its folder has its final name since it was listed
            content: dict[str, Any] = json.loads(path.read_text())
            return content
    return {}


def test_a_stream_holds_every_document_with_its_end(
    stream: TokenStream, documents: list[str], small: Tokenizer
) -> None:
    expected = [[*small.encode(text), small.end_of_text] for text in documents]
    assert stream.tokens.tolist() == list(chain.from_iterable(expected))
    assert stream.starts.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    assert [small.decode(stream.document(i)[:-1]) for i in range(len(stream))] == documents
    with pytest.raises(IndexError):
        stream.document(len(documents))


def test_the_manifest_counts_as_the_text_does(
    stream: TokenStream, documents: list[str], small: Tokenizer
) -> None:
    manifest = stream.manifest
    assert manifest.documents == len(documents)
    assert manifest.tokens == len(stream.tokens)
    assert manifest.tokens_without_ends == sum(len(small.encode(text)) for text in documents)
    assert manifest.characters == sum(map(len, documents))
    assert manifest.bytes == len("".join(documents).encode())
    assert (manifest.corpus, manifest.source, manifest.split) == ("local", "local file", "articles")
    assert (manifest.tokenizer, manifest.tokenizer_sha256) == ("grammar", small.sha256)


def test_no_byte_depends_on_workers_or_chunks(
    text: Path,
    stream: TokenStream,
    small: Tokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preparation, "CHUNK", 777)
    corpus = articles_corpus("local", path=text)
    for workers in (2, 5):
        again = prepare(corpus, "articles", small, tmp_path / str(workers), workers=workers)
        assert again.folder.name == stream.folder.name
        assert contents(again.folder) == contents(stream.folder)


def test_gpt2_tokens_decode_to_the_whole_text(
    text: Path, documents: list[str], gpt2: Tokenizer, tmp_path: Path
) -> None:
    stream = prepare(articles_corpus("local", path=text), "articles", gpt2, tmp_path)
    assert gpt2.decode(stream.tokens) == "".join(text + "<|endoftext|>" for text in documents)
    assert stream.manifest.tokens_without_ends == sum(len(gpt2.encode(text)) for text in documents)


def test_a_finished_stream_is_served_without_work(
    text: Path, stream: TokenStream, small: Tokenizer
) -> None:
    heard: list[tuple[str, int, int]] = []
    again = prepare(
        articles_corpus("local", path=text),
        "articles",
        small,
        stream.folder.parent,
        report=lambda *now: heard.append(now),
    )
    assert again.folder == stream.folder
    assert heard == []


def test_progress_ends_at_the_size_of_the_text(
    text: Path, small: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "CHUNK", 1 << 12)
    heard: list[tuple[str, int, int]] = []
    corpus = articles_corpus("local", path=text)
    made = prepare(corpus, "articles", small, tmp_path, report=lambda *now: heard.append(now))
    done = [now for _, now, _ in heard]
    assert len(done) > 20
    assert done == sorted(done)
    assert all(now < total for _, now, total in heard[:-1])
    assert heard[-1][1:] == (made.manifest.bytes, made.manifest.bytes)


@pytest.mark.processes
def test_kill_9_loses_no_safe_point_and_changes_no_byte(
    text: Path, stream: TokenStream, tmp_path: Path
) -> None:
    killed_at = 0
    for _ in range(3):
        process = child(text, tmp_path)
        while process.poll() is None and safe_point(tmp_path).get("bytes", 0) <= killed_at:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed_at = safe_point(tmp_path).get("bytes", killed_at)
    assert 0 < killed_at < stream.manifest.bytes  # else nothing was interrupted

    with next(tmp_path.glob(f"*.partial/{TOKENS}")).open("ab") as tokens:
        tokens.write(b"torn")  # as a kill in the middle of a write leaves it
    (Path(tokens.name).parent / ".progress.json.abcdefgh").write_bytes(b"{")  # the same
    process = child(text, tmp_path)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert int(output) > killed_at  # it did not begin at the beginning
    assert contents(tmp_path / stream.folder.name) == contents(stream.folder)


@pytest.mark.processes
def test_several_processes_at_once_make_one_stream(
    text: Path, stream: TokenStream, tmp_path: Path
) -> None:
    processes = [child(text, tmp_path) for _ in range(3)]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert contents(tmp_path / stream.folder.name) == contents(stream.folder)
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.processes
def test_a_full_disk_is_one_sentence_and_the_next_call_goes_on(
    text: Path, stream: TokenStream, tmp_path: Path
) -> None:
    limit = 3 * len(stream.tokens) // 2  # bytes: three quarters of the file of tokens
    process = child(text, tmp_path, limit)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors.startswith("error: the text cannot be prepared below")
    assert errors.count("\n") == 1
    saved = safe_point(tmp_path)["bytes"]
    assert saved > stream.manifest.bytes // 2
    output, _ = child(text, tmp_path).communicate()
    assert int(output) > saved
    assert contents(tmp_path / stream.folder.name) == contents(stream.folder)


class Failing(Corpus):
    """A text of which the end cannot be read in the first attempt."""

    name, licence, source, splits = "failing", "none", "test", ("all",)

    def __init__(self) -> None:
        self.attempts = 0

    def key(self, split: str) -> dict[str, Any]:
        return {}

    def text_bytes(self, split: str) -> int:
        return 1

    def documents(self, split: str, **_: Any) -> Iterator[str]:
        self.attempts += 1
        for number in range(500):
            yield f"document {number}"
            if number == 400 and self.attempts == 1:
                raise TextError("the network is gone")


def test_a_source_that_fails_in_the_middle_loses_little(
    small: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "CHUNK", 100)
    corpus = Failing()
    with pytest.raises(TextError, match="the network is gone"):
        prepare(corpus, "all", small, tmp_path / "a", workers=1)
    assert safe_point(tmp_path / "a")["documents"] > 300
    made = prepare(corpus, "all", small, tmp_path / "a")
    assert contents(made.folder) == contents(prepare(corpus, "all", small, tmp_path / "b").folder)


def test_a_damaged_safe_point_is_not_built_upon(
    small: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "CHUNK", 100)
    corpus = Failing()
    with pytest.raises(TextError):
        prepare(corpus, "all", small, tmp_path / "a", workers=1)
    tokens = next(tmp_path.glob(f"a/*.partial/{TOKENS}"))
    content = bytearray(tokens.read_bytes())
    content[10] ^= 1
    tokens.write_bytes(content)
    made = prepare(corpus, "all", small, tmp_path / "a")
    assert contents(made.folder) == contents(prepare(corpus, "all", small, tmp_path / "b").folder)


def test_reading_runs_only_a_little_ahead_of_writing(
    small: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "CHUNK", 10)
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "ten letters"

    encoded = preparation._encoded(endless(), 0, small, 2)
    for taken in range(1, 50):
        next(encoded)
        assert read - taken <= 5
    encoded.close()


def test_a_text_that_changes_on_the_way_is_refused(
    text: Path, small: Tokenizer, tmp_path: Path
) -> None:
    copy = tmp_path / "a.jsonl"
    copy.write_bytes(text.read_bytes())

    def touch(*_: object) -> None:
        os.utime(copy, (1, 1))

    with pytest.raises(TextError, match="changed while they were being prepared"):
        prepare(articles_corpus("local", path=copy), "articles", small, tmp_path, report=touch)
    assert len(prepare(articles_corpus("local", path=copy), "articles", small, tmp_path)) > 0


def test_half_of_a_surrogate_pair_is_one_sentence(small: Tokenizer, tmp_path: Path) -> None:
    class Broken(Failing):
        def documents(self, split: str, **_: Any) -> Iterator[str]:
            yield from ["good", "bad \ud83d"]

    with pytest.raises(TextError, match="document 2 holds half of a surrogate pair"):
        prepare(Broken(), "all", small, tmp_path)


@pytest.mark.parametrize("mark", ["", "<|endoftext|>"])
def test_blanks_that_overflow_tiktoken_are_one_sentence(
    gpt2: Tokenizer, tmp_path: Path, mark: str
) -> None:
    path = tmp_path / "a.jsonl"
    for blanks, count in ((" ", 1_000_000), ("\n\t", 51_000)):
        texts = ["good", f"{mark}bad{blanks * count}x"]
        path.write_text("".join(json.dumps(text) + "\n" for text in texts))
        with pytest.raises(TextError, match=r"^document 2 .*bad.* more than 100,000 blanks"):
            prepare(articles_corpus("local", path=path), "articles", gpt2, tmp_path / "prepared")


def test_the_longest_blank_that_is_taken_is_encoded(gpt2: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    text = "<|endoftext|>" + (" " * preparation.LONGEST_BLANK + "x") * 2
    path.write_text(json.dumps(text) + "\n")
    made = prepare(articles_corpus("local", path=path), "articles", gpt2, tmp_path)
    assert gpt2.decode(made.document(0)[:-1]) == text


def test_an_unknown_split_is_one_sentence(small: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(TextError, match="expected train or valid"):
        prepare(stories_corpus("grammar", size=5), "test", small, tmp_path)
