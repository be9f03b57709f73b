"""mLSTM and sLSTM against their equations position by position, without any rescaling."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.recurrent.xlstm import XLSTM, ScalarLSTMMixer, ScaledMatrix, matrix_lstm
from tests.models.linear.naive import (
    SPECIFICATION,
    assert_accurate,
    assert_layer_equals,
    assert_pieces_equal_the_whole,
    new_mixer,
    normal,
    only_mixer,
    outer,
    parameters_and_state,
    read,
    results,
    small_model,
    uniform,
)

BATCH, HEADS, KEY, VALUE = 2, 2, 5, 4


model = partial(small_model, XLSTM)


def naive(
    q: Tensor, k: Tensor, v: Tensor, i: Tensor, f: Tensor, memory: Tensor, count: Tensor
) -> tuple[Tensor, ...]:
    """C = fC + i k⊗v;  n = fn + ik;  h = Cᵀq / max(|n·q|, 1)."""
    outputs = []
    for t in range(q.shape[1]):
        forget, enter = f[:, t].exp(), i[:, t].exp()
        memory = forget[..., None, None] * memory
        memory = memory + enter[..., None, None] * outer(k[:, t], v[:, t])
        count = forget[..., None] * count + enter[..., None] * k[:, t]
        weight = (count * q[:, t]).sum(-1, keepdim=True).abs().clamp(min=1)
        outputs.append(read(memory, q[:, t]) / weight)
    return torch.stack(outputs, 1), memory, count


def scaled(
    q: Tensor, k: Tensor, v: Tensor, i: Tensor, f: Tensor, memory: Tensor, count: Tensor
) -> tuple[Tensor, ...]:
    joined = torch.cat((memory, count.unsqueeze(-1)), -1)
    scale = torch.full(memory.shape[:2], 0.7, dtype=memory.dtype)
    state = ScaledMatrix(joined * math.exp(-0.7), scale)
    outputs, state = matrix_lstm(q, k, v, i, f, state)
    last = state.scale.exp()[..., None, None] * state.memory
    return outputs, last[..., :-1], last[..., -1]


def arguments(length: int, spread: float) -> dict[str, Tensor]:
    shape = (BATCH, length, HEADS)
    return {
        "q": normal(*shape, KEY, seed=1),
        "k": normal(*shape, KEY, seed=2),
        "v": normal(*shape, VALUE, seed=3),
        "i": spread * normal(*shape, seed=4),
        "f": -spread * uniform(*shape, seed=5) ** 3,
        "memory": normal(BATCH, HEADS, KEY, VALUE, seed=6),
        "count": normal(BATCH, HEADS, KEY, seed=7),
    }


@pytest.mark.parametrize("spread", [1.0, 8.0])
@pytest.mark.parametrize("length", [1, 2, 70])
def test_the_scaled_form_equals_the_equations(length: int, spread: float) -> None:
    drawn = arguments(length, spread)
    assert_accurate(results(scaled, drawn), results(naive, drawn))


def test_gates_of_any_size_stay_finite() -> None:
    """ĩ of ±3,000 in float32 over 8,192 positions: e^3000 is no number."""
    drawn = {name: x.float() for name, x in arguments(8192, 1000.0).items()}
    q, k, v, i, f = (drawn[name].requires_grad_() for name in ("q", "k", "v", "i", "f"))
    outputs, _ = matrix_lstm(q, k, v, i, f)
    assert outputs.isfinite().all()
    gradients = torch.autograd.grad(outputs.sum(), [q, k, v, i, f])
    assert all(gradient.isfinite().all() for gradient in gradients)


def convolved(mixer: Any, x: Tensor) -> Tensor:
    filters = mixer.neighbours.convolution.filters
    padded = functional.pad(x.mT, (len(filters) - 1, 0))
    bias, channels = mixer.neighbours.convolution.bias, filters.shape[1]
    seen = functional.conv1d(padded, filters.T.unsqueeze(1), bias, groups=channels).mT
    return seen * torch.sigmoid(seen)


def block_map(module: Any, x: Tensor) -> Tensor:
    return x @ torch.block_diag(*module.weights)


def head_norm(mixer: Any, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * mixer.gains


def matrix_layer(mixer: Any, u: Tensor) -> Tensor:
    x, z = (u @ mixer.input_projection.weight.T).chunk(2, -1)
    c = convolved(mixer, x)
    q, k, v = (
        block_map(mixer.query_map, c),
        block_map(mixer.key_map, c),
        block_map(mixer.value_map, x),
    )
    i, f = (torch.cat((q, k, v), -1) @ mixer.gates.weight.T + mixer.gates.bias).chunk(2, -1)
    q, k, v = (part.unflatten(-1, (mixer.heads, -1)) for part in (q, k, v))
    width = mixer.head_width
    memory = u.new_zeros(len(u), mixer.heads, width, width)
    reads, *_ = naive(q, k / math.sqrt(width), v, i, torch.sigmoid(f).log(), memory, memory[..., 0])
    mixed = (head_norm(mixer, reads).flatten(2) + mixer.skip * c) * z * torch.sigmoid(z)
    return mixed @ mixer.output_projection.weight.T


def scalar_layer(mixer: Any, u: Tensor) -> Tensor:
    gates = block_map(mixer.gate_map, convolved(mixer, u)).unflatten(-1, (mixer.heads, 2, -1))
    values = block_map(mixer.value_map, u).unflatten(-1, (mixer.heads, 2, -1))
    biases = mixer.biases.unflatten(-1, (4, -1))
    output = torch.zeros_like(gates[:, 0, :, 0])
    cell = count = output
    outputs = []
    for t in range(u.shape[1]):
        again = torch.einsum("bhi,hio->bho", output, mixer.recurrent).unflatten(-1, (4, -1))
        i, f, z, o = (
            part[:, t, :, n] + again[:, :, 2 * m + n] + biases[:, 2 * m + n]
            for m, part in enumerate((gates, values))
            for n in (0, 1)
        )
        cell = torch.sigmoid(f) * cell + i.exp() * torch.tanh(z)
        count = torch.sigmoid(f) * count + i.exp()
        output = torch.sigmoid(o) * cell / count
        outputs.append(output)
    return head_norm(mixer, torch.stack(outputs, 1)).flatten(2)


@pytest.mark.parametrize(("equations", "every"), [(matrix_layer, 0), (scalar_layer, 1)])
def test_layers_equal_their_equations(equations: Any, every: int) -> None:
    mixer = only_mixer(model(scalar_every=every))
    assert_layer_equals(mixer, equations)
    assert_pieces_equal_the_whole(mixer)


def test_scalar_gates_of_any_size_stay_finite() -> None:
    mixer = only_mixer(model(scalar_every=1)).float()
    hidden = (1000 * normal(1, 300, 16, seed=3)).float().requires_grad_()
    outputs = mixer(hidden)
    assert outputs.isfinite().all()
    assert torch.autograd.grad(outputs.sum(), hidden)[0].isfinite().all()


def test_layers_take_turns_and_start_as_they_say() -> None:
    kinds = {}
    for every in (0, 1, 2, 3):
        blocks = XLSTM(SPECIFICATION, width=16, layers=6, scalar_every=every)._typed_blocks()
        kinds[every] = "".join("s" if isinstance(b.mixer, ScalarLSTMMixer) else "m" for b in blocks)
    assert kinds == {0: "mmmmmm", 1: "ssssss", 2: "msmsms", 3: "mmsmms"}
    matrix, scalar = new_mixer(model(scalar_every=0)), new_mixer(model(scalar_every=1))
    assert matrix.gates.bias[2:].tolist() == [3, 6]
    assert not matrix.gates.weight.any()
    assert scalar.biases.unflatten(-1, (4, -1))[:, 1].mean(-1).tolist() == [3, 6]
    inner, width = 256, 128
    parameters = 3 * inner * width + 5 * inner + 3 * 4 * inner + 3 * inner * 4 + 4 + 2 * inner
    state = inner * 129 + 2 + 3 * inner
    assert parameters_and_state(model(width=width, scalar_every=0)) == (parameters, state)
    parameters = 8 * width * 64 + 4 * width + 5 * width + width
    assert parameters_and_state(model(width=width, scalar_every=1)) == (parameters, 7 * width)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"scalar_every": -1}, "scalar_every=-1 is no distance"),
        ({"heads": 3}, "cannot be split in heads=3"),
        ({"width": 3, "heads": 1, "scalar_every": 0}, "make width a multiple of 4"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        model(**settings)
