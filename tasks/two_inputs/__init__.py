"""Associations of two inputs: how many values a memory finds by the sum of two embeddings.

Bietti 2024, Associative memories as a tractable building block in transformers, slides ("multi-
input"), after Nichani, Lee and Bietti 2025 (arXiv 2412.06538). No protocol is published: this is
that of the capacity of one input, with other keys.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tasks.capacity import Capacity
from tasks.interface import Split

LEAST = 6  # pairs from which on a trial's embeddings suffice for two sets of tokens


class TwoInputs(Capacity):
    """Capacity whose key is u_z + ũ_z', of two tokens out of two sets.

    So many pairs are drawn without repetition from a square table of tokens, in random order, that
    it is just full with the most that are tried. No score that adds up what each token says can
    tell them all apart.

    Example: one trial at width 4 (``classes=2, largest=1.0``, test, seed 0). Pairs are drawn from
    a table of 4 × 4 tokens; the first six, with their classes, and their keys:

        pair   (3, 3)   (2, 1)   (0, 1)   (0, 3)   (1, 1)   (0, 2)
        class     0        0        0        1        1        1
        key   u_3+ũ_3  u_2+ũ_1  u_0+ũ_1  u_0+ũ_3  u_1+ũ_1  u_0+ũ_2

    A memory must answer by the pair: token 0 alone has both classes here. A sum of outer products
    has 4 of these 6; a guess among M classes is right with 1/M.

    Args:
        widths, wide, headline_width, trials, thresholds, classes, embeddings, largest: as
            ``Capacity``.

    Raises:
        ValueError: a setting outside its range, or fewer than six associations at the least width.
    """

    def __init__(
        self,
        widths: Sequence[int] = (8, 16),
        wide: Sequence[int] = (),
        headline_width: int = 8,
        trials: int = 3,
        thresholds: Sequence[float] = (0.99,),
        classes: int = 32,
        embeddings: str = "unit",
        largest: float = 2.0,
    ) -> None:
        super().__init__(
            widths, wide, headline_width, trials, thresholds, classes, embeddings, largest
        )
        least = min([*self.widths, *self.wide])
        if self.most(least) < LEAST:
            raise ValueError(
                f"largest={largest} allows {self.most(least)} pairs at width {least}: give a "
                f"number that allows {LEAST} or more"
            )

    def draw(self, width: int, split: Split, seed: int) -> tuple[Tensor, Tensor]:
        """Keys (trials, N, d), each the sum of two embeddings, and values as ``Capacity``."""
        single, values = super().draw(width, split, seed)
        most = single.shape[1]
        # ⌈√most⌉: the smallest square table of pairs that holds them.
        side = math.isqrt(most - 1) + 1
        keys = torch.empty_like(single)
        for trial, embeddings in enumerate(single):
            name = f"two_inputs/{split}/{seed}/{width}/{trial}".encode()
            number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") >> 1
            # Without repetition: no pair is written twice.
            order = torch.randperm(side**2, generator=torch.Generator().manual_seed(number))[:most]
            # The first ``side`` embeddings are of the first token, the next of the second.
            keys[trial] = embeddings[order // side] + embeddings[side + order % side]
        return keys, values
