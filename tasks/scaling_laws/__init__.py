"""How the error of an associative memory falls with its size and with the data it has seen.

Cabannes, Dohmatob and Bietti, "Scaling Laws for Associative Memories" (ICLR 2024, arXiv
2310.02984). Tokens z = 0 … N − 1 follow a Zipf law, p(z) ∝ (z + 1)^−α; the class of z is
f(z) = z mod M. Token z occurs c_z times among n samples, and the memory W = Σ q(z) v_f(z) u_zᵀ
weighs it by a scheme q of these counts. The error is over the whole population, without noise:
E = Σ_z p(z) 1{argmax_y v_yᵀ W u_z ≠ f(z)}.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement, Refused
from tasks.power_law import slope
from tasks.refusals import check_whole_numbers
from tasks.scaling_laws.draws import Draws, Lengths
from tasks.scaling_laws.errors import TrialBatch, trials_at_once
from tasks.zipf import zipf

POPULATION = "population"
HASHED_TOKENS = 64


@runtime_checkable
class Weighted(Protocol):
    """A memory that is a matrix Σ_z q(z) v_z u_zᵀ, as ``models.memories.outer_product``."""

    def weights(self, counts: Tensor) -> Tensor:
        """q, of the shape of ``counts`` (*batch, tokens), which may be probabilities; a ValueError
        where the scheme has no weights for these."""
        ...


class ScalingLaws(Measurement):
    """Errors of one weighting scheme against the size d of the memory and the samples n.

    Example: ``tokens=5, classes=2, alpha=2``, 10 samples of the test, seed 0:

        token z       0     1     2     3     4
        p(z)         .68   .17   .08   .04   .03
        count c_z     5     2     2     1     0
        class f(z)    0     1     0     1     0      asked for every token, weighed by p(z)

    A memory must answer tokens that it saw in spite of the others in the same matrix, and guesses
    the class of one that it did not see; one that holds nothing errs with 1 − 1/M.

    Args:
        tokens: N.
        classes: M.
        alpha: exponent of the Zipf law.
        dimensions: sizes d; keys and values have d numbers.
        samples: numbers n of samples that counts are drawn from.
        population: whether the memory is also weighed by the probabilities themselves, as after
            infinitely many samples; left out for a scheme that only whole counts define.
        trials: independent repeats, of counts and embeddings.
        inputs: "gaussian" (entries N(0, 1/d)) or "unit" (those at length 1) token vectors.
        outputs: the same for the vectors of classes.
        truncate: whether the vectors of every size are the first numbers of those of the largest,
            which is quicker and makes the errors of a trial at several sizes dependent.
        dtype: in which sums and scores are computed; the random numbers are the same.
        fit_dimensions: first and last d of the fitted power law in d.
        fit_samples: first and last n of the fitted power law in n.
    """

    headline = Metric("error", "minimise")

    def __init__(
        self,
        tokens: int = 1000,
        classes: int = 5,
        alpha: float = 2.0,
        dimensions: Sequence[int] = (8, 16, 32, 64, 128, 256, 512, 1024),
        samples: Sequence[int] = (10, 100, 1000, 10_000, 100_000),
        population: bool = True,
        trials: int = 100,
        inputs: Lengths = "gaussian",
        outputs: Lengths = "unit",
        truncate: bool = True,
        dtype: Literal["float32", "float64"] = "float32",
        fit_dimensions: Sequence[int] = (32, 1024),
        fit_samples: Sequence[int] = (10, 10_000),
    ) -> None:
        if not 2 <= classes <= tokens:
            raise ValueError(
                f"classes={classes} of tokens={tokens}: there are at least 2 classes, and a token "
                "for each"
            )
        if trials < 1:
            raise ValueError(f"trials={trials}: at least one is needed")
        if alpha < 0:
            raise ValueError(f"alpha={alpha}: rare tokens come later, so it is 0 or more")
        if not dimensions or not (samples or population):
            raise ValueError("nothing is measured: give dimensions, and samples or population=true")
        for name, values in (("dimensions", dimensions), ("samples", samples)):
            if values:
                check_whole_numbers(name, values)
            if not all(a < b for a, b in pairwise(values)):
                raise ValueError(f"tasks.{name} is {list(values)}, expected rising numbers")
        for name, window in (("fit_dimensions", fit_dimensions), ("fit_samples", fit_samples)):
            check_whole_numbers(name, window)
            if len(window) != 2 or window[0] >= window[1]:
                raise ValueError(
                    f"tasks.{name} is {list(window)}, expected the first and the last of a fit, "
                    "such as [32,1024]"
                )
        for name, lengths in (("inputs", inputs), ("outputs", outputs)):
            if lengths not in ("gaussian", "unit"):
                raise ValueError(f"{name}={lengths} is neither gaussian nor unit")
        if dtype not in ("float32", "float64"):
            raise ValueError(f"dtype={dtype} is neither float32 nor float64")
        self.tokens, self.classes, self.alpha = tokens, classes, alpha
        self.dimensions, self.samples = list(dimensions), list(samples)
        self.population, self.trials = population, trials
        self.inputs, self.outputs, self.truncate = inputs, outputs, truncate
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.fit_dimensions, self.fit_samples = tuple(fit_dimensions), tuple(fit_samples)
        self.probabilities = zipf(tokens, alpha).numpy()

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the first trial: its counts, and vectors of its classes and first tokens."""
        splits: tuple[Split, ...] = ("validation", "test")
        return {split: self._hash(self._draws(split, 0)) for split in splits}

    def _hash(self, draws: Draws) -> str:
        trials, width = range(1), max(self.dimensions)
        # The first tokens stand for all, which may be a million.
        _, tokens = next(draws.token_vectors(trials, 0, width, HASHED_TOKENS))
        content = [draws.counts(0, self.samples), draws.class_vectors(trials, 0, width), tokens]
        digest = hashlib.sha256(self.probabilities.tobytes())
        for numbers in content:
            digest.update(numbers.numpy().tobytes())
        return digest.hexdigest()

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """Errors of every trial at every n and d, and the slopes of their means.

        Raises:
            Refused: the model is not a weighted sum of outer products.
        """
        # Memories only say q here; their matrices are never filled.
        memories = {d: _weighted(build(d, d)) for d in self.dimensions}
        population = self.population and self._weighs_probabilities(memories)
        # The population first, then the samples in rising order.
        rows = [POPULATION] * population + [f"n={n}" for n in self.samples]
        if not rows:
            raise Refused("this scheme needs counts: give tasks.samples, such as [100, 1000]")
        # All n and the population share the vectors of a trial: differences between them are of q
        # alone.
        draws, width = self._draws(split, seed), max(self.dimensions)
        at_once = trials_at_once(self.tokens, width, len(rows) * self.classes)
        errors = []
        for start in range(0, self.trials, at_once):
            trials = range(start, min(start + at_once, self.trials))
            report("trials", start, self.trials)
            counts = self._counts(draws, trials, population)
            weights = {
                d: memory.weights(counts).to(device, self.dtype) for d, memory in memories.items()
            }
            errors.append(self._errors(draws, trials, weights))
        report("trials", self.trials, self.trials)
        return self._evaluation(rows, torch.cat(errors))

    def baselines(self) -> dict[str, Callable[[Split], Evaluation]]:
        """A table without limits, which knows every token that it saw (Hutter 2021)."""
        return {"infinite_memory": lambda split: self._infinite_memory()} if self.samples else {}

    def _infinite_memory(self) -> Evaluation:
        p = self.probabilities
        # (1 − p)ⁿ, without the rounding of 1 − p.
        unseen = [float(p @ np.exp(n * np.log1p(-p))) for n in self.samples]
        # Where a table guesses among the classes, as a memory does by the noise of its scores.
        errors = [mass * (1 - 1 / self.classes) for mass in unseen]
        metrics = {"error": errors[-1]} | _named("slope_in_n", self._slope_in_n(unseen))
        x = [float(n) for n in self.samples]
        curves = {"error": {"x": x, "y": errors}, "unseen_mass": {"x": x, "y": unseen}}
        return Evaluation(metrics, curves=curves)

    def _draws(self, split: Split, seed: int) -> Draws:
        return Draws(self.probabilities, self.classes, split, seed)

    def _weighs_probabilities(self, memories: Mapping[int, Weighted]) -> bool:
        p = torch.from_numpy(self.probabilities)
        try:
            # Some schemes have weights for whole counts only, or none at all for probabilities.
            return all(bool(memory.weights(p).any()) for memory in memories.values())
        except ValueError:
            return False

    def _counts(self, draws: Draws, trials: range, population: bool) -> Tensor:
        """Probabilities and counts, float64 (trials, rows, tokens)."""
        counts = torch.stack([draws.counts(trial, self.samples) for trial in trials])
        if not population:
            return counts
        p = torch.from_numpy(self.probabilities).expand(len(trials), 1, -1)
        return torch.cat([p, counts], dim=1)

    def _errors(self, draws: Draws, trials: range, weights: Mapping[int, Tensor]) -> Tensor:
        """float64 (trials, rows, dimensions)."""
        # One draw for all sizes, or one for each.
        together = [self.dimensions] if self.truncate else [[d] for d in self.dimensions]
        errors: dict[int, Tensor] = {}
        for group, dimensions in enumerate(together):
            group_weights = {d: weights[d] for d in dimensions}
            errors |= TrialBatch(
                draws, trials, group, group_weights, self.inputs, self.outputs
            ).errors()
        return torch.stack([errors[d] for d in self.dimensions], dim=-1)

    def _evaluation(self, rows: Sequence[str], errors: Tensor) -> Evaluation:
        means = dict(zip(rows, errors.mean(0).tolist(), strict=True))
        # W has d × d numbers whatever the classes are.
        matrix = max(self.dimensions) ** 2 * self.dtype.itemsize
        # The headline is at the most samples and the largest memory.
        metrics = {"error": means[rows[-1]][-1], "state_bytes": float(matrix)}
        curves = {}
        for row, y in means.items():
            low, high = self.fit_dimensions
            metrics |= _named(f"slope_in_d/{row}", slope(self.dimensions, y, low, high))
            curves[f"error/{row}"] = {"x": [float(d) for d in self.dimensions], "y": y}
        if POPULATION in means:
            metrics[f"error/{POPULATION}"] = means[POPULATION][-1]
        for place, d in enumerate(self.dimensions if self.samples else []):
            y = [means[f"n={n}"][place] for n in self.samples]
            metrics |= _named(f"slope_in_n/d={d}", self._slope_in_n(y))
            curves[f"error/d={d}"] = {"x": [float(n) for n in self.samples], "y": y}
        arrays = {f"errors/{row}": errors[:, place].tolist() for place, row in enumerate(rows)}
        return Evaluation(metrics, curves=curves, arrays=arrays)

    def _slope_in_n(self, errors: Sequence[float]) -> float | None:
        return slope(self.samples, errors, *self.fit_samples)


def _weighted(memory: torch.nn.Module) -> Weighted:
    if not isinstance(memory, Weighted):
        raise Refused(
            f"{type(memory).__name__} is no weighted sum of outer products, which scaling_laws "
            "measures: use models=outer_product"
        )
    return memory


def _named(name: str, value: float | None) -> dict[str, float]:
    return {} if value is None else {name: value}
