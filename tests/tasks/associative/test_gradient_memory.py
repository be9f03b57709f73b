"""Gradients as memories: the lemmas against numerical differences, and the sheet of accuracies."""

import math
from functools import cache
from typing import Any

import pytest
import torch

from models.associative.learnable import Learnable
from models.associative.matrix import Matrix
from tasks.gradient_memory import GradientMemory
from tasks.gradient_memory.lemmas import clean_gradient, noisy_gradient
from tasks.interface import Evaluation
from tests.closeness import rounding

SETTINGS: dict[str, Any] = {
    "tokens": [32, 64, 256],
    "dimensions": [16, 64, 128, 256],
    "noisy_tokens": [64],
    "noises": [8, 64],
    "samples_per_token": [1, 64],
    "trials": 5,
}


@cache
def measured() -> Evaluation:
    task = GradientMemory(**SETTINGS)
    return task.measure(lambda *sizes, seed=0: Matrix(*sizes), "test", 0, "cpu", lambda *_: None)


def differences(weight: torch.Tensor, inputs: Any, outputs: Any, joint: Any) -> torch.Tensor:
    """The gradient of the population's cross-entropy by central differences, one trial."""

    def loss(weight: torch.Tensor) -> float:
        return -((inputs @ weight @ outputs.T).log_softmax(-1) * joint).sum().item()

    gradient, h = torch.zeros_like(weight), 1e-5
    for i in range(len(weight)):
        for j in range(len(weight)):
            step = torch.zeros_like(weight)
            step[i, j] = h
            gradient[i, j] = (loss(weight + step) - loss(weight - step)) / (2 * h)
    return gradient


def test_lemmas_against_differences() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, inputs, outputs = (
        torch.randn(2, rows, 4, generator=generator, dtype=torch.float64) for rows in (4, 6, 3)
    )
    joint = torch.rand(6, 3, generator=generator, dtype=torch.float64)
    joint /= joint.sum()
    for lemma in (clean_gradient, noisy_gradient):
        gradients = lemma(weight, inputs, outputs, joint)
        for trial in range(2):
            expected = differences(weight[trial], inputs[trial], outputs[trial], joint)
            # A difference is off by h² = 1e-10 times third derivatives of some units, and by the
            # rounding of a loss divided by h.
            by_rounding = rounding(10.0, torch.float64, terms=4 + 4 + 18) / 1e-5
            assert (gradients[trial] - expected).abs().max() <= 1e-8 + by_rounding


def test_lemmas_are_exact_in_float64() -> None:
    metrics = measured().metrics
    gaps = [metrics[f"gap/{name}"] for name in ("clean", "noisy", "cancelled")]
    assert max(gaps) < 1e-12
    assert metrics["gradient_gap"] == max(gaps)


@pytest.mark.parametrize("tokens", [32, 64, 256])
def test_scores_after_one_step(tokens: int) -> None:
    metrics = measured().metrics
    assert metrics[f"target/N={tokens}"] == pytest.approx(1 - 1 / tokens, abs=0.03)
    assert metrics[f"other/N={tokens}"] == pytest.approx(-1 / tokens, abs=0.002)
    spread = math.sqrt(tokens / 256**2 + 2 / 256)
    assert metrics[f"spread/N={tokens}"] == pytest.approx(spread, rel=0.06)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("N=32,d=16", 0.50),
        ("N=64,d=16", 0.26),
        ("N=256,d=64", 0.68),
        ("N=256,d=128", 0.999),
        ("T=8,N=64,d=16", 0.14),
        ("T=8,N=64,d=64", 0.89),
        ("T=64,N=64,d=64", 0.89),
        ("T=8,n=64", 0.28),
        ("T=64,n=64", 0.47),
        ("T=8,n=4096", 0.996),
    ],
)
def test_accuracies_of_an_independent_implementation(name: str, expected: float) -> None:
    assert measured().metrics[f"accuracy/{name}"] == pytest.approx(expected, abs=0.06)


def test_another_model_or_a_normalised_one_is_refused() -> None:
    task = GradientMemory(**SETTINGS)
    for build, sentence in (
        (lambda *sizes, seed=0: Learnable(*sizes), "models=matrix"),
        (lambda *sizes, seed=0: Matrix(*sizes, layer_norm=True), "layer_norm=false"),
    ):
        with pytest.raises(ValueError, match=sentence):
            task.measure(build, "test", 0, "cpu", lambda *_: None)


@pytest.mark.parametrize("change", [{"tokens": []}, {"noises": [0]}, {"trials": 1}])
def test_mistakes_get_a_sentence(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"tasks.{next(iter(change))} is"):
        GradientMemory(**(SETTINGS | change))
