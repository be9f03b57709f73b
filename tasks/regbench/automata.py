"""Random probabilistic automata and the identity of their languages.

Akyürek et al., "In-Context Language Learning: Architectures and Algorithms" (2024), section 3, with
the ranges that the released code really uses (the out-degree is 1 to 3: the "4" of its
configuration is exclusive).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.regbench import counter
from tasks.regbench.counter import Integers, Keys

PADDING = 0
LETTERS = 18
"""The letters a to r have the tokens 1 to 18."""
SEPARATOR = 19
VOCABULARY = 20


@dataclass(frozen=True)
class Language:
    """The ranges that automata and their strings are drawn from; both ends are included.

    Attributes:
        states: states of an automaton, before those of equal language are identified.
        alphabet: letters of an automaton, chosen among the 18.
        out_degree: outgoing edges of a state; their letters differ, and so do their targets.
        strings: strings in a sequence.
        string_length: letters in a string.
    """

    states: tuple[int, int] = (4, 12)
    alphabet: tuple[int, int] = (4, 18)
    out_degree: tuple[int, int] = (1, 3)
    strings: tuple[int, int] = (10, 19)
    string_length: tuple[int, int] = (1, 49)

    def __post_init__(self) -> None:
        for name, bounds in vars(self).items():
            if len(bounds) != 2 or not 1 <= bounds[0] <= bounds[1]:
                raise ValueError(
                    f"{name} must be a range [low, high] with 1 <= low <= high, got {list(bounds)}"
                )
        if self.alphabet[1] > LETTERS:
            raise ValueError(f"alphabet may hold at most {LETTERS} letters, got {self.alphabet[1]}")
        room = min(self.alphabet[0], self.states[0] - 1)
        if self.out_degree[1] > room:
            raise ValueError(
                f"out_degree up to {self.out_degree[1]} needs at least as many letters and one "
                f"state more: raise the low ends of alphabet {list(self.alphabet)} and states "
                f"{list(self.states)}"
            )
        if self.strings[0] == self.string_length[0] == 1:
            raise ValueError(
                "a sequence of one string with one letter has nothing to predict: raise the low "
                "end of strings or of string_length"
            )

    @property
    def maximum_length(self) -> int:
        """Tokens of the longest sequence: its letters, and a separator between strings."""
        return self.strings[1] * (self.string_length[1] + 1) - 1


@dataclass(frozen=True)
class Automata:
    """A stack of automata. State 0 is the start, all states accept, and a walk takes each outgoing
    edge of a state with equal probability.

    Attributes:
        degree: int64 (automata, states), outgoing edges; 0 for states that the automaton lacks.
        symbols: int64 (automata, states, edges), tokens of letters; 0 beyond the degree.
        targets: int64 (automata, states, edges); 0 beyond the degree.
    """

    degree: Integers
    symbols: Integers
    targets: Integers

    def __len__(self) -> int:
        return len(self.degree)

    def __getitem__(self, index: Any) -> Automata:
        return Automata(self.degree[index], self.symbols[index], self.targets[index])

    @property
    def legal(self) -> NDArray[np.uint32]:
        """uint32 (automata, states): bit c is set where token c leaves the state."""
        # 0 is no letter: 1 << 0 must not set a bit.
        bits = np.where(self.symbols > 0, np.left_shift(1, self.symbols), 0)
        return bits.sum(axis=-1).astype(np.uint32)


def sample_automata(language: Language, keys: Keys) -> Automata:
    """One automaton for every key, (automata,) uint64.

    They are not minimised: to identify states of equal language leaves the distribution over
    strings as it is, because such states have the same outgoing letters.
    """
    states, edges = language.states[1], language.out_degree[1]
    cells = np.arange(states * edges).reshape(states, edges)
    state = np.arange(states)

    size = counter.between(counter.draw(keys, 0), language.states)[:, None]
    letters = counter.between(counter.draw(keys, 1), language.alphabet)[:, None]
    alphabet = 1 + counter.permutation(counter.draw(keys, 2), LETTERS)
    # A stream in a stream: bits of a state do not depend on how many states there are.
    degree = counter.between(
        counter.draw(counter.draw(keys, 3)[:, None], state), language.out_degree
    )
    degree = np.where(state < size, degree, 0)

    def choices(stream: int, among: Integers) -> Integers:
        bits = counter.draw(counter.draw(keys, stream)[:, None, None], cells)
        # Ranks in 0 … size − 1, distinct along the edges of a state.
        return counter.distinct(bits, np.broadcast_to(among, degree.shape))

    symbols = alphabet[np.arange(len(keys))[:, None, None], choices(4, letters)]
    others = choices(5, size - 1)
    targets = others + (others >= state[:, None])  # a state never leads to itself
    exists = np.arange(edges) < degree[..., None]
    return Automata(degree, np.where(exists, symbols, 0), np.where(exists, targets, 0))


def language_fingerprints(automata: Automata) -> Keys:
    """uint64 (automata,): equal for equal languages, different otherwise but for hash collisions.

    Moore's refinement with hashes for classes: after r rounds the signature of a state stands for
    the words of at most r letters that can be read from it. Two automata of n states each have at
    most 2n + 1 classes together, the rejecting sink among them, and each round before the last
    splits one, so 2n rounds separate whatever differs.
    """
    count, states, edges = automata.symbols.shape
    # A fixed random label for each letter, so that sums over edges tell sets of letters apart.
    labels = counter.draw(np.zeros(1, dtype=np.uint64), automata.symbols)
    exists = automata.symbols > 0
    # Targets as places in the flat stack of all states.
    targets = (automata.targets + np.arange(count)[:, None, None] * states).ravel()
    signatures = np.zeros((count, states), dtype=np.uint64)
    for _ in range(2 * states):
        reached = signatures.ravel()[targets].reshape(count, states, edges)
        reached += labels
        # A sum, because the edges of a state are a set.
        signatures = (counter.mix(reached) * exists).sum(axis=-1, dtype=np.uint64)
    return signatures[:, 0]
