"""How many samples one gradient step needs for a global bigram and for copying from the context.

Chen, Bruna and Bietti 2024 (ICLR 2025, arXiv 2406.03068), as stated informally in Bietti 2024,
Associative memories as a tractable building block in transformers (slides): in a toy setting the
feed-forward layer learns the global bigram after O(1) samples, attention after O(N), since its
inputs are noisy. The slides have no protocol; this one is of this project.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, cast, get_args

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from models.memories.interface import Memory
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement
from tasks.refusals import check_number, check_whole_numbers
from tasks.seeds import generator_of

LAYERS = FEED_FORWARD, ATTENTION = "feed_forward", "attention"
ITEMS_AT_ONCE = 1024


class Samples(NamedTuple):
    """Contexts int64 (trials, samples, T) of tokens, and next tokens int64 (trials, samples)."""

    contexts: Tensor
    targets: Tensor


class SamplesToLearn(Measurement):
    """Samples until a memory of the feed-forward layer and one of the attention are half learned.

    A context has T random ones of N tokens, and ends in a trigger. What follows is a common token
    with probability ``share``, whatever the context is: the global bigram. Else it is the token at
    a random place of the context, which a head would have to copy. Embeddings are orthonormal. One
    gradient step from zero on n samples adds (y − 1/K) xᵀ of each, and the 1/K changes no choice,
    so each layer writes its x with y into a memory:

    * the feed-forward layer sees the trigger alone; it is asked what follows the trigger, and has
      learned it where it answers the common token;
    * attention, which is uniform before it is trained, sees the mean of the context; its output
      matrix is asked what each of the N tokens is to be copied as (the recall probe of the slides),
      and has learned the share of those that it answers by themselves.

    Example: ``tokens=[4], length=3, share=0.5``, the first samples of the test of seed 0, where c
    is the common token:

        context   2 0 2   2 0 1   1 0 0   2 0 3   1 3 3   3 3 0
        target      c       c       1       0       c       3

    After these six the trigger has been followed by c three times, and by no other token more than
    once: the feed-forward layer has learned it. Attention has seen token 1 copied once, 0 and 3
    as well, 2 never.

    Args:
        tokens: values of N.
        length: T.
        share: probability of the common token.
        most: n goes up to this many times N, in powers of two.
        trials: independent memories, over which a recall is a mean.

    Raises:
        ValueError: a number out of range.
    """

    headline = Metric("ratio", "maximise")

    def __init__(
        self,
        tokens: Sequence[int] = (32, 64, 128, 256),
        length: int = 8,
        share: float = 0.2,
        most: int = 16,
        trials: int = 64,
    ) -> None:
        check_whole_numbers("tokens", tokens, 2)
        if not all(a < b for a, b in pairwise(tokens)):
            raise ValueError(f"tasks.tokens is {list(tokens)}, expected rising numbers")
        for name, value in (("length", length), ("most", most), ("trials", trials)):
            if value < 1:
                raise ValueError(f"{name}={value} is too small: give at least 1")
        check_number("share", share, 0, 1)
        self.tokens, self.length, self.share = list(tokens), length, share
        self.most, self.trials = most, trials

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the samples of the fewest tokens, of seed 0."""
        hashes = {}
        for split in get_args(Split):
            digest = hashlib.sha256()
            for drawn in self.samples(self.tokens[0], split, 0):
                digest.update(drawn.numpy().tobytes())
            hashes[split] = digest.hexdigest()
        return hashes

    def samples(self, tokens: int, split: Split, seed: int) -> Samples:
        """As many as are ever needed; the common token is number N."""
        shape = (self.trials, self.most * tokens)
        generator = generator_of("samples_to_learn", split, seed, tokens)
        # All drawn before anything is learned: both layers see the same samples.
        contexts = torch.randint(tokens, (*shape, self.length), generator=generator)
        # A target is one of its context's tokens, so that the mean of these is evidence of it.
        place = torch.randint(self.length, (*shape, 1), generator=generator)
        common = torch.rand(shape, generator=generator) < self.share
        targets = contexts.gather(-1, place)[..., 0].masked_fill(common, tokens)
        return Samples(contexts, targets)

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """Curves ``feed_forward/N=…`` and ``attention/N=…``, the recall by samples, means over
        trials; metrics ``samples_to_half/…``, where each first reaches one half, by straight lines
        between its points, left out where it never does; ``ratio``, how many times as many samples
        attention needs at the largest N."""
        evaluation, half = Evaluation({}), 0.5
        for done, tokens in enumerate(self.tokens):
            report(f"{tokens} tokens", done, len(self.tokens))
            samples = self.samples(tokens, split, seed)
            for layer in LAYERS:
                # N + 1 inputs and outputs: the tokens, and the common one.
                memory = cast(Memory, build(tokens + 1, tokens + 1, seed=seed))
                curve = self._learned(memory, layer, tokens, samples, device)
                evaluation.curves[f"{layer}/N={tokens}"] = curve
                reached = _crossing(curve["x"], curve["y"], half)
                if reached is not None:
                    evaluation.metrics[f"samples_to_half/{layer}/N={tokens}"] = reached
        report("measured", len(self.tokens), len(self.tokens))
        last = [f"samples_to_half/{layer}/N={self.tokens[-1]}" for layer in LAYERS]
        needed = [evaluation.metrics.get(name) for name in last]
        # A layer that never learns needs more than were given.
        feed_forward, attention = (x or float(self.most * self.tokens[-1]) for x in needed)
        evaluation.metrics["ratio"] = attention / feed_forward
        return evaluation

    def _learned(
        self, memory: Memory, layer: str, tokens: int, samples: Samples, device: torch.device | str
    ) -> dict[str, list[float]]:
        """The recall after 1, 2, 4 … samples."""
        # Powers of two, since the curve is read over log samples.
        counts = [2**k for k in range(len(samples.targets[0]).bit_length())]
        counts = [count for count in counts if count <= len(samples.targets[0])]
        everything = torch.eye(tokens + 1, device=device).expand(self.trials, -1, -1)
        held, shares = 0, []
        with torch.no_grad():
            for count in counts:
                # In parts: one-hot vectors of all samples would not fit.
                for first in range(held, count, ITEMS_AT_ONCE):
                    part = slice(first, min(first + ITEMS_AT_ONCE, count))
                    inputs = _seen(layer, samples.contexts[:, part], tokens).to(device)
                    targets = samples.targets[:, part].to(device)
                    memory.write(inputs, one_hot(targets, tokens + 1).float())
                held = count
                shares.append(_recall(layer, memory.read(everything).values, tokens))
        return {"x": [float(count) for count in counts], "y": shares}


def _seen(layer: str, contexts: Tensor, tokens: int) -> Tensor:
    """What a layer sees of contexts, float32 (trials, samples, N + 1): the trigger, number N, or
    the mean of the tokens before it."""
    if layer == ATTENTION:
        counts = torch.zeros(*contexts.shape[:-1], tokens + 1)
        # Not the mean of one-hot vectors, which would take T times the memory.
        counts.scatter_add_(-1, contexts, torch.ones(contexts.shape))
        return counts / contexts.shape[-1]
    trigger = torch.full_like(contexts[..., 0], tokens)
    return one_hot(trigger, tokens + 1).float()


def _recall(layer: str, scores: Tensor, tokens: int) -> float:
    """Of scores (trials, inputs, outputs): how often the trigger gives the common token, or the
    share of tokens that give themselves among all N."""
    if layer == FEED_FORWARD:
        return _chosen(scores[:, tokens : tokens + 1], torch.tensor([tokens]))
    return _chosen(scores[:, :tokens, :tokens], torch.arange(tokens))


def _chosen(scores: Tensor, right: Tensor) -> float:
    """The share of rows whose right score is the largest; of equal ones each is chosen as often."""
    # An empty memory has equal scores, and guesses one of all.
    largest = scores == scores.amax(-1, keepdim=True)
    shares = largest.double() / largest.sum(-1, keepdim=True)
    index = right.to(scores.device).expand(scores.shape[:-1])[..., None]
    return shares.gather(-1, index).mean().item()


def _crossing(x: Sequence[float], y: Sequence[float], level: float) -> float | None:
    """Where a curve first reaches a level, by straight lines between its points."""
    if y[0] >= level:
        return x[0]
    for (x0, y0), (x1, y1) in pairwise(zip(x, y, strict=True)):
        if y1 >= level:
            return x0 + (x1 - x0) * (level - y0) / (y1 - y0)
    return None
