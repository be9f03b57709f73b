"""State tracking: the product of all group elements so far, trained short and asked long.

Sources: Merrill, Petty and Sabharwal 2024, "The illusion of state in state-space models" (arXiv
2404.08819), section 5: word problems of Z60, A5 and S5. Grazzi et al. 2024, "Unlocking
state-tracking in linear RNNs through negative eigenvalues" (arXiv 2411.12537), section 5: parity,
length extrapolation, and S5 with swaps alone.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tasks.interface import Batch, Evaluation, Metric, Split, Task
from tasks.state_tracking.groups import GROUPS, Integers

Letters = Literal["all", "small"]
TRAIN, VALIDATION, TEST = range(3)
POSITIONS_AT_ONCE = 2**14


class StateTracking(Task):
    """Name the product of all letters so far, at every position.

    Letters are drawn uniformly and independently, so that the state at any position is uniform too
    and no letter tells more of it than any other. Trained on ``length`` positions; asked on the
    largest of ``factors`` times as many.

    Metrics: ``accuracy`` over all positions after the training length; ``accuracy/1x`` over those
    of the training length, ``accuracy/2x`` from there to twice as many, and so on for each of
    ``factors``; ``loss`` (cross-entropy in nats) at the training length, so that no checkpoint is
    chosen by what is asked. Curve: accuracy by position, from 1.

    Example: ``length=8``, the first training sequence of seed 0; the loss counts everywhere:

        parity  letters  0 0 1 0 0 0 1 0        s3  letters  0 0 5 1 2 2 3 0
                states   0 0 1 1 1 1 0 0            states   0 0 5 3 1 3 4 4

    The next state is letter · state, so a model must carry it along: no letter, nor any few of
    them, tells it. A guess is right with 1/|group|; who counts letters without their order, with
    one over the size of the commutator subgroup: always in parity and z60, 1/3 in s3, 1/60 in a5
    and s5.

    Args:
        group: "parity" (2 elements), "z60", "s3" (6), "a5" (60) or "s5" (120).
        letters: "all" elements, or "small", of permutations: the identity and what moves the
            fewest points, swaps of "s3" and "s5" and cycles of three points of "a5".
        length: positions in training.
        factors: how many times as long, ascending from 1.
        validation_size, test_size: sequences, the same for every model.
        data_seed: seed of all data; the run's seed is mixed into the training batches.

    Raises:
        ValueError: an unknown group or letters that it lacks, or a number out of range.
    """

    headline: ClassVar[Metric] = Metric("accuracy", "maximise")

    def __init__(
        self,
        *,
        group: str = "parity",
        letters: Letters = "all",
        length: int = 32,
        factors: Sequence[int] = (1, 2, 4, 8),
        validation_size: int = 256,
        test_size: int = 1024,
        data_seed: int = 0,
    ) -> None:
        if group not in GROUPS:
            raise ValueError(f"group={group!r} is none of {', '.join(GROUPS)}")
        for name, value, least in (
            ("length", length, 2),
            ("validation_size", validation_size, 1),
            ("test_size", test_size, 1),
            ("data_seed", data_seed, 0),
        ):
            if value < least:
                raise ValueError(f"{name}={value} is too small: give at least {least}")
        # 1 is the training length, which the other multiples are set against.
        if len(factors) < 2 or list(factors) != sorted({1, *factors}) or factors[0] != 1:
            raise ValueError(f"factors={list(factors)}: give 1 and larger ones, ascending")
        self.group = GROUPS[group]()
        # Only groups of permutations have letters that move few points.
        letter_sets = {"all": tuple(range(self.group.order)), "small": self.group.small}
        if not letter_sets.get(letters):
            usable = " or ".join(name for name, elements in letter_sets.items() if elements)
            raise ValueError(f"letters={letters!r} of {group}: give {usable}")
        self.letters = np.array(letter_sets[letters], dtype=np.int64)
        self.length, self.factors, self.data_seed = length, list(factors), data_seed
        self.sizes = {"validation": validation_size, "test": test_size}

    @property
    def longest(self) -> int:
        """Positions that are asked for in the end."""
        return self.length * self.factors[-1]

    @cached_property
    def splits(self) -> dict[str, tuple[Integers, Integers]]:
        """Words and states (sequences, longest) of "validation" and "test"."""
        streams = {"validation": VALIDATION, "test": TEST}
        return {
            name: self._draw(size, self.longest, streams[name]) for name, size in self.sizes.items()
        }

    def specification(self) -> SequenceSpecification:
        """The longest words that are asked, over the elements of the group."""
        return SequenceSpecification(self.longest, vocabulary=self.group.order)

    def data_hashes(self) -> dict[str, str]:
        """ "train" is what seed 0 draws first."""
        # Training never ends: its first steps stand for it.
        drawn = [self._draw(16, self.length, TRAIN, 0, step) for step in range(4)]
        parts = {"train": drawn, **{name: [pair] for name, pair in self.splits.items()}}
        hashes = {}
        for name, pairs in parts.items():
            content = (part.astype("<i8").tobytes() for part in itertools.chain(*pairs))
            hashes[name] = hashlib.sha256(b"".join(content)).hexdigest()
        return hashes

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """int64 (batch, length): letters, and the state after each of them."""
        words, states = self._draw(size, self.length, TRAIN, seed, step)
        return Batch(torch.from_numpy(words), torch.from_numpy(states), tokens=words.size)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy of all states, in nats."""
        return functional.cross_entropy(outputs.flatten(0, 1).float(), batch.targets.flatten())

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """Accuracies by multiple of the training length, and the loss at that length."""
        words, states = self.splits[split]
        answers, losses = self._answers(model, words, states, device)
        # The loss of the training length alone: longer positions must not choose a checkpoint.
        return self._measured(answers == states, float(losses[:, : self.length].mean()))

    def validation_loss(self, model: nn.Module, device: torch.device | str) -> float:
        """The loss at the training length, which needs no longer sequences."""
        words, states = (part[:, : self.length] for part in self.splits["validation"])
        return float(self._answers(model, words, states, device)[1].mean())

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """A guess, whoever counts the letters without their order, and the product itself."""
        order = self.group.order
        return {
            "uniform": lambda split: self._expected(1 / order),
            "letters without order": lambda split: self._expected(1 / self.group.commutators),
            # Every comparison with ≥ 0 is true: the right answer everywhere.
            "product (oracle)": lambda split: self._measured(self.splits[split][1] >= 0, 0.0),
        }

    def _draw(self, count: int, length: int, *key: int) -> tuple[Integers, Integers]:
        sequence = np.random.SeedSequence([self.data_seed, *key])
        generator = np.random.Generator(np.random.Philox(sequence))
        # Uniform letters make uniform states, as each letter only permutes them.
        words = self.letters[generator.integers(0, len(self.letters), (count, length))]
        return words, self.group.products(words)

    def _answers(
        self, model: nn.Module, words: Integers, states: Integers, device: torch.device | str
    ) -> tuple[Integers, np.ndarray]:
        """Most probable elements and cross-entropies (sequences, length)."""
        answers, losses = [], []
        # As many sequences in a pass as keep the number of positions, and so the memory, the same.
        size = max(1, POSITIONS_AT_ONCE // words.shape[1])
        chunks = (
            torch.from_numpy(np.ascontiguousarray(part)).split(size) for part in (words, states)
        )
        for inputs, targets in zip(*chunks, strict=True):
            scores = model(inputs.to(device)).float().cpu()
            answers.append(scores.argmax(-1).numpy())
            # PyTorch wants classes on the second axis: (batch, classes, time).
            losses.append(functional.cross_entropy(scores.mT, targets, reduction="none").numpy())
        return np.concatenate(answers), np.concatenate(losses)

    def _windows(self) -> dict[str, slice]:
        """Positions that are asked for the first time at each factor, and all but the first's."""
        ends = [0, *(factor * self.length for factor in self.factors)]
        spans = zip(self.factors, itertools.pairwise(ends), strict=True)
        windows = {f"accuracy/{factor}x": slice(*span) for factor, span in spans}
        # The headline leaves the training length out: it asks for what was not trained.
        return {"accuracy": slice(self.length, None), **windows}

    def _measured(self, right: np.ndarray, loss: float) -> Evaluation:
        """All metrics of right answers (sequences, longest)."""
        shares = {name: right[:, part].mean(1) for name, part in self._windows().items()}
        positions = np.arange(1.0, self.longest + 1).tolist()
        return Evaluation(
            {"loss": loss, **{name: float(share.mean()) for name, share in shares.items()}},
            per_sequence={name: share.tolist() for name, share in shares.items()},
            curves={"accuracy_by_position": {"x": positions, "y": right.mean(0).tolist()}},
        )

    def _expected(self, share: float) -> Evaluation:
        """What a guess among 1/share elements is expected to give, at any position."""
        metrics = {"loss": math.log(1 / share), **dict.fromkeys(self._windows(), share)}
        ends = {"x": [1.0, float(self.longest)], "y": [share, share]}
        return Evaluation(metrics, curves={"accuracy_by_position": ends})
