"""The splits of RegBench: which automata are in them and the sequences sampled from these.

Problem i of a split is a function of (language, data seed, split, i), but for one thing: an
automaton whose language an earlier problem has is drawn again. "Earlier" is by the order test,
validation, train, and by index within a split, so validation and test are the same for every
number of training automata, and a smaller training set is the beginning of a larger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from tasks.regbench import counter
from tasks.regbench.automata import (
    SEPARATOR,
    Automata,
    Language,
    language_fingerprints,
    sample_automata,
)
from tasks.regbench.counter import Integers, Keys

Variant = Literal["held_out", "iid"]

_STREAMS = {"train": 0, "validation": 1, "test": 2}
_BLOCK = 512  # problems at once: the arrays of a block stay in the processor's cache
_MAXIMUM_ATTEMPTS = 200

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Sequences:
    """Sequences of different lengths, one after another.

    Attributes:
        tokens: uint8 (tokens,), letters 1..18 and separators 19.
        legal: uint32 (tokens,), bit c set where the automaton allows token c after this token.
        offsets: int64 (sequences + 1,); sequence i is tokens[offsets[i]:offsets[i + 1]].
    """

    tokens: NDArray[np.uint8]
    legal: NDArray[np.uint32]
    offsets: Integers

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Integers:
        """int64 (sequences,): tokens of every sequence."""
        return np.diff(self.offsets)

    def sha256(self) -> str:
        """Hash of the whole content, as little-endian bytes."""
        digest = hashlib.sha256()
        for part, layout in ((self.offsets, "<i8"), (self.tokens, "u1"), (self.legal, "<u4")):
            digest.update(part.astype(layout).tobytes())
        return digest.hexdigest()


def generate(
    language: Language,
    seed: int,
    sizes: dict[str, int],
    variant: Variant = "held_out",
    workers: int = 1,
) -> dict[str, Sequences]:
    """All splits, with one sequence for every problem.

    Args:
        sizes: sequences of "train", "validation" and "test".
        variant: "held_out": every sequence has an automaton of its own, and no language occurs
            twice in all splits together. "iid": validation and test are fresh sequences from the
            training automata, taken in turn (Memory Mosaics, Table 3).
        workers: threads; the result does not depend on it.

    Raises:
        ValueError: the language setting has too few distinct languages for the sizes.
    """
    keys = {split: _problem_keys(seed, split, size) for split, size in sizes.items()}
    with ThreadPoolExecutor(workers) as threads:
        if variant == "held_out":
            # Validation and test come first: they give up no language to a training automaton.
            order = ("test", "validation", "train")
            pool = distinct_automata(
                language, np.concatenate([keys[split] for split in order]), threads
            )
            ends = np.cumsum([0] + [sizes[split] for split in order])
            owners = {
                split: np.arange(ends[place], ends[place + 1]) for place, split in enumerate(order)
            }
        else:
            pool = distinct_automata(language, keys["train"], threads)
            owners = {split: np.arange(size) % sizes["train"] for split, size in sizes.items()}
        return {
            split: _join(
                _in_blocks(
                    partial(_sample_block, language, pool, owners[split], keys[split]),
                    sizes[split],
                    threads,
                )
            )
            for split in sizes
        }


def distinct_automata(language: Language, keys: Keys, threads: ThreadPoolExecutor) -> Automata:
    """Automata of pairwise different languages: problem i has its first attempt whose language no
    problem before i has.

    All problems are drawn together and every repetition draws its next attempt, until none is
    left. That gives the result of going through them one by one: the first problem with a
    language gives it up only to a still earlier one, so a refused attempt stays refused.
    """
    streams = counter.draw(keys, 0)
    attempts = np.zeros(len(keys), dtype=np.int64)
    pending = np.arange(len(keys))
    fingerprints = np.zeros(len(keys), dtype=np.uint64)
    while len(pending):
        if attempts.max() == _MAXIMUM_ATTEMPTS:
            raise ValueError(
                f"found no {len(keys)} different languages with states {list(language.states)}, "
                f"alphabet {list(language.alphabet)} and out_degree {list(language.out_degree)}: "
                "ask for fewer automata or widen these ranges"
            )
        chosen = counter.draw(streams[pending], attempts[pending])
        fingerprints[pending] = np.concatenate(
            _in_blocks(partial(_fingerprint_block, language, chosen), len(chosen), threads)
        )
        repeated = np.ones(len(keys), dtype=bool)
        # ``np.unique`` names the first of equal fingerprints: that problem keeps its language.
        repeated[np.unique(fingerprints, return_index=True)[1]] = False
        pending = np.flatnonzero(repeated)
        attempts[pending] += 1
    return sample_automata(language, counter.draw(streams, attempts))


def sample_sequences(language: Language, automata: Automata, keys: Keys) -> Sequences:
    """One sequence from every automaton: random walks from its start state, joined by separators.

    Args:
        keys: uint64 (automata,).
    """
    states, edges = automata.symbols.shape[1:]
    numbers = np.arange(language.strings[1])
    strings = counter.between(counter.draw(keys, 0), language.strings)
    exists = numbers < strings[:, None]
    lengths = counter.draw(counter.draw(keys, 1)[:, None], numbers)
    lengths = np.where(exists, counter.between(lengths, language.string_length), 0)
    widths = lengths + exists  # with the separator after it; the last string has none
    offsets = np.concatenate([[0], np.cumsum(widths.sum(axis=1) - 1)])
    starts = offsets[:-1, None] + np.cumsum(widths, axis=1) - widths

    # Longest strings first: the walks that still go on after t letters are then a prefix.
    owner, number = np.nonzero(exists)
    order = np.argsort(-lengths[exists], kind="stable")
    owner, number = owner[order], number[order]
    start, length = starts[owner, number], lengths[owner, number]
    walk = counter.draw(counter.draw(keys, 2)[:, None], numbers)[owner, number]
    # How many strings have more than t letters.
    walking = np.searchsorted(-length, -np.arange(language.string_length[1]), side="left")

    tokens = np.full(offsets[-1], SEPARATOR, dtype=np.uint8)
    # Before its first letter a string is in the start state, and so at each separator.
    legal = np.repeat(automata.legal[:, 0], np.diff(offsets))
    degree, legal_of_state = automata.degree.ravel(), automata.legal.ravel()
    symbols, targets = automata.symbols.ravel(), automata.targets.ravel()
    first = owner * states  # row of the start state
    row = first.copy()
    for t, active in enumerate(walking):
        row, first = row[:active], first[:active]
        edge = row * edges + counter.below(counter.draw(walk[:active], t), degree[row])
        row = first + targets[edge]
        position = start[:active] + t
        tokens[position] = symbols[edge]
        legal[position] = legal_of_state[row]
    return Sequences(tokens, legal, offsets)


def _problem_keys(seed: int, split: str, size: int) -> Keys:
    return counter.draw(counter.draw(counter.root(seed), _STREAMS[split]), np.arange(size))


def _fingerprint_block(language: Language, keys: Keys, block: slice) -> Keys:
    return language_fingerprints(sample_automata(language, keys[block]))


def _sample_block(
    language: Language, pool: Automata, owners: Integers, keys: Keys, block: slice
) -> Sequences:
    return sample_sequences(language, pool[owners[block]], counter.draw(keys[block], 1))


def _in_blocks(
    function: Callable[[slice], _Result], size: int, threads: ThreadPoolExecutor
) -> list[_Result]:
    blocks = [slice(start, start + _BLOCK) for start in range(0, size, _BLOCK)]
    return list(threads.map(function, blocks))


def _join(parts: list[Sequences]) -> Sequences:
    lengths = np.concatenate([part.lengths for part in parts])
    return Sequences(
        np.concatenate([part.tokens for part in parts]),
        np.concatenate([part.legal for part in parts]),
        np.concatenate([[0], np.cumsum(lengths)]),
    )
