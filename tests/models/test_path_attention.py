"""PaTH attention against its equations: at each position all keys are multiplied anew."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.path_attention import PathAttention, PathCache, path_attention
from tests.models.linear.naive import (
    assert_accurate,
    assert_layer_equals,
    assert_pieces_equal_the_whole,
    new_mixer,
    normal,
    normalised,
    only_mixer,
    parameters_and_state,
    results,
    small_model,
    uniform,
    unit_vectors,
)

BATCH, HEADS, KEY, VALUE = 2, 2, 6, 4


model = partial(small_model, PathAttention)


def arguments(length: int) -> dict[str, Tensor]:
    shape = (BATCH, HEADS, length)
    return {
        "q": normal(*shape, KEY, seed=1),
        "k": normal(*shape, KEY, seed=2),
        "v": normal(*shape, VALUE, seed=3),
        "w": unit_vectors(*shape, KEY, seed=4),
        "beta": 2 * uniform(*shape, seed=5),
        "g": -3 * uniform(*shape, seed=6) ** 4,
    }


def naive(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor, g: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Before k_i is appended, all cached keys are multiplied by I − β_i w_i w_iᵀ."""
    outputs, keys = [], k[:, :, :0]
    for i in range(q.shape[2]):
        householder = torch.eye(k.shape[-1], dtype=k.dtype) - beta[:, :, i, None, None] * (
            w[:, :, i, :, None] * w[:, :, i, None]
        )
        keys = torch.cat((keys @ householder, k[:, :, i : i + 1]), 2)
        scores = torch.einsum("bhk,bhjk->bhj", q[:, :, i], keys)
        if g is not None:
            spans = [g[:, :, j + 1 : i + 1].sum(-1) for j in range(i + 1)]
            scores = scores + torch.stack(spans, -1)
        weights = torch.softmax(scores, -1)
        outputs.append(torch.einsum("bhj,bhjv->bhv", weights, v[:, :, : i + 1]))
    return torch.stack(outputs, 2), keys


def in_chunks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    beta: Tensor,
    g: Tensor | None = None,
    *,
    chunk: int = 64,
) -> tuple[Tensor, ...]:
    outputs, cache = path_attention(q, k, v, w, beta, g, chunk=chunk)
    return outputs, cache.keys


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("length", [1, 2, 37])
def test_chunks_equal_the_equations(length: int, gated: bool) -> None:
    drawn = arguments(length)
    if not gated:
        del drawn["g"]
    expected = results(naive, drawn)
    # Whoever attends to one position alone has a weight of 1, and gradients of 0 that are left of
    # products of keys and values.
    summed = dict.fromkeys("qg", float(drawn["k"].abs().max() * drawn["v"].abs().max()))
    for chunk in (1, 5, 16, 64):
        assert_accurate(results(partial(in_chunks, chunk=chunk), drawn), expected, summed=summed)


def test_a_cache_goes_on() -> None:
    drawn = arguments(37)
    q, k, v, w, beta, g = drawn.values()
    whole, last = path_attention(q, k, v, w, beta, g)
    cache: PathCache | None = None
    pieces = []
    for piece in (slice(0, 13), slice(13, 14), slice(14, 37)):
        q, k, v, w, beta, g = (x[:, :, piece] for x in drawn.values())
        output, cache = path_attention(q, k, v, w, beta, g, cache, chunk=8)
        pieces.append(output)
    assert cache is not None
    joined = {"o": torch.cat(pieces, 2)} | cache._asdict()
    assert_accurate(joined, {"o": whole} | last._asdict(), 1e-12)


def test_without_strengths_it_is_softmax_attention() -> None:
    q, k, v, w, beta, _ = arguments(37).values()
    found, _ = path_attention(q, k, v, w, 0 * beta)
    expected = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
    assert_accurate({"o": found}, {"o": expected}, 1e-12)


def test_without_strengths_and_with_gates_it_is_a_forgetting_transformer() -> None:
    q, k, v, w, beta, g = arguments(37).values()
    found, _ = path_attention(q, k, v, w, 0 * beta, g)
    sums = g.cumsum(-1)
    bias = (sums.unsqueeze(-1) - sums.unsqueeze(-2)).masked_fill(
        torch.ones(37, 37, dtype=torch.bool).triu(1), -math.inf
    )
    expected = functional.scaled_dot_product_attention(q, k, v, bias, scale=1.0)
    assert_accurate({"o": found}, {"o": expected}, 1e-12)


def test_a_fixed_reflection_makes_scores_the_parity_of_distances() -> None:
    length = 9
    w = torch.zeros(1, 1, length, 2).double()
    w[..., 0] = 1
    weights, _ = path_attention(w, w, torch.eye(length).double()[None, None], w, w[..., 0] * 2)
    signs = (-1.0) ** torch.arange(length).double()
    expected = torch.softmax(signs.flip(0), 0)
    assert_accurate({"o": weights[0, 0, -1]}, {"o": expected}, 1e-12)


def equations(mixer: Any, x: Tensor) -> Tensor:
    heads = partial(torch.unflatten, dim=-1, sizes=(mixer.heads, -1))
    q, k, v = ((x @ part.T) for part in mixer.projection.weight.chunk(3))
    filters, (first, second) = mixer.neighbours.convolution.filters, mixer.direction_map
    padded = functional.pad((x @ first.weight.T @ second.weight.T).mT, (2, 0))
    seen = functional.conv1d(padded, filters.T.unsqueeze(1), groups=filters.shape[1]).mT
    w = normalised(heads(seen * torch.sigmoid(seen)))
    beta = 2 * torch.sigmoid(x @ mixer.strength.weight.T + mixer.strength.bias)
    g = None
    if mixer.forget_gate is not None:
        gate = torch.sigmoid(x @ mixer.forget_gate.weight.T + mixer.forget_gate.bias)
        g = gate.log().transpose(1, 2)
    q, k, v, w = (part.transpose(1, 2) for part in (heads(q), heads(k), heads(v), w))
    reads, _ = naive(q / math.sqrt(mixer.head_width), k, v, w, beta.transpose(1, 2), g)
    return reads.transpose(1, 2).flatten(2) @ mixer.output_projection.weight.T


@pytest.mark.parametrize("forget_gate", [False, True])
def test_the_layer_equals_its_equations(forget_gate: bool) -> None:
    mixer = only_mixer(model(forget_gate=forget_gate))
    assert_layer_equals(mixer, equations)
    assert_pieces_equal_the_whole(mixer)


def test_long_sequences_stay_finite() -> None:
    """2,048 reflections in float32, and gates that forget at once."""
    q, k, v, w, _, g = (x.float() for x in arguments(2048).values())
    outputs, cache = path_attention(q, k, v, w, 2 * torch.ones_like(g), 30 * g)
    assert outputs.isfinite().all()
    norms = cache.keys.norm(dim=-1) / k.norm(dim=-1)
    assert (norms - 1).abs().max() < 1e-4  # a reflection keeps lengths


def test_sizes_are_those_of_the_released_module() -> None:
    assert parameters_and_state(model(width=128))[0] == 74_628
    assert new_mixer(model(width=128)).numbers_after(100) == 100 * (2 * 128 + 2) + 2 * 128
    assert new_mixer(model(width=128, forget_gate=False)).numbers_after(7) == 8 * 2 * 128
    with pytest.raises(ValueError, match="cannot be split in heads=3"):
        model(heads=3)
