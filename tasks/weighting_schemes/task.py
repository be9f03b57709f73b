"""Which weights gradient steps give to what they store, in small experiments.

Cabannes, Dohmatob and Bietti 2024, Scaling laws for associative memories (arXiv 2310.02984), with
the sizes of the authors' code: optimisers on the gradient of the population, batches of several
sizes, the weights that a step on each sample would give, and pictures of small memories. Where the
sizes leave the batches or a step open, they are settings.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from models.associative.embedded import EmbeddedMemory
from models.memories.outer_product import OuterProduct
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement
from tasks.optimisation.fixed import matrix_memory, normal_rows
from tasks.power_law import slope
from tasks.refusals import check_number, check_numbers, check_whole_numbers
from tasks.seeds import generator_of
from tasks.weighting_schemes.steps import RULES, approximate_weights, stored, walk
from tasks.zipf import zipf

CLASSES = 5
LOOKS = 40  # on a curve
PICTURED = (10, 50)  # dimensions
COUNTED = 1000  # largest count of the scheme of single samples
Device = torch.device | str
Alive = Callable[[], None]  # says that the work goes on


class WeightingSchemes(Measurement):
    """Memories of f(z) = z mod 5 from W = 0, between fixed Gaussian embeddings.

    Example: what c samples of a token, each a step γ, leave as its weight q(c), with 10 classes:

        c           1     2     3    10   100  1000
        γ = 0.01   .01   .02   .03   .09   .86  4.10     about in proportion to c
        γ = 1      .91  1.71  2.35  4.23  6.86  9.20     about ln(10 c) for large c

    Where tokens share a matrix the weights decide which are answered: the frequent ones alone if q
    grows with c, all of them only where the dimensions suffice. With q = 0 all scores are equal,
    and a guess among M classes is right with 1/M.

    Args:
        trials: random embeddings and streams.
        population_steps: steps on the population's gradient by SGD, by its sign and by its
            direction alone (N = 10, d = 10, α = 2, step 1).
        batches: sizes of a batch (N = 30, d = 30, α = 1.5).
        samples: which are used up by batches of every size.
        batch_lr: the step with every batch.
        epochs: steps on 1,000 fresh samples each, against the weights that they would give to
            tokens which do not disturb each other (N = 100, d = 10, α = 2, step 1).
        single_lrs: steps γ of q(c) = f(f(… f(0))), f(x) = x + γ / (1 + eˣ / 10), for c samples.

    Raises:
        ValueError: numbers that describe no such experiment.
    """

    headline = Metric("approximation_gap", "minimise")

    def __init__(
        self,
        trials: int = 100,
        population_steps: int = 100,
        batches: Sequence[int] = (1, 10, 100, 1000),
        samples: int = 10_000,
        batch_lr: float = 1.0,
        epochs: int = 100,
        single_lrs: Sequence[float] = (0.001, 0.01, 0.1, 1.0),
    ) -> None:
        for name, number in (
            ("trials", trials),
            ("population_steps", population_steps),
            ("samples", samples),
            ("epochs", epochs),
        ):
            if number < 1:
                raise ValueError(f"tasks.{name} is {number}, expected at least 1")
        check_whole_numbers("batches", batches)
        if any(samples % batch for batch in batches):
            raise ValueError(
                f"tasks.samples={samples} is not a whole number of batches of every size in "
                f"tasks.batches={list(batches)}: choose sizes that divide it"
            )
        check_number("batch_lr", batch_lr, 0)
        check_numbers("single_lrs", single_lrs, 0)
        self.trials, self.population_steps, self.epochs = trials, population_steps, epochs
        self.batches, self.samples, self.batch_lr = sorted(batches), samples, batch_lr
        self.single_lrs = sorted(single_lrs)

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the first numbers of every part's generator."""
        hashes = {}
        for split in ("validation", "test"):
            digest = hashlib.sha256()
            for part in PARTS:
                drawn = torch.randn(100, generator=generator_of(part, split, 0))
                digest.update(drawn.numpy().tobytes())
            hashes[split] = digest.hexdigest()
        return hashes

    def measure(
        self, build: Build, split: Split, seed: int, device: Device, report: Report
    ) -> Evaluation:
        """All experiments.

        Metrics: ``population_error/…`` of each rule and ``batch_error/B=…`` at the end, means over
        trials; ``approximation_gap``, how far the error with the approximate weights is from that
        of descent, a mean over trials and steps; ``exponent/lr=…``, the slope of log q(c) against
        log c up to a count of 1,000. Arrays ``population_error/…`` and ``batch_error/B=…`` by
        trial, ``picture/q=…,d=…``, softmax of the scores, (tokens, classes). Curves of all of
        them; those of batches are against samples.

        Raises:
            Refused: the model trains something else than one matrix.
        """
        result = Evaluation({})
        for done, (name, part) in enumerate(PARTS.items()):
            alive = partial(report, f"experiments: {name}", done, len(PARTS))
            alive()
            part(self, result, build, generator_of(name, split, seed), device, alive)
        return result

    def _population(
        self,
        result: Evaluation,
        build: Build,
        generator: torch.Generator,
        device: Device,
        alive: Alive,
    ) -> None:
        problem = _Problem.drawn(10, 10, 2.0, self.trials, generator, device)
        looks = range(self.population_steps + 1)
        for rule in RULES:
            shares = [problem.probabilities] * self.population_steps
            walked = walk(*problem.start(build), _told(shares, alive), 1.0, rule, looks)
            _keep(result, "population", rule, walked.steps, walked.errors, walked.losses)

    def _batch_sizes(
        self,
        result: Evaluation,
        build: Build,
        generator: torch.Generator,
        device: Device,
        alive: Alive,
    ) -> None:
        problem = _Problem.drawn(30, 30, 1.5, self.trials, generator, device)
        drawn = problem.samples(self.samples, generator)
        for batch in self.batches:
            steps = self.samples // batch
            # By equal factors of steps, so that a curve over log steps has its points evenly.
            looks = {0, *(round(steps ** (k / LOOKS)) for k in range(LOOKS + 1))}
            shares = _shares(drawn, batch, problem.tokens)
            walked = walk(*problem.start(build), _told(shares, alive), self.batch_lr, "sgd", looks)
            seen = [step * batch for step in walked.steps]
            _keep(result, "batch", f"B={batch}", seen, walked.errors, walked.losses)

    def _approximation(
        self,
        result: Evaluation,
        build: Build,
        generator: torch.Generator,
        device: Device,
        alive: Alive,
    ) -> None:
        problem = _Problem.drawn(100, 10, 2.0, self.trials, generator, device)
        drawn = problem.samples(1000 * self.epochs, generator)
        shares = list(_shares(drawn, 1000, problem.tokens))
        looks = range(self.epochs + 1)
        descent = walk(*problem.start(build), _told(shares, alive), 1.0, "sgd", looks)
        errors = torch.stack(
            [problem.errors(q).cpu() for q in approximate_weights(shares, 1.0, CLASSES)]
        )
        # Before the first step all scores are equal.
        gap = (errors - descent.errors)[1:].abs().mean().item()
        result.metrics["approximation_gap"] = gap
        for name, values in (("descent", descent.errors), ("weights", errors)):
            y = values[1:].mean(1).tolist()
            result.curves[f"approximation/{name}"] = {"x": _floats(looks[1:]), "y": y}

    def _pictures(
        self,
        result: Evaluation,
        build: Build,
        generator: torch.Generator,
        device: Device,
        alive: Alive,
    ) -> None:
        for dimension in PICTURED:
            problem = _Problem.drawn(10, dimension, 1.0, 1, generator, device)
            # Frequencies are drawn, not the law itself: 1,000 samples as in the authors' pictures.
            drawn = problem.samples(1000, generator)
            frequency = next(_shares(drawn, 1000, problem.tokens))
            for name, q in (("p", frequency), ("1", (frequency > 0).to(frequency))):
                scores = stored(q, problem.embedding, problem.readout, problem.classes)
                picture = scores[0].softmax(-1).tolist()
                result.arrays[f"picture/q={name},d={dimension}"] = picture

    def _single_samples(
        self,
        result: Evaluation,
        build: Build,
        generator: torch.Generator,
        device: Device,
        alive: Alive,
    ) -> None:
        counts = torch.arange(1, COUNTED + 1, dtype=torch.float64)
        plotted = sorted({round(COUNTED ** (k / LOOKS)) for k in range(LOOKS + 1)})
        for lr in self.single_lrs:
            scheme = OuterProduct(1, 1, scheme="gradient", step=lr, classes=10)
            q = scheme.weights(counts).tolist()
            # 1 where q is in proportion to the count, near 0 where it hardly grows.
            exponent = slope(counts.tolist(), q)
            assert exponent is not None
            result.metrics[f"exponent/lr={lr:g}"] = exponent
            curve = {"x": _floats(plotted), "y": [q[count - 1] for count in plotted]}
            result.curves[f"weights/lr={lr:g}"] = curve


PARTS = {
    "population": WeightingSchemes._population,
    "batch sizes": WeightingSchemes._batch_sizes,
    "approximation": WeightingSchemes._approximation,
    "pictures": WeightingSchemes._pictures,
    "single samples": WeightingSchemes._single_samples,
}


def _told(shares: Iterable[Tensor], alive: Alive) -> Iterator[Tensor]:
    """The same shares; the report hears of each hundred steps that the work goes on."""
    for number, share in enumerate(shares):
        if number % 100 == 0:
            alive()
        yield share


class _Problem:
    """Tokens, their classes and their embeddings, (trials, tokens, d) and (trials, d, classes)."""

    def __init__(
        self, probabilities: Tensor, embedding: Tensor, readout: Tensor, device: Device
    ) -> None:
        self.probabilities = probabilities.to(device)
        self.embedding, self.readout = embedding.to(device), readout.to(device)
        self.tokens = len(probabilities)
        self.classes = torch.arange(self.tokens, device=device) % CLASSES

    @classmethod
    def drawn(
        cls,
        tokens: int,
        dimension: int,
        alpha: float,
        trials: int,
        generator: torch.Generator,
        device: Device,
    ) -> _Problem:
        embedding = normal_rows(trials, tokens, dimension, generator=generator)
        readout = normal_rows(trials, CLASSES, dimension, generator=generator).mT
        return cls(zipf(tokens, alpha), embedding, readout, device)

    def start(self, build: Build) -> tuple[EmbeddedMemory, Tensor, Tensor]:
        """The memory before the first step, and what is asked of it."""
        trials, _, dimension = self.embedding.shape
        start = torch.zeros(trials, dimension, dimension)
        model = matrix_memory(build, self.embedding, self.readout, start)
        return model, self.classes, self.probabilities

    def samples(self, number: int, generator: torch.Generator) -> Tensor:
        """int64 (trials, number)."""
        trials = len(self.embedding)
        # CPU: its generator draws the same samples for every device.
        drawn = torch.multinomial(
            self.probabilities.cpu(), trials * number, replacement=True, generator=generator
        )
        return drawn.view(trials, number).to(self.probabilities.device)

    def errors(self, weights: Tensor) -> Tensor:
        """(trials,) of the memory with weights q, (trials, tokens)."""
        scores = stored(weights, self.embedding, self.readout, self.classes)
        return (scores.argmax(-1) != self.classes).double() @ self.probabilities


def _shares(drawn: Tensor, batch: int, tokens: int) -> Iterator[Tensor]:
    """The share of each token, float64 (trials, tokens), in consecutive batches of ``drawn``."""
    for part in drawn.split(batch, dim=1):
        counts = torch.zeros(len(drawn), tokens, dtype=torch.float64, device=drawn.device)
        yield counts.scatter_add_(1, part, torch.ones_like(part, dtype=torch.float64)) / batch


def _keep(
    result: Evaluation, part: str, name: str, x: Sequence[int], errors: Tensor, losses: Tensor
) -> None:
    """The end of every trial, and means over trials."""
    result.metrics[f"{part}_error/{name}"] = errors[-1].mean().item()
    result.arrays[f"{part}_error/{name}"] = errors[-1].tolist()
    for quantity, values in (("error", errors), ("loss", losses)):
        y = values.mean(1).tolist()
        # JSON has no infinity: a curve that diverged is left out, its end stays in the metrics.
        if all(map(math.isfinite, y)):
            result.curves[f"{part}_{quantity}/{name}"] = {"x": _floats(x), "y": y}


def _floats(numbers: Sequence[int]) -> list[float]:
    return [float(number) for number in numbers]
