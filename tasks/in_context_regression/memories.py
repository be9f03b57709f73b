"""Linear regression by memories: the pairs are written one after another, and each vector is asked
for before its value is written.

The functions, the scores and the predictors beside them are those of
:class:`tasks.in_context_regression.task.InContextRegression`.
"""

from __future__ import annotations

import hashlib
from typing import cast

import numpy as np
import torch

from models.memories.interface import Memory
from tasks.in_context_regression.draws import STREAMS, Drawn, Functions, Numbers, check_sizes
from tasks.in_context_regression.predictors import references
from tasks.in_context_regression.scores import measured
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Diverged, Measurement


class MemoryRegression(Measurement):
    """Memories as they are, with keys of the length that they are made for.

    Since f(x / |x|) = f(x) / |x|, the pair x / |x|, f(x) / |x| tells the same of a linear function
    as x, f(x). So keys are unit vectors, and |x| times the answer at x / |x| is that at x: a matrix
    loses nothing by it, and kernels and steps have the scale of their defaults.

    Example: ``dimension=2, pairs=2, sequences=1``, test of seed 0, answered by the delta rule:

        vector  (-.05, -.26)   (2.90, .87)   (-.24, -.34)
        value        .18          -3.14           .41
        answer       0             -.96           .50       each before its value is written

    A memory must generalise from the vectors that it holds to another one; the empty memory
    answers 0, with a squared error of 1 on average, the variance of a value.

    Args:
        dimension: d of the vectors.
        pairs: before the last query.
        noise: standard deviation of what is added to values, whose own is 1.
        sequences: independent memories, of new functions for every seed.

    Raises:
        ValueError: a number out of range, or fewer pairs than dimensions.
    """

    headline = Metric("error", "minimise")

    def __init__(
        self, dimension: int = 20, pairs: int = 40, noise: float = 0.0, sequences: int = 1280
    ) -> None:
        check_sizes(sequences=sequences)
        self.functions = Functions(dimension, pairs, noise)
        self.sequences = sequences

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of what seed 0 draws in each split."""
        hashes = {}
        for split in STREAMS:
            digest = hashlib.sha256()
            self._draw(cast(Split, split), 0).update(digest)
            hashes[split] = digest.hexdigest()
        return hashes

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """``state_bytes`` is what one memory keeps in the end."""
        drawn = self._draw(split, seed)
        memory = cast(Memory, build(self.functions.dimension, 1, seed=seed))
        with torch.no_grad():
            answers = self._answers(memory, drawn, device, report)
        if not np.isfinite(answers).all():
            # The first query, counted from 1, that some memory answers with no number.
            lost = 1 + int(np.isfinite(answers).all(0).argmin())
            raise Diverged(f"the memory answers query {lost} of {answers.shape[1]} with no number")
        return measured(
            answers,
            drawn,
            references(self.functions, drawn),
            state_bytes=memory.size_in_bytes() / self.sequences,
        )

    def _draw(self, split: Split, seed: int) -> Drawn:
        # The seed of a task's data stands first there, and is 0 unless someone asks for others.
        return self.functions.draw(self.sequences, 0, STREAMS[split], seed)

    def _answers(
        self, memory: Memory, drawn: Drawn, device: torch.device | str, report: Report
    ) -> Numbers:
        """Answers (sequences, queries), in float32 as memories are built."""
        # |x| is divided out of keys and values, and multiplied back to the answer.
        lengths = np.linalg.norm(drawn.vectors, axis=-1, keepdims=True)
        keys, values = (
            torch.from_numpy((part / lengths).astype("f4")).to(device)
            for part in (drawn.vectors, drawn.observed[..., None])
        )
        answers = []
        for k in range(keys.shape[1]):
            report("pairs written", k, keys.shape[1])
            # Asked before it is written: the value of x_k is not in the memory yet.
            answers.append(memory.read(keys[:, k : k + 1]).values)
            memory.write(keys[:, k : k + 1], values[:, k : k + 1])
        return torch.cat(answers, 1).double().cpu().numpy()[..., 0] * lengths[..., 0]
