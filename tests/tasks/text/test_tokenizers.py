"""Tokenizers against the libraries' own single calls, and GPT-2 from its second source."""

import base64
import hashlib
import pickle
import tempfile
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text import gpt2_ranks
from tasks.text.errors import TextError
from tasks.text.tokenizers import END_OF_TEXT, Tokenizer, load_tokenizer

TEXTS = st.lists(
    st.text(max_size=40)
    | st.sampled_from(["Once upon a time, ", f"a {END_OF_TEXT} b", "<|endof", "text|>", "  \n\n "]),
    max_size=6,
)


def check_documents(tokenizer: Tokenizer, texts: list[str]) -> None:
    tokens, lengths = tokenizer.encode_documents(texts)
    expected = [[*tokenizer.encode(text), tokenizer.end_of_text] for text in texts]
    assert tokens.dtype == np.uint16
    assert tokens.tolist() == list(chain.from_iterable(expected))
    assert lengths.tolist() == [len(ids) for ids in expected]
    assert [ids.tolist() for ids in tokenizer.encode_batch(texts)] == [ids[:-1] for ids in expected]
    assert tokenizer.decode(tokens) == "".join(text + END_OF_TEXT for text in texts)


@given(texts=TEXTS)
def test_gpt2_encodes_many_documents_as_single_ones_and_back(
    gpt2: Tokenizer, texts: list[str]
) -> None:
    check_documents(gpt2, texts)


@given(texts=TEXTS)
def test_grammar_encodes_many_documents_as_single_ones_and_back(
    small: Tokenizer, texts: list[str]
) -> None:
    check_documents(small, texts)


def test_a_mark_spelled_in_a_text_is_no_end(small: Tokenizer, gpt2: Tokenizer) -> None:
    for tokenizer in (small, gpt2):
        assert tokenizer.end_of_text not in tokenizer.encode(f"a{END_OF_TEXT}b")


def test_gpt2_has_the_published_ids_and_hash(gpt2: Tokenizer) -> None:
    assert (gpt2.vocabulary, gpt2.end_of_text) == (50257, 50256)
    assert gpt2.sha256 == gpt2_ranks.SHA256  # as in tiktoken's constant for r50k_base
    assert gpt2.encode("Hello world") == [15496, 995]  # the example of GPT-2's documentation


def test_a_pickled_tokenizer_is_loaded_again_by_name(small: Tokenizer) -> None:
    assert pickle.loads(pickle.dumps(small)) is small


def test_an_unknown_tokenizer_is_one_sentence() -> None:
    with pytest.raises(TextError, match="expected gpt2 or grammar"):
        load_tokenizer("bert")


def _offline(monkeypatch: pytest.MonkeyPatch, cache: Path, packages: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(gpt2_ranks, "ADDRESS", "http://127.0.0.1:9/r50k_base.tiktoken")
    monkeypatch.syspath_prepend(str(packages))


def test_gpt2_is_found_in_an_installed_whisper_without_importing_it(
    gpt2: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = sorted(gpt2_ranks.load_encoding()._mergeable_ranks.items(), key=lambda item: item[1])
    file = tmp_path / "packages" / gpt2_ranks.PACKAGED_FILE
    file.parent.mkdir(parents=True)
    file.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks))
    (file.parents[1] / "__init__.py").write_text("raise ImportError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))

    encoding = gpt2_ranks.load_encoding()

    assert encoding.encode_ordinary("Hello world") == [15496, 995]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [
        "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4"
    ]


@pytest.mark.parametrize("variable", gpt2_ranks.CACHE_VARIABLES)
@pytest.mark.parametrize("address", [gpt2_ranks.ADDRESS, next(iter(gpt2_ranks.GPT2_FILES))])
def test_a_damaged_file_of_the_users_cache_is_named_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, address: str
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    file = tmp_path / hashlib.sha1(address.encode()).hexdigest()
    file.write_text("QQ== 0\n")
    expected = {**gpt2_ranks.GPT2_FILES, gpt2_ranks.ADDRESS: gpt2_ranks.SHA256}[address]
    sentence = f"{file} .* is damaged: delete it, or put {address} in .*expected: {expected}"
    with pytest.raises(TextError, match=sentence):
        gpt2_ranks.load_encoding()
    assert file.read_text() == "QQ== 0\n"


def test_a_damaged_file_of_tiktokens_own_folder_is_replaced(
    gpt2: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = sorted(gpt2_ranks.load_encoding()._mergeable_ranks.items(), key=lambda item: item[1])
    whole = b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks)
    file = tmp_path / "packages" / gpt2_ranks.PACKAGED_FILE
    file.parent.mkdir(parents=True)
    file.write_bytes(whole)
    (file.parents[1] / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    for variable in gpt2_ranks.CACHE_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    damaged = gpt2_ranks.cache_folder() / "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4"
    damaged.parent.mkdir()
    damaged.write_bytes(whole[:-100])

    assert gpt2_ranks.load_encoding().encode_ordinary("Hello world") == [15496, 995]
    assert damaged.read_bytes() == whole


def test_without_any_source_the_sentence_names_file_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = tmp_path / "packages" / gpt2_ranks.PACKAGED_FILE
    forged.parent.mkdir(parents=True)
    (forged.parents[1] / "__init__.py").touch()
    forged.write_text("QQ== 0\n")
    _offline(monkeypatch, tmp_path / "cache", tmp_path / "packages")
    with pytest.raises(TextError, match=r"download http.* and place it as .*cache"):
        gpt2_ranks.load_encoding()
