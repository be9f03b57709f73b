"""Predictors without training: what is possible in context with counting, or with the truth.

Each gives float64 probabilities (inputs, 20) in the order of ``metrics.input_positions``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.regbench.automata import LETTERS, PADDING, SEPARATOR, VOCABULARY
from tasks.regbench.counter import Integers
from tasks.regbench.generator import Sequences
from tasks.regbench.metrics import input_positions, legal_distribution

Probabilities = NDArray[np.float64]

_START = SEPARATOR  # inside a context the separator stands for the start of a string
_LETTERS = slice(1, LETTERS + 1)


def oracle(sequences: Sequences) -> Probabilities:
    """The automaton itself."""
    return legal_distribution(sequences)


def uniform(sequences: Sequences) -> Probabilities:
    """Every letter of the pool with the same probability."""
    probabilities = np.zeros((len(input_positions(sequences)), VOCABULARY))
    probabilities[:, _LETTERS] = 1 / LETTERS
    return probabilities


def uniform_over_seen(sequences: Sequences) -> Probabilities:
    """Every letter that the sequence has shown so far with the same probability."""
    tokens, order, active = _aligned(sequences)
    seen = np.zeros((len(order), VOCABULARY))
    probabilities = np.zeros((*tokens.shape, VOCABULARY))
    for t, count in enumerate(active):
        seen[np.arange(count), tokens[:count, t]] = 1
        letters = seen[:count, _LETTERS]
        probabilities[:count, t, _LETTERS] = letters / letters.sum(axis=1, keepdims=True)
    return _flat(probabilities, order, sequences)


def ngram(sequences: Sequences, order: int) -> Probabilities:
    """In-context n-grams with back-off (the n-gram line of Akyürek et al. 2024).

    Counts are over the tokens that the same sequence has shown so far. Every string is a text of
    its own with order-1 start symbols before it. A letter that has followed the last m-1 symbols
    has the estimate count(context, letter) / count(context), where count(context) includes the
    occurrences that nothing follows: ends of strings and the present one. What is left of the
    probability goes to the letters that have not followed, in proportion to their estimate of
    order m-1. Order 1 divides by all symbols, start symbols included, and gives nothing to letters
    that the sequence has not shown; there is no smoothing.
    """
    tokens, rank, active = _aligned(sequences)
    contexts = [_contexts(tokens, length) for length in range(order)]
    followers = [np.zeros((ids.max() + 1, VOCABULARY)) for ids in contexts]
    occurrences = [np.zeros(len(table)) for table in followers]
    probabilities = np.zeros((*tokens.shape, VOCABULARY))

    def enter(length: int, ids: Integers, starts: NDArray[np.bool_]) -> None:
        """Count the contexts of ``length`` that are complete now: where a string starts, as many
        as its start symbols hold; the empty one once for every symbol."""
        # order − 1 start symbols make order − length contexts of a length, and order − 1 empty
        # ones.
        occurrences[length][ids] += np.where(starts, order - max(length, 1), 1)

    for length, ids in enumerate(contexts):
        enter(length, ids[:, 0], np.ones(len(tokens), dtype=bool))
    for t, count in enumerate(active):
        token = tokens[:count, t]
        letter = token != SEPARATOR
        estimate = np.zeros((count, VOCABULARY))
        for length, ids in enumerate(contexts):
            before, now = ids[:count, t], ids[:count, t + 1]
            followers[length][before[letter], token[letter]] += 1
            enter(length, now, ~letter)
            share = followers[length][now] / occurrences[length][now, None]
            estimate = _back_off(share, estimate)
        probabilities[:count, t] = estimate
    return _flat(probabilities, rank, sequences)


def _back_off(share: Probabilities, lower: Probabilities) -> Probabilities:
    unseen = np.where(share > 0, 0.0, lower)
    # Letters that have followed keep their share; the rest of the mass goes to the others alone.
    total = unseen.sum(axis=1, keepdims=True)
    left = 1 - share.sum(axis=1, keepdims=True)
    return share + unseen * np.divide(left, total, out=np.zeros_like(left), where=total > 0)


def _aligned(sequences: Sequences) -> tuple[Integers, Integers, Integers]:
    """The inputs as a matrix with the longest sequence first, so that step t has a prefix of rows.

    Returns: tokens (sequences, time), padded; the sequence of every row; rows active at each time.
    """
    counts = sequences.lengths - 1
    order = np.argsort(-counts, kind="stable")
    columns = np.arange(counts.max())
    inside = columns < counts[order, None]
    tokens = np.full(inside.shape, PADDING, dtype=np.int64)
    places = sequences.offsets[order, None] + columns
    tokens[inside] = sequences.tokens[places[inside]]
    return tokens, order, inside.sum(axis=0)


def _flat(probabilities: Probabilities, order: Integers, sequences: Sequences) -> Probabilities:
    counts = sequences.lengths - 1
    inside = np.arange(counts.max()) < counts[:, None]
    return probabilities[np.argsort(order)][inside]


def _contexts(tokens: Integers, length: int) -> Integers:
    """Numbers, int64 (sequences, time + 1), of the last ``length`` symbols of the string before
    each input and after the last one; equal only for equal contexts of the same sequence."""
    count, time = tokens.shape
    codes = np.empty((count, time + 1), dtype=np.int64)
    # Contexts as numbers in base 20, of the last ``length`` symbols.
    base = VOCABULARY**length
    fresh = sum(_START * VOCABULARY**place for place in range(length))
    codes[:, 0] = fresh
    for t in range(time):
        codes[:, t + 1] = (codes[:, t] * VOCABULARY + tokens[:, t]) % base
        # A separator starts a string: nothing of the string before counts.
        codes[tokens[:, t] == SEPARATOR, t + 1] = fresh
    # Apart for each sequence: counts are in context, not over the corpus.
    codes += np.arange(count)[:, None] * base
    return np.unique(codes, return_inverse=True)[1].reshape(codes.shape)
