"""One gradient step from zero, measured against both lemmas on gradients as memories."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from models.associative.embedded import EmbeddedMemory
from tasks.gradient_memory.lemmas import autograd_gradient, clean_gradient, noisy_gradient
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement, Refused
from tasks.optimisation.fixed import matrix_memory, normal_rows
from tasks.refusals import check_whole_numbers

LEMMA_TOKENS, LEMMA_CLASSES, LEMMA_DIMENSION = 20, 7, 16
SAMPLED_TOKENS, SAMPLED_DIMENSION = 64, 128

Device = torch.device | str


class GradientMemory(Measurement):
    """Exactness of the two lemmas, and how many tokens one step can store.

    Without noise, z is uniform and its class f(z) a permutation. With noise, the input is u_y + n_t
    for independent uniform y and t, the class is y, and accuracy is over all pairs (y, t).

    Example: four tokens of classes 0, 2, 1, 3 at d = 64, seed 0, and the scores after one step
    from zero, times N; the lemma says 1 − 1/N = .75 for the right class and −1/N = −.25 for the
    others, with a spread of about √(N/d² + O(1/d)):

        token 0   .98  -.15  -.44  -.34     token 2  -.02   .50  -.27  -.21
        token 1  -.22  -.20   .60  -.31     token 3  -.17  -.26  -.35   .96

    The step must leave the right class the largest score of each row; before it all are 0, and a
    guess is right with 1/N.

    Args:
        tokens: values of N without noise.
        dimensions: values of d.
        noisy_tokens: values of N with noise.
        noises: values of T, how many vectors n_t there are.
        samples_per_token: n / N where the step sees n samples instead of the population.
        trials: random embeddings.

    Raises:
        ValueError: a list that is empty or holds numbers below 1, or fewer than two trials.
    """

    headline = Metric("gradient_gap", "minimise")

    def __init__(
        self,
        tokens: Sequence[int] = (32, 64, 128, 256, 512),
        dimensions: Sequence[int] = (16, 32, 64, 128, 256),
        noisy_tokens: Sequence[int] = (32, 64, 128),
        noises: Sequence[int] = (8, 64),
        samples_per_token: Sequence[int] = (1, 4, 16, 64),
        trials: int = 20,
    ) -> None:
        lists = {
            "tokens": tokens,
            "dimensions": dimensions,
            "noisy_tokens": noisy_tokens,
            "noises": noises,
            "samples_per_token": samples_per_token,
        }
        for name, values in lists.items():
            check_whole_numbers(name, values)
        if trials < 2:
            raise ValueError(f"tasks.trials is {trials}, expected at least 2")
        self.tokens, self.dimensions = sorted(tokens), sorted(dimensions)
        self.noisy_tokens, self.noises = sorted(noisy_tokens), sorted(noises)
        self.samples_per_token, self.trials = sorted(samples_per_token), trials

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the first numbers of the generator that everything is drawn from."""

        def first(split: Split) -> str:
            drawn = torch.randn(1000, generator=_generator(split, 0))
            return hashlib.sha256(drawn.numpy().tobytes()).hexdigest()

        return {"validation": first("validation"), "test": first("test")}

    def measure(
        self, build: Build, split: Split, seed: int, device: Device, report: Report
    ) -> Evaluation:
        """Lemmas in float64, accuracies in float32.

        Metrics: ``gap/clean``, ``gap/noisy`` and ``gap/cancelled`` are largest differences of an
        entry: automatic differentiation against each lemma at random W and random probabilities,
        and one step on noisy inputs against the step in which the noise does not appear; their
        maximum is ``gradient_gap``. ``accuracy/N=…,d=…``; ``accuracy/T=…,N=…,d=…``;
        ``accuracy/T=…,n=…`` from samples. At the largest dimension, scores times N / lr:
        ``target/N=…`` and ``other/N=…``, means for the right and for other classes, and
        ``spread/N=…``, the standard deviation of the latter. Arrays of the same names hold the
        accuracies by trial.

        Raises:
            Refused: the model is not one matrix with scores linear in it.
        """
        generator = _generator(split, seed)
        result = Evaluation({})
        # In a fixed order: all parts draw from one generator.
        parts = (self._lemmas, self._clean, self._noisy, self._sampled)
        for done, part in enumerate(parts):
            report("experiments", done, len(parts))
            part(result, build, generator, device)
        return result

    def _lemmas(
        self, result: Evaluation, build: Build, generator: torch.Generator, device: Device
    ) -> None:
        size = (self.trials, LEMMA_DIMENSION)
        # float64: a lemma holds to the last digits or not at all.
        inputs = normal_rows(self.trials, LEMMA_TOKENS, size[1], generator=generator).to(device)
        outputs = normal_rows(self.trials, LEMMA_CLASSES, size[1], generator=generator).to(device)
        weight = torch.randn(
            self.trials, size[1], size[1], generator=generator, dtype=torch.float64
        ).to(device)
        joint = torch.rand(
            LEMMA_TOKENS, LEMMA_CLASSES, generator=generator, dtype=torch.float64
        ).to(device)
        joint = joint / joint.sum()
        model = _memory(build, inputs, outputs, weight)
        derived = autograd_gradient(model, inputs, joint)
        for name, lemma in (("clean", clean_gradient), ("noisy", noisy_gradient)):
            gap = (derived - lemma(weight, inputs, outputs, joint)).abs().max().item()
            result.metrics[f"gap/{name}"] = gap
        noise = normal_rows(self.trials, self.noises[0], size[1], generator=generator).to(device)
        meanings = inputs[:, :LEMMA_CLASSES]
        # Every pair (y, t) once, and W = 0: independent noise then averages out exactly.
        noisy, of_pairs = _pairs(meanings, noise)
        start = torch.zeros_like(weight)
        with_noise = autograd_gradient(_memory(build, noisy, outputs, start), noisy, of_pairs)
        # p(y, k) is the identity over K classes; y and k are the same things.
        identity = torch.eye(LEMMA_CLASSES, dtype=torch.float64, device=device) / LEMMA_CLASSES
        without = clean_gradient(start, meanings, outputs, identity)
        result.metrics["gap/cancelled"] = (with_noise - without).abs().max().item()
        result.metrics["gradient_gap"] = max(
            value for name, value in result.metrics.items() if name.startswith("gap/")
        )

    def _clean(
        self, result: Evaluation, build: Build, generator: torch.Generator, device: Device
    ) -> None:
        for tokens, dimension in product(self.tokens, self.dimensions):
            inputs, outputs = self._embeddings(tokens, dimension, generator, device)
            classes = torch.randperm(tokens, generator=generator).to(device)
            joint = torch.eye(tokens, device=device)[classes] / tokens
            model = _one_step(build, inputs, outputs, inputs, joint)
            with torch.no_grad():
                # Times N, as the step is 1: theory has 1 − 1/N for the right class, −1/N for the
                # others.
                scores = model.read(inputs) * tokens
            right = scores.argmax(-1) == classes
            self._accuracy(result, f"N={tokens},d={dimension}", right.float().mean(-1))
            if dimension == self.dimensions[-1]:
                of_target = (joint > 0).expand_as(scores)
                result.metrics[f"target/N={tokens}"] = scores[of_target].mean().item()
                # One class has no other.
                if tokens > 1:
                    result.metrics[f"other/N={tokens}"] = scores[~of_target].mean().item()
                    result.metrics[f"spread/N={tokens}"] = scores[~of_target].std().item()

    def _noisy(
        self, result: Evaluation, build: Build, generator: torch.Generator, device: Device
    ) -> None:
        for noises, tokens, dimension in product(self.noises, self.noisy_tokens, self.dimensions):
            inputs, outputs = self._embeddings(tokens, dimension, generator, device)
            noise = normal_rows(self.trials, noises, dimension, generator=generator)
            pairs, joint = _pairs(inputs, noise.float().to(device))
            right = _right(_one_step(build, inputs, outputs, pairs, joint), pairs, noises)
            self._accuracy(result, f"T={noises},N={tokens},d={dimension}", right)

    def _sampled(
        self, result: Evaluation, build: Build, generator: torch.Generator, device: Device
    ) -> None:
        for noises, factor in product(self.noises, self.samples_per_token):
            inputs, outputs = self._embeddings(SAMPLED_TOKENS, SAMPLED_DIMENSION, generator, device)
            noise = normal_rows(self.trials, noises, SAMPLED_DIMENSION, generator=generator)
            pairs, _ = _pairs(inputs, noise.float().to(device))
            number, possible = factor * SAMPLED_TOKENS, SAMPLED_TOKENS * noises
            drawn = torch.randint(possible, (self.trials, number), generator=generator)
            # Counts instead of samples: the loss is linear in the probabilities.
            counts = torch.zeros(self.trials, possible).scatter_add_(
                1, drawn, torch.ones_like(drawn, dtype=torch.float32)
            )
            classes = torch.arange(possible) // noises
            joint = torch.eye(SAMPLED_TOKENS)[classes] * (counts / number)[..., None]
            model = _one_step(build, inputs, outputs, pairs, joint.to(device))
            self._accuracy(result, f"T={noises},n={number}", _right(model, pairs, noises))

    def _embeddings(
        self, tokens: int, dimension: int, generator: torch.Generator, device: Device
    ) -> tuple[Tensor, Tensor]:
        inputs = normal_rows(self.trials, tokens, dimension, generator=generator)
        outputs = normal_rows(self.trials, tokens, dimension, generator=generator)
        return inputs.float().to(device), outputs.float().to(device)

    def _accuracy(self, result: Evaluation, name: str, by_trial: Tensor) -> None:
        result.metrics[f"accuracy/{name}"] = by_trial.mean().item()
        result.arrays[f"accuracy/{name}"] = by_trial.tolist()


def _generator(split: Split, seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(2 * seed + (split == "validation"))


def _memory(build: Build, inputs: Tensor, outputs: Tensor, weight: Tensor) -> EmbeddedMemory:
    model = matrix_memory(build, inputs, outputs.mT, weight)
    if getattr(model, "layer_norm", False):
        raise Refused(
            "the lemmas are about scores that are linear in the matrix: choose "
            "models.layer_norm=false"
        )
    return model


def _one_step(
    build: Build, inputs: Tensor, outputs: Tensor, seen: Tensor, joint: Tensor
) -> EmbeddedMemory:
    """The memory after a step of size 1 from zero, on vectors with joint probabilities."""
    trials, _, dimension = inputs.shape
    start = torch.zeros(trials, dimension, dimension)
    model = _memory(build, inputs, outputs, start)
    gradient = autograd_gradient(model, seen, joint)
    with torch.no_grad():
        for parameter in model.parameters():
            # Of any size: scores are in proportion to it, and their order is not changed.
            parameter.sub_(gradient)
    return model


def _pairs(inputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """All u_y + n_t, (trials, N · T, d) with t running fastest, and p(x, k), (N · T, N)."""
    # t runs fastest: pair i has the token i // T.
    tokens, noises = inputs.shape[1], noise.shape[1]
    pairs = (inputs[:, :, None] + noise[:, None]).flatten(1, 2)
    joint = torch.eye(tokens, dtype=inputs.dtype, device=inputs.device)
    return pairs, joint.repeat_interleave(noises, 0) / (tokens * noises)


def _right(model: EmbeddedMemory, pairs: Tensor, noises: int) -> Tensor:
    """(trials,) share of the pairs that are answered by their token."""
    with torch.no_grad():
        answers = model.read(pairs).argmax(-1)
    classes = torch.arange(pairs.shape[1], device=pairs.device) // noises
    return (answers == classes).float().mean(-1)
