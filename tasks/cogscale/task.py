"""The fourteen tasks of CogScale on the data of its package.

Source: Bendi-Ouis, de Coudenhove and Hinaut 2026, "CogScale: Scalable Benchmark for Sequence
Processing" (arXiv 2605.19758); package cogscale 0.2.0 (PyPI, MIT), ``baseline/scripts/run.py`` of
its source distribution for what is trained and how it is scored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tasks.cogscale.package import PackageData, Sequences, check_version, make
from tasks.cogscale.predictors import causal_oracle, shortcuts
from tasks.interface import Batch, Evaluation, Metric, Split, Task

TASK_NAMES = (
    "sinus_forecasting",
    "chaotic_forecasting",
    "discrete_postcasting",
    "continuous_postcasting",
    "discrete_pattern_completion",
    "continuous_pattern_completion",
    "bracket_matching",
    "simple_copy",
    "selective_copy",
    "adding_problem",
    "sorting_problem",
    "cross_situation",
    "associative_recall",
    "induction_heads",
)
DIFFICULTIES = ("small", "medium", "large")
SEQUENCES_AT_ONCE = 100
CERTAIN = 30.0  # logit of a predictor that gives one answer nearly all probability


class CogScale(Task):
    """A fixed training set of the package, and its validation and test sequences.

    ``error`` is the package's score over all positions that are asked for: the share of wrong
    classes, the share of wrong labels (an output above 0 says yes), or the mean square. ``loss``
    is the same number, since the package chooses a checkpoint by its score. Training minimises the
    cross-entropy, the binary cross-entropy, or the mean square. An epoch goes through the training
    set in an order of its own.

    Example: ``task_name="adding_problem"`` at small size gives twelve positions of five channels: a
    one-hot number from 1 to 3, a mark on two of the first ten, and a trigger; the last position is
    asked for the sum of the marked numbers, one of five classes.

    Args:
        task_name: one of the package's names.
        difficulty: small (100 training sequences) | medium (1,000) | large (10,000). Forecasting
            has one sequence. ``cross_situation`` lists all pairs of sentences first, which takes
            4 GB of memory at medium size and would take some 50 GB at large.
        data_seed: the seed that the package is given; the run's seed orders the training set.

    Raises:
        ValueError: an unknown name, or the package is missing.
    """

    headline: ClassVar[Metric] = Metric("error", "minimise")

    def __init__(
        self, *, task_name: str = "adding_problem", difficulty: str = "small", data_seed: int = 0
    ) -> None:
        if task_name not in TASK_NAMES:
            names = ", ".join(TASK_NAMES)
            raise ValueError(f"task_name={task_name!r} is unknown: give one of {names}")
        if difficulty not in DIFFICULTIES:
            raise ValueError(f"difficulty={difficulty!r}: give one of {', '.join(DIFFICULTIES)}")
        if data_seed < 0:
            raise ValueError(f"data_seed={data_seed} is too small: give at least 0")
        check_version()
        self.task_name, self.difficulty, self.data_seed = task_name, difficulty, data_seed
        self._order: tuple[tuple[int, int], np.ndarray] | None = None

    @cached_property
    def data(self) -> PackageData:
        """What the package makes, with columns in an order that every process has."""
        return make(self.task_name, self.difficulty, self.data_seed)

    def specification(self) -> SequenceSpecification:
        """Real channels, also for symbols, which are one-hot vectors in the package."""
        test = self.data.splits["test"]
        return SequenceSpecification(
            test.inputs.shape[1],
            input_channels=test.inputs.shape[2],
            output_channels=test.targets.shape[2],
        )

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of inputs and targets of each split."""
        return {name: _hash(split) for name, split in self.data.splits.items()}

    def steps_per_epoch(self, size: int) -> int:
        """Steps of a pass over the training set; the last batch of one is filled up."""
        return -(-len(self.data.splits["train"].inputs) // size)

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """float32 (size, time, channels). An epoch's last batch is filled up with the first of its
        order."""
        train = self.data.splits["train"]
        epoch, place = divmod(step, self.steps_per_epoch(size))
        if self._order is None or self._order[0] != (seed, epoch):
            # The run's seed and the epoch are the key of a generator with a counter.
            key = np.array([seed, epoch], dtype=np.uint64)
            order = np.random.Generator(np.random.Philox(key=key)).permutation(len(train.inputs))
            self._order = (seed, epoch), order
        rows = np.resize(self._order[1], self.steps_per_epoch(size) * size)
        chosen = torch.from_numpy(rows[place * size : (place + 1) * size])
        return _batch(Sequences(train.inputs[chosen], train.targets[chosen]))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean over the positions that are asked for, as the package trains its baselines."""
        asked = Sequences(batch.inputs, batch.targets).asked
        answers, targets = outputs[asked].float(), batch.targets[asked]
        if self.data.category == "classification":
            return functional.cross_entropy(answers, targets.argmax(-1))
        if self.data.category == "multi_classification":
            return functional.binary_cross_entropy_with_logits(answers, targets)
        return functional.mse_loss(answers, targets)

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """The package's score, over all sequences and of each."""
        sequences = self.data.splits[split]
        answers = [model(x.to(device)).cpu() for x in sequences.inputs.split(SEQUENCES_AT_ONCE)]
        return self.measured(torch.cat(answers), split)

    def measured(self, answers: Tensor, split: Split) -> Evaluation:
        """The score of answers (count, time, outputs). All sequences of a task ask equally often,
        so that the mean over sequences is that over positions."""
        sequences = self.data.splits[split]
        wrong = self._wrong(answers.double(), sequences.targets.double())
        # What is not asked for is no number where a target is −100 in a mean square.
        wrong = torch.where(sequences.asked, wrong, 0)
        each = wrong.sum(1) / sequences.asked.sum(1)
        error = float(each.mean())
        return Evaluation({"loss": error, "error": error}, {"error": each.tolist()})

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """What needs no training: the answer that is best without inputs, shortcuts of a task, and
        the best that a causal model can know."""
        answers: dict[str, Callable[[Sequences], Tensor]] = {}
        label = "mean" if self.data.category == "regression" else "most_frequent"
        answers[label] = self._without_inputs
        answers.update(shortcuts(self.task_name))
        answers["causal oracle"] = partial(causal_oracle, self.task_name, self.difficulty)
        return {name: partial(self._of_predictor, answer) for name, answer in answers.items()}

    def _of_predictor(self, answer: Callable[[Sequences], Tensor], split: Split) -> Evaluation:
        answers = answer(self.data.splits[split])
        if self.data.category == "multi_classification":
            answers = CERTAIN * (2 * answers - 1)
        return self.measured(answers, split)

    def _without_inputs(self, sequences: Sequences) -> Tensor:
        """The mean of the training targets: of classes and labels their frequencies."""
        train = self.data.splits["train"]
        mean = train.targets[train.asked].double().mean(0)
        return mean.expand_as(sequences.targets)

    def _wrong(self, answers: Tensor, targets: Tensor) -> Tensor:
        """How wrong each position is, (count, time)."""
        if self.data.category == "classification":
            # What is no number is no answer, and not class 0.
            right = (answers.argmax(-1) == targets.argmax(-1)) & answers.isfinite().all(-1)
            return 1 - right.double()
        if self.data.category == "multi_classification":
            return ((answers >= 0) != (targets == 1)).double().mean(-1)
        return ((answers - targets) ** 2).mean(-1)


def _batch(sequences: Sequences) -> Batch:
    count, time = sequences.inputs.shape[:2]
    return Batch(sequences.inputs, sequences.targets, count * time)


def _hash(sequences: Sequences) -> str:
    digest = hashlib.sha256()
    for tensor in (sequences.inputs, sequences.targets):
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
