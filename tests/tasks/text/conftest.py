"""What the tests of text share."""

from __future__ import annotations

import pytest

from tasks.text.errors import TextError
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
