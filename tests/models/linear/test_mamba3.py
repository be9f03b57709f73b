"""Mamba-3 against its equations position by position, and what its rotation can count."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.writes import Writes
from models.linear.mamba3 import Mamba3, TrapezoidState, trapezoid_recurrence
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
    root_mean_square_norm,
    uniform,
)

BATCH, HEADS, STATE, VALUE = 2, 3, 8, 4


def model(width: int = 16, **settings: Any) -> Mamba3:
    sizes = {"state": 8, "head_width": 16} | settings
    return Mamba3(SPECIFICATION, width=width, layers=1, dropout=0.0, **sizes)


def arguments(length: int, strongest: float = 2.0) -> dict[str, Tensor]:
    return {
        "q": normal(BATCH, length, HEADS, STATE, seed=1),
        "k": normal(BATCH, length, HEADS, STATE, seed=2),
        "v": normal(BATCH, length, HEADS, VALUE, seed=3),
        "g": -strongest * uniform(BATCH, length, HEADS, seed=4) ** 3,
        "share": uniform(BATCH, length, HEADS, seed=5),
        "dt": uniform(BATCH, length, HEADS, seed=6),
        "memory": normal(BATCH, HEADS, STATE, VALUE, seed=7),
        "last_k": normal(BATCH, HEADS, STATE, seed=8),
        "last_v": normal(BATCH, HEADS, VALUE, seed=9),
    }


def naive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    share: Tensor,
    dt: Tensor,
    memory: Tensor,
    last_k: Tensor,
    last_v: Tensor,
) -> tuple[Tensor, Tensor]:
    """S = αS + (1−λ)dt·α·k₋⊗v₋ + λ·dt·k⊗v;  o = Sᵀq."""
    outputs = []
    for t in range(q.shape[1]):
        alpha, lam, step = (x[:, t, :, None, None] for x in (g.exp(), share, dt))
        memory = alpha * memory + (1 - lam) * step * alpha * outer(last_k, last_v)
        memory = memory + lam * step * outer(k[:, t], v[:, t])
        last_k, last_v = k[:, t], v[:, t]
        outputs.append(read(memory, q[:, t]))
    return torch.stack(outputs, 1), memory


def in_chunks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    share: Tensor,
    dt: Tensor,
    memory: Tensor,
    last_k: Tensor,
    last_v: Tensor,
    *,
    chunk: int = 64,
) -> tuple[Tensor, Tensor]:
    state = TrapezoidState(memory, last_k, last_v)
    outputs, state = trapezoid_recurrence(
        q, k, v, g, share * dt, (1 - share) * dt, state, chunk=chunk
    )
    return outputs, state.memory


@pytest.mark.parametrize("length", [1, 2, 37])
def test_chunks_equal_the_equations(length: int) -> None:
    drawn = arguments(length)
    expected = results(naive, drawn)
    for chunk in (1, 5, 16, 37, 64):
        assert_accurate(results(partial(in_chunks, chunk=chunk), drawn), expected)


def test_strong_decays_leave_values_and_gradients_finite() -> None:
    drawn = arguments(37, strongest=30.0)
    assert_accurate(results(partial(in_chunks, chunk=16), drawn), results(naive, drawn))


@pytest.mark.bitwise  # what is summed before an input is summed alike, whatever the input
def test_no_output_depends_on_a_later_input_even_by_rounding() -> None:
    """The weight of a pair that later positions read has a gate of the next position in it."""
    drawn = arguments(37)
    outputs, _ = in_chunks(*drawn.values(), chunk=16)
    for t in (3, 16, 20):
        later = {n: x.clone() for n, x in drawn.items()}
        for name in ("q", "k", "v", "g", "share", "dt"):
            later[name][:, t:] = uniform(*later[name][:, t:].shape, seed=t)
        changed, _ = in_chunks(*later.values(), chunk=16)
        assert torch.equal(changed[:, :t], outputs[:, :t])


def test_weights_of_the_own_pair_alone_give_mamba_2() -> None:
    drawn = arguments(37) | {"share": torch.ones(BATCH, 37, HEADS, dtype=torch.float64)}
    found = in_chunks(*drawn.values())
    values = drawn["dt"].unsqueeze(-1) * drawn["v"]
    writes = Writes(drawn["k"], values, drawn["g"])
    expected = linear_recurrence(drawn["q"], writes, drawn["memory"])
    assert_accurate(
        dict(zip("os", found, strict=True)), dict(zip("os", expected, strict=True)), 1e-12
    )


def equations(mixer: Any, x: Tensor) -> Tensor:
    sizes = list(mixer.parts.values())
    projected = (x @ mixer.input_projection.weight.T).split(sizes, -1)
    parts = dict(zip(mixer.parts, projected, strict=True))
    seen = parts["seen"]
    if mixer.neighbours.convolution is not None:
        filters, bias = mixer.neighbours.convolution.filters, mixer.neighbours.convolution.bias
        padded = torch.nn.functional.pad(seen.mT, (len(filters) - 1, 0))
        seen = torch.nn.functional.conv1d(
            padded, filters.T.unsqueeze(1), bias, groups=filters.shape[1]
        ).mT
        seen = seen * torch.sigmoid(seen)
    v, b, c = seen.split((mixer.channels, mixer.state, mixer.state), -1)
    dt = torch.log1p(torch.exp(parts["steps"] + mixer.step_bias))
    a = parts["rates"]
    softplus = torch.log1p(torch.exp(a)).clamp(min=1e-4)
    rational = torch.where(a >= 0, 1 + a, 1 / (1 - a.clamp(max=0)))
    g = -dt * (softplus if mixer.rates == "softplus" else rational)

    width = mixer.state // 4
    frequencies = 10_000.0 ** (-4 * torch.arange(width, dtype=torch.float64) / mixer.state)
    angle, turned = torch.zeros(len(x), mixer.heads, width, dtype=torch.float64), []
    for t in range(x.shape[1]):
        if mixer.rotation == "data":
            angle = angle + math.pi * torch.tanh(parts["turns"][:, t, None]) * dt[:, t, :, None]
        elif mixer.rotation == "fixed":
            angle = (t * frequencies).expand_as(angle)
        turned.append(torch.polar(torch.ones_like(angle), angle))
    turns = torch.stack(turned, 1)

    def state_vectors(vectors: Tensor, norm: Any, bias: Tensor | None) -> Tensor:
        heads = root_mean_square_norm(vectors, norm.weight)[:, :, None]
        heads = heads.expand(-1, -1, mixer.heads, -1) if bias is None else heads + bias
        first, second = heads.chunk(2, -1)
        pairs = torch.view_as_complex(first.unflatten(-1, (-1, 2)).contiguous()) * turns
        return torch.cat((torch.view_as_real(pairs).flatten(-2), second), -1)

    k = state_vectors(b, mixer.write_norm, mixer.write_bias)
    q = state_vectors(c, mixer.read_norm, mixer.read_bias)
    v = v.unflatten(-1, (mixer.heads, -1))
    share = torch.sigmoid(parts["shares"]) if mixer.trapezoid else torch.ones_like(dt)
    memory = x.new_zeros(len(x), mixer.heads, mixer.state, mixer.head_width)
    start = torch.zeros_like(k[:, 0]), torch.zeros_like(v[:, 0])
    reads, _ = naive(q, k, v, g, share, dt, memory, *start)
    gated = (reads + mixer.skip[:, None] * v).flatten(2)
    gated = gated * parts["gates"] * torch.sigmoid(parts["gates"])
    return gated @ mixer.output_projection.weight.T


CASES: list[dict[str, Any]] = [
    {},
    {"rotation": "fixed", "rates": "rational"},
    {"rotation": "none", "convolution": 4},
    {"trapezoid": False, "bias": False},
]


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_the_layer_equals_its_equations(settings: dict[str, Any]) -> None:
    mixer = only_mixer(model(**settings))
    assert_layer_equals(mixer, equations)
    assert_pieces_equal_the_whole(mixer)


def test_the_state_turns_by_half_a_circle_for_each_one() -> None:
    """dt = 2 and tanh(angle) = ½ on ones: the sign of what is read is the parity."""
    mixer = new_mixer(model(bias=False, trapezoid=False))
    bits = (uniform(1, 200, 1, seed=1) < 0.5).double()
    steps = torch.full((1, 200, mixer.heads), 2.0, dtype=torch.float64)
    angles, last = mixer._angles(math.atanh(0.5) * bits.expand(-1, -1, 2), steps, None)
    parity = bits.cumsum(1).remainder(2)
    assert torch.allclose(angles[0, :, 0, :1].cos(), 1 - 2 * parity[0], atol=1e-12)
    assert torch.equal(last, angles[:, -1])


def test_half_lives_at_the_start_are_those_of_the_paper() -> None:
    """Median 100 positions with softplus, 69 as released, where projections are 0."""
    torch.manual_seed(0)
    for rates, expected in (("softplus", [15.8, 100, 630]), ("rational", [10.9, 69, 437])):
        mixer = new_mixer(model(width=1024, state=4, head_width=2, rates=rates, mlp=False))
        with torch.no_grad():
            steps = torch.nn.functional.softplus(mixer.step_bias)
            half_lives = math.log(2) / (steps * mixer._rates(torch.zeros(())))
        quantiles = half_lives.quantile(torch.tensor([0.1, 0.5, 0.9]).double()).tolist()
        assert quantiles == pytest.approx(expected, rel=0.15)


def test_long_sequences_stay_finite_and_keep_their_angles() -> None:
    """8,192 positions in float32 without decay: θ is the exact sum's, modulo 2π."""
    length = 8192
    drawn = arguments(length)
    state = TrapezoidState(drawn["memory"], drawn["last_k"], drawn["last_v"])
    q, k, v, share, dt = (drawn[name].float() for name in ("q", "k", "v", "share", "dt"))
    state = TrapezoidState(*(part.float() for part in state))
    outputs, last = trapezoid_recurrence(q, k, v, torch.zeros_like(dt), share, dt, state)
    assert outputs.isfinite().all()
    assert last.memory.isfinite().all()
    mixer = new_mixer(model())
    turns, steps = normal(1, length, 2, seed=3), 4 * uniform(1, length, 2, seed=4)
    single_angles, _ = mixer._angles(turns.float(), steps.float(), None)
    exact, _ = mixer._angles(turns.float().double(), steps.float().double(), None)
    distance = (single_angles.double() - exact).cos()
    assert distance.min() > 1 - 1e-6


def test_sizes_are_those_of_the_released_module() -> None:
    full = model(width=128, state=64, head_width=64)
    assert parameters_and_state(full) == (118_920, 16_960)
    without = model(width=128, state=64, head_width=64, rotation="none", trapezoid=False)
    assert parameters_and_state(without) == (118_920 - 128 * (16 + 4), 16_960 - 4 * 16)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"rotation": "rope"}, "rotation='rope' is unknown; choose one of data, fixed, none"),
        ({"rates": "exp"}, "rates='exp' is unknown; choose one of softplus, rational"),
        ({"state": 6}, "state=6; make it a multiple of 4"),
        ({"head_width": 12}, "cannot be split in heads of head_width=12"),
        ({"convolution": 0}, "convolution=0 sees no position"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        model(**settings)
