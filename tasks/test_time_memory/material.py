"""What is memorised: random vectors, sequences of numbers, or text with learned keys.

All draws come from generators that are given; the embeddings are fixed by ``data_seed``.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

NUMBERS = 1000  # numbers are 0 to 999


@dataclass(frozen=True)
class Pairs:
    """Pairs to be stored by ``trials`` independent memories.

    Attributes:
        keys: float32 (trials, items, size), unit norm.
        values: float32 (trials, items, size), unit norm.
        labels: int64 (trials, items); answers with the same label are the same answer.
        prompts: what the keys were made of, by trial and item: numbers or words; empty for vectors.
    """

    keys: Tensor
    values: Tensor
    labels: Tensor
    prompts: Sequence[Sequence[Sequence[Any]]] = ()

    def part(self, start: int, stop: int) -> Pairs:
        """The items from ``start`` up to ``stop``."""
        return Pairs(
            self.keys[:, start:stop],
            self.values[:, start:stop],
            self.labels[:, start:stop],
            [items[start:stop] for items in self.prompts],
        )


class Material(ABC):
    """A source of pairs.

    Args:
        size: width of keys and values.
        data_seed: of the embeddings.
    """

    strengths: tuple[float, ...]  # of noise, for ``corrupted``

    def __init__(self, size: int, data_seed: int) -> None:
        self.size = size
        self.data_seed = data_seed

    @abstractmethod
    def pairs(self, trials: int, items: int, generator: torch.Generator) -> Pairs:
        """Fresh pairs with different keys."""

    @abstractmethod
    def corrupted(self, pairs: Pairs, strength: float, generator: torch.Generator) -> Tensor:
        """The keys of noisy or partial prompts, of the shape of ``pairs.keys``."""


def unit(x: Tensor) -> Tensor:
    """Vectors of norm 1."""
    return functional.normalize(x, dim=-1)


class Vectors(Material):
    """Independent random unit vectors; noise of strength σ leaves a cosine of 1/√(1 + σ²)."""

    strengths = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)

    def pairs(self, trials: int, items: int, generator: torch.Generator) -> Pairs:
        """Keys and values of independent random directions; every value has a label of its own."""
        keys, values = torch.randn(2, trials, items, self.size, generator=generator)
        labels = torch.arange(items).expand(trials, items)
        return Pairs(unit(keys), unit(values), labels)

    def corrupted(self, pairs: Pairs, strength: float, generator: torch.Generator) -> Tensor:
        """Keys with a random unit vector added, ``strength`` long, at norm 1 again."""
        noise = unit(torch.randn(pairs.keys.shape, generator=generator))
        return unit(pairs.keys + strength * noise)


class NumberSequences(Material):
    """Sequences of numbers from 0 to 999 (README of suyash144/titans): the last is asked for.

    Every number has a random unit vector for each place in the sequence; the key is the direction
    of the sum over the stem. A noisy prompt has ``strength`` of its numbers replaced.

    Args:
        length: numbers of a sequence, the answer included.
    """

    def __init__(self, size: int, data_seed: int, length: int = 4) -> None:
        super().__init__(size, data_seed)
        if length < 2:
            raise ValueError(f"length={length}: a sequence has a number to ask by and one to find")
        self.length = length
        self.strengths = tuple(float(k) for k in range(length))

    @cached_property
    def embeddings(self) -> Tensor:
        """(places, numbers, size)."""
        generator = torch.Generator().manual_seed(self.data_seed)
        return unit(torch.randn(self.length, NUMBERS, self.size, generator=generator))

    def pairs(self, trials: int, items: int, generator: torch.Generator) -> Pairs:
        """Uniform random sequences; two with one stem are possible."""
        shape = (trials, items, self.length)
        return self.of_sequences(torch.randint(0, NUMBERS, shape, generator=generator))

    def of_sequences(self, sequences: Tensor) -> Pairs:
        """Pairs of given sequences, int64 (trials, items, length)."""
        stems, answers = sequences[..., :-1], sequences[..., -1]
        values = self.embeddings[self.length - 1, answers]
        return Pairs(self.keys_of(stems), values, answers, stems.tolist())

    def keys_of(self, stems: Tensor, first: int = 0) -> Tensor:
        """Keys of the numbers (…, places) that stand from place ``first`` on."""
        places = torch.arange(first, first + stems.shape[-1])
        return unit(self.embeddings[places, stems].sum(-2))

    def corrupted(self, pairs: Pairs, strength: float, generator: torch.Generator) -> Tensor:
        """Keys of stems in which ``strength`` numbers, at random places, are others."""
        stems = torch.tensor(pairs.prompts)
        # A random order of places: the first ``strength`` of them are replaced.
        order = torch.rand(stems.shape, generator=generator).argsort(-1)
        others = torch.randint(0, NUMBERS, stems.shape, generator=generator)
        return self.keys_of(torch.where(order < strength, others, stems))


class Sentences(Material):
    """Sentences of generated stories: the first half finds the second, by learned projections.

    A half is a count of hashed character trigrams. Keys and values are linear maps of it, learned
    on other stories: a half with words left out should be nearest to the half that it came from
    (InfoNCE), which keeps the maps from sending all text to one direction. A noisy prompt has
    ``strength`` of its words, as a share, left out.
    """

    strengths = (0.0, 0.2, 0.4, 0.6)
    FEATURES = 1024
    TRAINING_SENTENCES = 512
    STEPS = 60
    TEMPERATURE = 0.1

    def pairs(self, trials: int, items: int, generator: torch.Generator) -> Pairs:
        """First halves of sentences as keys and second halves as values, of fresh stories."""
        first = int(torch.randint(2**20, 2**40, (), generator=generator))
        halves = self._sentences(trials * items, first)
        keys = self._projected(0, [" ".join(stem) for stem, _ in halves])
        values = self._projected(1, [rest for _, rest in halves])
        label_of: dict[str, int] = {}
        # Equal continuations get one label: either is a right answer.
        labels = torch.tensor([label_of.setdefault(rest, len(label_of)) for _, rest in halves])
        stems = [stem for stem, _ in halves]
        prompts = [stems[k : k + items] for k in range(0, len(stems), items)]
        shape = (trials, items, self.size)
        return Pairs(keys.view(shape), values.view(shape), labels.view(trials, items), prompts)

    def corrupted(self, pairs: Pairs, strength: float, generator: torch.Generator) -> Tensor:
        """Keys of first halves with the share ``strength`` of their words left out."""
        stems = [list(stem) for items in pairs.prompts for stem in items]
        shorter = [self._thinned(stem, strength, generator) for stem in stems]
        return self._projected(0, shorter).view(pairs.keys.shape)

    def _sentences(self, count: int, first: int) -> list[tuple[list[str], str]]:
        """Different stems with their continuations, from stories ``first``, ``first`` + 1, …"""
        from tasks.text.grammar.stories import story

        halves_by_stem: dict[str, tuple[list[str], str]] = {}
        index = first
        while len(halves_by_stem) < count:
            for sentence in story(self.data_seed, index).replace("!", ".").split(". "):
                words = sentence.split()
                stem, rest = words[: len(words) // 2], words[len(words) // 2 :]
                if len(stem) >= 3 and len(halves_by_stem) < count:
                    halves_by_stem.setdefault(" ".join(stem), (stem, " ".join(rest)))
            index += 1
        return list(halves_by_stem.values())

    def _thinned(self, words: list[str], share: float, generator: torch.Generator) -> str:
        keep = torch.rand(len(words), generator=generator) >= share
        # never without a word
        return " ".join(w for w, k in zip(words, keep.tolist(), strict=True) if k) or words[0]

    def _features(self, texts: list[str]) -> Tensor:
        places: list[int] = []
        for row, text in enumerate(texts):
            padded = f" {text.lower()} "
            grams = (padded[k : k + 3] for k in range(len(padded) - 2))
            places += [row * self.FEATURES + _hashed(gram) for gram in grams]
        counts = torch.bincount(torch.tensor(places), minlength=len(texts) * self.FEATURES)
        # Square roots damp trigrams that repeat; then to norm 1, as a kernel over shares.
        return unit(counts.view(len(texts), self.FEATURES).float().sqrt())

    def _projected(self, which: int, texts: list[str]) -> Tensor:
        return unit(self._features(texts) @ self._projections[which])

    @cached_property
    def _projections(self) -> tuple[Tensor, Tensor]:
        """The learned projections of keys and of values, each (features, size)."""
        generator = torch.Generator().manual_seed(self.data_seed)
        halves = self._sentences(self.TRAINING_SENTENCES, 0)
        stems = [stem for stem, _ in halves]
        rests = [rest.split() for _, rest in halves]
        return self._learned(stems, generator), self._learned(rests, generator)

    def _learned(self, texts: list[list[str]], generator: torch.Generator) -> Tensor:
        whole = self._features([" ".join(words) for words in texts])
        start = torch.randn(self.FEATURES, self.size, generator=generator) / self.FEATURES**0.5
        with torch.enable_grad():
            projection = start.requires_grad_()
            optimizer = torch.optim.Adam([projection], lr=1e-2)
            for _ in range(self.STEPS):
                thinned = self._features([self._thinned(w, 0.3, generator) for w in texts])
                scores = unit(thinned @ projection) @ unit(whole @ projection).T
                # InfoNCE: the other sentences of the batch are the wrong answers.
                loss = functional.cross_entropy(scores / self.TEMPERATURE, torch.arange(len(texts)))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return projection.detach()


@cache
def _hashed(gram: str) -> int:
    # crc32 and not ``hash``, which differs from process to process.
    return zlib.crc32(gram.encode()) % Sentences.FEATURES


MATERIALS = {
    "vectors": Vectors,
    "numbers": NumberSequences,
    "text": Sentences,
    "integers": NumberSequences,
}
