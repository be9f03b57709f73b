"""Momentum DeltaNet against its equations position by position."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.writes import Writes
from models.linear.momentum_delta_net import (
    MomentumDeltaNet,
    MomentumGates,
    MomentumState,
    momentum_delta_rule,
)
from tests.closeness import rounding
from tests.models.linear.naive import (
    assert_accurate,
    assert_layer_equals,
    assert_pieces_equal_the_whole,
    convolved_heads,
    decay_by_head,
    new_mixer,
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

BATCH, HEADS, KEY, VALUE = 2, 2, 6, 4
CHUNK = 32


model = partial(small_model, MomentumDeltaNet)


def arguments(length: int, alpha: float | None = None, mu: float | None = None) -> Any:
    """Gates over their whole range, or the same α and μ everywhere."""
    shape = (BATCH, length, HEADS)
    g, m = -3 * uniform(*shape, seed=4) ** 4, -2 * uniform(*shape, seed=5)
    return {
        "q": normal(*shape, KEY, seed=1),
        "k": unit_vectors(*shape, KEY, seed=2),
        "v": normal(*shape, VALUE, seed=3),
        "g": g if alpha is None else torch.full_like(g, math.log(alpha)),
        "m": m if mu is None else torch.full_like(m, math.log(mu)),
        "eta": 2 * uniform(*shape, seed=6),
        "beta": uniform(*shape, seed=7) * (uniform(*shape, seed=10) < 0.8),
        "memory": normal(BATCH, HEADS, KEY, VALUE, seed=8),
        "momentum": normal(BATCH, HEADS, KEY, VALUE, seed=9),
    }


def naive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    m: Tensor,
    eta: Tensor,
    beta: Tensor,
    memory: Tensor,
    momentum: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """D = αS;  e = v − Dᵀk;  M = μM + ηk⊗e;  S = D + βM;  o = Sᵀq."""
    outputs = []
    for t in range(q.shape[1]):
        alpha, mu, rate, share = (x[:, t, :, None, None] for x in (g.exp(), m.exp(), eta, beta))
        decayed = alpha * memory
        error = v[:, t] - read(decayed, k[:, t])
        momentum = mu * momentum + rate * outer(k[:, t], error)
        memory = decayed + share * momentum
        outputs.append(read(memory, q[:, t]))
    return torch.stack(outputs, 1), memory, momentum


def in_chunks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    m: Tensor,
    eta: Tensor,
    beta: Tensor,
    memory: Tensor,
    momentum: Tensor,
    *,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor, Tensor]:
    gates = MomentumGates(g, m, eta, beta)
    state = MomentumState(memory, momentum)
    outputs, state = momentum_delta_rule(q, k, v, gates, state, chunk=chunk)
    return outputs, *state


@pytest.mark.parametrize("length", [1, 2, 37])
def test_chunks_equal_the_equations(length: int) -> None:
    drawn = arguments(length)
    expected = results(naive, drawn)
    for chunk in (1, 5, 16, 37, 64):
        assert_accurate(results(partial(in_chunks, chunk=chunk), drawn), expected)


@pytest.mark.parametrize(("alpha", "mu"), [(0.99, 0.7), (0.9, 0.135), (1.0, 0.135), (1e-3, 1.0)])
def test_no_digits_are_lost_however_gates_differ(alpha: float, mu: float) -> None:
    """At α 0.9 and μ 0.135 the published form is wrong by 71 % in float64 (chunks of 32)."""
    drawn = arguments(64, alpha, mu)
    assert_accurate(results(in_chunks, drawn), results(naive, drawn))
    single = {name: x.float() for name, x in drawn.items()}
    outputs, *_ = in_chunks(**single)
    expected, *_ = naive(**{name: x.double() for name, x in single.items()})
    # A weight is the exponential of a difference of sums of logarithms. The largest sum is that of
    # a chunk: so many times is their rounding larger in the weight.
    condition = max(1.0, CHUNK * abs(math.log(alpha * mu)))
    accuracy = rounding(1.0, torch.float32, condition=condition)
    assert_accurate({"o": outputs.double()}, {"o": expected}, accuracy)


def test_momentum_that_fades_at_once_gives_gated_delta_net() -> None:
    """μ = 0: strength βη."""
    drawn = arguments(37, mu=1e-300)
    drawn["momentum"] = torch.zeros_like(drawn["momentum"])
    outputs, memory, _ = in_chunks(**drawn)
    writes = Writes(drawn["k"], drawn["v"], drawn["g"], drawn["beta"] * drawn["eta"])
    expected = linear_recurrence(drawn["q"], writes, drawn["memory"])
    accuracy = rounding(1.0, torch.float64, condition=37 * 300 * math.log(10))  # sums of log μ
    assert_accurate({"o": outputs, "s": memory}, dict(zip("os", expected, strict=True)), accuracy)


def test_a_rate_of_zero_only_forgets() -> None:
    drawn = arguments(37) | {"eta": torch.zeros(BATCH, 37, HEADS).double()}
    drawn["momentum"] = torch.zeros_like(drawn["momentum"])
    _, memory, momentum = in_chunks(**drawn)
    whole = drawn["g"].sum(1).exp()[..., None, None]
    assert_accurate({"s": memory}, {"s": whole * drawn["memory"]}, 1e-12)
    assert not momentum.any()


def test_one_key_without_forgetting_swings_for_ever() -> None:
    """α = μ = 1, one unit key: the transition has determinant 1 and βη < 4 makes it turn."""
    drawn = arguments(512, alpha=1.0, mu=1.0)
    drawn["k"] = drawn["k"][:, :1].expand(-1, 512, -1, -1)
    drawn |= {"v": 0 * drawn["v"], "eta": torch.full_like(drawn["eta"], 2.0)}
    drawn |= {"q": drawn["k"], "beta": torch.full_like(drawn["beta"], 0.5)}
    outputs, *_ = in_chunks(**drawn)
    first, last = (part.abs().amax(1) for part in outputs.chunk(2, 1))
    assert ((last / first - 1).abs() < 0.02).all()


def equations(mixer: Any, x: Tensor) -> Tensor:
    q, k, v = convolved_heads(mixer.streams, x)
    q = normalised(q - mixer.log_corrections.exp()[:, None] * k)
    eta = 1 + torch.tanh(x @ mixer.rate.weight.T / math.sqrt(x.shape[-1]))
    theta = torch.atan(eta * mixer.log_angle_rates.exp())
    beta = theta.sin() ** 2 * torch.sigmoid(x @ mixer.strength.weight.T)
    g = (theta.cos() ** 2).log() + decay_by_head(mixer.decay, x).log()
    if mixer.momentum is None:
        m = torch.full_like(g, -700.0)
    else:
        m = decay_by_head(mixer.momentum, x).log()
        if mixer.smallest_log_momentum is not None:
            m = m.clamp(min=mixer.smallest_log_momentum)
    zeros = x.new_zeros(len(x), mixer.heads, mixer.head_width, mixer.head_width)
    scale = math.sqrt(mixer.head_width)
    reads, *_ = naive(q / scale, normalised(k), v, g, m, eta, beta, zeros, zeros)
    gate = torch.sigmoid(x @ mixer.gate.weight.T)
    normed = root_mean_square_norm(reads, mixer.norm.weight).flatten(2)
    return (normed * gate) @ mixer.output_projection.weight.T


@pytest.mark.parametrize(
    "settings", [{}, {"momentum": False}, {"smallest_log_momentum": None}], ids=str
)
def test_the_layer_equals_its_equations(settings: dict[str, Any]) -> None:
    mixer = only_mixer(model(**settings))
    assert_layer_equals(mixer, equations)
    assert_pieces_equal_the_whole(mixer)


@pytest.mark.parametrize("mu", [math.exp(-2), 1.0])
@pytest.mark.parametrize("angle_rate", [0.1, 1.0, 4.0])
def test_long_sequences_stay_finite(mu: float, angle_rate: float) -> None:
    """8,192 positions in float32 at the corners of the gates: η near 0 or 2, the sigmoid of β 0 or
    1, no decay but cos²θ. What holds the state is that η is small where α is large: with α 1 and
    0.001 in turn, η = 2 and μ = 1 it grows without end, though α + β <= 1."""
    drawn = arguments(8192)
    shape = drawn["eta"].shape
    eta = 1e-3 + 1.999 * (uniform(*shape, seed=10) < 0.5)
    tangents = (eta * angle_rate) ** 2
    shares = tangents / (1 + tangents) * (uniform(*shape, seed=11) < 0.5)
    letters = (18 * uniform(*shape, seed=12)).long()
    drawn |= {"k": unit_vectors(18, KEY, seed=13)[letters], "eta": eta, "beta": shares}
    drawn |= {"g": -torch.log1p(tangents), "m": torch.full(shape, math.log(mu))}
    outputs, *state = in_chunks(**{name: x.float() for name, x in drawn.items()})
    assert outputs.abs().max() < 1e3
    assert all(part.isfinite().all() for part in state)


def test_it_starts_as_the_paper_says() -> None:
    assert parameters_and_state(model(width=128)) == (84_556, 2 * 128 * 64 + 9 * 128)
    torch.manual_seed(0)
    mixer = new_mixer(model(width=1024, heads=1024, mlp=False))
    assert torch.equal(mixer.decay.step_bias, mixer.momentum.step_bias)
    hidden = torch.zeros(1, 1, 1024, dtype=torch.float64)
    with torch.no_grad():
        tangents = mixer.log_angle_rates.exp().square()
        decays = mixer.decay(hidden).flatten() - torch.log1p(tangents)
        faded = mixer.momentum(hidden).flatten().clamp(min=-2)
    levels = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    memory, momentum = ((math.log(0.5) / x).quantile(levels).tolist() for x in (decays, faded))
    assert memory == pytest.approx([0.25, 0.39, 2.4], rel=0.25)
    assert momentum == pytest.approx([1.4, 11.3, 92], rel=0.25)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"smallest_log_momentum": 0.0}, "smallest_log_momentum=0.0 leaves no momentum"),
        ({"heads": 3}, "cannot be split in heads=3"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        model(**settings)
