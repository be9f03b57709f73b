"""One gradient step on each of three matrices makes an induction head.

Source: Bietti et al., "Birth of a Transformer: A Memory Viewpoint" (2023, arXiv 2306.00802),
section 5: one step on W_O², then on W_K², then on W_K¹ gives W_O² = Σ u_k e_kᵀ,
W_K² = Σ e_k (R e_k)ᵀ and W_K¹ = Σ p_t p_{t-1}ᵀ. The theorem is about
infinitely many sequences and infinite width; steps here are taken on a sample, and each gradient is
rescaled to a given norm.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement
from tasks.refusals import fitting_model
from tasks.three_gradient_steps.probes import output_recall, position_recall, token_recall

ORDER = ("output_2", "key_2", "key_1")
CHOOSE = (
    "three_gradient_steps trains the three memories of an induction head: choose "
    "models=disentangled_attention or models=two_layer_attention"
)
CHUNK = 2048  # sequences in one forward pass


class ThreeGradientSteps(Measurement):
    """Accuracy on the second output after one gradient step on each matrix.

    A sequence holds one trigger q at a random place, its output o right after it, and q again at
    the end; all other tokens are uniform and not q. What is asked is o, after the last position.

    Metrics: ``accuracy`` after all steps, ``accuracy_after_0`` to ``accuracy_after_3``, and the
    share of each memory that is recalled after them (``output_recall``, ``token_recall``,
    ``position_recall``). Curves: the same four numbers against the steps taken.

    Example: ``tokens=8, length=8``, two sequences of the test, seed 0; only the last position is
    asked:

        input   3 4 4 4 0 1 7 3     target  . . . . . . . 4
                7 3 2 3 0 4 7 0             . . . . . . . 4

    In the first the trigger is 3, which 4 followed. After three steps the model must attend to the
    token that came after the same token before; without that it guesses among the other N − 1
    tokens.

    Args:
        tokens: N, size of the vocabulary.
        length: T, positions of a sequence.
        first_place: earliest place of the trigger, from 1. A trigger at place 1 looks like its own
            output's key, since the first position can only look at itself.
        sequences: number on which each step is taken.
        evaluated: sequences on which accuracy is measured.
        output_norm: Frobenius norm of the step on W_O², over √tokens.
        token_norm: of the step on W_K², over √tokens.
        position_norm: of the step on W_K¹, over √length.

    Raises:
        ValueError: a number out of range.
    """

    headline: ClassVar[Metric] = Metric("accuracy", "maximise")

    def __init__(
        self,
        *,
        tokens: int = 32,
        length: int = 16,
        first_place: int = 1,
        sequences: int = 40_000,
        evaluated: int = 10_000,
        output_norm: float = 10.0,
        token_norm: float = 30.0,
        position_norm: float = 100.0,
    ) -> None:
        if tokens < 3 or length < 4 or sequences < 1 or evaluated < 1:
            raise ValueError(
                f"tokens={tokens}, length={length}, sequences={sequences}, evaluated={evaluated}: "
                "give at least 3, 4, 1 and 1"
            )
        if not 1 <= first_place <= length - 2:
            raise ValueError(
                f"first_place={first_place} leaves no room for a trigger and its output: give a "
                f"number from 1 to {length - 2}"
            )
        if min(output_norm, token_norm, position_norm) <= 0:
            raise ValueError("output_norm, token_norm and position_norm must be above 0")
        self.tokens, self.length, self.first_place = tokens, length, first_place
        self.sequences, self.evaluated = sequences, evaluated
        self.norms = {
            "output_2": output_norm * math.sqrt(tokens),
            "key_2": token_norm * math.sqrt(tokens),
            "key_1": position_norm * math.sqrt(length),
        }

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the first 256 sequences of seed 0, with their answers."""
        splits: tuple[Split, ...] = ("validation", "test")
        return {
            split: hashlib.sha256(b"".join(part.numpy().tobytes() for part in drawn)).hexdigest()
            for split in splits
            for drawn in [self.draw(256, split, 0, 0)]
        }

    def draw(self, count: int, split: Split, seed: int, purpose: int) -> tuple[Tensor, Tensor]:
        """Sequences int64 (count, length) and their answers (count,)."""
        key = np.random.SeedSequence([split == "test", seed, purpose])
        generator = np.random.Generator(np.random.Philox(key))
        trigger = generator.integers(0, self.tokens, (count, 1))
        # Uniform over all tokens but the trigger; the output as well.
        other = (trigger + generator.integers(1, self.tokens, (count, self.length))) % self.tokens
        place = generator.integers(self.first_place - 1, self.length - 2, (count, 1))
        sequences = other.copy()
        np.put_along_axis(sequences, place, trigger, axis=1)
        sequences[:, -1:] = trigger
        answers = np.take_along_axis(sequences, place + 1, axis=1)[:, 0]
        return torch.from_numpy(sequences), torch.from_numpy(answers)

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """One step on each matrix in turn, each on sequences of its own, with probes in between."""
        model: Any = fitting_model(
            build, self.tokens, self.length, seed=seed, offers=ORDER, choose=CHOOSE
        )
        evaluated = tuple(part.to(device) for part in self.draw(self.evaluated, split, seed, 0))
        # Before any step: what the initial values answer by themselves.
        points = [self._found(model, *evaluated)]
        for number, name in enumerate(ORDER, start=1):
            drawn = tuple(
                part.to(device) for part in self.draw(self.sequences, split, seed, number)
            )
            matrix = getattr(model, name)
            # Sequences of its own for each step: no step is fitted to what an earlier one has seen.
            gradient = _gradient(model, matrix, *drawn)
            with torch.no_grad():
                # A small norm would leave the attention flat for the steps after it.
                matrix -= gradient * (self.norms[name] / gradient.norm().clamp(min=1e-30))
            points.append(self._found(model, *evaluated))
            report("gradient steps", number, len(ORDER))
        metrics = {f"accuracy_after_{k}": point["accuracy"] for k, point in enumerate(points)}
        steps = [float(k) for k in range(len(points))]
        return Evaluation(
            metrics={**metrics, **points[-1]},
            curves={
                name: {"x": steps, "y": [point[name] for point in points]} for name in points[0]
            },
        )

    @torch.no_grad()
    def _found(self, model: Any, inputs: Tensor, answers: Tensor) -> dict[str, float]:
        right = sum(
            int((model(part)[:, -1].argmax(-1) == wanted).sum())
            for part, wanted in _chunks(inputs, answers)
        )
        return {
            "accuracy": right / len(answers),
            "output_recall": output_recall(model),
            "token_recall": token_recall(model),
            "position_recall": position_recall(model),
        }


def _gradient(model: nn.Module, matrix: nn.Parameter, inputs: Tensor, answers: Tensor) -> Tensor:
    """The gradient by ``matrix`` of the mean cross-entropy of the last position's answer."""
    total = torch.zeros_like(matrix)
    for part, wanted in _chunks(inputs, answers):
        # A sum over chunks divided by all: the gradient of the mean.
        loss = functional.cross_entropy(model(part)[:, -1], wanted, reduction="sum") / len(answers)
        total += torch.autograd.grad(loss, matrix)[0]
    return total


def _chunks(inputs: Tensor, answers: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    yield from zip(inputs.split(CHUNK), answers.split(CHUNK), strict=True)
