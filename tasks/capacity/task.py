"""How many associations a memory recalls: bisection over their number, against width and size.

Nichani, Lee and Bietti 2025 (arXiv 2412.06538) for the protocol: random embeddings, each input its
own class or a few classes, the stopping rule of the bisection. Recall is judged among the values
that are stored.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from models.memories.interface import Memory
from models.memories.trained import TrainedMemory
from tasks.capacity.search import Bracket, largest
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement

SCORES_AT_ONCE = 2**24  # numbers in a table of queries and values


class Capacity(Measurement):
    """Random keys and values, one write, and the largest N of which a share is recalled.

    One trial draws its embeddings once, and N associations are its first N: a smaller store is part
    of a larger one. A memory that trains inside ``write`` until a share is recalled is told which
    share is asked for.

    Example: one trial at width 4 (test, seed 0) and a sum of outer products. Rows are queries,
    columns the values that were stored, entries their inner products with what is read:

        N = 3    .98  .31  .29         N = 4    .98  .61  .15 -.66
                 .49  .73  .29                  .48  .34  .47 -.24   ← the first value wins
                 .44  .23  .79                  .43 -.35 1.06  .46
        recall 1: the diagonal wins            -.35 -.70  .88  .87   ← the third: recall 1/2

    A memory must keep N associations apart in a state of fixed size; one that holds nothing
    recalls 1/N of them by chance, or 1/M of M classes.

    Args:
        widths: d of keys and values.
        wide: further widths for memories that are not trained inside ``write``.
        headline_width: one of ``widths``, at which the headline is taken.
        trials: draws of the embeddings for each width.
        thresholds: shares of associations that must be recalled, each by a search of its own; the
            first is the headline's.
        classes: 0 for a value of its own for each key, else M values: key i has value i M / N.
        embeddings: "unit" (on the sphere) or "gaussian" (entries from N(0, 1/d)).
        largest: no more than this many times d² associations are tried. The published search for a
            perceptron of width m ends at m d.

    Raises:
        ValueError: a setting outside its range.
    """

    headline = Metric("associations", "maximise")

    def __init__(
        self,
        widths: Sequence[int] = (8, 11, 16, 22, 32, 45),
        wide: Sequence[int] = (64, 128),
        headline_width: int = 16,
        trials: int = 5,
        thresholds: Sequence[float] = (0.99, 0.5),
        classes: int = 0,
        embeddings: str = "unit",
        largest: float = 1.0,
    ) -> None:
        if not widths or min([*widths, *wide]) < 2:
            raise ValueError("widths and wide are widths of embeddings: give numbers of 2 or more")
        if headline_width not in widths:
            raise ValueError(
                f"headline_width={headline_width} is not among the widths {list(widths)}: give one "
                "of them"
            )
        if trials < 1:
            raise ValueError(f"trials={trials} measure nothing: give 1 or more")
        if not thresholds or not all(0 < threshold <= 1 for threshold in thresholds):
            raise ValueError(f"thresholds={list(thresholds)} are shares: give some in (0, 1]")
        if classes < 0 or classes == 1:
            raise ValueError(
                f"classes={classes} is no number of values to tell apart: give 2 or more, or 0 for "
                "one for each key"
            )
        if embeddings not in ("unit", "gaussian"):
            raise ValueError(f"embeddings={embeddings} is unknown: give unit or gaussian")
        if not largest > 0 or not math.isfinite(largest):
            raise ValueError(f"largest={largest} allows no association: give a number above 0")
        self.widths, self.wide = sorted(set(widths)), sorted(set(wide) - set(widths))
        self.headline_width, self.trials = headline_width, trials
        self.thresholds, self.classes = list(thresholds), classes
        self.embeddings, self.largest = embeddings, largest

    def data_hashes(self) -> dict[str, str]:
        """Split -> SHA-256 of all embeddings of seed 0."""
        hashes = {}
        for split in ("validation", "test"):
            digest = hashlib.sha256()
            for width in [*self.widths, *self.wide]:
                for drawn in self.draw(width, cast(Split, split), 0):
                    digest.update(drawn.numpy().tobytes())
            hashes[split] = digest.hexdigest()
        return hashes

    def most(self, width: int) -> int:
        """The largest N that is tried at a width."""
        return max(1, round(self.largest * width**2))

    def draw(self, width: int, split: Split, seed: int) -> tuple[Tensor, Tensor]:
        """Keys (trials, N, d) and values (trials, N or M, d), float32, for the largest N."""
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for trial in range(self.trials):
            name = f"capacity/{split}/{seed}/{width}/{trial}".encode()
            # A generator by name: a trial's embeddings depend on nothing that other widths or
            # trials draw.
            number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") >> 1
            generator = torch.Generator().manual_seed(number)
            # Values first: a few classes then have the same values, however many keys are drawn.
            for drawn, rows in (
                (values, self.classes or self.most(width)),
                (keys, self.most(width)),
            ):
                x = torch.randn(rows, width, generator=generator)
                if self.embeddings == "unit":
                    drawn.append(x / x.norm(dim=1, keepdim=True))
                else:
                    drawn.append(x / width**0.5)
        return torch.stack(keys), torch.stack(values)

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """N of each trial, width and threshold, in ``arrays["associations/0.99"]`` (widths,
        trials); means by width in curves, with N log N / d² and N for each number of the state.
        On validation, by which a sweep chooses, the headline alone: a search takes minutes."""
        memory = build(self.widths[0], self.widths[0], seed=seed)
        widths = self.widths if isinstance(memory, TrainedMemory) else [*self.widths, *self.wide]
        cells = [(width, threshold) for width in widths for threshold in self.thresholds]
        if split == "validation":
            widths, cells = [self.headline_width], [(self.headline_width, self.thresholds[0])]
        evaluation = Evaluation({}, arrays={"widths": widths})
        total = len(cells)
        for done, (width, threshold) in enumerate(cells):
            # Defaults bind now: a closure would see the width of the last cell.
            def tried(
                count: int, at: str = f"d = {width}, {threshold:g} recalled", done: int = done
            ) -> None:
                report(f"{at}, try {count}", done, total)

            keys, values = (x.to(device) for x in self.draw(width, split, seed))
            store = _PairStore(build, seed, keys, values, self.classes, threshold)
            brackets = largest(
                store.recall,
                self.trials,
                threshold,
                start=min(width, self.most(width)),
                most=self.most(width),
                report=tried,
            )
            self._collect(evaluation, width, threshold, brackets, store)
        report("measured", total, total)
        evaluation.metrics["associations"] = evaluation.metrics[
            f"associations/{self.thresholds[0]:g}/{self.headline_width}"
        ]
        return evaluation

    def _collect(
        self,
        evaluation: Evaluation,
        width: int,
        threshold: float,
        found: Sequence[Bracket],
        store: _PairStore,
    ) -> None:
        numbers = [bracket.low for bracket in found]
        mean = sum(numbers) / len(numbers)
        state, weights, inner = store.sizes(round(mean))
        quantities = {
            "associations": mean,
            "n_log_n_over_d2": sum(n * math.log(max(n, 1)) for n in numbers)
            # N log N / d² of each trial, not of the mean: about ½ for a Hebbian matrix that recalls
            # half.
            / (len(numbers) * width**2),
            "weights": weights / 4,  # float32
            "state_bytes": state,
        }
        if inner is not None:
            quantities["associations_over_md"] = mean / (inner * width)
        for name, value in quantities.items():
            evaluation.metrics[f"{name}/{threshold:g}/{width}"] = float(value)
            curve = evaluation.curves.setdefault(f"{name}/{threshold:g}", {"x": [], "y": []})
            curve["x"].append(float(width))
            curve["y"].append(float(value))
        evaluation.arrays.setdefault(f"associations/{threshold:g}", []).append(numbers)
        # A bracket without a failure ended at the largest N that is tried: a lower bound.
        filled = [bracket.high is not None for bracket in found]
        evaluation.arrays.setdefault(f"filled/{threshold:g}", []).append(filled)
        if (width, threshold) == (self.headline_width, self.thresholds[0]):
            evaluation.metrics["parameters"] = float(round(weights / 4))
            evaluation.metrics["state_bytes"] = float(state)


class _PairStore:
    """One memory for each trial, filled with the first N associations."""

    def __init__(
        self, build: Build, seed: int, keys: Tensor, values: Tensor, classes: int, threshold: float
    ) -> None:
        self.build, self.seed, self.classes, self.threshold = build, seed, classes, threshold
        self.keys, self.values = keys, values

    def _pairs(self, trials: Sequence[int], number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Keys (trials, N, d), their different values (trials, N or at most M, d), and which is
        whose (N)."""
        chosen = torch.as_tensor(trials, device=self.keys.device)
        keys, values = self.keys[chosen, :number], self.values[chosen]
        answers = torch.arange(number, device=keys.device)
        if self.classes:
            # Key i has class ⌊i M / N⌋; with fewer keys than classes only those that occur are
            # stored.
            stored, answers = (answers * self.classes // number).unique(return_inverse=True)
            return keys, values[:, stored], answers
        return keys, values[:, :number], answers

    @torch.no_grad()
    def recall(self, trials: Sequence[int], number: int) -> list[float]:
        """The share of ``number`` associations recalled, of each of these trials."""
        keys, values, answers = self._pairs(trials, number)
        memory = self._filled(keys, values[:, answers])
        step = max(1, SCORES_AT_ONCE // (len(trials) * max(number, values.shape[1])))
        right = torch.zeros(len(trials), dtype=torch.int64, device=keys.device)
        for start in range(0, number, step):
            part = slice(start, start + step)
            read, _ = memory.read(keys[:, part])
            # Among the values that are stored, by inner product: their scale decides nothing.
            best = (read @ values.mT).argmax(-1)
            # An answer that is not finite recalls nothing, although argmax would name some value.
            right += ((best == answers[part]) & read.isfinite().all(-1)).sum(-1)
        return [count / number for count in right.tolist()]

    def sizes(self, number: int) -> tuple[int, int, int | None]:
        """With about ``number`` associations in one memory: bytes of all that is kept, bytes of the
        weights without pairs kept for another training, and m where there is one."""
        keys, values, answers = self._pairs([0], max(1, number))
        # One step: only sizes are asked for, and they do not depend on how long was trained.
        memory = self._filled(keys, values[:, answers], steps=1)
        inner = memory.inner_size if isinstance(memory, TrainedMemory) else None
        return memory.size_in_bytes(), memory.weights_in_bytes(), inner

    def _filled(self, keys: Tensor, values: Tensor, steps: int | None = None) -> Memory:
        width = keys.shape[-1]
        memory = cast(Memory, self.build(width, width, seed=self.seed))
        if isinstance(memory, TrainedMemory):
            memory.stop_at = self.threshold
            memory.steps = steps or memory.steps
        memory.write(keys, values)
        return memory
