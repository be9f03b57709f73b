"""Random numbers by counter: a draw is a hash of its key and its number, never of what came before.

The hash is the output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014). Everything is integer arithmetic on uint64 arrays, so a draw is
the same on every machine, in every order of evaluation and with any number of workers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Integers = NDArray[np.int64]

_WEYL = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


def mix(values: Keys) -> Keys:
    """SplitMix64's bijective scrambling of 64-bit words; any shape, uint64."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def draw(keys: Keys, counter: int | NDArray[Any]) -> Keys:
    """The 64 random bits number ``counter`` (>= 0) of the stream ``keys``; the shapes broadcast.

    A draw serves as the key of a further stream, so streams form a tree.
    """
    if isinstance(counter, int):
        # The Weyl sequence of SplitMix64: an odd constant times the counter visits all 2⁶⁴ words.
        return mix(keys + np.uint64((counter + 1) * _WEYL & _MASK))
    return mix(keys + (counter.astype(np.uint64) + np.uint64(1)) * np.uint64(_WEYL))


def root(seed: int) -> Keys:
    """The key, shape (1,), from which all streams of ``seed`` grow."""
    return mix(np.array([seed & _MASK], dtype=np.uint64))


def below(bits: Keys, bound: int | NDArray[Any]) -> Integers:
    """Integers uniform on 0..bound-1 from 64 random bits each; bound < 2**31.

    The bias of this multiply-and-shift is below bound / 2**32.
    """
    bounds = np.asarray(bound).astype(np.uint64)
    # (upper 32 bits × bound) / 2³²: no division, and no rejection, which would need a loop.
    return ((bits >> np.uint64(32)) * bounds >> np.uint64(32)).astype(np.int64)


def between(bits: Keys, bounds: tuple[int, int]) -> Integers:
    """Integers uniform on bounds[0]..bounds[1], both included."""
    low, high = bounds
    return low + below(bits, high - low + 1)


def permutation(keys: Keys, size: int) -> Integers:
    """A permutation of 0..size-1 for every key: (keys, size)."""
    # Sorting random words; equal ones, of probability size² / 2⁶⁵, keep their order.
    return np.argsort(draw(keys[:, None], np.arange(size)), axis=1, kind="stable")


def distinct(bits: Keys, size: NDArray[Any]) -> Integers:
    """Ordered draws without replacement from 0..size-1, along the last axis of ``bits``.

    The j-th value is uniform over the size-j numbers that are left: it is drawn as a rank among
    them and then moved past the smaller ones of those taken before. ``size`` has the shape of
    ``bits`` without its last axis, and is at least as large as that axis.
    """
    taken: list[Integers] = []
    for j in range(bits.shape[-1]):
        value = below(bits[..., j], size - j)
        # In rising order, so that a value passes each smaller one once.
        for other in np.sort(np.stack(taken), axis=0) if taken else ():
            value = value + (value >= other)
        taken.append(value)
    return np.stack(taken, axis=-1)
