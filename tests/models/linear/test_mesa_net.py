"""MesaNet against the regression that it solves, position by position."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.general_delta import Edits, general_delta_rule
from models.layers.recurrence.writes import Writes
from models.linear import mesa_net
from models.linear.mesa_net import MesaNet, RegressionState, mesa_recurrence
from tests.models.linear.naive import (
    assert_accurate,
    assert_layer_equals,
    assert_pieces_equal_the_whole,
    convolved_heads,
    new_mixer,
    normal,
    normalised,
    only_mixer,
    outer,
    parameters_and_state,
    results,
    root_mean_square_norm,
    small_model,
    uniform,
    unit_vectors,
)

BATCH, HEADS, KEY, VALUE = 2, 2, 6, 4


model = partial(small_model, MesaNet)


def arguments(length: int) -> dict[str, Tensor]:
    keys = unit_vectors(BATCH, 9, HEADS, KEY, seed=7)
    return {
        "q": unit_vectors(BATCH, length, HEADS, KEY, seed=1),
        "k": unit_vectors(BATCH, length, HEADS, KEY, seed=2),
        "v": normal(BATCH, length, HEADS, VALUE, seed=3),
        "g": -3 * uniform(BATCH, length, HEADS, seed=4) ** 4,
        "beta": uniform(BATCH, length, HEADS, seed=5),
        "ridge": 0.25 + uniform(HEADS, KEY, seed=6),
        "covariance": torch.einsum("bshk,bshl->bhkl", keys, keys),
        "targets": normal(BATCH, HEADS, KEY, VALUE, seed=8),
    }


def naive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    ridge: Tensor,
    covariance: Tensor,
    targets: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """H = γH + βk⊗k;  G = γG + βk⊗v;  o = Gᵀ(H+Λ)⁻¹q."""
    outputs = []
    for t in range(q.shape[1]):
        gamma, strength = (x[:, t, :, None, None] for x in (g.exp(), beta))
        covariance = gamma * covariance + strength * outer(k[:, t], k[:, t])
        targets = gamma * targets + strength * outer(k[:, t], v[:, t])
        inverse = torch.linalg.inv(covariance + torch.diag_embed(ridge))
        outputs.append(torch.einsum("bhkv,bhkl,bhl->bhv", targets, inverse, q[:, t]))
    return torch.stack(outputs, 1), covariance, targets


def exact(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    ridge: Tensor,
    covariance: Tensor,
    targets: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    state = RegressionState((covariance + covariance.mT) / 2, targets)
    outputs, state = mesa_recurrence(q, k, v, g, beta, ridge, state)
    return outputs, *state


@pytest.mark.parametrize("length", [1, 2, 7, 37])
def test_the_solution_equals_the_equations(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = arguments(length)
    expected = results(naive, drawn)
    # What changes a covariance changes both of its halves.
    gradient = expected["covariance"]
    expected["covariance"] = (gradient + gradient.mT) / 2
    assert_accurate(results(exact, drawn), expected)
    monkeypatch.setattr(mesa_net, "NUMBERS_KEPT", 0)  # factors are made again for gradients
    assert_accurate(results(exact, drawn), expected)
    monkeypatch.setattr(mesa_net, "NUMBERS_AT_ONCE", 5 * BATCH * HEADS * KEY**2)
    assert_accurate(results(exact, drawn), expected)


def test_an_endless_ridge_is_gated_linear_attention() -> None:
    q, k, v, g, beta, ridge, *_ = arguments(37).values()
    large = 1e9 * torch.ones_like(ridge)
    found, _ = mesa_recurrence(q, k, v, g, beta, large)
    expected, _ = linear_recurrence(q, Writes(k, beta.unsqueeze(-1) * v, g))
    assert_accurate({"o": 1e9 * found}, {"o": expected}, 1e-7)


def test_without_forgetting_it_is_the_delta_rule_with_an_exact_preconditioner() -> None:
    """Theorem 3.1 of arXiv 2604.21100: write key P k / (1 + kᵀ P k), P the inverse before."""
    q, k, v, _, _, ridge, *_ = arguments(23).values()
    nothing, one = torch.zeros(BATCH, 23, HEADS).double(), torch.ones(BATCH, 23, HEADS).double()
    found, _ = mesa_recurrence(q, k, v, nothing, one, ridge)
    inverse = torch.diag_embed(1 / ridge).expand(BATCH, -1, -1, -1)
    inverse_at_q, write_keys = [], []
    for t in range(23):
        pushed = torch.einsum("bhkl,bhl->bhk", inverse, k[:, t])
        write = pushed / (1 + (k[:, t] * pushed).sum(-1, keepdim=True))
        inverse = inverse - outer(write, pushed)
        write_keys.append(write)
        inverse_at_q.append(q[:, t])
    edits = Edits(k, torch.stack(write_keys, 1), v)
    expected, _ = general_delta_rule(torch.stack(inverse_at_q, 1), edits)
    assert_accurate({"o": found}, {"o": expected}, 1e-12)


def test_one_key_again_and_again_is_a_shrunken_mean() -> None:
    """o = v (k·q) n / (n + Λ) after n times the same pair."""
    length, ridge = 9, 0.7
    k = unit_vectors(1, 1, 1, KEY, seed=1).expand(1, length, 1, KEY)
    q, v = unit_vectors(1, length, 1, KEY, seed=2), normal(1, 1, 1, VALUE, seed=3)
    gates = torch.zeros(1, length, 1).double(), torch.ones(1, length, 1).double()
    whole = v.expand(1, length, 1, VALUE)
    found, _ = mesa_recurrence(
        q, k, whole, *gates, torch.full((1, KEY), ridge, dtype=torch.float64)
    )
    n = torch.arange(1, length + 1, dtype=torch.float64).view(1, -1, 1, 1)
    expected = v * (k * q).sum(-1, keepdim=True) * n / (n + ridge)
    assert_accurate({"o": found}, {"o": expected}, 1e-12)


def equations(mixer: Any, x: Tensor) -> Tensor:
    q, k = convolved_heads(mixer.streams, x)
    v = (x @ mixer.value_map.weight.T).unflatten(-1, (mixer.heads, -1))
    gamma = torch.sigmoid(x @ mixer.decay.weight.T + mixer.decay.bias)
    beta = torch.sigmoid(x @ mixer.strength.weight.T + mixer.strength.bias)
    ridge = 0.25 + torch.log1p(torch.exp(mixer.ridge))
    zeros = x.new_zeros(len(x), mixer.heads, mixer.head_width, mixer.head_width)
    reads, *_ = naive(normalised(q), normalised(k), v, gamma.log(), beta, ridge, zeros, zeros)
    normed = root_mean_square_norm(reads, mixer.norm.weight).flatten(2)
    return normed @ mixer.output_projection.weight.T


def test_the_layer_equals_its_equations() -> None:
    mixer = only_mixer(model())
    assert_layer_equals(mixer, equations)
    assert_pieces_equal_the_whole(mixer)


def test_long_sequences_stay_accurate_in_float32() -> None:
    """8,192 positions that forget nothing: the largest eigenvalue is thousands of ridges."""
    length = 8192
    k = unit_vectors(18, 8, seed=1)[(18 * uniform(1, length, 1, seed=2)).long()].float()
    v, gates = normal(1, length, 1, 4, seed=3).float(), torch.zeros(1, length, 1)
    ridge = torch.full((1, 8), 0.25)
    found, _ = mesa_recurrence(k, k, v, gates, gates + 1, ridge)
    k, v, gates, ridge = (x.double() for x in (k, v, gates, ridge))
    expected, _ = mesa_recurrence(k, k, v, gates, gates + 1, ridge)
    assert (found.double() - expected).abs().max() <= 1e-3 * expected.abs().max()


def test_numbers_that_are_none_stay_so_without_an_error() -> None:
    q, k, v, g, beta, ridge, *_ = arguments(5).values()
    found, _ = mesa_recurrence(q, k * math.nan, v, g, beta, ridge)
    assert found.isnan().all()


def test_it_starts_as_the_paper_says() -> None:
    mixer = new_mixer(model(width=128))
    assert parameters_and_state(model(width=128)) == (67_268, 2 * 128 * 64 + 6 * 128)
    ridge = 0.25 + torch.nn.functional.softplus(mixer.ridge)
    assert torch.allclose(ridge, torch.ones_like(ridge))
    slow = new_mixer(model(decay_bias=4.0))
    half_life = math.log(0.5) / math.log(float(torch.sigmoid(slow.decay.bias.detach())[0]))
    assert half_life == pytest.approx(38, abs=0.5)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be split in heads=3"):
        model(heads=3)
