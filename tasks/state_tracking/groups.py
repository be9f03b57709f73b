"""Finite groups as multiplication tables, and words in them.

Elements are numbered from 0, the identity. Permutations stand in lexicographic order, so that the
elements of S5 are those of ``itertools.permutations(range(5))``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Permutation = tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """A finite group.

    Attributes:
        table: int64 (order, order); ``table[a, b]`` is the element a·b. Of permutations, b acts
            first: (a·b)(i) = a(b(i)).
        small: of permutations, the identity and those that move the fewest points: swaps, or cycles
            of three points among the even ones. They generate the group.
    """

    table: Integers
    small: tuple[int, ...] = ()

    @property
    def order(self) -> int:
        """The number of elements."""
        return len(self.table)

    def products(self, words: Integers) -> Integers:
        """The state after each letter: x_1, then x_2·x_1, then x_3·(x_2·x_1) …

        Args:
            words: int64 (sequences, length) of elements.
        """
        states = np.empty_like(words)
        state = np.zeros(len(words), dtype=np.int64)
        for place, letters in enumerate(words.T):
            # The new letter on the left: it acts after all before it.
            state = self.table[letters, state]
            states[:, place] = state
        return states

    @property
    def commutators(self) -> int:
        """How many elements the commutator subgroup has: those that whoever knows the letters of a
        word, and not their order, cannot tell from each other. 1 where all elements commute."""
        inverse = self.table.argmin(axis=1)  # where the product is the identity, 0
        reached = {
            # a b a⁻¹ b⁻¹ = (a b)(b a)⁻¹.
            int(self.table[self.table[a, b], inverse[self.table[b, a]]])
            for a, b in itertools.product(range(self.order), repeat=2)
        }
        # Products of commutators, until no new element appears: the subgroup that they generate.
        while True:
            grown = {int(self.table[a, b]) for a, b in itertools.product(reached, repeat=2)}
            if grown == reached:
                return len(reached)
            reached = grown


def cyclic(order: int) -> Group:
    """Addition modulo ``order``."""
    numbers = np.arange(order, dtype=np.int64)
    return Group((numbers[:, None] + numbers) % order)


def permutations(points: int, *, even: bool = False) -> Group:
    """All permutations of so many points, or the even ones."""
    candidates = list(itertools.permutations(range(points)))
    elements = [
        permutation for permutation in candidates if not (even and inversions(permutation) % 2)
    ]
    number = {permutation: place for place, permutation in enumerate(elements)}
    table = [[number[tuple(a[i] for i in b)] for b in elements] for a in elements]
    moved = [sum(place != image for place, image in enumerate(element)) for element in elements]
    # Even permutations cannot be swaps: their smallest moves are cycles of three points.
    small = tuple(place for place, count in enumerate(moved) if count <= (3 if even else 2))
    return Group(np.array(table, dtype=np.int64), small)


def inversions(permutation: Sequence[int]) -> int:
    """Pairs in the wrong order; odd for an odd permutation."""
    return sum(earlier > later for earlier, later in itertools.combinations(permutation, 2))


GROUPS = {
    "parity": lambda: cyclic(2),
    "z60": lambda: cyclic(60),
    "s3": lambda: permutations(3),
    "a5": lambda: permutations(5, even=True),
    "s5": lambda: permutations(5),
}
