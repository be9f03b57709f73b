"""Windows of a token stream: drawn at random for training, in a fixed list for evaluation."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from tasks.text.stream import TokenStream

Positions = NDArray[np.int64]


def random_starts(seed: int, step: int, count: int, places: int) -> Positions:
    """``count`` numbers in [0, places), a function of the arguments alone, with replacement.

    The raw output of Philox, whose key is (seed, step), is the same in every version of NumPy; its
    remainder favours small places by less than places / 2**64.
    """
    # A key of 128 bits: step and seed do not meet.
    generator = np.random.Philox(key=(step << 64) + seed)
    return (generator.random_raw(count) % np.uint64(places)).astype(np.int64)


def evenly(count: int, wanted: int) -> Positions:
    """At most ``wanted`` of the numbers 0 .. count - 1, spread evenly; all if there are fewer."""
    wanted = min(count, wanted)
    return np.arange(wanted, dtype=np.int64) * count // max(1, wanted)


def consecutive(first: int, last: int, length: int) -> Positions:
    """Starts of the windows that follow each other in [first, last): ``length`` inputs, and as many
    targets one token later. Windows share the token that is target of one and input of the next.
    """
    # The last window needs its target: it starts at last − length − 1 at the latest.
    return np.arange(first, last - length, length, dtype=np.int64)


def article_starts(stream: TokenStream, length: int) -> tuple[Positions, Positions]:
    """Start and document of the first ``length + 1`` tokens of each document that has as many,
    its end mark not counted."""
    starts = np.asarray(stream.starts)
    # The end mark is no target: a document needs length + 1 tokens before it.
    long_enough = np.flatnonzero(np.diff(starts) - 1 >= length + 1)
    return starts[long_enough], long_enough.astype(np.int64)


def document_of(stream: TokenStream, positions: Positions) -> Positions:
    """The document that each position lies in."""
    return np.searchsorted(np.asarray(stream.starts), positions, side="right").astype(np.int64) - 1


def cut(stream: TokenStream, starts: Positions, length: int) -> NDArray[np.int64]:
    """int64 (windows, length + 1): inputs without the last column are followed by targets without
    the first."""
    return np.asarray(stream.tokens)[starts[:, None] + np.arange(length + 1)].astype(np.int64)


def windows_sha256(stream: TokenStream, starts: Positions, length: int) -> str:
    """Hash of a list of windows: of the stream that they are cut from, their starts and length."""
    head = f"{stream.manifest.tokens_sha256}:{length}:".encode()
    return hashlib.sha256(head + starts.astype("<i8").tobytes()).hexdigest()
