"""Gated DeltaProduct against its equations, step by step of each position."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from models.linear.delta_net import DeltaNet
from models.linear.delta_product import DeltaProduct, delta_product
from tests.models.linear.naive import (
    SPECIFICATION,
    assert_accurate,
    assert_layer_equals,
    assert_pieces_equal_the_whole,
    convolved_heads,
    decay_by_head,
    normal,
    normalised,
    only_mixer,
    outer,
    parameters_and_state,
    read,
    results,
    root_mean_square_norm,
    small_model,
    uniform,
    unit_vectors,
)

BATCH, HEADS, KEY, VALUE = 2, 2, 5, 4


model = partial(small_model, DeltaProduct)


def naive(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    outputs = []
    for t in range(q.shape[1]):
        state = g[:, t, :, None, None].exp() * state
        for j in range(k.shape[2]):
            error = v[:, t, j] - read(state, k[:, t, j])
            state = state + beta[:, t, j, :, None, None] * outer(k[:, t, j], error)
        outputs.append(read(state, q[:, t]))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize(("length", "steps"), [(1, 2), (7, 3), (37, 1), (37, 2), (37, 4)])
def test_the_rule_equals_its_equations(length: int, steps: int) -> None:
    drawn = {
        "q": normal(BATCH, length, HEADS, KEY, seed=1),
        "k": unit_vectors(BATCH, length, steps, HEADS, KEY, seed=2),
        "v": normal(BATCH, length, steps, HEADS, VALUE, seed=3),
        "g": -3 * uniform(BATCH, length, HEADS, seed=4) ** 4,
        "beta": 2 * uniform(BATCH, length, steps, HEADS, seed=5),
        "state": normal(BATCH, HEADS, KEY, VALUE, seed=6),
    }

    def in_chunks(
        q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        return delta_product(q, k, v, g, beta, state)

    assert_accurate(results(in_chunks, drawn), results(naive, drawn))


def equations(mixer: Any, x: Tensor) -> Tensor:
    q, k, v = convolved_heads(mixer.streams, x)
    k, v = (s.flatten(2).unflatten(-1, (mixer.steps, mixer.heads, -1)) for s in (k, v))
    beta = mixer.largest_strength * torch.sigmoid(x @ mixer.strength.weight.T)
    reads, _ = naive(
        normalised(q) / math.sqrt(q.shape[-1]),
        normalised(k),
        v,
        decay_by_head(mixer.decay, x).log(),
        beta.unflatten(-1, (mixer.steps, mixer.heads)),
        x.new_zeros(len(x), mixer.heads, q.shape[-1], q.shape[-1]),
    )
    gate = x @ mixer.gate.weight.T
    normed = root_mean_square_norm(reads, mixer.norm.weight).flatten(2)
    return (normed * gate * torch.sigmoid(gate)) @ mixer.output_projection.weight.T


@pytest.mark.parametrize(("steps", "largest"), [(2, 2.0), (4, 1.0)])
def test_the_layer_equals_its_equations(steps: int, largest: float) -> None:
    mixer = only_mixer(model(steps=steps, largest_strength=largest))
    assert_layer_equals(mixer, equations)
    assert_pieces_equal_the_whole(mixer)


def test_one_step_is_gated_delta_net() -> None:
    """The same numbers from the same parameters, which have other names there."""
    mixer = only_mixer(model(steps=1))
    settings: dict[str, Any] = {"decay": "head", "output_gate": True, "largest_strength": 2.0}
    other = only_mixer(DeltaNet(SPECIFICATION, width=16, layers=1, dropout=0.0, **settings))
    moved = {"streams.projection": "projection", "streams.neighbours": "neighbours"}
    moved |= {"decay.projection": "decay", "decay.log_rates": "log_rates"}
    moved |= {"decay.step_bias": "step_bias"}
    weights = {}
    for name, value in mixer.state_dict().items():
        for ours, theirs in moved.items():
            name = name.replace(ours, theirs)
        weights[name] = value
    other.load_state_dict(weights)
    hidden = normal(2, 37, 16, seed=3)
    assert_accurate({"outputs": mixer(hidden)}, {"outputs": other(hidden)}, 1e-13)


def test_two_reflections_turn_by_twice_the_angle_between_their_keys() -> None:
    angle = 0.7
    keys = torch.tensor([[1.0, 0.0], [math.cos(angle), math.sin(angle)]], dtype=torch.float64)
    memory = torch.eye(2, dtype=torch.float64).view(1, 1, 2, 2)
    _, turned = delta_product(
        torch.zeros(1, 1, 1, 2, dtype=torch.float64),
        keys.view(1, 1, 2, 1, 2),
        torch.zeros(1, 1, 2, 1, 2, dtype=torch.float64),
        torch.zeros(1, 1, 1, dtype=torch.float64),
        torch.full((1, 1, 2, 1), 2.0, dtype=torch.float64),
        memory,
    )
    cos, sin = math.cos(2 * angle), math.sin(2 * angle)
    expected = torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)
    assert torch.allclose(turned.view(2, 2), expected, atol=1e-15)


@pytest.mark.parametrize("largest", [1.0, 2.0])
def test_long_sequences_stay_finite(largest: float) -> None:
    """8,192 positions of four steps in float32, strengths 0 or the largest, no decay."""
    length, steps = 8192, 4
    beta = largest * (uniform(1, length, steps, 1, seed=1) < 0.5).float()
    keys = unit_vectors(18, 8, seed=2)[(18 * uniform(1, length, steps, 1, seed=3)).long()].float()
    queries, values = keys[:, :, 0], normal(1, length, steps, 1, 4, seed=4).float()
    outputs, state = delta_product(queries, keys, values, torch.zeros(1, length, 1), beta)
    assert outputs.isfinite().all()
    assert state.norm() <= 2 * values.flatten(0, -2).norm(dim=-1).sum()  # no step lengthens S


@pytest.mark.parametrize(
    ("steps", "parameters"), [(1, 84_036), (2, 118_084), (4, 11 * 128**2 + 5 * 256 + 36 * 128 + 68)]
)
def test_sizes_are_those_of_the_released_module(steps: int, parameters: int) -> None:
    state = 128 * 64 + 3 * 128 * (1 + 2 * steps)
    assert parameters_and_state(model(width=128, steps=steps)) == (parameters, state)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"steps": 0}, "at least one step, got steps=0"),
        ({"largest_strength": 2.5}, "largest_strength=2.5 is outside"),
        ({"heads": 3}, "cannot be split in heads=3"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        model(**settings)
