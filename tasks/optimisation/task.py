"""One cell of the published grid: optimiser, step, batch and samples, at several dimensions.

Cabannes, Dohmatob and Bietti 2024, Scaling laws for associative memories (arXiv 2310.02984),
optimisation experiments, with the random numbers of the authors' code: the published errors come
out to four decimals.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from models.associative.embedded import EmbeddedMemory
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Diverged, Measurement
from tasks.optimisation.schemes import exponents, induced_weights
from tasks.optimisation.stream import draw
from tasks.optimisation.training import OPTIMISERS, train
from tasks.power_law import slope
from tasks.refusals import check_number, check_whole_numbers, fitting_model
from tasks.zipf import zipf

REPORT_EVERY = 50  # steps
LARGEST_SEED = 2**32
CHOOSE = (
    "optimisation trains memories of embedded tokens: choose models=matrix, models=learnable or "
    "models=exponential"
)


class Optimisation(Measurement):
    """The error that is left after one pass over Zipf samples: Σ_z p(z) 1{prediction ≠ z mod M}.

    Trial k of the test split with seed s uses the random seed first_seed + 2·s·trials + k,
    validation those after it. One generator gives first the numbers of the model and then the whole
    stream of samples; batches are consecutive.

    Example: ``tokens=5, classes=2, samples=64, batch=8, dimensions=(4,), trials=1``: two batches
    of the stream of seed 42, after the numbers of models=matrix, and their classes (z mod 2):

        batch 1  0 0 1 0 0 0 3 0     class  0 0 1 0 0 0 1 0
        batch 2  0 0 4 1 0 0 0 0            0 0 0 1 0 0 0 0

    One step follows each batch, on its mean cross-entropy; in the end each token is asked once,
    and its error counts by p(z). A model that always says class 0 errs with the mass of the
    others, 0.21.

    Args:
        tokens: N.
        classes: M.
        alpha: exponent of Zipf's law.
        optimiser: "sgd", or "adam" with both betas 0 and steps scaled by the model.
        lr: its step.
        batch: samples in a step, which divides ``samples``.
        samples: n, each used once.
        dimensions: values of d, each a training of its own.
        first_seed: 42 is the published one.
        trials: random seeds.

    Raises:
        ValueError: an unknown optimiser, or numbers that describe no training.
    """

    headline = Metric("error", "minimise")  # at the largest dimension

    def __init__(
        self,
        tokens: int = 100,
        classes: int = 5,
        alpha: float = 2.0,
        optimiser: str = "sgd",
        lr: float = 10.0,
        batch: int = 64,
        samples: int = 10_240,
        dimensions: Sequence[int] = (10, 20, 50, 100, 200, 500, 1000),
        first_seed: int = 42,
        trials: int = 10,
    ) -> None:
        if optimiser not in OPTIMISERS:
            raise ValueError(
                f"tasks.optimiser is '{optimiser}', expected one of {', '.join(OPTIMISERS)}"
            )
        for name, number, least in (
            ("tokens", tokens, 1),
            ("classes", classes, 1),
            ("batch", batch, 1),
            ("samples", samples, 1),
            ("first_seed", first_seed, 0),
            ("trials", trials, 1),
        ):
            if number < least:
                raise ValueError(
                    f"tasks.{name} is {number}, expected a whole number from {least} on"
                )
        if not (math.isfinite(alpha) and alpha >= 0):
            raise ValueError(f"tasks.alpha is {alpha}, expected a number from 0 on")
        if samples % batch:
            raise ValueError(
                f"tasks.samples={samples} is not a whole number of batches of {batch}: choose "
                f"tasks.batch so that it divides tasks.samples"
            )
        check_number("lr", lr, 0)
        if first_seed > LARGEST_SEED:
            raise ValueError(f"tasks.first_seed is {first_seed}, expected at most {LARGEST_SEED:,}")
        check_whole_numbers("dimensions", dimensions)
        if len(set(dimensions)) < len(dimensions):
            raise ValueError(
                f"tasks.dimensions is {list(dimensions)}, expected different numbers, such as "
                "[10,100]"
            )
        self.tokens, self.alpha = tokens, alpha
        self.optimiser, self.lr, self.batch, self.samples = optimiser, lr, batch, samples
        self.dimensions = sorted(dimensions)
        self.first_seed, self.trials = first_seed, trials
        self.classes = classes
        # float32, as in the authors' code, whose draws come out again.
        self.probabilities = zipf(tokens, alpha, torch.float32)
        self.truth = torch.arange(tokens) % classes

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the probabilities and of the first numbers of every generator: what it gives
        later depends on how many numbers the model takes first."""
        return {split: self._hash(split) for split in ("validation", "test")}

    def _hash(self, split: Split) -> str:
        digest = hashlib.sha256(self.probabilities.numpy().tobytes())
        for generator in self._generators(split, 0):
            digest.update(torch.randn(100, generator=generator).numpy().tobytes())
        return digest.hexdigest()

    def _generators(self, split: Split, seed: int) -> list[torch.Generator]:
        # Seeds 42 … 51 of the test split are the published trials; validation takes those after
        # them.
        first = self.first_seed + self.trials * (2 * seed + (split == "validation"))
        return [torch.Generator().manual_seed(first + k) for k in range(self.trials)]

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """Train at every dimension.

        Metrics: ``error`` at the largest dimension and ``error/d=…``, means over trials;
        ``deviation/d=…`` over trials (n − 1); ``exponent/d=…``, the slope of log q against log
        count where the matrix alone is trained and d ≥ N; ``diverged/d=…``, how many trials ended
        with scores that are not finite, where any did: that dimension then has no other number.
        ``slope`` of log error against log d. Curve ``error``; arrays ``error`` and ``exponent``, a
        list over trials for each dimension (empty where there is none).

        Raises:
            Diverged: no dimension has a number.
            Refused: the model is no memory of embedded tokens.
        """
        metrics: dict[str, float] = {}
        points: list[tuple[int, float]] = []
        by_trial: dict[str, list[list[float]]] = {"error": [], "exponent": []}
        for place, dimension in enumerate(self.dimensions):
            generators = self._generators(split, seed)
            sizes = (self.tokens, dimension, self.classes)
            model = fitting_model(build, *sizes, generators, offers=("step_scales",), choose=CHOOSE)
            errors, slopes = self._train(model, generators, device, report, place)
            lost = int((~torch.isfinite(errors)).sum())
            by_trial["error"].append([] if lost else errors.tolist())
            by_trial["exponent"].append([] if slopes is None or lost else slopes.tolist())
            if lost:
                metrics[f"diverged/d={dimension}"] = float(lost)
                continue
            points.append((dimension, errors.mean().item()))
            metrics[f"error/d={dimension}"] = points[-1][1]
            if self.trials > 1:
                metrics[f"deviation/d={dimension}"] = errors.std().item()
            if slopes is not None and torch.isfinite(slopes).all():
                metrics[f"exponent/d={dimension}"] = slopes.mean().item()
            metrics["parameters"] = float(sum(p[0].numel() for p in model.parameters()))
        if not points:
            raise Diverged(
                f"the scores of some trials are not finite after {self.samples // self.batch} "
                f"steps of {self.optimiser} with lr {self.lr:g}, at every dimension"
            )
        # The headline is of the largest dimension or of none.
        if points[-1][0] == self.dimensions[-1]:
            metrics["error"] = points[-1][1]
        fitted = slope([d for d, _ in points], [error for _, error in points])
        if fitted is not None:
            metrics["slope"] = fitted
        curve = {"x": [float(d) for d, _ in points], "y": [error for _, error in points]}
        return Evaluation(metrics, curves={"error": curve}, arrays=by_trial)

    def _train(
        self,
        model: nn.Module,
        generators: Sequence[torch.Generator],
        device: torch.device | str,
        report: Report,
        place: int,
    ) -> tuple[Tensor, Tensor | None]:
        # After the numbers of the model, from the same generators: as the authors' code draws.
        tokens = draw(self.probabilities, self.samples, generators).to(device)
        truth = self.truth.to(device)
        start = {name: value.detach().clone() for name, value in model.named_parameters()}
        steps = self.samples // self.batch
        done = place * steps

        def after_step() -> None:
            nonlocal done
            done += 1
            if done % REPORT_EVERY == 0:
                report("steps", done, steps * len(self.dimensions))

        train(model, tokens, truth[tokens], self.optimiser, self.lr, self.batch, after_step)
        with torch.no_grad():
            scores = model(torch.arange(self.tokens, device=device).expand(self.trials, -1))
            wrong = (scores.argmax(-1) != truth).float() @ self.probabilities.to(device)
            # A trial whose scores are not finite has no error, rather than argmax's first class.
            errors = torch.where(torch.isfinite(scores).all((1, 2)), wrong, torch.nan).cpu()
            if set(start) != {"weight"} or errors.isnan().any():
                return errors, None
            matrix = cast(EmbeddedMemory, model)
            # With fewer dimensions than tokens the coefficients are not unique.
            if matrix.dimension < max(self.tokens, self.classes):
                return errors, None
            change = matrix.get_parameter("weight") - start["weight"]
            counts = torch.stack([row.bincount(minlength=self.tokens) for row in tokens])
            weights = induced_weights(change, matrix.embedding, matrix.readout, truth)
            return errors, exponents(weights, counts).cpu()
