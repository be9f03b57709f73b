"""Facts about subjects and relations, and sequences that name one of each among noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Facts:
    """Which answer each subject has for each relation.

    Tokens are subjects, relations, noise and the end, in this order; answers are another space,
    relation r having those from r D to r D + D - 1.

    Attributes:
        subjects, relations: S and R.
        choices: D, answers of each relation.
        noise: tokens of noise.
        length: T. A sequence has a subject, a relation and T - 3 tokens of noise at positions that
            no model here sees, and ends in the last token.
        answers: int64 (S, R).
    """

    subjects: int
    relations: int
    choices: int
    noise: int
    length: int
    answers: Tensor

    @classmethod
    def random(
        cls,
        subjects: int,
        relations: int,
        choices: int,
        noise: int,
        length: int,
        generator: torch.Generator,
    ) -> Facts:
        """Each answer uniform among those of its relation."""
        drawn = torch.randint(choices, (subjects, relations), generator=generator)
        # Block r has the answers r D … r D + D − 1: an answer tells its relation.
        answers = torch.arange(relations) * choices + drawn
        return cls(subjects, relations, choices, noise, length, answers)

    @classmethod
    def structured(
        cls, subjects: int, relations: int, choices: int, noise: int, length: int
    ) -> Facts:
        """Subject j has the choice floor(j D / S) for every relation."""
        # Without chance: the choice is a function of the subject alone, of which D values exist.
        drawn = (torch.arange(subjects) * choices // subjects)[:, None]
        answers = torch.arange(relations) * choices + drawn
        return cls(subjects, relations, choices, noise, length, answers)

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return self.subjects + self.relations + self.noise + 1

    @property
    def end(self) -> int:
        """The token at the end of every sequence."""
        return self.vocabulary - 1

    @property
    def classes(self) -> int:
        """Number of answers, R D."""
        return self.relations * self.choices

    def sequences(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Counts of tokens (size, vocabulary), float32; subjects and relations, int64 (size,)."""
        subject = torch.randint(self.subjects, (size,), generator=generator)
        relation = torch.randint(self.relations, (size,), generator=generator)
        # T − 3: subject, relation and end have the other places.
        noise = torch.randint(self.noise, (size, self.length - 3), generator=generator)
        counts = torch.zeros(size, self.vocabulary)
        noise += self.subjects + self.relations
        counts.scatter_add_(1, noise, torch.ones(noise.shape))
        rows = torch.arange(size)
        # No model here sees positions, so a sequence is drawn as the counts of its tokens.
        counts[rows, subject] = 1.0
        counts[rows, self.subjects + relation] = 1.0
        counts[:, self.end] = 1.0
        return counts, subject, relation
