"""Linear regression in context, by sequence models.

Source: Garg et al. 2022, "What can transformers learn in-context? A case study of simple function
classes" (arXiv 2208.01066), sections 3 and 4.1: the prompt x_1, f(x_1), x_2, f(x_2) …, in which the
value after each vector is to be predicted. Tokens that hold a vector and its value together are
those of von Oswald et al. 2022 (arXiv 2212.07677), with whom the comparison with gradient steps
began; that with ridge is of Akyürek et al. 2022 (arXiv 2211.15661).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property, partial
from typing import ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tasks.in_context_regression.draws import STREAMS, TRAIN, Drawn, Functions, Numbers, check_sizes
from tasks.in_context_regression.predictors import references
from tasks.in_context_regression.scores import measured
from tasks.interface import Batch, Evaluation, Metric, Split, Task

Tokens = Literal["pairs", "alternating"]
SEQUENCES_AT_ONCE = 256


class InContextRegression(Task):
    """Predict the value of a linear function at a vector from the pairs before it.

    Position 2k holds vector x_k in the first d channels and 0 in the last one: its value is asked
    for. Position 2k + 1 holds the value in the last channel, and in the others x_k again ("pairs")
    or 0 ("alternating"). With pairs a position is what a memory writes, and one layer of linear
    attention is one gradient step; with alternating tokens a model must first bring each value to
    its vector. Metrics and curves are those of
    :func:`tasks.in_context_regression.scores.measured`, and ``loss``, the squared error against the
    values as they are seen.

    Example: ``dimension=2, pairs=2``, the first training sequence of seed 0, a column for a
    position; the loss counts where a vector stands (x), and not where its value is shown:

        alternating  -.21   0   -.29   0   -1.41      pairs  -.21 -.21  -.29  -.29 -1.41
                     -.13   0  -1.27   0     .04             -.13 -.13 -1.27 -1.27   .04
                       0   .02    0  -.44     0                 0  .02     0  -.44     0
        target       .02    .  -.44    .   .56               .02    .  -.44     .   .56

    A model must solve for w from the pairs that it has read: .56 = w · (-1.41, .04). Without them
    the best answer is 0, with a squared error of 1, the variance of a value.

    Args:
        tokens: "pairs" or "alternating".
        dimension: d of the vectors.
        pairs: before the last query.
        noise: standard deviation of what is added to values, whose own is 1.
        validation_size, test_size: sequences, the same for every model.
        data_seed: seed of all data; the run's seed is mixed into the training batches.

    Raises:
        ValueError: unknown tokens, a number out of range, or fewer pairs than dimensions.
    """

    headline: ClassVar[Metric] = Metric("error", "minimise")

    def __init__(
        self,
        *,
        tokens: Tokens = "alternating",
        dimension: int = 20,
        pairs: int = 40,
        noise: float = 0.0,
        validation_size: int = 256,
        test_size: int = 1280,
        data_seed: int = 0,
    ) -> None:
        if tokens not in get_args(Tokens):
            raise ValueError(f"tokens={tokens!r} is none of {', '.join(get_args(Tokens))}")
        check_sizes(validation_size=validation_size, test_size=test_size, data_seed=data_seed)
        self.functions = Functions(dimension, pairs, noise)
        self.sizes = {"validation": validation_size, "test": test_size}
        self.tokens, self.data_seed = tokens, data_seed

    @cached_property
    def splits(self) -> dict[str, Drawn]:
        """The fixed sequences of "validation" and "test"."""
        return {name: self._draw(size, STREAMS[name]) for name, size in self.sizes.items()}

    @cached_property
    def known(self) -> dict[str, dict[str, Numbers]]:
        """Split -> label -> answers of the predictors without training."""
        return {name: references(self.functions, drawn) for name, drawn in self.splits.items()}

    def specification(self) -> SequenceSpecification:
        """2 pairs + 1 positions of d + 1 channels in, one channel out."""
        return SequenceSpecification(
            # 2 (pairs + 1) tokens without the last value, which is asked for.
            2 * self.functions.pairs + 1,
            input_channels=self.functions.dimension + 1,
            output_channels=1,
        )

    def data_hashes(self) -> dict[str, str]:
        """ "train" is what seed 0 draws first."""
        drawn = {"train": [self._draw(16, TRAIN, 0, step) for step in range(4)]}
        drawn |= {name: [split] for name, split in self.splits.items()}
        hashes = {}
        for name, parts in drawn.items():
            digest = hashlib.sha256()
            for part in parts:
                part.update(digest)
            hashes[name] = digest.hexdigest()
        return hashes

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """float32 (batch, 2 pairs + 1, d + 1), and the values (batch, 2 pairs + 1, 1) at the
        positions of vectors, 0 at the others."""
        inputs, values = self._sequences(self._draw(size, TRAIN, seed, step))
        targets = inputs.new_zeros(*inputs.shape[:2], 1)
        # 0 at the positions of values, which the loss does not read.
        targets[:, ::2, 0] = values
        return Batch(inputs, targets, tokens=inputs.shape[0] * inputs.shape[1])

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean squared error at the positions of vectors, against values as they are seen."""
        # Even positions hold vectors; the outputs at values are not looked at.
        return functional.mse_loss(outputs[:, ::2].float(), batch.targets[:, ::2])

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """The metrics of :func:`tasks.in_context_regression.scores.measured`, and ``loss``."""
        drawn = self.splits[split]
        answers = self._answers(model, drawn, device)
        return measured(answers, drawn, self.known[split], loss=_loss(answers, drawn))

    def validation_loss(self, model: nn.Module, device: torch.device | str) -> float:
        """Mean squared error against noisy values, over all queries."""
        drawn = self.splits["validation"]
        return _loss(self._answers(model, drawn, device), drawn)

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """Zero, gradient steps towards least squares, and ridge, each from the pairs before a
        query."""
        # Labels alone, so that nobody who asks for one computes all.
        labels = references(self.functions, self.functions.draw(1, 0))
        return {label: partial(self._of_predictor, label=label) for label in labels}

    def _of_predictor(self, split: Split, label: str) -> Evaluation:
        drawn, answers = self.splits[split], self.known[split]
        return measured(answers[label], drawn, answers, loss=_loss(answers[label], drawn))

    def _draw(self, count: int, *key: int) -> Drawn:
        return self.functions.draw(count, self.data_seed, *key)

    def _sequences(self, drawn: Drawn) -> tuple[Tensor, Tensor]:
        """Inputs as a model sees them, and the values at its queries."""
        count, queries, size = drawn.vectors.shape
        inputs = np.zeros((count, 2 * queries, size + 1), dtype=np.float32)
        inputs[:, ::2, :size] = drawn.vectors
        # The last channel is that of values; vectors have 0 there.
        inputs[:, 1::2, size] = drawn.observed
        if self.tokens == "pairs":
            inputs[:, 1::2, :size] = drawn.vectors
        # The value of the last vector is asked for, and never shown.
        return torch.from_numpy(inputs[:, :-1]), torch.from_numpy(drawn.observed.astype("f4"))

    def _answers(self, model: nn.Module, drawn: Drawn, device: torch.device | str) -> Numbers:
        inputs, _ = self._sequences(drawn)
        parts = [model(part.to(device))[:, ::2, 0] for part in inputs.split(SEQUENCES_AT_ONCE)]
        return torch.cat(parts).double().cpu().numpy()


def _loss(answers: Numbers, drawn: Drawn) -> float:
    return float(((answers - drawn.observed) ** 2).mean())
