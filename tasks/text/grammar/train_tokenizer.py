"""Train the corpus's own byte-level BPE and write it beside this file.

    python -m tasks.text.grammar.train_tokenizer

The text is made by seed `SEED`, which no corpus uses (their seeds are not negative).
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tasks.text.byte_pairs import learn
from tasks.text.grammar.articles import article
from tasks.text.grammar.stories import story

SEED = -1
STORIES, ARTICLES = 4000, 1000
VOCABULARY = 1024
FILE = Path(__file__).with_name("tokenizer.json")


def training_text() -> Iterator[str]:
    """The documents that the merges are learned from."""
    yield from (story(SEED, index) for index in range(STORIES))
    yield from (article(SEED, index) for index in range(ARTICLES))


def serialised() -> bytes:
    """The content of `tokenizer.json`: 1024 ids, the end mark (0), the 256 bytes, then merges."""
    return learn(training_text(), VOCABULARY)


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
