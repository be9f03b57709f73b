"""How a memory takes sequences of numbers: as vectors, or as the numbers themselves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.memories.interface import Memory
from tasks.measurement import Refused
from tasks.test_time_memory.material import NUMBERS, NumberSequences, unit

NONSENSE = -1  # the number that an answer stands for that is not finite


def takes_tokens(memory: Memory) -> bool:
    """Whether keys of this memory are numbers of tokens (its attribute ``vocabulary``)."""
    return getattr(memory, "vocabulary", None) is not None


@dataclass(frozen=True)
class Coding:
    """Sequences of numbers as keys and values of a memory, and its answers as numbers.

    Attributes:
        space: the fixed random vectors that stand for numbers.
        tokens: keys are the numbers of the stem, else one direction.
        scalars: a value is the number itself, else its vector.
    """

    space: NumberSequences
    tokens: bool = False
    scalars: bool = False

    @classmethod
    def of(cls, memory: Memory, space: NumberSequences) -> Coding:
        """What this memory takes: a memory over tokens that regresses takes values as numbers too.

        Raises:
            Refused: a memory over fewer tokens than there are numbers.
        """
        if not takes_tokens(memory):
            return cls(space)
        vocabulary = int(getattr(memory, "vocabulary", 0))
        if vocabulary < NUMBERS:
            raise Refused(
                f"models.vocabulary={vocabulary}: keys are made of the numbers 0 to {NUMBERS - 1}, "
                f"so a memory over tokens needs {NUMBERS} or more of them"
            )
        return cls(space, tokens=True, scalars=bool(getattr(memory, "squared", False)))

    @property
    def sizes(self) -> tuple[int, int]:
        """Widths of keys and values."""
        stem = self.space.length - 1
        return stem if self.tokens else self.space.size, 1 if self.scalars else self.space.size

    def keys(self, sequences: Tensor) -> Tensor:
        """int64 (…, length) -> float32 (…, key size)."""
        stems = sequences[..., :-1]
        return stems.float() if self.tokens else self.space.keys_of(stems)

    def values(self, sequences: Tensor) -> Tensor:
        """int64 (…, length) -> float32 (…, value size)."""
        answers = sequences[..., -1]
        return answers[..., None].float() if self.scalars else self.space.embeddings[-1, answers]

    def numbers(self, answers: Tensor, stored: Tensor) -> Tensor:
        """What answers stand for.

        Args:
            answers: float (trials, queries, value size).
            stored: bool (trials, numbers), which numbers are the value of something written.

        Returns:
            int64 (trials, queries): the answer rounded, or that of the stored numbers whose vector
            is nearest; ``NONSENSE`` where an answer is not finite.
        """
        finite = answers.isfinite().all(-1)
        if self.scalars:
            # A float of 10³⁰ has no int64: far out is wrong either way.
            limit = 2.0**31  # far beyond any number, and within int64
            nearest = answers[..., 0].nan_to_num().clamp(-limit, limit).round().long()
        else:
            scores = unit(answers) @ self.space.embeddings[-1].to(answers).T
            # The nearest of what was written, not of all 1,000 numbers.
            nearest = scores.masked_fill(~stored[:, None], -torch.inf).argmax(-1)
        return torch.where(finite, nearest, NONSENSE)
