"""MAD: six small tasks that each ask for one ability of a sequence model.

Source: Poli et al. 2024, "Mechanistic Design and Scaling of Hybrid Architectures" (arXiv
2403.17844), section 3, and its released code (athms/mad-lab).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tasks.interface import IGNORED, Batch, Evaluation, Metric, Split, Task
from tasks.mad.sequences import (
    LONGEST_MOTIF,
    NOISE_VOCABULARY,
    Draw,
    Examples,
    SequenceSizes,
    compression,
    fuzzy_recall,
    memorisation,
    recall,
    selective_copying,
)

# The baseline of the suite: what was published for each task, from which one setting is changed at
# a time; and how many training sequences.
PUBLISHED = {
    "in_context_recall": (SequenceSizes(16, 128), 12_800),
    "fuzzy_recall": (SequenceSizes(16, 128), 12_800),
    "noisy_recall": (SequenceSizes(32, 128, noise=0.2), 12_800),
    "selective_copying": (SequenceSizes(16, 256, to_copy=16), 12_800),
    "compression": (SequenceSizes(16, 32), 12_800),
    "memorisation": (SequenceSizes(256, 32), 256),
}
TRAIN, VALIDATION, TEST, MAP, ORDER = range(5)
BLOCK = 64  # sequences that are drawn at once: a larger set starts with the smaller one
POSITIONS_AT_ONCE = 2**14


class Mad(Task):
    """One of six tasks: recall of values, recall of motifs, recall among noise, copying what is no
    blank, compressing a sequence into one position, and facts that only the weights can hold.

    Metrics: ``loss`` (cross-entropy in nats) and ``accuracy`` over all tokens that are asked; curve
    ``accuracy_by_position``. An epoch goes through the training set in an order of its own.

    Compression is asked of the last output alone, which is read by a linear map for every place:
    its models have length × vocabulary outputs, of which place t has those from t × vocabulary on.

    Examples, test sequence 0 at small sizes; a dot is not asked. The last token of a recall is
    asked and not read; training asks all next tokens there, evaluation only those shown:

        in_context_recall  1 7 0 4 2 5 1 7 2 5 1     selective_copying  4 0 4 3 4 1 5 4 4 4
                           . . . . . . 7 . 5 . 7                        . . . . . . . 0 3 1
        memorisation       0 8 3 8 1 8 3 8           compression        0 4 1 4 1 5
                           . 5 . 4 . 6 . 4           (at position 5)    0 4 1 4 1 5

    Recall and copying must look back, compression must hold all in one output, and memorisation
    must know its map by heart. A guess among what may be asked scores, at the published sizes, 1/8
    in the three recalls, 1/14 in copying, 1/15 in all but one place of compression, 1/127 in
    memorisation.

    Args:
        synthetic: in_context_recall | fuzzy_recall | noisy_recall | selective_copying |
            compression | memorisation.
        vocabulary, length: of the sequences; null: as published for this task.
        noise: share of noise among the pairs of noisy recall; null: as published.
        to_copy: tokens of selective copying; null: as published.
        training_examples: sequences of the training set; null: as published.
        validation_size, test_size: sequences; the same for every model.
        data_seed: seed of all data and of the facts; the run's seed orders the training set.

    Raises:
        ValueError: an unknown task, or sizes that its rule has no room for.
    """

    headline: ClassVar[Metric] = Metric("accuracy", "maximise")

    def __init__(
        self,
        *,
        synthetic: str = "in_context_recall",
        vocabulary: int | None = None,
        length: int | None = None,
        noise: float | None = None,
        to_copy: int | None = None,
        training_examples: int | None = None,
        validation_size: int = 1280,
        test_size: int = 1280,
        data_seed: int = 0,
    ) -> None:
        if synthetic not in PUBLISHED:
            names = ", ".join(PUBLISHED)
            raise ValueError(f"synthetic must be one of {names}, got {synthetic!r}")
        usual, examples = PUBLISHED[synthetic]
        self.synthetic = synthetic
        self.rule = SequenceSizes(
            usual.vocabulary if vocabulary is None else vocabulary,
            usual.length if length is None else length,
            usual.noise if noise is None else noise,
            usual.to_copy if to_copy is None else to_copy,
        )
        self.sizes = {
            TRAIN: examples if training_examples is None else training_examples,
            VALIDATION: validation_size,
            TEST: test_size,
        }
        if min(self.sizes.values()) < 1 or data_seed < 0:
            raise ValueError(
                "training_examples, validation_size and test_size are numbers of sequences from 1 "
                f"on, and data_seed counts from 0: got {[*self.sizes.values()]} and {data_seed}"
            )
        self.data_seed = data_seed
        _check_room(synthetic, self.rule)
        self._order: tuple[tuple[int, int], np.ndarray] | None = None

    @cached_property
    def splits(self) -> dict[int, Examples]:
        """The fixed sequences of TRAIN, VALIDATION and TEST."""
        return {split: self._drawn(split, size) for split, size in self.sizes.items()}

    def specification(self) -> SequenceSpecification:
        """Tokens; a model of compression has an output for each place and token."""
        rule = self.rule
        places = rule.length if self._compresses else 1
        # Compression reads one position for all places: one output for each place and token.
        return SequenceSpecification(rule.length, vocabulary=rule.vocabulary * places)

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of inputs, targets and what is trained, of each split."""
        names = {"train": TRAIN, "validation": VALIDATION, "test": TEST}
        return {name: _hash(self.splits[split]) for name, split in names.items()}

    def steps_per_epoch(self, size: int) -> int:
        """Passes over a fixed training set; the last batch of one is filled up."""
        return -(-self.sizes[TRAIN] // size)

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """int64 (batch, time). An epoch's last batch is filled up with the first of its order."""
        epoch, place = divmod(step, self.steps_per_epoch(size))
        if self._order is None or self._order[0] != (seed, epoch):
            order = self._generator(ORDER, seed, epoch).permutation(self.sizes[TRAIN])
            self._order = (seed, epoch), order
        # Cyclic: the last batch of an epoch is filled with the first sequences of its order.
        rows = np.resize(self._order[1], self.steps_per_epoch(size) * size)
        chosen = self.splits[TRAIN].rows(rows[place * size : (place + 1) * size])
        inputs, targets = torch.from_numpy(chosen.inputs), torch.from_numpy(chosen.trained)
        return Batch(inputs, targets, tokens=inputs.numel())

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy of the tokens that are asked, in nats."""
        return functional.cross_entropy(
            self._scores(outputs).flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED
        )

    def training_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The same, of compression from the last position alone where the model can give it
        alone."""
        return self.loss(self._outputs(model, batch.inputs), batch)

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """Accuracy and cross-entropy in nats over all tokens that are asked."""
        examples = self.splits[VALIDATION if split == "validation" else TEST]
        loss, answers = 0.0, []
        for inputs, targets in _parts(examples):
            scores = self._scores(self._outputs(model, inputs.to(device))).cpu()
            # A sum over tokens, divided in the end: parts need not ask equally much.
            loss += functional.cross_entropy(
                scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
            ).item()
            answers.append(scores.argmax(-1).numpy())
        count = int((examples.targets != IGNORED).sum())
        return _measured(examples, np.concatenate(answers), loss / count)

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """A guess among the tokens that may be asked, and the right answers."""

        def oracle(split: Split) -> Evaluation:
            examples = self.splits[VALIDATION if split == "validation" else TEST]
            return _measured(examples, examples.targets, 0.0)

        return {"uniform": lambda split: self._uniform(), "oracle": oracle}

    @property
    def _compresses(self) -> bool:
        return self.synthetic == "compression"

    def _outputs(self, model: nn.Module, inputs: Tensor) -> Tensor:
        """All outputs; for compression the last one alone, where the model can give it alone."""
        if self._compresses and hasattr(model, "hidden"):
            last = model.hidden(inputs)[:, -1:]  # type: ignore[operator]
            return last @ model.output_matrix.T
        outputs: Tensor = model(inputs)
        return outputs

    def _scores(self, outputs: Tensor) -> Tensor:
        """float32 (batch, time, vocabulary): what is said of every place."""
        if self._compresses:
            outputs = outputs[:, -1].unflatten(-1, (self.rule.length, self.rule.vocabulary))
        return outputs.float()

    def _uniform(self) -> Evaluation:
        """A guess among the tokens that may be the answer at a position."""
        rule, places = self.rule, 1
        if self.synthetic == "selective_copying":
            choices = rule.vocabulary - 2
        elif self._compresses:  # the last place holds its own token
            choices, places = rule.vocabulary - 1, rule.length
        elif self.synthetic == "memorisation":
            choices = (rule.vocabulary - 1) // 2
        else:
            tokens = rule.vocabulary - (NOISE_VOCABULARY if rule.noise else 0)
            tokens -= self.synthetic == "fuzzy_recall"
            # Values are the second half of the tokens; noise and filler are no answers.
            choices = tokens - tokens // 2
        # Of compression one place in T needs no memory: the last, which holds its own token.
        free = 1 / places if places > 1 else 0.0
        accuracy = free + (1 - free) / choices
        guess = {"x": [0.0, rule.length - 1.0], "y": [accuracy, accuracy]}
        if places > 1:
            at = [*map(float, range(places))]
            guess = {"x": at, "y": [1 / choices] * (places - 1) + [1.0]}
        metrics = {"accuracy": accuracy, "loss": (1 - free) * math.log(choices)}
        return Evaluation(metrics, curves={"accuracy_by_position": guess})

    def _drawn(self, split: int, size: int) -> Examples:
        blocks = [
            # By blocks of a fixed size: a larger set begins with the smaller one.
            self._draw(self._generator(split, block), BLOCK, self.rule, split == TRAIN)
            for block in range(-(-size // BLOCK))
        ]
        parts = ("inputs", "targets", "trained")
        return Examples(*(np.concatenate([getattr(b, p) for b in blocks])[:size] for p in parts))

    @cached_property
    def _draw(self) -> Draw:
        draws: dict[str, Draw] = {
            "fuzzy_recall": fuzzy_recall,
            "selective_copying": selective_copying,
            "compression": compression,
            "memorisation": memorisation(self._seed(MAP)),
        }
        # In-context and noisy recall are one rule, with and without noise.
        return draws.get(self.synthetic, recall)

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(self._seed(*key)))

    def _seed(self, *key: int) -> np.random.SeedSequence:
        return np.random.SeedSequence([self.data_seed, *key])


def _parts(examples: Examples) -> Iterator[tuple[Tensor, Tensor]]:
    size = max(1, POSITIONS_AT_ONCE // examples.inputs.shape[1])
    chunks = (torch.from_numpy(x).split(size) for x in (examples.inputs, examples.targets))
    yield from zip(*chunks, strict=True)


def _measured(examples: Examples, answers: np.ndarray, loss: float) -> Evaluation:
    """All metrics of answers int64 (sequences, length)."""
    is_target = examples.targets != IGNORED
    right = (answers == examples.targets) & is_target
    places = np.flatnonzero(is_target.any(0))
    by_place = right.sum(0)[places] / is_target.sum(0)[places]
    return Evaluation(
        metrics={"accuracy": float(right.sum() / is_target.sum()), "loss": loss},
        per_sequence={"accuracy": (right.sum(1) / is_target.sum(1)).tolist()},
        curves={
            "accuracy_by_position": {"x": places.astype(float).tolist(), "y": by_place.tolist()}
        },
    )


def _hash(examples: Examples) -> str:
    sha256 = hashlib.sha256()
    for part in (examples.inputs, examples.targets, examples.trained):
        sha256.update(part.astype("<i8").tobytes())
    return sha256.hexdigest()


def _check_room(synthetic: str, rule: SequenceSizes) -> None:
    """Raises:
    ValueError: a rule that cannot be drawn.
    """
    noisy, copies = synthetic == "noisy_recall", synthetic == "selective_copying"
    if not (0 < rule.noise < 1 if noisy else rule.noise == 0):
        wanted = "a share between 0 and 1" if noisy else "none, which only noisy_recall has"
        raise ValueError(f"noise={rule.noise} of {synthetic}: expected {wanted}")
    if copies != (rule.to_copy > 0):
        wanted = "1 or more" if copies else "none, which only selective_copying has"
        raise ValueError(f"to_copy={rule.to_copy} of {synthetic}: expected {wanted}")
    tokens = {"noisy_recall": NOISE_VOCABULARY + 4, "fuzzy_recall": 2 * LONGEST_MOTIF + 1}
    least = tokens.get(synthetic, 4)
    if rule.vocabulary < least:
        raise ValueError(f"vocabulary={rule.vocabulary} of {synthetic}: give at least {least}")
    length = {"fuzzy_recall": 8 * LONGEST_MOTIF, "selective_copying": 2 * rule.to_copy + 2}
    shortest = length.get(synthetic, 4)
    if rule.length < shortest or rule.length % 2:
        raise ValueError(
            f"length={rule.length} of {synthetic}: give an even number from {shortest} on"
        )
