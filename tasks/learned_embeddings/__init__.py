"""How many classes two dimensions hold where the embeddings are learned.

Cabannes, Dohmatob and Bietti 2024, Scaling laws for associative memories (arXiv 2310.02984): fixed
random embeddings need many dimensions, learned ones do not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from models.associative.embedded import EmbeddedMemory
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Diverged, Measurement, Refused
from tasks.refusals import check_number, check_whole_numbers, fitting_model
from tasks.seeds import generator_of, seed_of
from tasks.zipf import zipf

CHOOSE = "learned_embeddings trains embeddings: choose models=learnable or models=exponential"


class LearnedEmbeddings(Measurement):
    """The error Σ_z p(z) 1{prediction ≠ z mod M} after training by Adam, for several M.

    Example: ``tokens=5, classes=(3,), batch=10``: the shares of two batches of the test, seed 0,
    and what is asked of each token:

        token     0    1    2    3    4
        batch 1  .8   .1    0   .1    0
        batch 2  .5   .2    0   .2   .1
        class     0    1    2    0    1      (z mod 3)

    Embeddings of two dimensions must turn so that each token points to its class; who always says
    class 0 errs with the mass of the other classes.

    Args:
        tokens: N.
        alpha: exponent of Zipf's law.
        dimension: d.
        classes: values of M.
        lr: of Adam, with PyTorch's other defaults.
        batch: fresh samples of a step.
        steps: of each training.
        trials: random embeddings and streams.

    Raises:
        ValueError: numbers that describe no training.
    """

    headline = Metric("error", "minimise")  # at the largest number of classes

    def __init__(
        self,
        tokens: int = 100,
        alpha: float = 2.0,
        dimension: int = 2,
        classes: Sequence[int] = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100),
        lr: float = 0.1,
        batch: int = 1000,
        steps: int = 1000,
        trials: int = 10,
    ) -> None:
        for name, number in (
            ("tokens", tokens),
            ("dimension", dimension),
            ("batch", batch),
            ("steps", steps),
            ("trials", trials),
        ):
            if number < 1:
                raise ValueError(f"tasks.{name} is {number}, expected at least 1")
        if alpha < 0:
            raise ValueError(f"tasks.alpha is {alpha:g}, expected a number from 0 on")
        check_number("lr", lr, 0)
        check_whole_numbers("classes", classes)
        if len(set(classes)) < len(classes) or max(classes) > tokens:
            raise ValueError(
                f"tasks.classes is {list(classes)}, expected different numbers up to "
                f"tasks.tokens={tokens}"
            )
        self.tokens, self.dimension, self.classes = tokens, dimension, sorted(classes)
        self.lr, self.batch, self.steps, self.trials = lr, batch, steps, trials
        self.probabilities = zipf(tokens, alpha)

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the probabilities and the first batches, for the first number of classes."""
        hashes = {}
        for split in ("validation", "test"):
            digest = hashlib.sha256(self.probabilities.numpy().tobytes())
            digest.update(self._shares(split, 0, self.classes[0], 10).numpy().tobytes())
            hashes[split] = digest.hexdigest()
        return hashes

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """Train for every number of classes.

        Metrics ``error`` at the largest and ``error/M=…``, means over trials; curve ``error``
        against M; array ``error``, by number of classes and trial.

        Raises:
            Diverged: scores of a trial are not finite.
            Refused: the model's embeddings are not trained.
        """
        errors_by_classes: list[list[float]] = []
        for place, classes in enumerate(self.classes):
            report("trainings", place, len(self.classes))
            # A generator of its own for each trial and number of classes.
            generators = [
                generator_of("start", split, seed, classes, trial) for trial in range(self.trials)
            ]
            model = self._model(build, classes, generators)
            errors_by_classes.append(
                self._train(model, self._shares(split, seed, classes, self.steps), device)
            )
        means = [sum(errors) / len(errors) for errors in errors_by_classes]
        metrics = {
            f"error/M={classes}": mean for classes, mean in zip(self.classes, means, strict=True)
        }
        curve = {"x": [float(classes) for classes in self.classes], "y": means}
        return Evaluation(
            {**metrics, "error": means[-1]},
            curves={"error": curve},
            arrays={"error": errors_by_classes},
        )

    def _model(
        self, build: Build, classes: int, generators: Sequence[torch.Generator]
    ) -> EmbeddedMemory:
        sizes = (self.tokens, self.dimension, classes)
        model = fitting_model(
            build, *sizes, generators, offers=("embedding", "read"), choose=CHOOSE
        )
        # A memory with fixed embeddings has them as buffers.
        if "embedding" not in dict(model.named_parameters()):
            raise Refused(CHOOSE)
        return cast(EmbeddedMemory, model)

    def _shares(self, split: Split, seed: int, classes: int, steps: int) -> Tensor:
        """How much of each batch is each token, float32 (steps, trials, tokens)."""
        generator = np.random.default_rng(seed_of("samples", split, seed, classes))
        size = (steps, self.trials)
        # Losses need only counts of tokens: a batch is a multinomial draw, not a list of samples.
        counts = generator.multinomial(self.batch, self.probabilities.numpy(), size)
        return torch.from_numpy(counts).float() / self.batch

    def _train(
        self, model: EmbeddedMemory, shares: Tensor, device: torch.device | str
    ) -> list[float]:
        """Errors by trial."""
        classes = model.readout.shape[-1]
        truth = (torch.arange(self.tokens, device=device) % classes).expand(self.trials, -1)
        optimiser = torch.optim.Adam(model.parameters(), self.lr)
        for share in shares.to(device):
            # All tokens at once, weighted by their share of the batch: the same mean loss.
            token_losses = functional.cross_entropy(
                model.read(model.embedding).mT, truth, reduction="none"
            )
            optimiser.zero_grad()
            (token_losses * share).sum().backward()
            optimiser.step()
        with torch.no_grad():
            scores = model.read(model.embedding)
        if not torch.isfinite(scores).all():
            raise Diverged(f"the scores of {classes} classes are not finite: lower tasks.lr")
        # In double, as the probabilities are: rare tokens weigh less than 1e-4.
        wrong = (scores.argmax(-1) != truth).double().cpu()
        errors: list[float] = (wrong @ self.probabilities).tolist()
        return errors
