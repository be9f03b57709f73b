"""Files with one flipped bit: a few in the suite, or as many as ``MEMORY_BENCH_FLIPS`` says."""

import os
import random
from collections.abc import Iterator

FLIPS = int(os.environ.get("MEMORY_BENCH_FLIPS", "5"))  # of each file


def flips(content: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """``content`` with one bit flipped, ``count`` times; the places depend on the seed alone."""
    draw = random.Random(seed)
    for _ in range(count):
        place, bit = draw.randrange(len(content)), draw.randrange(8)
        yield content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
