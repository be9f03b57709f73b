"""Randomness as a function of names: (seed, purpose, step, ...) -> 63-bit seed.

Batch and dropout of step n depend on (seed, rank, n) alone, so a run that goes on at step n needs
no saved random state, and gives the weights of the run that was never stopped.
"""

from __future__ import annotations

import hashlib


def derive_seed(seed: int, *purpose: str | int) -> int:
    """An integer in [0, 2**63) from a base seed and any number of names, equal everywhere."""
    text = "/".join(str(part) for part in (seed, *purpose))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
