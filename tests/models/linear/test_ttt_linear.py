"""TTT-linear against its definition: one position after the other, the gradient by autograd."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.linear.ttt_linear import TTTLinear
from tests.models.linear.naive import (
    assert_layer_equals,
    assert_pieces_equal_the_whole,
    new_mixer,
    normal,
    only_mixer,
    parameters_and_state,
    small_model,
)

model = partial(small_model, TTTLinear)


def rotated(x: Tensor, place: int) -> Tensor:
    """(batch, heads, head width), turned by the angles of a place in the mini-batch."""
    pairs = torch.arange(x.shape[-1] // 2, dtype=torch.float64)
    angles = place * 10_000.0 ** (-2 * pairs / x.shape[-1])
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    turned = turned * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2)


def equations(mixer: Any, x: Tensor) -> Tensor:
    heads, size = mixer.heads, len(mixer.scale_offsets)
    q, k, v = ((x @ p.T).unflatten(-1, (heads, -1)) for p in mixer.projection.weight.chunk(3))
    rates = torch.sigmoid(x @ mixer.rate.weight.T + mixer.rate.bias) / q.shape[-1]

    def inner_norm(z: Tensor) -> Tensor:
        centred = z - z.mean(-1, keepdim=True)
        standard = centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return standard * mixer.inner_gain + mixer.inner_offset

    weights = mixer.inner_weights.expand(len(x), -1, -1, -1)
    biases = mixer.inner_biases.expand(len(x), -1, -1)
    outputs = []
    for t in range(x.shape[1]):
        place = t % size
        if place == 0:
            first_weights, first_biases, sum_w, sum_b = weights, biases, 0.0, 0.0
        key, query = rotated(k[:, t], place), rotated(q[:, t], place)
        z = torch.einsum("bhkv,bhk->bhv", first_weights, key) + first_biases
        loss = (inner_norm(z) - (v[:, t] - key)).square().sum() / 2
        (gradient,) = torch.autograd.grad(loss, z, create_graph=True)
        step = rates[:, t, :, None] * gradient
        sum_w = sum_w + key.unsqueeze(-1) * step.unsqueeze(-2)
        sum_b = sum_b + step
        scale = (1 / (place + 1) + mixer.scale_offsets[place]).clamp(min=0)
        weights, biases = first_weights - scale * sum_w, first_biases - scale * sum_b
        read = torch.einsum("bhkv,bhk->bhv", weights, query) + biases
        outputs.append(query + inner_norm(read))
    joined = torch.stack(outputs, 1).flatten(2)
    normed = functional.layer_norm(
        joined, joined.shape[-1:], mixer.norm.weight, mixer.norm.bias, 1e-6
    )
    return normed @ mixer.output_projection.weight.T


@pytest.mark.parametrize("mini_batch", [1, 4, 16])
def test_the_layer_equals_its_definition(mini_batch: int) -> None:
    mixer = only_mixer(model(mini_batch=mini_batch))
    with torch.no_grad():
        mixer.scale_offsets.add_(0.3).clamp_(min=-0.05)
    shape = (2, 19, 16)
    assert_layer_equals(mixer, equations, shape)
    assert_pieces_equal_the_whole(mixer, shape)


def test_long_sequences_stay_finite() -> None:
    """4,096 positions in float32 at the largest rates, with keys of an alphabet of 18."""
    mixer = only_mixer(model()).float()
    with torch.no_grad():
        mixer.rate.bias.fill_(20)
        letters = normal(18, 16, seed=3).float()
        hidden = letters[torch.randint(0, 18, (1, 4096))]
        outputs, state = mixer.advance(hidden, None)
    assert outputs.isfinite().all()
    assert state.weights.isfinite().all()


def test_sizes_are_those_of_the_released_module() -> None:
    assert parameters_and_state(model(width=128)) == (74_642, 2 * (128 * 64 + 128))
    torch.manual_seed(0)
    mixer = new_mixer(model(width=128))
    assert mixer.inner_weights.std().item() == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mini_batch": 0}, "at least one position, got mini_batch=0"),
        ({"heads": 16}, "has 1; make width a multiple of 2 heads"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        model(**settings)
