"""Examples of the six tasks of MAD, drawn by the rules of the released generators.

Source: Poli et al. 2024, "Mechanistic Design and Scaling of Hybrid Architectures" (arXiv
2403.17844), section 3, and its released code (athms/mad-lab, ``mad/data/instances.py``). Three
points differ, since the released code leaves them to chance: blanks of selective copying come from
the same random numbers as the rest, every noisy sequence holds a pair, and the last key of fuzzy
recall was always shown before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.interface import IGNORED

Integers = NDArray[np.int64]
NOISE_VOCABULARY = 16  # tokens of noisy recall that mean nothing
LONGEST_MOTIF = 3  # tokens of a key or of a value in fuzzy recall


@dataclass(frozen=True)
class Examples:
    """Sequences of one task.

    Attributes:
        inputs: int64 (sequences, length).
        targets: int64 (sequences, length): what is asked at each position, -100 elsewhere.
        trained: int64 (sequences, length): what a training asks, which for recall is every next
            token.
    """

    inputs: Integers
    targets: Integers
    trained: Integers

    def rows(self, chosen: Integers | slice) -> Examples:
        """Some of the sequences."""
        return Examples(self.inputs[chosen], self.targets[chosen], self.trained[chosen])


@dataclass(frozen=True)
class SequenceSizes:
    """The sizes of a task, with the published ones as the baseline of the suite.

    Attributes:
        vocabulary: V, special tokens and noise included.
        length: T. Recall has T - 1 inputs, since the last token is asked and not read.
        noise: share of the pairs of noisy recall that are noise instead.
        to_copy: tokens of selective copying.
    """

    vocabulary: int
    length: int
    noise: float = 0.0
    to_copy: int = 0


Draw = Callable[[np.random.Generator, int, SequenceSizes, bool], Examples]


def recall(
    generator: np.random.Generator, count: int, rule: SequenceSizes, training: bool
) -> Examples:
    """Pairs of a key and its value; a value is asked where its key was seen before.

    Keys are the first half of the tokens and values the second; noise, in pairs, has tokens of its
    own after them. The last pair repeats a key.
    """
    noise_tokens = NOISE_VOCABULARY if rule.noise else 0
    tokens = rule.vocabulary - noise_tokens
    pairs, keys_known = rule.length // 2 - 1, tokens // 2
    # A map of its own for each sequence: weights alone cannot learn it.
    value_of = generator.integers(keys_known, tokens, (count, keys_known))
    keys = generator.integers(0, keys_known, (count, pairs))
    noisy = generator.random((count, pairs)) < rule.noise
    # At least one pair that is no noise, so that there is a key to ask for.
    noisy[np.arange(count), generator.integers(0, pairs, count)] = False
    is_key = (keys[:, :, None] == np.arange(keys_known)) & ~noisy[:, :, None]
    present = is_key.any(1)
    # A random one of the keys that were shown.
    last = np.where(present, generator.random(present.shape), -1.0).argmax(1)
    values = np.take_along_axis(value_of, keys, axis=1)
    filler = generator.integers(tokens, tokens + max(noise_tokens, 1), (count, pairs, 2))
    body = np.where(noisy[:, :, None], filler, np.stack([keys, values], axis=2))
    end = np.stack([last, value_of[np.arange(count), last]], axis=1)
    whole = np.concatenate([body.reshape(count, -1), end], axis=1)
    seen_before = (is_key & (is_key.cumsum(1) > 1)).any(2)
    # Every token after a known key: its value is told by the context.
    is_target = np.zeros(whole.shape, dtype=bool)
    is_target[:, 1:-2:2], is_target[:, -1] = seen_before, True
    return _of_next_tokens(whole, is_target)


def fuzzy_recall(
    generator: np.random.Generator, count: int, rule: SequenceSizes, training: bool
) -> Examples:
    """Keys and values are motifs of one to three different tokens; in a test every key has three.

    Token V-1 fills from the left; keys are the first half of the others, values the second.
    """
    padding = rule.vocabulary - 1
    # Half of the other tokens are keys, the rest values.
    keys_known = padding // 2
    # More pairs than can fit: the shortest pair has two tokens.
    most = rule.length // 2 + 1
    key_sizes = (
        generator.integers(1, LONGEST_MOTIF + 1, (count, most))
        if training
        else np.full((count, most), LONGEST_MOTIF)
    )
    value_sizes = generator.integers(1, LONGEST_MOTIF + 1, (count, most))
    keys = _motifs(generator, count, most, range(keys_known))
    values = _motifs(generator, count, most, range(keys_known, padding))
    places = generator.random(count)
    whole = np.full((count, rule.length + 1), padding)
    is_target = np.zeros(whole.shape, dtype=bool)
    for row in range(count):
        pairs = [
            (tuple(key[:k]), tuple(value[:v]))
            for key, value, k, v in zip(
                keys[row].tolist(),
                values[row].tolist(),
                key_sizes[row].tolist(),
                value_sizes[row].tolist(),
                strict=True,
            )
        ]
        tokens, row_targets = _with_probe(pairs, rule.length, places[row])
        whole[row, -len(tokens) :], is_target[row, -len(tokens) :] = tokens, row_targets
    return _of_next_tokens(whole, is_target)


def _with_probe(
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]], length: int, place: float
) -> tuple[list[int], list[bool]]:
    """The tokens of a sequence of fuzzy recall and which of them are asked: the first pair is shown
    somewhere, at the share ``place`` of the sequence, and comes again at its end."""
    probe, *others = pairs
    room = length - sum(map(len, probe)) - 2 * LONGEST_MOTIF
    # A pair has at most 6 tokens, so one begins between room − 6 and room: the probe is shown.
    at = place * max(room - 2 * LONGEST_MOTIF, 0)
    value_of: dict[tuple[int, ...], tuple[int, ...]] = {}
    tokens: list[int] = []
    is_target: list[bool] = []

    def write(key: tuple[int, ...], value: tuple[int, ...]) -> None:
        # A key that comes again has the value of its first time.
        seen = key in value_of
        value = value_of.setdefault(key, value)
        tokens.extend((*key, *value))
        is_target.extend([False] * len(key) + [seen] * len(value))

    for key, value in others:
        if len(tokens) >= room:
            break
        # The probe must have been shown before it is asked: due once its place is reached.
        due = len(tokens) >= at and probe[0] not in value_of
        if due or key == probe[0]:
            write(*probe)
        else:
            write(key, value)
    write(*probe)
    return tokens, is_target


def selective_copying(
    generator: np.random.Generator, count: int, rule: SequenceSizes, training: bool
) -> Examples:
    """Tokens among blanks, then the token V-1: they are asked in their order at the blanks after
    it. Blanks (V-2) never stand between the last of them and V-1."""
    number = rule.to_copy
    blanks = rule.length - 2 * number - 1
    tokens = generator.integers(0, rule.vocabulary - 2, (count, number))
    # The token V − 2 is blank, V − 1 the sign to copy.
    inputs = np.full((count, rule.length), rule.vocabulary - 2)
    # Where blanks stand: before[i] is the place, among the tokens, that blank i precedes.
    before = np.sort(generator.integers(0, number, (count, blanks)), axis=1)
    so_many = (before[:, :, None] <= np.arange(number)).sum(1)  # blanks before each token
    np.put_along_axis(inputs, so_many + np.arange(number), tokens, axis=1)
    inputs[:, number + blanks] = rule.vocabulary - 1
    targets = np.full(inputs.shape, IGNORED)
    targets[:, -number:] = tokens
    return Examples(inputs, targets, targets)


def compression(
    generator: np.random.Generator, count: int, rule: SequenceSizes, training: bool
) -> Examples:
    """Random tokens and the token V-1, at which the whole input is asked: the target of place t is
    what the output of the last position says of place t."""
    inputs = generator.integers(0, rule.vocabulary - 1, (count, rule.length))
    inputs[:, -1] = rule.vocabulary - 1
    return Examples(inputs, inputs, inputs)


def memorisation(map_seed: np.random.SeedSequence) -> Draw:
    """Keys, each followed by the token V-1, at which its value is asked: the same one in all
    sequences, which no context tells."""

    def draw(
        generator: np.random.Generator, count: int, rule: SequenceSizes, training: bool
    ) -> Examples:
        value_of = fixed_values(map_seed, rule.vocabulary)
        keys = generator.integers(0, len(value_of), (count, rule.length // 2))
        inputs = np.full((count, 2 * keys.shape[1]), rule.vocabulary - 1)
        # Nothing is asked at a key itself.
        targets = np.full(inputs.shape, IGNORED)
        inputs[:, ::2], targets[:, 1::2] = keys, value_of[keys]
        return Examples(inputs, targets, targets)

    return draw


def fixed_values(map_seed: np.random.SeedSequence, vocabulary: int) -> Integers:
    """The value of each key 0, 1, … of memorisation: no two keys have the same."""
    keys = (vocabulary - 1) // 2
    # No two keys share a value: a permutation of the second half of the tokens.
    generator = np.random.Generator(np.random.Philox(map_seed))
    return generator.permutation(np.arange(keys, vocabulary - 1))[:keys]


def _of_next_tokens(whole: Integers, asked: NDArray[np.bool_]) -> Examples:
    """All but the last token are read; the next one is asked where ``asked`` says so."""
    following = whole[:, 1:]
    targets = np.where(asked[:, 1:], following, IGNORED)
    return Examples(whole[:, :-1], targets, following)


def _motifs(generator: np.random.Generator, count: int, most: int, tokens: range) -> Integers:
    """Ordered draws of different tokens: (count, most, LONGEST_MOTIF)."""
    # The order of random marks is an ordered draw without replacement.
    marks = generator.random((count, most, len(tokens)))
    return tokens.start + marks.argsort(axis=2)[:, :, :LONGEST_MOTIF]
