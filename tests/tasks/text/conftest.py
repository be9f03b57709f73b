"""What the tests of text share."""

import json
import random
from pathlib import Path

import pytest

from tasks.text.corpora import articles_corpus
from tasks.text.errors import TextError
from tasks.text.preparation import prepare
from tasks.text.stream import TokenStream
from tasks.text.tokenizers import Tokenizer, load_tokenizer


@pytest.fixture(scope="session")
def gpt2() -> Tokenizer:
    """GPT-2's tokenizer, where tiktoken's server or a package registry is in reach."""
    try:
        return load_tokenizer("gpt2")
    except TextError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def small() -> Tokenizer:
    """The grammar's tokenizer, which comes with the project."""
    return load_tokenizer("grammar")


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = random.Random(0)
    path = tmp_path_factory.mktemp("text") / "a.jsonl"
    words = ["once", "upon", " a ", "time\n", "☕", "naïve", "“no”", "<|endoftext|>", "\t", "42"]
    with path.open("w") as file:
        for _ in range(3000):
            document = "x" + "".join(draw.choices(words, k=draw.randrange(1, 80)))
            file.write(json.dumps(document) + "\n")
    return path


@pytest.fixture(scope="session")
def documents(text: Path) -> list[str]:
    return [json.loads(line) for line in text.read_text().splitlines()]


@pytest.fixture(scope="session")
def stream(text: Path, small: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> TokenStream:
    """The text prepared without an interruption, by one thread, in one chunk."""
    folder = tmp_path_factory.mktemp("prepared")
    return prepare(articles_corpus("local", path=text), "articles", small, folder, workers=1)
