"""The base of tasks whose sequences a function draws: only that function has to be written.

Example, the whole of a task::

    class CopyFirst(GeneratedTask):
        vocabulary, length = 16, 32

        def draw(self, generator, count):
            tokens = generator.integers(0, self.vocabulary, (count, self.length))
            return tokens, tokens[:, :1].repeat(self.length, axis=1)

Inputs are tokens, or real channels; targets are tokens, classes or real numbers; a mask, or -100,
says where nothing is asked.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tasks.drawn import Array, Drawing
from tasks.interface import IGNORED, Batch, Evaluation, Metric, Split, Task

MASK = "asked"  # among the extras of a batch: bool (batch, time), where a real target is asked for
# Streams of random numbers, of which no two have a key in common.
TRAIN, VALIDATION, TEST = 0, 1, 2
HASHED_STEPS, HASHED_SIZE = 4, 16  # of the training of seed 0, which stand for all of it
SEQUENCES_AT_ONCE = 64


class MaskedBatch(Batch):
    """A batch with real targets that are not asked for everywhere: ``extras["asked"]`` says where.

    ``asked`` counts target numbers (positions times channels), by which parts of a batch are
    weighted.
    """

    @property
    def asked(self) -> int:
        """How many target numbers the loss is a mean over."""
        return int(self.extras[MASK].sum()) * self.targets.shape[-1]

    def rows(self, start: int, stop: int) -> MaskedBatch:
        """The sequences from ``start`` up to ``stop``, as :meth:`Batch.rows`."""
        return _masked(super().rows(start, stop))

    def to(self, device: torch.device | str) -> MaskedBatch:
        """The same batch on ``device``."""
        return _masked(super().to(device))


def _masked(batch: Batch) -> MaskedBatch:
    return MaskedBatch(batch.inputs, batch.targets, batch.tokens, batch.extras)


class GeneratedTask(Task):
    """Sequences that :meth:`draw` makes, anew in every training step; those of validation and test
    are fixed.

    A class sets ``length`` and, of these, what a model reads and answers:

    * ``vocabulary``: tokens in, and answers among the same tokens;
    * ``channels`` and ``classes``: real vectors in, one of so many classes out;
    * ``channels`` and ``outputs``: real vectors in, real vectors out.

    Real inputs and targets are float32. Sequences may be as short as :meth:`draw` makes them, all
    of one call alike, and no longer than ``length``.

    Attributes:
        headline: ``accuracy`` where classes or tokens are asked for, ``error`` (the mean square)
            where real numbers are; a class may name another of its metrics.
        evaluation_sequences: how many sequences validation and test have, each.
        data_seed: seed of all data; the run's seed is mixed into the training batches.

    Raises:
        ValueError: the attributes fit none of the three kinds, or a number is below its least.
    """

    length: int
    vocabulary: int | None = None
    channels: int | None = None
    classes: int | None = None
    outputs: int | None = None
    evaluation_sequences: int = 256
    data_seed: int = 0
    headline: ClassVar[Metric]
    # As in the YAML file of a task; a class adds keys of its own, or replaces these.
    card: ClassVar[dict[str, Any]] = {
        "numbers": {"share": ["accuracy"], "error": ["error"], "real": ["*"]}
    }

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        # A class that names no headline gets the usual one of its kind, also in place of the
        # parent's usual one.
        if "headline" not in vars(cls) and getattr(cls, "headline", None) in (None, *_USUAL):
            cls.headline = _USUAL[cls.outputs is not None]

    def __init__(self, evaluation_sequences: int = 256, data_seed: int = 0) -> None:
        if data_seed < 0:
            raise ValueError(f"data_seed={data_seed} is too small: give at least 0")
        self.evaluation_sequences, self.data_seed = evaluation_sequences, data_seed

    @abstractmethod
    def draw(self, generator: np.random.Generator, count: int) -> tuple[Array, ...]:
        """So many sequences, by the numbers of ``generator`` alone.

        Returns:
            Inputs, integers (count, time) or real (count, time, channels); targets, integers
            (count, time) with -100 where nothing is asked, or real (count, time, outputs); and if
            real targets are not asked for everywhere, where they are: bool (count, time).
        """

    def metrics(self, answers: Tensor, targets: Tensor, asked: Tensor) -> dict[str, Tensor]:
        """What is measured of each sequence, beside the loss; override it for more.

        Args:
            answers: (batch, time, classes or outputs), float32.
            targets: as :meth:`draw` gives them.
            asked: bool (batch, time).

        Returns:
            Name -> one value for each sequence, (batch,); what it is for a sequence of which
            nothing is asked does not count.
        """
        count = asked.sum(1).clamp(min=1)
        if targets.is_floating_point():
            squares = ((answers - targets) ** 2).mean(-1)
            return {"error": torch.where(asked, squares, 0).sum(1) / count}
        # What is no number is no answer, and not class 0.
        right = (answers.argmax(-1) == targets) & asked & answers.isfinite().all(-1)
        return {"accuracy": right.sum(1) / count}

    def specification(self) -> SequenceSpecification:
        """Tokens, or real channels with as many outputs as there are classes or real numbers."""
        self._check()
        if self.vocabulary is not None:
            return SequenceSpecification(self.length, vocabulary=self.vocabulary)
        size = self.classes if self.classes is not None else self.outputs
        return SequenceSpecification(
            self.length, input_channels=self.channels, output_channels=size
        )

    def _check(self) -> None:
        kinds = {"vocabulary"}, {"channels", "classes"}, {"channels", "outputs"}
        names = ("vocabulary", "channels", "classes", "outputs")
        sizes = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if set(sizes) not in kinds:
            raise ValueError(
                f"{type(self).__name__} has {' and '.join(sizes) or 'no sizes'}: a task has a "
                "vocabulary, or channels and classes, or channels and outputs"
            )
        if not hasattr(self, "length"):
            raise ValueError(
                f"{type(self).__name__} has no length, the most positions of a sequence: set it "
                "beside the other sizes, as length = 32"
            )
        whole = {**sizes, "length": self.length, "evaluation_sequences": self.evaluation_sequences}
        for name, value in whole.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"{name}={value} of {type(self).__name__}: give a whole number, 1 or more"
                )

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of each split; the first steps of the training of seed 0 stand for "train"."""
        steps = [self.training_batch(0, step, HASHED_SIZE) for step in range(HASHED_STEPS)]
        self._refuse_nothing_asked(steps, f"the first {HASHED_STEPS} batches of a training")
        splits: dict[str, list[Batch]] = {
            "train": steps,
            "validation": [self._split("validation")],
            "test": [self._split("test")],
        }
        return {name: _hash(batches) for name, batches in splits.items()}

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """``size`` sequences that no other step has."""
        return self._batch(size, TRAIN, seed, step)

    def _split(self, split: Split) -> Batch:
        splits: dict[str, Batch] = self.__dict__.setdefault("_splits", {})
        if split not in splits:
            stream = VALIDATION if split == "validation" else TEST
            batch = self._batch(self.evaluation_sequences, stream, 0, 0)
            self._refuse_nothing_asked([batch], f"the {split} split")
            splits[split] = batch
        return splits[split]

    def _batch(self, count: int, stream: int, seed: int, step: int) -> Batch:
        self._check()
        # Counters of one key are far apart, so that no two batches share a number.
        key = np.array([self.data_seed, stream], dtype=np.uint64)
        counter = np.array([0, 0, seed, step], dtype=np.uint64)
        generator = np.random.Generator(np.random.Philox(key=key, counter=counter))
        drawing = Drawing(
            type(self).__name__,
            count,
            self.length,
            self.vocabulary,
            self.channels,
            self.vocabulary if self.vocabulary is not None else self.classes,
            self.outputs,
        )
        inputs, targets, target_mask = drawing.tensors(self.draw(generator, count))
        positions = inputs.shape[0] * inputs.shape[1]
        if target_mask is not None and targets.is_floating_point():
            return _masked(Batch(inputs, targets, positions, {MASK: target_mask}))
        if target_mask is not None:
            # Tokens and classes have a number for "not asked"; real targets need the mask itself.
            targets[~target_mask] = IGNORED
        return Batch(inputs, targets, positions)

    def _refuse_nothing_asked(self, batches: list[Batch], of: str) -> None:
        """Raises:
        ValueError: no target counts, so that nothing could be learned or measured.
        """
        if not any(batch.asked for batch in batches):
            raise ValueError(
                f"draw of {type(self).__name__} asks for nothing in {of}: every target is "
                f"{IGNORED}, or its mask False; give targets that count"
            )

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy, or the mean square, over what is asked for; 0 where nothing is."""
        target_mask = _asked(batch)
        if not batch.targets.is_floating_point():
            flat, targets = outputs.flatten(0, 1).float(), batch.targets.flatten()
            # A sum over a count, not the mean of cross-entropy, which is NaN where nothing is
            # asked.
            total = functional.cross_entropy(flat, targets, ignore_index=IGNORED, reduction="sum")
            return total / target_mask.sum().clamp(min=1)
        squares = ((outputs.float() - batch.targets) ** 2).mean(-1)
        return torch.where(target_mask, squares, 0).sum() / target_mask.sum().clamp(min=1)

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """The loss, and the mean of each of :meth:`metrics` over sequences."""
        parts = self._split(split).to(device).split(SEQUENCES_AT_ONCE)
        return self._measured((model(part.inputs).float(), part) for part in parts)

    def _measured(self, answered: Iterable[tuple[Tensor, Batch]]) -> Evaluation:
        values: dict[str, list[float]] = {}
        loss, total = 0.0, 0
        for answers, part in answered:
            # Means of parts are weighted by what they ask: the loss of a split does not depend on
            # parts.
            loss += float(self.loss(answers, part)) * part.asked if part.asked else 0.0
            total += part.asked
            target_mask = _asked(part)
            for name, of_each in self.metrics(answers, part.targets, target_mask).items():
                if of_each.shape != answers.shape[:1]:
                    raise ValueError(
                        f"metrics of {type(self).__name__} gave {name} of shape "
                        f"{tuple(of_each.shape)}: give one number for each sequence, (batch,)"
                    )
                values.setdefault(name, []).extend(of_each[target_mask.any(1)].double().tolist())
        means = {name: sum(numbers) / len(numbers) for name, numbers in values.items() if numbers}
        return Evaluation({"loss": loss / max(total, 1), **means}, values)

    def predictors(self) -> Mapping[str, Callable[[Batch], Array]]:
        """Further answers without training, by label: each a function of a batch that gives what a
        model would, (batch, time, classes or outputs)."""
        return {}

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """What a predictor knows that sees no inputs, "most_frequent" or "mean", by targets of the
        training; and :meth:`predictors`."""
        usual = "most_frequent" if self.outputs is None else "mean"
        predictors = {usual: self._usual_answer, **self.predictors()}
        return {label: partial(self._of_predictor, answer) for label, answer in predictors.items()}

    def _of_predictor(self, answer: Callable[[Batch], Array], split: Split) -> Evaluation:
        parts = self._split(split).split(SEQUENCES_AT_ONCE)
        return self._measured(
            (torch.from_numpy(np.array(answer(part), dtype=np.float32)), part) for part in parts
        )

    def _usual_answer(self, batch: Batch) -> Array:
        """The logarithms of how often each class is the target, each counted once more than it was
        seen; or the mean target."""
        training = [self.training_batch(0, step, HASHED_SIZE) for step in range(HASHED_STEPS)]
        size = self.specification().output_size
        targets = torch.cat([part.targets[_asked(part)] for part in training])
        if targets.is_floating_point():
            answer = targets.double().mean(0)
        else:
            # Once more than seen: a class that training never shows must not cost infinity.
            counts = torch.bincount(targets, minlength=size).double() + 1
            answer = (counts / counts.sum()).log()
        return answer.expand(*batch.inputs.shape[:2], size).numpy()


_USUAL = (Metric("accuracy", "maximise"), Metric("error", "minimise"))


def _asked(batch: Batch) -> Tensor:
    """Where a batch asks for something, bool (batch, time)."""
    if not batch.targets.is_floating_point():
        return batch.targets != IGNORED
    everywhere = torch.ones(batch.targets.shape[:2], dtype=torch.bool, device=batch.targets.device)
    return batch.extras.get(MASK, everywhere)


def _hash(batches: list[Batch]) -> str:
    digest = hashlib.sha256()
    for batch in batches:
        for tensor in (batch.inputs, batch.targets, _asked(batch)):
            digest.update(f"{tuple(tensor.shape)} {tensor.dtype}\n".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
