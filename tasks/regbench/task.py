"""RegBench: learn a regular language in context (Akyürek et al. 2024; Memory Mosaics, section 7).

Every sequence holds strings of a random automaton of its own. A model is trained to predict the
next letter on a fixed set of sequences and measured on automata that it has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tasks.interface import Batch, Evaluation, Metric, Split, Task
from tasks.regbench import counter, predictors
from tasks.regbench.automata import PADDING, SEPARATOR, VOCABULARY, Language
from tasks.regbench.counter import Integers
from tasks.regbench.generator import Sequences, Variant, generate
from tasks.regbench.metrics import measure

IGNORED = -100
PROTOCOLS = ("fair", "as_released")

_PASS = 64  # positions whose time a pass of training takes besides: measured on one CPU thread
_WINDOW = 8  # batches among which sequences are sorted by length
_EVALUATION_POSITIONS = (
    2**14
)  # padded positions in one forward pass: bounds the memory of attention


class RegBench(Task):
    """In-context learning of regular languages.

    Example: ``strings=[3, 3], string_length=[3, 5]``, the training sequence of seed 0. The loss
    counts where a letter follows; "legal" is what the automaton allows there, and accuracy takes
    any of it:

        input   f   b   k   j   |   g   f   e   f   |   h   o   i
        target  b   k   j   .   g   f   e   f   .   h   o   i   f
        legal   bo  fk  eij ahi fgh f   eij f   eij fgh abo ahi afm

    A model must find the states of an automaton that it has never seen: what followed the same
    letters in earlier strings. A guess among 18 letters is legal in 11 % of the positions, the
    most frequent letter of the sequence so far in about half of them.

    Args:
        training_automata: N, training sequences, each from an automaton of its own; they are the
            same in every epoch.
        validation_size: sequences for validation.
        test_size: sequences for the test.
        data_seed: seed of all data, apart from the seed of training.
        variant: "held_out": validation and test have automata of their own; "iid": fresh sequences
            from the training automata (Memory Mosaics, Table 3).
        protocol: "fair", or "as_released" for batches of unsorted sequences as in the released
            code; what it changes in the optimisation is in the YAML file.
        states: range, both ends included, of the states of an automaton.
        alphabet: the same for its letters.
        out_degree: the same for the edges that leave a state.
        strings: the same for the strings of a sequence.
        string_length: the same for the letters of a string.

    Raises:
        ValueError: an unknown variant or protocol, a size below 1, a negative seed, or ranges that
            leave nothing to sample.
    """

    headline: ClassVar[Metric] = Metric("accuracy", "maximise")

    def __init__(
        self,
        *,
        training_automata: int = 1000,
        validation_size: int = 500,
        test_size: int = 500,
        data_seed: int = 0,
        variant: Variant = "held_out",
        protocol: str = "fair",
        states: Sequence[int] = (4, 12),
        alphabet: Sequence[int] = (4, 18),
        out_degree: Sequence[int] = (1, 3),
        strings: Sequence[int] = (10, 19),
        string_length: Sequence[int] = (1, 49),
    ) -> None:
        for name, value, choices in (
            ("variant", variant, get_args(Variant)),
            ("protocol", protocol, PROTOCOLS),
        ):
            if value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
        self.sizes = {"train": training_automata, "validation": validation_size, "test": test_size}
        if min(self.sizes.values()) < 1 or data_seed < 0:
            raise ValueError(
                "training_automata, validation_size and test_size must be at least 1 and data_seed "
                f"at least 0, got {self.sizes} and {data_seed}"
            )
        self.language = Language(
            *(_range(bounds) for bounds in (states, alphabet, out_degree, strings, string_length))
        )
        self.data_seed = data_seed
        self.variant = variant
        self.protocol = protocol
        self._epoch: tuple[tuple[int, int, int], list[Integers]] | None = None

    @cached_property
    def splits(self) -> dict[str, Sequences]:
        """The sequences of "train", "validation" and "test", generated at the first use."""
        return generate(self.language, self.data_seed, self.sizes, self.variant)

    def specification(self) -> SequenceSpecification:
        """20 tokens (padding, 18 letters, separator) and the longest sequence that can be drawn."""
        return SequenceSpecification(self.language.maximum_length, vocabulary=VOCABULARY)

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of tokens and legal letters of each split."""
        return {split: sequences.sha256() for split, sequences in self.splits.items()}

    def steps_per_epoch(self, size: int) -> int:
        """Batches in one pass; the last may be smaller."""
        return -(-self.sizes["train"] // size)

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """int64 (batch, time) inputs, padded with 0 to the longest of the batch.

        An epoch goes through the training set once, in an order drawn from (seed, epoch); its last
        batch may be smaller.
        """
        epoch, place = divmod(step, self.steps_per_epoch(size))
        if self._epoch is None or self._epoch[0] != (seed, epoch, size):
            self._epoch = (seed, epoch, size), self._batches(seed, epoch, size)
        return _padded(self.splits["train"], self._epoch[1][place])

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy in nats of the letters that follow; separators and padding do not
        count."""
        return functional.cross_entropy(
            outputs.flatten(0, 1).float(), batch.targets.flatten(), ignore_index=IGNORED
        )

    def training_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss over the whole batch, with sequences of nearly one length in a pass.

        The sequences of a batch, their weights and what the model sees of each are the same as in
        one padded pass; only the padding is not computed. A GPU takes all in one pass, which
        starts fewer kernels.
        """
        if batch.inputs.device.type != "cpu":
            return super().training_loss(model, batch)
        lengths = (batch.inputs != PADDING).sum(1)
        order = lengths.argsort(descending=True, stable=True)
        parts = []
        for rows in order.split(_similar(lengths[order].tolist())):
            longest = int(lengths[rows[0]])
            parts.append(
                _summed(model(batch.inputs[rows, :longest]), batch.targets[rows, :longest])
            )
        # Sums, divided once: the mean over all targets of the batch, whatever the groups.
        return torch.stack(parts).sum() / batch.asked

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """The metrics of :func:`tasks.regbench.metrics.measure`."""
        sequences = self.splits[split]
        counts = sequences.lengths - 1
        starts = np.cumsum(counts) - counts
        predicted = np.empty((counts.sum(), VOCABULARY), dtype=np.float32)
        for rows in _evaluation_batches(sequences):
            batch = _padded(sequences, rows).to(device)
            scores = functional.log_softmax(model(batch.inputs).float(), dim=-1).cpu().numpy()
            for row, score in zip(rows, scores, strict=True):
                # Rows are padded at their end: the first ``counts`` outputs are those of the
                # sequence.
                predicted[starts[row] : starts[row] + counts[row]] = score[: counts[row]]
        return measure(predicted, sequences)

    def validation_loss(self, model: nn.Module, device: torch.device | str) -> float:
        """Mean cross-entropy over all targets of the validation split, in nats."""
        sequences = self.splits["validation"]
        total = torch.zeros((), dtype=torch.float64, device=device)
        count = 0
        for rows in _evaluation_batches(sequences):
            batch = _padded(sequences, rows)
            count += int((batch.targets != IGNORED).sum())
            batch = batch.to(device)
            # Summed in float64 on the device: no copy for each batch.
            total += _summed(model(batch.inputs), batch.targets)
        return total.item() / count

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """Guesses, in-context n-grams of order 1 to 4, and the automaton itself."""
        by_label: dict[str, Callable[[Sequences], NDArray[np.float64]]] = {
            "uniform": predictors.uniform,
            "uniform over seen letters": predictors.uniform_over_seen,
            **{f"{n}-gram": partial(predictors.ngram, order=n) for n in (1, 2, 3, 4)},
            "oracle": predictors.oracle,
        }
        return {label: partial(self._evaluate_predictor, each) for label, each in by_label.items()}

    def _evaluate_predictor(
        self, predictor: Callable[[Sequences], NDArray[np.float64]], split: Split
    ) -> Evaluation:
        sequences = self.splits[split]
        with np.errstate(divide="ignore"):
            evaluation = measure(np.log(predictor(sequences)), sequences)
        if np.isinf(evaluation.metrics["loss"]):
            # Counting gives letters that have not occurred no probability at all: its
            # cross-entropy is infinite, which says nothing and is not JSON.
            del evaluation.metrics["loss"], evaluation.per_sequence["loss"]
        return evaluation

    def _batches(self, seed: int, epoch: int, size: int) -> list[Integers]:
        """The sequences of every batch of an epoch.

        Sorting by length within windows of several batches saves padding. A window is at most a
        quarter of the epoch, so that who meets whom in a batch stays random.
        """
        key = counter.draw(counter.draw(counter.root(seed), epoch), 0)
        order = counter.permutation(key, self.sizes["train"])[0]
        full = len(order) // size
        if self.protocol == "fair":
            lengths = self.splits["train"].lengths
            width = size * max(1, min(_WINDOW, full // 4))
            for start in range(0, full * size, width):
                window = order[start : min(start + width, full * size)]
                order[start : start + len(window)] = window[
                    np.argsort(lengths[window], kind="stable")
                ]
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        # Short and long batches must not alternate in a rhythm.
        shuffled = counter.permutation(counter.draw(key, 0), full)[0]
        # The smaller last batch stays last: an epoch's steps have equal sizes up to it.
        return [batches[place] for place in shuffled] + batches[full:]


def _range(bounds: Sequence[int]) -> Any:
    return tuple(int(bound) for bound in bounds)


def _summed(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats, summed over the targets that are asked for."""
    return functional.cross_entropy(
        outputs.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED, reduction="sum"
    )


def _similar(lengths: Sequence[int]) -> list[int]:
    """Sizes of groups of neighbours, of falling lengths, that take the least time: a group costs
    its padded positions, and ``_PASS``."""
    cost, sizes = [0], [0]  # of the best groups of the first n sequences, and the last one's size
    for end in range(1, len(lengths) + 1):
        # Cheapest groups by dynamic programming over how many sequences are grouped.
        options = (
            (cost[end - size] + size * lengths[end - size] + _PASS, size)
            for size in range(1, end + 1)
        )
        best, size = min(options)
        cost.append(best)
        sizes.append(size)
    groups, end = [], len(lengths)
    while end:
        groups.append(sizes[end])
        end -= sizes[end]
    return groups[::-1]


def _padded(sequences: Sequences, rows: Integers) -> Batch:
    """Teacher forcing on the sequences ``rows``; separators and padding are no targets."""
    lengths = sequences.lengths[rows]
    columns = np.arange(lengths.max())
    inside = columns < lengths[:, None]
    tokens = np.full(inside.shape, PADDING, dtype=np.int64)
    tokens[inside] = sequences.tokens[(sequences.offsets[rows, None] + columns)[inside]]
    # Where the next token is a separator nothing is asked: models never learn where strings end.
    targets = np.where((tokens == SEPARATOR) | ~inside, IGNORED, tokens)[:, 1:]
    # An input stands only where another token follows it.
    inputs = np.where(inside[:, 1:], tokens[:, :-1], PADDING)
    return Batch(
        torch.from_numpy(inputs), torch.from_numpy(targets), tokens=int((lengths - 1).sum())
    )


def _evaluation_batches(sequences: Sequences) -> Iterator[Integers]:
    """Sequences of similar length together, as many as their padded positions allow."""
    order = np.argsort(sequences.lengths, kind="stable")[::-1]
    start = 0
    while start < len(order):
        rows = max(1, _EVALUATION_POSITIONS // int(sequences.lengths[order[start]]))
        yield order[start : start + rows]
        start += rows
