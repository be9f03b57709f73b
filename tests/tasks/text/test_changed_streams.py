"""A stream of tokens that was changed after it was prepared, and one that is sent elsewhere."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.text.corpora import articles_corpus
from tasks.text.errors import TextError
from tasks.text.preparation import prepare
from tasks.text.stream import MANIFEST, STARTS, TOKENS, TokenStream
from tasks.text.tokenizers import Tokenizer


@pytest.mark.parametrize("name", [TOKENS, STARTS])
def test_an_edited_or_truncated_stream_is_refused(
    stream: TokenStream, tmp_path: Path, name: str
) -> None:
    path = Path(shutil.copytree(stream.folder, tmp_path / "copy")) / name
    whole = path.read_bytes()
    edited = bytearray(whole)
    edited[len(whole) // 2] ^= 1
    for content, sentence in (
        (edited, "was changed after it was prepared"),
        (whole[:-2], "bytes instead of"),
        (whole + b"\0\0", "bytes instead of"),
    ):
        path.write_bytes(content)
        with pytest.raises(TextError, match=f"{name} .*{sentence}.*prepare it again"):
            TokenStream.open(path.parent)
    path.unlink()
    with pytest.raises(TextError, match="is missing"):
        TokenStream.open(path.parent)


def test_a_damaged_stream_is_not_served(text: Path, small: Tokenizer, tmp_path: Path) -> None:
    corpus = articles_corpus("local", path=text)
    made = prepare(corpus, "articles", small, tmp_path)
    with (made.folder / TOKENS).open("r+b") as tokens:
        tokens.write(b"\xff")
    with pytest.raises(TextError, match=r"tokens\.bin was changed .* delete the folder"):
        prepare(corpus, "articles", small, tmp_path)


def test_a_manifest_that_says_nothing_is_refused(stream: TokenStream, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stream.folder, tmp_path / "copy"))
    (folder / MANIFEST).write_text("{}")
    with pytest.raises(TextError, match=r"manifest\.json cannot be read"):
        TokenStream.open(folder)


@pytest.mark.parametrize(
    "edit",
    [{"bytes": 1}, {"licence": "CC0"}, {"key": {}}, {"manifest_sha256": ""}],
    ids=lambda edit: next(iter(edit)),
)
def test_an_edited_manifest_is_refused(
    stream: TokenStream, tmp_path: Path, edit: dict[str, Any]
) -> None:
    path = Path(shutil.copytree(stream.folder, tmp_path / "copy")) / MANIFEST
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content))  # the same facts in another layout
    TokenStream.open(path.parent)
    path.write_text(json.dumps(content | edit))
    with pytest.raises(TextError, match=r"manifest\.json was changed .*prepare it again"):
        TokenStream.open(path.parent)


def test_a_stream_is_pickled_as_its_folder(stream: TokenStream) -> None:
    content = pickle.dumps(stream)
    assert len(content) < 1000
    assert np.array_equal(pickle.loads(content).tokens, stream.tokens)
