"""Sequences of numbers or words, what a memory recalls of them, and how sure it says it is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.memories.interface import Memory
from tasks.measurement import Diverged
from tasks.test_time_memory.material import NUMBERS, NumberSequences

STEP = 10  # of a stated confidence, in percent


@dataclass(frozen=True)
class Recalled:
    """Answers of memories by trial and item: items int64 and confidences, (trials, items)."""

    items: Tensor
    confidence: Tensor


class Sequences:
    """Random sequences; the key of one is made of all items but the last, as in
    ``test_time_memory``.

    Args:
        material: "numbers" (0 to 999) or "words" (nouns that a child knows).
        size: width of keys and values.
        length: items of a sequence, the last included.
        data_seed: of the vectors that stand for items.

    Attributes:
        names: how each item is written.
    """

    def __init__(self, material: str, size: int, length: int, data_seed: int) -> None:
        self.names = [str(k) for k in range(NUMBERS)]
        if material == "words":
            from tasks.text.recipe.prompts import load_lists

            self.names = sorted(load_lists().nouns)
        self.length = length
        self._space = NumberSequences(size, data_seed, length)

    @property
    def digest(self) -> bytes:
        """SHA-256 of names and vectors, rounded: their last digits may differ between machines."""
        rounded = (self._space.embeddings * 1e4).round().to(torch.int32)
        return hashlib.sha256(repr(self.names).encode() + rounded.numpy().tobytes()).digest()

    def drawn(self, trials: int, count: int, generator: torch.Generator) -> Tensor:
        """int64 (trials, count, length), no two of a trial with the same stem."""
        return torch.stack([self._one(count, generator) for _ in range(trials)])

    def _one(self, count: int, generator: torch.Generator) -> Tensor:
        row_by_stem: dict[tuple[int, ...], list[int]] = {}
        while len(row_by_stem) < count:
            rows = torch.randint(len(self.names), (count, self.length), generator=generator)
            # A stem that occurs twice would have two right answers: the first sequence keeps it.
            for row in rows.tolist():
                if len(row_by_stem) < count:
                    row_by_stem.setdefault(tuple(row[:-1]), row)
        return torch.tensor(list(row_by_stem.values()))

    def write(self, memory: Memory, sequences: Tensor, device: torch.device | str) -> None:
        """Memorise sequences (trials, items, length)."""
        pairs = self._space.of_sequences(sequences)
        memory.write(pairs.keys.to(device), pairs.values.to(device))

    def read(self, memory: Memory, sequences: Tensor, device: torch.device | str) -> Recalled:
        """The item whose vector is nearest, by angle, to what the memory answers to each stem.

        Raises:
            Diverged: the memory answers no numbers.
        """
        reading = memory.read(self._space.keys_of(sequences[..., :-1]).to(device))
        values, confidence = reading.values.double().cpu(), reading.confidence.double().cpu()
        if not (torch.isfinite(values).all() and torch.isfinite(confidence).all()):
            raise Diverged("what the memory recalls is NaN or infinite")
        # Vectors of the last place, and only those of items that have a name.
        candidates = self._space.embeddings[-1, : len(self.names)].double()
        return Recalled((values @ candidates.mT).argmax(-1), confidence)


def stated_confidence(known: Tensor, right: Tensor, confidence: Tensor) -> NDArray[np.int64]:
    """Chances of being right in percent, in steps of 10, of the shape of ``confidence``.

    Confidences of memories have scales of their own. Those of ``known`` answers, of which it is
    ``right`` whether they were, give the rising map to chances with the least squared error
    (isotonic regression; between two known confidences a line).
    """
    from scipy.optimize import isotonic_regression

    # One point for each different confidence, weighted by how many answers had it.
    levels, place, count = np.unique(known.numpy().ravel(), return_inverse=True, return_counts=True)
    share = np.bincount(place.ravel(), right.numpy().ravel().astype(float)) / count
    chance = isotonic_regression(share, weights=count).x
    # Outside of the known confidences the outermost chance holds.
    chances = np.interp(confidence.numpy(), levels, chance)
    return (np.rint(chances * (100 / STEP)) * STEP).astype(np.int64)
