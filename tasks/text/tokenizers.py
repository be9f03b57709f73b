"""Tokenizers: text to ids of at most 16 bits, with one end mark after each document."""

from __future__ import annotations

import base64
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.text.errors import TextError

if TYPE_CHECKING:
    import tiktoken
    import tokenizers

END_OF_TEXT = "<|endoftext|>"
GRAMMAR_FILE = Path(__file__).parent / "grammar" / "tokenizer.json"

Tokens = NDArray[np.uint16]


class Tokenizer(ABC):
    """Ordinary encoding: a special token spelled in a text is text like any other.

    Attributes:
        name: "gpt2", "grammar" or "bpe".
        vocabulary: number of ids, the end mark included; at most 65,536.
        end_of_text: id of the mark that follows each document.
        sha256: of the vocabulary and its merges, the same from every source of the files.
    """

    name: str
    vocabulary: int
    end_of_text: int
    sha256: str

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Ids of one text, without an end mark."""

    @abstractmethod
    def encode_documents(self, texts: Sequence[str]) -> tuple[Tokens, NDArray[np.int64]]:
        """All texts in one array, each followed by the end mark.

        Returns:
            uint16 (tokens,), and int64 (documents,): how many of them each text takes, the end
            mark included. Threads may call this at once; the work is done outside Python's lock.

        Raises:
            UnicodeEncodeError: a text holds half of a surrogate pair.
        """

    @abstractmethod
    def decode(self, ids: Sequence[int] | Tokens) -> str:
        """The text of some ids; the end mark reads "<|endoftext|>"."""

    def encode_batch(self, texts: Sequence[str]) -> list[Tokens]:
        """uint16 (tokens,) for each text, without end marks."""
        tokens, lengths = self.encode_documents(texts)
        ends = np.cumsum(lengths)
        return [tokens[end - length : end - 1] for end, length in zip(ends, lengths, strict=True)]

    def __reduce__(self) -> tuple[Callable[..., Tokenizer], tuple[Any, ...]]:
        return load_tokenizer, (self.name,)


class Gpt2Tokenizer(Tokenizer):
    """The byte-pair encoding of GPT-2 (Radford et al. 2019) by tiktoken."""

    name = "gpt2"

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encoding = encoding
        self.vocabulary = encoding.n_vocab
        self.end_of_text = encoding.eot_token
        # In the order of ranks: the hash is the same whether it came from one file or from two.
        ranks = sorted(encoding._mergeable_ranks.items(), key=lambda item: item[1])
        listing = (base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks)
        self.sha256 = hashlib.sha256(b"".join(listing)).hexdigest()

    def encode(self, text: str) -> list[int]:
        return self._encoding.encode_ordinary(text)

    def encode_documents(self, texts: Sequence[str]) -> tuple[Tokens, NDArray[np.int64]]:
        # One call for many documents stays outside Python's lock from the first to the last. The
        # text between two marks is encoded by itself, so the ids are those of single calls.
        joined = END_OF_TEXT.join(texts) + END_OF_TEXT
        if joined.count(END_OF_TEXT) > len(texts):  # somebody's text spells the mark
            return _with_ends([self.encode(text) for text in texts], self.end_of_text)
        ids = self._encoding.encode_to_numpy(joined, allowed_special={END_OF_TEXT})
        tokens = ids.astype(np.uint16)
        # A document's length is the distance between two end marks.
        return tokens, np.diff(np.flatnonzero(tokens == self.end_of_text), prepend=-1)

    def decode(self, ids: Sequence[int] | Tokens) -> str:
        return self._encoding.decode([int(token) for token in ids])


class BytePairTokenizer(Tokenizer):
    """A small byte-level BPE by the library ``tokenizers``: that of the generated corpora
    (``tasks.text.grammar``), or one learned from a corpus (``tasks.text.byte_pairs``).

    Args:
        content: a file of the library.
    """

    def __init__(self, name: str, content: bytes) -> None:
        # Our own threads share the work; the library's would complain in every forked process.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import tokenizers

        self.name, self._content = name, content
        self._tokenizer = tokenizers.Tokenizer.from_str(content.decode())
        # A mark spelled in a text is text: only the end of a document has the token.
        self._tokenizer.encode_special_tokens = True
        self.vocabulary = self._tokenizer.get_vocab_size()
        end_of_text = self._tokenizer.token_to_id(END_OF_TEXT)
        assert end_of_text is not None
        self.end_of_text = end_of_text
        self.sha256 = hashlib.sha256(content).hexdigest()

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def encode_documents(self, texts: Sequence[str]) -> tuple[Tokens, NDArray[np.int64]]:
        encodings: list[tokenizers.Encoding] = self._tokenizer.encode_batch_fast(
            list(texts), add_special_tokens=False
        )
        return _with_ends([encoding.ids for encoding in encodings], self.end_of_text)

    def decode(self, ids: Sequence[int] | Tokens) -> str:
        return self._tokenizer.decode([int(token) for token in ids], skip_special_tokens=False)

    def __reduce__(self) -> tuple[Callable[..., Tokenizer], tuple[Any, ...]]:
        return byte_pairs, (self.name, self._content)


@cache
def byte_pairs(name: str, content: bytes) -> BytePairTokenizer:
    """One tokenizer for all who ask for the same."""
    return BytePairTokenizer(name, content)


@cache
def load_tokenizer(name: str) -> Tokenizer:
    """The tokenizer "gpt2" or "grammar".

    Raises:
        TextError: an unknown name, or the files of GPT-2 cannot be had.
    """
    if name == "gpt2":
        from tasks.text.gpt2_ranks import load_encoding

        return Gpt2Tokenizer(load_encoding())
    if name == "grammar":
        return byte_pairs(name, GRAMMAR_FILE.read_bytes())
    raise TextError(f"there is no tokenizer '{name}': expected gpt2 or grammar")


def _with_ends(documents: list[list[int]], end: int) -> tuple[Tokens, NDArray[np.int64]]:
    lengths = np.array([len(ids) + 1 for ids in documents], dtype=np.int64)
    tokens = np.empty(lengths.sum(), dtype=np.uint16)
    position = 0
    for ids in documents:
        tokens[position : position + len(ids)] = ids
        tokens[position + len(ids)] = end
        position += len(ids) + 1
    return tokens, lengths
