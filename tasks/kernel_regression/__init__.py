"""Regression by a memory of many noisy pairs: does what it answers approach the conditional mean?

Zhang et al., "Memory Mosaics" (ICLR 2025, arXiv 2405.06394), section 3: Gaussian kernel regression
over n stored pairs with β = √n converges to E(V | K) (Nadaraya 1964; Watson 1964).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast, get_args

import torch
from torch import Tensor

from models.memories.interface import Memory
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Diverged, Measurement
from tasks.refusals import check_whole_numbers
from tasks.seeds import generator_of

SCORES_AT_ONCE = 2**24  # distances of queries and pairs


class KernelRegression(Measurement):
    """Error of a memory about the mean value at fresh keys, against the number n of pairs it holds.

    Keys are uniform in the unit cube of d dimensions; a value is f(k) = √(2/d) Σ_j cos(2π k_j),
    whose variance is 1, and normal noise. The pairs of fewer n are the first of those of more.

    Example: ``dimension=1, pairs=[2, 4], noise=0.5``, one trial of the test of seed 0, answered by
    the nearest of the pairs, which are written from left to right:

        key     .98   .78 | .19   .02        query                .27   .31
        value   .67  -.42 | .62  1.10        f(query)            -.15  -.52
                                             answer of 2 pairs   -.42  -.42
                                             answer of 4 pairs    .62   .62

    A memory must average the noise away and still follow f: one that answers 0 errs by 1, one that
    answers the nearest value by the variance of the noise, however many pairs it holds.

    Args:
        dimension: d of the keys.
        pairs: rising numbers n.
        noise: standard deviation of what is added to values.
        queries: keys that each memory is asked for.
        trials: independent memories.

    Raises:
        ValueError: a number out of range.
    """

    headline = Metric("error", "minimise")

    def __init__(
        self,
        dimension: int = 3,
        pairs: Sequence[int] = (64, 256, 1024, 4096, 16384),
        noise: float = 0.5,
        queries: int = 256,
        trials: int = 8,
    ) -> None:
        for name, value in (("dimension", dimension), ("queries", queries), ("trials", trials)):
            if value < 1:
                raise ValueError(f"{name}={value} is too small: give at least 1")
        check_whole_numbers("pairs", pairs)
        if not all(a < b for a, b in pairwise(pairs)):
            raise ValueError(f"tasks.pairs is {list(pairs)}, expected rising numbers")
        if not 0 <= noise < math.inf:
            raise ValueError(f"noise={noise} is no standard deviation: give 0 or more")
        self.dimension, self.pairs, self.noise = dimension, list(pairs), noise
        self.queries, self.trials = queries, trials

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the keys, noise and queries of the first trial of seed 0."""
        hashes = {}
        for split in get_args(Split):
            digest = hashlib.sha256()
            for drawn in self._draw(split, 0, trials=1):
                digest.update(drawn.numpy().tobytes())
            hashes[split] = digest.hexdigest()
        return hashes

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """``arrays["errors/n=…"]`` holds the mean squared error of each trial, the curve ``error``
        their means; ``state_bytes`` is what one memory keeps in the end.

        Raises:
            Diverged: an answer that is no number.
        """
        keys, noise, queries = self._draw(split, seed, self.trials)
        values, wanted = self.mean_value(keys) + noise, self.mean_value(queries)
        keys, values, queries, wanted = (x.to(device) for x in (keys, values, queries, wanted))
        memory = cast(Memory, build(self.dimension, 1, seed=seed))
        evaluation, means, held = Evaluation({}), [], 0
        with torch.no_grad():
            for done, count in enumerate(self.pairs):
                report(f"{count} pairs", done, len(self.pairs))
                # What fewer pairs left is still there: only those that are new are written.
                memory.write(keys[:, held:count], values[:, held:count, None])
                held = count
                errors = (self._answers(memory, queries, count) - wanted).square().mean(1)
                if not errors.isfinite().all():
                    raise Diverged(f"a memory of {count} pairs answers with no number")
                evaluation.arrays[f"errors/n={count}"] = errors.tolist()
                means.append(errors.mean().item())
        report("measured", len(self.pairs), len(self.pairs))
        evaluation.curves["error"] = {"x": [float(n) for n in self.pairs], "y": means}
        evaluation.metrics["error"] = means[-1]
        evaluation.metrics["state_bytes"] = memory.size_in_bytes() / self.trials
        return evaluation

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """Two answers without a memory: the mean of all values, 0, and f itself."""
        return {
            "zero": lambda split: self._of_answers(split, 0.0),
            "oracle": lambda split: self._of_answers(split, 1.0),
        }

    def mean_value(self, keys: Tensor) -> Tensor:
        """f of keys (…, d), in the shape (…)."""
        # cos, whose slope is 0 at the faces of the cube: an average over half a neighbourhood there
        # is as good as one over a whole one.
        return math.sqrt(2 / self.dimension) * torch.cos(2 * math.pi * keys).sum(-1)

    def _of_answers(self, split: Split, share: float) -> Evaluation:
        """What is measured of answers that are f times ``share``."""
        _, _, queries = self._draw(split, 0, self.trials)
        wanted = self.mean_value(queries)
        error = (share * wanted - wanted).square().mean().item()
        x = [float(n) for n in self.pairs]
        return Evaluation({"error": error}, curves={"error": {"x": x, "y": [error] * len(x)}})

    def _draw(self, split: Split, seed: int, trials: int) -> tuple[Tensor, Tensor, Tensor]:
        """Keys (trials, n, d), noise (trials, n) and queries (trials, queries, d), float32."""
        keys, noise, queries = [], [], []
        for trial in range(trials):
            generator = generator_of("kernel_regression", split, seed, trial)
            # Queries first: more pairs then leave them as they are.
            queries.append(torch.rand(self.queries, self.dimension, generator=generator))
            keys.append(torch.rand(self.pairs[-1], self.dimension, generator=generator))
            noise.append(self.noise * torch.randn(self.pairs[-1], generator=generator))
        return torch.stack(keys), torch.stack(noise), torch.stack(queries)

    def _answers(self, memory: Memory, queries: Tensor, count: int) -> Tensor:
        """(trials, queries), so many queries at once that their distances fit."""
        at_once = max(1, SCORES_AT_ONCE // (self.trials * count))
        parts = [memory.read(part).values[..., 0] for part in queries.split(at_once, 1)]
        return torch.cat(parts, 1)
