"""Multi-query associative recall.

Source: Arora et al., "Zoology: Measuring and Improving Recall in Efficient Language Models" (2023,
arXiv 2312.04927), section 3 and figure 2. Keys that are written again, of which the latest value
counts, are our variant.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tasks.interface import IGNORED, Batch, Evaluation, Metric, Split, Task
from tasks.multi_query_recall.sequences import Recall, draw

Protocol = Literal["as_set", "easy", "hard"]
TRAIN, VALIDATION, TEST = range(3)
POSITIONS_AT_ONCE = 2**14


class MultiQueryRecall(Task):
    """Name the value of each key that is asked for.

    Metrics: ``loss`` (cross-entropy in nats) and ``accuracy`` over all queries, a mean over the
    numbers of pairs; ``accuracy/<D>`` where there are several. Where keys are written again,
    ``accuracy_rewritten`` and ``accuracy_once`` tell their queries from the others, and
    ``stale_rate`` is the share of queries of rewritten keys that get the first value. Curves:
    accuracy by number of pairs, and by distance of the query from the end of the writes.

    Example: ``vocabulary=16, length=16, pairs=[3]``, the first training sequence of seed 0. Keys
    are 1 to 7, values 8 to 15 and 0 fills; the loss counts at the three queries alone:

        input   4  9  6 10  1 15  4  0  6  0  1  0  0  0  0  0
        target  .  .  .  .  .  .  9  . 10  . 15  .  .  .  .  .

    With ``pairs=[2], rewritten=1`` a key is written twice, and the later value counts:

        input   1  9  4 10  1 15  1  0  0  0  0  0  4  0  0  0
        target  .  .  .  .  .  . 15  .  .  .  .  . 10  .  .  .

    A model must keep all pairs until they are asked; without memory one of V/2 values is a guess.

    Args:
        vocabulary: V; token 0 fills, keys are the rest of the first half, values the second half.
        length: T, positions of a sequence.
        pairs: numbers of keys D; each training batch has one of them, drawn at random.
        evaluated_pairs: numbers of keys that are evaluated; null for those of training.
        rewritten: keys of each sequence that are written twice: the latest value counts.
        random_filler: random tokens between the queries instead of the filler.
        validation_size, test_size: sequences for each number of pairs; the same for every model.
        data_seed: seed of all data; the run's seed is mixed into the training batches.
        protocol: names a cell of the YAML file, which sets vocabulary, length and pairs.

    Raises:
        ValueError: an unknown protocol, a number out of range, or pairs and queries that do not fit
            in the vocabulary or the length.
    """

    headline: ClassVar[Metric] = Metric("accuracy", "maximise")

    def __init__(
        self,
        *,
        vocabulary: int = 8192,
        length: int = 64,
        pairs: Sequence[int] = (4,),
        evaluated_pairs: Sequence[int] | None = None,
        rewritten: int = 0,
        random_filler: bool = False,
        validation_size: int = 500,
        test_size: int = 3000,
        data_seed: int = 0,
        protocol: Protocol = "as_set",
    ) -> None:
        if protocol not in get_args(Protocol):
            names = ", ".join(get_args(Protocol))
            raise ValueError(f"protocol must be one of {names}, got {protocol!r}")
        for name, value, least in (
            ("vocabulary", vocabulary, 4),
            ("length", length, 4),
            ("rewritten", rewritten, 0),
            ("validation_size", validation_size, 1),
            ("test_size", test_size, 1),
            ("data_seed", data_seed, 0),
        ):
            if value < least:
                raise ValueError(f"{name}={value} is too small: give at least {least}")
        self.pairs = _numbers("pairs", pairs)
        self.evaluated_pairs = (
            self.pairs if evaluated_pairs is None else _numbers("evaluated_pairs", evaluated_pairs)
        )
        for number in {*self.pairs, *self.evaluated_pairs}:
            _check_room(number, rewritten, vocabulary, length)
        self.vocabulary, self.length, self.rewritten = vocabulary, length, rewritten
        self.sizes = {"validation": validation_size, "test": test_size}
        self.data_seed = data_seed
        self._draw = partial(
            draw,
            vocabulary=vocabulary,
            length=length,
            rewritten=rewritten,
            random_filler=random_filler,
        )

    @cached_property
    def splits(self) -> dict[str, dict[int, Recall]]:
        """The fixed sequences of "validation" and "test", by number of pairs."""
        streams = {"validation": VALIDATION, "test": TEST}
        return {
            name: {
                # A stream for each number of pairs: more of them change no sequence of the others.
                number: self._draw(self._generator(streams[name], number), size, pairs=number)
                for number in self.evaluated_pairs
            }
            for name, size in self.sizes.items()
        }

    def specification(self) -> SequenceSpecification:
        """``length`` positions over ``vocabulary`` tokens."""
        return SequenceSpecification(self.length, vocabulary=self.vocabulary)

    def data_hashes(self) -> dict[str, str]:
        """ "train" is what seed 0 draws first."""
        # Training never ends: its first steps stand for it.
        drawn = {"train": [self._training(0, step, 16) for step in range(4)]}
        drawn |= {name: list(split.values()) for name, split in self.splits.items()}
        hashes = {}
        for name, parts in drawn.items():
            sha256 = hashlib.sha256()
            for part in parts:
                sha256.update(part.inputs.astype("<i8").tobytes())
                sha256.update(part.targets.astype("<i8").tobytes())
            hashes[name] = sha256.hexdigest()
        return hashes

    def training_batch(self, seed: int, step: int, size: int) -> Batch:
        """int64 (batch, time); the value at each query is asked for, -100 elsewhere."""
        drawn = self._training(seed, step, size)
        inputs, targets = torch.from_numpy(drawn.inputs), torch.from_numpy(drawn.targets)
        return Batch(inputs, targets, tokens=inputs.numel())

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy of the queries, in nats."""
        return functional.cross_entropy(
            outputs.flatten(0, 1).float(), batch.targets.flatten(), ignore_index=IGNORED
        )

    def evaluate(self, model: nn.Module, split: Split, device: torch.device | str) -> Evaluation:
        """All metrics, each a mean over the numbers of pairs."""
        results = {
            number: _answers(model, sequences, device)
            for number, sequences in self.splits[split].items()
        }
        losses = {number: loss for number, (_, loss) in results.items()}
        answers = {number: answer for number, (answer, _) in results.items()}
        return self._measured(answers, split, float(np.mean(list(losses.values()))))

    def validation_loss(self, model: nn.Module, device: torch.device | str) -> float:
        """Cross-entropy of the queries in nats, a mean over the numbers of pairs."""
        splits = self.splits["validation"].values()
        return float(np.mean([_answers(model, sequences, device)[1] for sequences in splits]))

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """Guesses among all values and among those of the sequence, and tables with the latest and,
        where keys are written again, the first value."""
        predictors: dict[str, Callable[[Split], Evaluation]] = {
            "uniform over values": partial(
                self._expected, choices=lambda number: self.vocabulary - self.vocabulary // 2
            ),
            # Different values by construction: as many as there are writes.
            "uniform over seen values": partial(
                self._expected, choices=lambda number: number + self.rewritten
            ),
            "latest value (oracle)": partial(self._looked_up, latest=True),
        }
        if self.rewritten:
            predictors["first value"] = partial(self._looked_up, latest=False)
        return predictors

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self.data_seed, *key])))

    def _training(self, seed: int, step: int, size: int) -> Recall:
        generator = self._generator(TRAIN, seed, step)
        # One number of pairs for a whole batch, whose sequences then have the same structure.
        number = self.pairs[int(generator.integers(len(self.pairs)))]
        return self._draw(generator, size, pairs=number)

    def _measured(
        self, answers: dict[int, np.ndarray], split: Split, loss: float | None
    ) -> Evaluation:
        """All metrics of answers int64 (sequences, length) for each number of pairs."""
        sequences = self.splits[split]
        right = {n: (answers[n] == s.targets) & s.asked for n, s in sequences.items()}
        by_pairs = {n: right[n].sum() / s.asked.sum() for n, s in sequences.items()}
        # Mean over the numbers of pairs: a cell with many queries weighs no more than one with few.
        metrics = {"accuracy": float(np.mean(list(by_pairs.values())))}
        if loss is not None:
            metrics["loss"] = loss
        if len(by_pairs) > 1:
            metrics |= {f"accuracy/{n}": float(value) for n, value in by_pairs.items()}
        if self.rewritten:
            twice = {n: s.rewritten for n, s in sequences.items()}
            # The first value of a key that has another by now.
            stale = [(answers[n] == s.first_values)[twice[n]] for n, s in sequences.items()]
            once = [right[n][s.asked & ~twice[n]] for n, s in sequences.items()]
            metrics["accuracy_rewritten"] = _mean([right[n][twice[n]] for n in sequences])
            metrics["stale_rate"] = _mean(stale)
            if any(part.size for part in once):
                metrics["accuracy_once"] = _mean(once)
        shares = [(right[n].sum(1) / s.asked.sum(1)).tolist() for n, s in sequences.items()]
        return Evaluation(
            metrics=metrics,
            per_sequence={"accuracy": [value for part in shares for value in part]},
            curves={
                "accuracy_by_pairs": {
                    "x": [float(n) for n in by_pairs],
                    "y": [float(value) for value in by_pairs.values()],
                },
                "accuracy_by_distance": self._by_distance(right, sequences),
            },
        )

    def _by_distance(
        self, right: dict[int, np.ndarray], sequences: dict[int, Recall]
    ) -> dict[str, list[float]]:
        hits, queries = np.zeros(self.length), np.zeros(self.length)
        for number, recall in sequences.items():
            # Distances count from the end of the writes, which differs between numbers of pairs.
            after = self.length - recall.writes
            hits[:after] += right[number][:, recall.writes :].sum(0)
            queries[:after] += recall.asked[:, recall.writes :].sum(0)
        # Only even distances occur.
        distances = np.flatnonzero(queries)
        return {
            "x": distances.astype(float).tolist(),
            "y": (hits[distances] / queries[distances]).tolist(),
        }

    def _expected(self, split: Split, choices: Callable[[int], int]) -> Evaluation:
        """What a draw among ``choices`` is expected to give."""
        # A guess among n is right with 1/n, and its cross-entropy is ln n.
        shares = {n: 1 / choices(n) for n in self.evaluated_pairs}
        metrics = {
            "accuracy": float(np.mean(list(shares.values()))),
            "loss": float(np.mean([math.log(choices(n)) for n in self.evaluated_pairs])),
        }
        if len(shares) > 1:
            metrics |= {f"accuracy/{n}": value for n, value in shares.items()}
        x = [float(n) for n in shares]
        return Evaluation(
            metrics, curves={"accuracy_by_pairs": {"x": x, "y": list(shares.values())}}
        )

    def _looked_up(self, split: Split, latest: bool) -> Evaluation:
        """A table in which each key has its latest, or its first, value."""
        sequences = self.splits[split]
        answers = {n: s.targets if latest else s.first_values for n, s in sequences.items()}
        # A table of first values names stale ones with certainty: its cross-entropy is infinite.
        return self._measured(answers, split, 0.0 if latest else None)


def _answers(
    model: nn.Module, sequences: Recall, device: torch.device | str
) -> tuple[np.ndarray, float]:
    """Most probable tokens int64 (sequences, length), and the mean cross-entropy of the queries."""
    total, answers = 0.0, []
    for inputs, targets in _parts(sequences):
        scores = model(inputs.to(device)).float().cpu()
        total += functional.cross_entropy(
            scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
        ).item()
        answers.append(scores.argmax(-1).numpy())
    return np.concatenate(answers), total / int(sequences.asked.sum())


def _parts(sequences: Recall) -> Iterator[tuple[Tensor, Tensor]]:
    size = max(1, POSITIONS_AT_ONCE // sequences.inputs.shape[1])
    chunks = (torch.from_numpy(part).split(size) for part in (sequences.inputs, sequences.targets))
    yield from zip(*chunks, strict=True)


def _mean(parts: Sequence[np.ndarray]) -> float:
    return float(np.concatenate(parts).mean())


def _numbers(name: str, values: Sequence[int]) -> list[int]:
    numbers = list(values) if isinstance(values, Sequence) else []
    if not numbers or any(not isinstance(n, int) or n < 1 for n in numbers):
        raise ValueError(f"{name}={values!r} is no list of numbers from 1 on, such as [4]")
    return sorted(set(numbers))


def _check_room(pairs: int, rewritten: int, vocabulary: int, length: int) -> None:
    writes = pairs + rewritten
    if rewritten > pairs:
        raise ValueError(f"rewritten={rewritten} of pairs={pairs} keys: give at most {pairs}")
    if pairs > vocabulary // 2 - 1 or writes > vocabulary - vocabulary // 2:
        raise ValueError(
            f"vocabulary={vocabulary} has too few keys or values for {writes} writes: give at "
            f"least {2 * writes + 2}"
        )
    if 2 * writes + 2 * pairs > length:
        raise ValueError(
            f"length={length} has no room for {writes} writes and {pairs} queries, of two "
            f"positions each: give at least {2 * (writes + pairs)}"
        )
