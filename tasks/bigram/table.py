"""Which token follows which: counts of a text, or random ones.

Source: Bietti et al., "Birth of a Transformer" (2023, arXiv 2306.00802), section 3, where the table
is that of the characters of tiny Shakespeare.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Source = Literal["tiny_shakespeare", "dirichlet", "text"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TINY_SHAKESPEARE = Path(__file__).with_name("tiny_shakespeare.json")
# Random probabilities are kept as counts of this many, so that the last digits of a machine's
# logarithm decide nothing.
RESOLUTION = 1_000_000


@dataclass(frozen=True)
class Table:
    """Counts of tokens and of pairs of neighbours.

    Attributes:
        unigrams: int64 (vocabulary,)
        bigrams: int64 (vocabulary, vocabulary), row: the token, column: the one that follows it.
    """

    unigrams: Integers
    bigrams: Integers

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return len(self.unigrams)

    @cached_property
    def of_token(self) -> Floats:
        """π_u (vocabulary,)"""
        return self.unigrams / self.unigrams.sum()

    @cached_property
    def of_next(self) -> Floats:
        """π_b(j | i), (vocabulary, vocabulary). A token that nothing followed is followed by any,
        as often as it occurs."""
        rows = np.where(self.bigrams.any(1, keepdims=True), self.bigrams, self.unigrams)
        return rows / rows.sum(1, keepdims=True)

    def sha256(self) -> str:
        """SHA-256 of the counts of tokens and of pairs."""
        return hashlib.sha256(self.unigrams.tobytes() + self.bigrams.tobytes()).hexdigest()


def dirichlet(vocabulary: int, concentration: float, seed: int) -> Table:
    """Rows from a Dirichlet distribution; tokens as often as this chain visits them."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, 0])))
    gammas = generator.standard_gamma(concentration, (vocabulary, vocabulary))
    gammas[np.arange(vocabulary), gammas.argmax(1)] += 1e-300  # no row of zeros
    rows = np.rint(RESOLUTION * gammas / gammas.sum(1, keepdims=True)).astype(np.int64)
    # Half of the time the chain stays: so it has no period, and powers of it converge.
    lazy = (rows / rows.sum(1, keepdims=True) + np.eye(vocabulary)) / 2
    # 2²⁰ steps by twenty squarings: how often the chain visits each token in the long run.
    visits = np.linalg.matrix_power(lazy, 2**20).mean(0)
    return Table(np.rint(RESOLUTION * visits).astype(np.int64), rows)


def count(text: str) -> tuple[str, Table]:
    """The characters of a text in the order of their code points, and their table.

    Raises:
        ValueError: fewer than two different characters.
    """
    characters = "".join(sorted(set(text)))
    if len(characters) < 2:
        raise ValueError("the text has fewer than two different characters: give an ordinary one")
    size = len(characters)
    codes = np.array([ord(character) for character in characters])
    # Code points are sorted, so their places are the tokens.
    tokens = np.searchsorted(codes, np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32))
    # A pair (i, j) is the number i · size + j: one count for all pairs.
    pairs = np.bincount(tokens[:-1] * size + tokens[1:], minlength=size * size)
    return characters, Table(
        np.bincount(tokens, minlength=size).astype(np.int64),
        pairs.reshape(size, size).astype(np.int64),
    )


def write(text: str) -> str:
    """The JSON file of a text's table, one row of pairs a line."""
    characters, table = count(text)
    rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in table.bigrams.tolist())
    return (
        f'{{"characters": {json.dumps(characters)},\n'
        f'"unigrams": {json.dumps(table.unigrams.tolist(), separators=(",", ":"))},\n'
        f'"bigrams": [\n{rows}\n]}}\n'
    )


def load(
    source: Source, text: str | None, vocabulary: int, concentration: float, seed: int
) -> Table:
    """The table of a source.

    Args:
        text: path of a plain text file in UTF-8, for "text" alone.
        vocabulary, concentration, seed: for "dirichlet" alone.

    Raises:
        ValueError: no text where one is needed, or one that cannot be read or is too poor.
    """
    if source == "dirichlet":
        return dirichlet(vocabulary, concentration, seed)
    if source == "tiny_shakespeare":
        content: Mapping[str, Any] = json.loads(TINY_SHAKESPEARE.read_text())
        return Table(*(np.array(content[key], dtype=np.int64) for key in ("unigrams", "bigrams")))
    if text is None:
        raise ValueError("source=text needs the path of a plain text file: set text=PATH")
    try:
        return count(Path(text).read_text(encoding="utf-8"))[1]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"text={text} cannot be read as UTF-8 text: {error}") from error
