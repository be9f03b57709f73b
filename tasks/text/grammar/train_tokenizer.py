"""Train the corpus's own byte-level BPE and write it beside this file.

    python -m tasks.text.grammar.train_tokenizer

The text is made by seed `SEED`, which no corpus uses (their seeds are not negative).
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.text.grammar.articles import article
from tasks.text.grammar.stories import story

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SEED = -1
STORIES, ARTICLES = 4000, 1000
VOCABULARY = 1024
END_OF_TEXT = "<|endoftext|>"
FILE = Path(__file__).with_name("tokenizer.json")


def training_text() -> Iterator[str]:
    """The documents that the merges are learned from."""
    yield from (story(SEED, index) for index in range(STORIES))
    yield from (article(SEED, index) for index in range(ARTICLES))


def train() -> "Tokenizer":
    """A byte-level BPE of 1024 ids: the end mark (id 0), the 256 bytes, then merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_text(), trainer)
    return tokenizer


def serialised() -> bytes:
    """The content of `tokenizer.json`."""
    return (train().to_str(pretty=True) + "\n").encode()


def main() -> None:
    """Write the file in one step, so that an interruption leaves the old one."""
    with tempfile.NamedTemporaryFile(dir=FILE.parent, delete=False) as file:
        file.write(serialised())
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).chmod(0o644)
    Path(file.name).replace(FILE)
    print(f"{FILE.name}: {VOCABULARY} ids")


if __name__ == "__main__":
    main()
