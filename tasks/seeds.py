"""Random numbers of their own for whatever can be named."""

from __future__ import annotations

import hashlib

import torch


def seed_of(*names: str | int) -> int:
    """A seed for a list of names, in [0, 2**63)."""
    digest = hashlib.blake2b("/".join(map(str, names)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # 63 bits: what torch takes


def generator_of(*names: str | int) -> torch.Generator:
    """Random numbers of their own for a list of names."""
    return torch.Generator().manual_seed(seed_of(*names))
