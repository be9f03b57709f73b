"""A small vocabulary of a corpus's own: byte-level BPE learned from its training documents.

GPT-2's 50,257 tokens take most of the computing of a narrow model; 1,024 tokens take a tenth of it
(Sennrich et al. 2016 for the merges; Radford et al. 2019 for bytes as the alphabet, so that every
text can be written, an encyclopedia after stories too).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tasks.text.corpora import Corpus, Report
from tasks.text.errors import TextError
from tasks.text.output import write_synced
from tasks.text.preparation import only_one, sentence_on_failed_writes
from tasks.text.tokenizers import END_OF_TEXT, BytePairTokenizer, byte_pairs

NAME = "bpe"
SMALLEST = 257  # the bytes and the end mark
LARGEST = 1 << 16  # ids have 16 bits
LEARNED_FROM = 20_000_000  # characters: more of a text hardly moves so few merges
SPLIT = "train"


def learn(texts: Iterable[str], vocabulary: int) -> bytes:
    """The merges of some texts, as a file of the library ``tokenizers``.

    Ids: the end mark (0), the 256 bytes, then merges; the number of threads changes no byte.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        # In a fixed order: ids of bytes must not depend on the order of a set.
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return (tokenizer.to_str(pretty=True) + "\n").encode()


def tokenizer_of(
    corpus: Corpus, vocabulary: int, folder: Path, report: Report | None = None
) -> BytePairTokenizer:
    """The tokenizer of a corpus, learned once and kept below ``folder``.

    Raises:
        TextError: a vocabulary that cannot be, or a corpus that cannot be read.
    """
    if not SMALLEST <= vocabulary <= LARGEST:
        raise TextError(
            f"a vocabulary of {vocabulary:,} tokens cannot be: choose from {SMALLEST} (the bytes "
            f"and an end mark) to {LARGEST:,}"
        )
    # Whatever changes the merges is in the file's name: nothing stale is ever read.
    facts = json.dumps([corpus.key(SPLIT), vocabulary, LEARNED_FROM], sort_keys=True)
    name = f"{corpus.name}-{NAME}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}.json"
    content = _kept(folder / name)
    if content is None:
        report = report or (lambda *_: None)
        with sentence_on_failed_writes(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with only_one(folder / f".{name}.lock", report):
                # Looked for once more under the lock: another process may have been first.
                content = _kept(folder / name) or _keep(
                    folder / name, learn(_beginning(corpus, folder, report), vocabulary)
                )
    return byte_pairs(NAME, content)


def _beginning(corpus: Corpus, folder: Path, report: Report) -> Iterator[str]:
    """Training documents until ``LEARNED_FROM`` characters are read."""
    seen, expected = 0, min(LEARNED_FROM, corpus.text_bytes(SPLIT))
    scratch = folder / f".{corpus.name}-{NAME}.scratch"
    # Documents come one by one: a corpus of gigabytes is not read to its end.
    for text in corpus.documents(SPLIT, scratch=scratch, report=report):
        yield text
        seen += len(text)
        report(f"learning the tokens of {corpus.name}", seen, max(expected, seen + 1))
        if seen >= LEARNED_FROM:
            break


def _kept(path: Path) -> bytes | None:
    """The content of a file, if it is there and as it was written."""
    try:
        digest, _, content = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    return content if digest.decode("ascii", "replace") == _sha256(content) else None


def _keep(path: Path, content: bytes) -> bytes:
    # First beside it, then renamed: a file with the final name is whole.
    partial = path.with_name(path.name + ".partial")
    write_synced(partial, _sha256(content).encode() + b"\n" + content)
    partial.replace(path)
    return content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
