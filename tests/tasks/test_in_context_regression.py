"""In-context regression: predictors against scipy, gradients of autograd and closed forms."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import linalg
from torch import Tensor, nn

from bench.training.building import build_measurement, model_builder
from core.progress import silent
from tasks.in_context_regression import InContextRegression
from tasks.in_context_regression.draws import Drawn, Functions
from tasks.in_context_regression.predictors import STEPS, descent, references, ridge
from tasks.interface import Evaluation
from tests.closeness import rounding
from tests.configurations import compose

D, PAIRS = 4, 8
SMALL: dict[str, Any] = {"dimension": D, "pairs": PAIRS, "validation_size": 8, "test_size": 32}
MANY = Functions(D, PAIRS, 0.0).draw(2000, 7)


def errors(answers: np.ndarray, drawn: Drawn) -> np.ndarray:
    return ((answers - drawn.values) ** 2).mean(0)


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_ridge_is_that_of_scipy_sequence_by_sequence(penalty: float) -> None:
    drawn = Functions(D, PAIRS, 0.5).draw(6, 1)
    answers = ridge(drawn, penalty)
    assert not answers[:, 0].any()
    for sequence in range(6):
        x, y = drawn.vectors[sequence], drawn.observed[sequence]
        for k in range(1, PAIRS + 1):
            if penalty:
                system = x[:k].T @ x[:k] + penalty * np.eye(D)
                weights = linalg.solve(system, x[:k].T @ y[:k], assume_a="pos")
            else:
                weights = linalg.lstsq(x[:k], y[:k])[0]
            assert answers[sequence, k] == pytest.approx(x[k] @ weights, abs=1e-9)


def test_descent_takes_the_gradients_of_autograd() -> None:
    noise, k = 0.5, 5
    drawn = Functions(D, PAIRS, noise).draw(3, 2)
    x, y = (torch.from_numpy(part) for part in (drawn.vectors, drawn.observed))
    for steps in STEPS:
        weights = torch.zeros(3, D, dtype=torch.float64, requires_grad=True)
        for _ in range(steps):
            loss = (torch.einsum("skd,sd->sk", x[:, :k], weights) - y[:, :k]).square().sum() / 2
            (gradient,) = torch.autograd.grad(loss, weights)
            step = weights - gradient / (k + D + 1 + D * noise**2)
            weights = step.detach().requires_grad_()
        expected = (weights.detach() * x[:, k]).sum(-1).numpy()
        assert descent(drawn, noise, steps)[:, k] == pytest.approx(expected, abs=1e-12)


def test_errors_are_those_of_theory() -> None:
    pairs = np.arange(PAIRS + 1)
    # A random subspace of k directions holds k/d of the weights.
    assert errors(ridge(MANY, 0.0), MANY) == pytest.approx(np.maximum(0, 1 - pairs / D), abs=0.09)
    # 1 - k² / E|Xᵀy|² with E (XᵀX)² = k (k + d + 1), minimal over the step size.
    assert errors(descent(MANY, 0.0, 1), MANY) == pytest.approx((D + 1) / (pairs + D + 1), abs=0.09)
    few = Functions(D, PAIRS, 0.0).draw(50, 7)
    assert np.abs((descent(few, 0.0, 1000) - ridge(few, 0.0))[:, [2, PAIRS]]).mean() < 0.01
    noisy = Functions(D, PAIRS, 1.0).draw(2000, 8)
    best, *others = (errors(ridge(noisy, penalty), noisy).mean() for penalty in (D, D / 4, 4 * D))
    assert best < min(others)


def measured(model: str, *words: str) -> Evaluation:
    sizes = (f"tasks.dimension={D}", f"tasks.pairs={PAIRS}", "tasks.sequences=1500")
    task = "tasks=in_context_regression_memories"
    composed = compose([task, f"models={model}", "device=cpu", *sizes, *words])
    build = model_builder(composed, torch.device("cpu"))
    return build_measurement(composed).measure(build, "test", 0, "cpu", silent)


def test_memories_answer_as_their_theory_says() -> None:
    pairs = np.arange(PAIRS + 1)
    delta = measured("delta_rule").curves["error_by_pairs"]["y"]
    # Projections on random directions (Kaczmarz): each leaves 1 - 1/d of the squared error.
    assert delta == pytest.approx((1 - 1 / D) ** pairs, abs=0.12)
    # A sum of v kᵀ over unit keys: E|w - Mk|² with k = d directions of weight 1/d each.
    hebb = measured("outer_product").curves["error_by_pairs"]["y"]
    expected = 1 - 2 * pairs / D + pairs / D + pairs * (pairs - 1) / D**2
    assert hebb == pytest.approx(expected, abs=0.3)
    exact = measured("ridge", "models.ridge=1e-6").metrics
    # Of fewer pairs than dimensions the system is singular but for the ridge, which stretches
    # rounding by 1 / ridge; the measure is a square.
    assert exact["from_ridge"] < (torch.finfo(torch.float32).eps / 1e-6) ** 2
    assert exact["state_bytes"] == 4 * (D * D + D)


def test_a_memory_that_diverges_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from models.memories.delta_rule import DeltaRule
    from models.memories.interface import Reading
    from tasks.measurement import Diverged

    def nothing(self: DeltaRule, keys: Tensor) -> Reading:
        return Reading(keys[..., :1] * torch.nan, keys[..., 0])

    monkeypatch.setattr(DeltaRule, "_read", nothing)
    with pytest.raises(Diverged, match="query 2 of 9"):
        measured("delta_rule", "tasks.sequences=3")


class LeastSquares(nn.Module):
    """Reads pairs off the positions and solves for each query."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = inputs.new_zeros(*inputs.shape[:2], 1)
        x, y = inputs[:, ::2, :-1].double(), inputs[:, 1::2, -1:].double()
        for k in range(1, x.shape[1]):
            weights = torch.linalg.pinv(x[:, :k]) @ y[:, :k]
            outputs[:, 2 * k] = (x[:, k, None] @ weights)[:, 0].float()
        return outputs


def test_a_model_that_solves_the_sequence_is_the_oracle() -> None:
    task = InContextRegression(**SMALL)
    with torch.no_grad():
        found = task.evaluate(LeastSquares(), "test", "cpu").metrics
    oracle = task.baselines()["ridge (oracle)"]("test").metrics
    assert found["from_ridge"] < 1e-6
    assert found["error"] == pytest.approx(oracle["error"], abs=1e-4)
    assert found["loss"] == pytest.approx(found["error"])
    assert found["error_at_end"] < 1e-4 < found["error_at_dimension"] + 1e-4
    assert found["from_1_step"] == pytest.approx(oracle["from_1_step"], abs=1e-3)


@pytest.mark.parametrize("tokens", ["pairs", "alternating"])
def test_positions_hold_vectors_then_values_and_the_value_is_asked_for(tokens: Any) -> None:
    task = InContextRegression(**SMALL, noise=0.3, tokens=tokens)
    batch = task.training_batch(1, 2, 3)
    assert batch.inputs.shape == (3, 2 * PAIRS + 1, D + 1)
    assert not batch.inputs[:, ::2, D].any()
    again = batch.inputs[:, :-1:2, :D] if tokens == "pairs" else torch.zeros(3, PAIRS, D)
    assert torch.equal(batch.inputs[:, 1::2, :D], again)
    assert torch.equal(batch.inputs[:, 1::2, D], batch.targets[:, :-1:2, 0])
    assert not batch.targets[:, 1::2].any()
    # The loss leaves the other positions out.
    outputs = batch.targets.clone()
    outputs[:, 1::2] = 9.0
    largest = float(batch.targets.abs().max())
    assert float(task.loss(outputs, batch)) <= rounding(largest, torch.float32) ** 2  # a square
    # Least squares on all pairs but one leave no more than the noise.
    x, y = batch.inputs[:, ::2, :D].double(), batch.targets[:, ::2].double()
    left = (x @ torch.linalg.lstsq(x, y).solution - y).std()
    assert 0.05 < float(left) < 0.5


def test_scores_are_means_over_sequences() -> None:
    task = InContextRegression(**SMALL)
    one = task.baselines()["4 gradient steps"]("test")
    assert one.metrics["from_4_steps"] == 0.0
    for name, values in one.per_sequence.items():
        assert one.metrics[name] == pytest.approx(np.mean(values))
    assert one.metrics["error"] == pytest.approx(np.mean(one.curves["error_by_pairs"]["y"]))
    assert one.metrics["error_at_end"] == pytest.approx(one.curves["error_by_pairs"]["y"][PAIRS])
    drawn, known = task.splits["test"], references(task.functions, task.splits["test"])
    apart = (known["4 gradient steps"] - known["ridge (oracle)"]) ** 2
    assert drawn.values.shape == apart.shape
    assert one.metrics["from_ridge"] == pytest.approx(apart.mean())


def test_too_few_pairs_are_a_sentence() -> None:
    with pytest.raises(ValueError, match="pairs=3 do not determine a function of 4 weights"):
        Functions(4, 3, 0.0)
