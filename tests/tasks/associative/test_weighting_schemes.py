"""Weights by gradient steps against sums and steps written down by hand."""

import math
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from models.associative.matrix import Matrix
from tasks.interface import Evaluation
from tasks.weighting_schemes import WeightingSchemes
from tasks.weighting_schemes.steps import RULES, approximate_weights, stored, walk
from tasks.weighting_schemes.task import PARTS
from tests.closeness import assert_near

SMALL: dict[str, Any] = {"trials": 6, "samples": 200, "batches": (10, 100), "epochs": 10}


@cache
def measured() -> Evaluation:
    task = WeightingSchemes(**SMALL)
    return task.measure(lambda *s, seed=0: Matrix(*s), "test", 0, "cpu", lambda *_: None)


def memory(trials: int = 3) -> tuple[Matrix, Tensor, Tensor]:
    """Seven tokens, four classes, five dimensions, from zero."""
    model = Matrix(7, 5, 4, [torch.Generator().manual_seed(k) for k in range(trials)]).double()
    with torch.no_grad():
        model.weight.zero_()
    p = torch.arange(7, 0, -1).double()
    return model, torch.arange(7) % 4, p / p.sum()


@pytest.mark.parametrize("rule", RULES)
def test_one_step_from_zero_is_the_lemma(rule: str) -> None:
    """W = lr Σ_z p(z) u_z (v_f(z) − mean of all v)^T, its signs, or that at norm one."""
    model, classes, p = memory()
    walk(model, classes, p, [p], 0.5, rule, (0,))
    for trial in range(3):
        own = torch.zeros(5, 5, dtype=torch.float64)
        v = model.readout[trial].T
        for token in range(7):
            away = v[classes[token]] - v.mean(0)
            own += p[token] * torch.outer(model.embedding[trial, token], away)
        own = {"sgd": own, "sign": own.sign(), "normalised": own / own.norm()}[rule]
        assert_near(model.weight[trial], 0.5 * own, terms=7 + 4 + 5, condition=10)


def test_looks_are_errors_and_losses_at_their_steps() -> None:
    model, classes, p = memory()
    shares = [p.roll(k) for k in range(4)]
    found = walk(model, classes, p, shares, 2.0, "sgd", (0, 4))
    assert found.steps == [0, 4]
    assert found.losses[0].tolist() == pytest.approx([math.log(4)] * 3)
    scores = model(torch.arange(7).expand(3, -1)).detach()
    for trial in range(3):
        wrong = sum(p[z].item() for z in range(7) if scores[trial, z].argmax() != classes[z])
        assert found.errors[1, trial].item() == pytest.approx(wrong)
        loss = -sum(p[z] * scores[trial, z].log_softmax(0)[classes[z]] for z in range(7))
        assert found.losses[1, trial].item() == pytest.approx(float(loss))


def test_stored_scores_are_those_of_the_sum() -> None:
    embedding, readout = torch.randn(2, 6, 3), torch.randn(2, 3, 4)
    weights, classes = torch.rand(2, 6), torch.arange(6) % 4
    scores = stored(weights, embedding, readout, classes)
    for trial in range(2):
        pairs = zip(weights[trial], embedding[trial], classes, strict=True)
        matrix = sum(q * torch.outer(u, readout[trial, :, k]) for q, u, k in pairs)
        expected = embedding[trial] @ matrix @ readout[trial]
        assert_near(scores[trial], expected, terms=6 + 3 + 3, condition=4)


def test_approximate_weights_grow_by_what_the_softmax_doubts() -> None:
    shares = torch.rand(5, 2, 3)
    weights = approximate_weights(shares, 0.7, 5)
    assert weights.shape == (6, 2, 3)
    assert not weights[0].any()
    for step in range(5):
        alone = torch.zeros(2, 3, 5)
        alone[..., 0] = weights[step]
        doubt = 1 - alone.softmax(-1)[..., 0]
        expected = weights[step] + 0.7 * shares[step] * doubt
        assert_near(weights[step + 1], expected, terms=5 + 5)


def test_single_samples_weigh_as_the_released_code_finds() -> None:
    """About p for γ = 0.001 and p^0.35 for γ = 0.1; flatter the larger the step."""
    metrics = measured().metrics
    assert metrics["exponent/lr=0.001"] == pytest.approx(1.0, abs=0.05)
    assert metrics["exponent/lr=0.1"] == pytest.approx(0.35, abs=0.05)
    falling = [metrics[f"exponent/lr={lr:g}"] for lr in (0.001, 0.01, 0.1, 1)]
    assert falling == sorted(falling, reverse=True)


def test_pictures_are_probabilities_that_know_the_most_frequent_token() -> None:
    for q in ("p", "1"):
        for d in (10, 50):
            picture = torch.tensor(measured().arrays[f"picture/q={q},d={d}"])
            assert picture.shape == (10, 5)
            assert_near(picture.sum(1), torch.ones(10), terms=2 * 5)
    assert torch.tensor(measured().arrays["picture/q=p,d=50"])[0].argmax() == 0


def test_curves_start_at_a_guess_and_end_in_the_metrics() -> None:
    found = measured()
    for name, curve in found.curves.items():
        if "_error/" in name:
            assert curve["x"][0] == 0
            assert curve["y"][-1] == pytest.approx(found.metrics[name])
    assert found.curves["batch_error/B=10"]["x"][-1] == 200


@pytest.mark.parametrize(
    "change", [{"trials": 0}, {"batches": []}, {"samples": 150}, {"single_lrs": [0.0]}]
)
def test_mistakes_get_a_sentence(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tasks\."):
        WeightingSchemes(**(SMALL | change))


def test_long_experiments_say_that_they_are_at_work() -> None:
    told: list[str] = []
    task = WeightingSchemes(trials=2, batches=(1,), samples=1000, population_steps=10, epochs=10)
    task.measure(
        lambda *s, seed=0: Matrix(*s), "test", 0, "cpu", lambda work, *_: told.append(work)
    )
    assert told.count("experiments: batch sizes") > 1000 // 100  # steps of one sample
    assert set(told) == {f"experiments: {name}" for name in PARTS}
