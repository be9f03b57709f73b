"""Descent on few tokens: an independent table, laws, and searches against brute force."""

import itertools
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from models.associative.learnable import Learnable
from models.associative.matrix import Matrix
from tasks.interface import Evaluation
from tasks.optimisation.fixed import unit_rows
from tasks.training_dynamics import TrainingDynamics
from tasks.training_dynamics.descent import descend
from tasks.training_dynamics.over_optimisation import (
    errors,
    fewest_errors,
    lowest_loss,
    orthogonal_points,
)
from tasks.training_dynamics.two_tokens import two_tokens
from tests.closeness import rounding

YAML = Path(__file__).parents[3] / "tasks" / "training_dynamics.yaml"


def settings() -> dict[str, Any]:
    content = yaml.safe_load(YAML.read_text())
    smoke = content["presets"]["smoke"]["tasks"]
    own = set(content) - {"_target_", "takes", "card", "presets", "sweep"}
    return {key: content[key] for key in own} | smoke


@cache
def measured() -> Evaluation:
    task = TrainingDynamics(**settings())
    return task.measure(lambda *sizes, seed=0: Matrix(*sizes), "test", 0, "cpu", lambda *_: None)


# (overlap, p_1, learning rate): first perfect step, perfect from, highest loss, increases of the
# loss; from another implementation of the same protocol.
TABLE = {
    (0.95, 0.75, 0.1): (521, 521, 0.693, 0),
    (0.95, 0.75, 1.0): (52, 52, 0.693, 0),
    (0.95, 0.75, 3.0): (18, 18, 0.693, 0),
    (0.95, 0.75, 10.0): (2, 15, 1.349, 8),
    (0.95, 0.75, 30.0): (2, 11, 8.33, 6),
    (0.5, 0.75, 0.1): (31, 31, 0.693, 0),
    (0.5, 0.75, 1.0): (4, 4, 0.693, 0),
    (0.5, 0.75, 3.0): (2, 2, 0.693, 0),
    (0.5, 0.75, 10.0): (2, 2, 0.693, 0),
    (0.5, 0.75, 30.0): (2, 2, 0.943, 1),
    (0.0, 0.75, 0.1): (1, 1, 0.693, 0),
    (0.0, 0.75, 1.0): (1, 1, 0.693, 0),
    (0.0, 0.75, 30.0): (1, 1, 0.693, 0),
    (0.95, 0.5, 0.1): (1, 1, 0.693, 0),
    (0.95, 0.5, 1.0): (1, 1, 0.693, 0),
    (0.95, 0.5, 3.0): (1, 1, 0.693, 0),
    (0.95, 0.5, 10.0): (1, 1, 0.693, 0),
}


def test_two_tokens_as_in_an_independent_implementation() -> None:
    rows = {(a, p, lr): row for a, p, lr, *row in measured().arrays["two_tokens/float64"]}
    for cell, (first, lasting, highest, increases) in TABLE.items():
        assert rows[cell][:2] == [first, lasting], cell
        assert rows[cell][2] == pytest.approx(highest, abs=0.005), cell
        assert rows[cell][3] == increases, cell


def test_tokens_of_equal_frequency_do_not_oscillate() -> None:
    """Equal margins m stay equal, m ← m + lr (1 - a) σ(-m), and the loss only falls."""
    cell = [0.95, 0.5, 30.0]
    path = two_tokens(lambda *sizes, seed=0: Matrix(*sizes), [tuple(cell)], 35, "cpu")
    margin = 0.0
    for step in range(36):
        assert path.margins[step, 0].tolist() == pytest.approx([margin] * 2, abs=1e-5)
        margin += cell[2] * (1 - cell[0]) / (1 + math.exp(margin))
    arrays = measured().arrays
    (exact,) = (row[3:] for row in arrays["two_tokens/float64"] if row[:3] == cell)
    assert exact == [1, 1, pytest.approx(math.log(2)), 0]
    assert [row[:3] for row in arrays["two_tokens/float32"]].count(cell) == 1


@pytest.mark.parametrize("overlap", [-0.5, 0.95])
def test_paths_in_the_plane_of_the_first_row(overlap: float) -> None:
    """Against descent of the whole matrix, written out."""
    across = math.sqrt(1 - overlap**2)
    e = torch.tensor([[1.0, 0.0], [overlap, across]], dtype=torch.float64)
    p = torch.tensor([0.75, 0.25], dtype=torch.float64)
    w = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    path = measured().curves[f"path/a={overlap:g},lr=10"]
    for step in range(36):
        assert (path["x"][step], path["y"][step]) == pytest.approx(w[0].tolist(), abs=1e-9)
        losses = torch.nn.functional.cross_entropy(e @ w.T, torch.arange(2), reduction="none")
        (gradient,) = torch.autograd.grad((losses * p).sum(), w)
        w = (w.detach() - 10 * gradient).requires_grad_()


def test_margins_of_orthogonal_tokens_follow_the_law() -> None:
    metrics = measured().metrics
    assert metrics["margin_gap"] < 0.05
    for token, p in enumerate((0.75, 0.25)):
        for step in (100, 1000):
            law = math.log(2 * p * step)
            assert metrics[f"margin/token={token},t={step}"] == pytest.approx(law, abs=0.05)


def test_the_map_of_first_perfect_steps() -> None:
    for of_probability in measured().arrays["first_perfect_map"]:
        small, *_, large = [[step or math.inf for step in row] for row in of_probability]
        assert all(a >= b for a, b in zip(small, large, strict=True))  # large steps are sooner
        assert small == sorted(small)  # and overlap makes them wait
        assert small[-1] == large[-1] == math.inf  # equal tokens cannot be told apart


def test_descent_against_a_plain_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    model = Matrix(4, 3, 3, [generator] * 2).double()
    weight = model.weight.detach().clone()
    classes, p = torch.tensor([0, 1, 2, 0]), torch.tensor([0.4, 0.3, 0.2, 0.1]).double()
    steps = torch.tensor([[0.5, 2.0], [1.0, 3.0]]).double()
    path = descend(model, classes, p, steps)
    for trial in range(2):
        own = weight[trial].clone()
        for step in range(3):
            scores = model.embedding[trial] @ own @ model.readout[trial]
            loss = -(scores.log_softmax(-1)[torch.arange(4), classes] * p).sum()
            assert path.losses[step, trial].item() == pytest.approx(loss.item())
            for token in range(4):
                right = scores[token, classes[token]]
                wrong = max(scores[token, k] for k in range(3) if k != classes[token])
                margin = path.margins[step, trial, token].item()
                assert margin == pytest.approx((right - wrong).item())
            if step < 2:
                residual = scores.softmax(-1)
                residual[torch.arange(4), classes] -= 1
                gradient = model.embedding[trial].T @ (residual * p[:, None])
                own -= steps[step, trial] * gradient @ model.readout[trial].T


@pytest.mark.parametrize("tokens", [3, 8])
def test_fewest_errors_against_many_directions(tokens: int) -> None:
    points = unit_rows(20, tokens, 2, generator=torch.Generator().manual_seed(1))
    signs = 1 - 2 * (torch.arange(tokens) % 2).double()
    p = torch.full((tokens,), 1 / tokens, dtype=torch.float64)
    angles = torch.arange(20_000) * (2 * math.pi / 20_000)
    directions = torch.stack([angles.cos(), angles.sin()], -1).double()
    brute = torch.stack(
        [errors(direction.expand(20, 2), points, signs, p) for direction in directions[::10]]
    ).amin(0)
    found = fewest_errors(points, signs, p)
    same = rounding(1.0, torch.float64, terms=tokens)  # sums of the same probabilities
    assert (found <= brute + same).all()
    # An arc narrower than the brute grid is rare.
    assert (found - brute).abs().le(same).float().mean() > 0.8


def test_lowest_loss_has_no_slope_left_or_separates() -> None:
    points = unit_rows(50, 6, 2, generator=torch.Generator().manual_seed(2))
    signs = 1 - 2 * (torch.arange(6) % 2).double()
    p = torch.full((6,), 1 / 6, dtype=torch.float64)
    delta = lowest_loss(points, signs, p).requires_grad_()
    loss = torch.nn.functional.softplus(-signs * (points @ delta[..., None])[..., 0]) @ p
    (slope,) = torch.autograd.grad(loss.sum(), delta)
    separable = fewest_errors(points, signs, p) == 0
    assert separable.any()
    assert not separable.all()
    assert slope[~separable].abs().max() < 1e-6
    assert errors(delta.detach(), points, signs, p)[separable].max() == 0


def test_over_optimisation_is_found() -> None:
    found = measured()
    loss, wrong = found.curves["forgetting/loss"]["y"], found.curves["forgetting/error"]["y"]
    assert loss[-1] < loss[0]
    assert wrong[-1] > wrong[0]
    assert all(value > -1e-12 for value in found.arrays["excess/N=30"])
    assert found.metrics["excess/N=30"] > 0.03


def test_nothing_is_forgotten_where_all_tokens_have_room() -> None:
    found = measured()
    for lr in (3, 10, 20):
        assert set(found.arrays[f"first_perfect/orthogonal,lr={lr}"]) == {1}
        assert found.metrics[f"increases/orthogonal,lr={lr}"] == 0
    assert set(found.arrays["excess/N=2"]) == {0.0}
    loss, wrong = (found.curves[f"forgetting_orthogonal/{name}"]["y"] for name in ("loss", "error"))
    assert loss[-1] < loss[0]
    rises = [later - earlier for earlier, later in itertools.pairwise(wrong)]
    assert max(rises) <= rounding(max(wrong), torch.float64, terms=100)  # a sum over tokens
    assert wrong[0] > 0
    assert found.metrics["forgetting_orthogonal"] == 0 < found.metrics["forgetting"]


def test_orthogonal_points_have_every_orientation() -> None:
    points = orthogonal_points(2000, 3, torch.Generator().manual_seed(0))
    assert torch.allclose(points @ points.mT, torch.eye(3).double(), atol=1e-12)
    assert points.mean(0).abs().max() < 4 / math.sqrt(3 * 2000)
    # E x⁴ of a coordinate of a uniform direction is 3 / (d (d + 2)), with a deviation of 0.27.
    assert (points**4).mean(0).sub(3 / 15).abs().max() < 4 * 0.27 / math.sqrt(2000)


def test_few_tokens_oscillate_with_large_steps_in_few_dimensions() -> None:
    metrics = measured().metrics
    at_3 = [metrics[f"increases/d=3,lr={lr}"] for lr in (3, 10, 20)]
    assert at_3 == sorted(at_3)
    assert at_3[-1] > 5
    by_size = [metrics[f"increases/d={d},lr=20"] for d in (3, 5, 10)]
    assert by_size == sorted(by_size, reverse=True)


def test_only_a_matrix_is_taken() -> None:
    task = TrainingDynamics(**settings())
    with pytest.raises(ValueError, match="models=matrix"):
        task.measure(lambda *s, seed=0: Learnable(*s), "test", 0, "cpu", lambda *_: None)


@pytest.mark.parametrize(
    "change",
    [{"first_probabilities": [1.0]}, {"overlaps": [1.0]}, {"lrs": []}, {"margin_steps": 10}],
)
def test_mistakes_get_a_sentence(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"tasks.{next(iter(change))} is"):
        TrainingDynamics(**(settings() | change))
