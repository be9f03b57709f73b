"""Q-Delta, preconditioned delta rules and Comba against their equations position by position."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.linear.comba import Comba
from models.linear.delta_net import DeltaNet
from models.linear.preconditioned_delta_net import PreconditionedDeltaNet
from models.linear.q_delta import QDelta
from tests.models.linear.naive import (
    assert_accurate,
    assert_layer_equals,
    assert_pieces_equal_the_whole,
    convolved_heads,
    decay_by_channel,
    decay_by_head,
    new_mixer,
    normal,
    normalised,
    only_mixer,
    outer,
    parameters_and_state,
    read,
    root_mean_square_norm,
    small_model,
)

WIDTH, HEAD = 16, 8


def column(x: Tensor) -> Tensor:
    """A gate of every head, beside a vector."""
    return x.unsqueeze(-1)


def leave(mixer: Any, x: Tensor, reads: list[Tensor]) -> Tensor:
    gate = x @ mixer.gate.weight.T
    gate = torch.sigmoid(gate) * (1 if mixer.sigmoid_gate else gate)
    normed = root_mean_square_norm(torch.stack(reads, 1), mixer.norm.weight).flatten(2)
    return (normed * gate) @ mixer.output_projection.weight.T


def empty(x: Tensor) -> Tensor:
    return x.new_zeros(len(x), 2, HEAD, HEAD)


def q_delta(mixer: Any, x: Tensor) -> Tensor:
    """S' = αS;  S = S' + βk⊗(v − S'ᵀ(k + λq));  o = Sᵀq/√K."""
    q, k, v = convolved_heads(mixer.streams, x)
    q, k = normalised(q), normalised(k)
    alpha, beta = decay_by_head(mixer.decay, x), torch.sigmoid(x @ mixer.strength.weight.T)
    if mixer.share is None:
        share = torch.full_like(beta, mixer.query_share)
    else:
        share = torch.sigmoid(x @ mixer.share.weight.T - 0.9)
    state, reads = empty(x), []
    for t in range(x.shape[1]):
        state = alpha[:, t, :, None, None] * state
        error = v[:, t] - read(state, k[:, t] + column(share[:, t]) * q[:, t])
        state = state + outer(column(beta[:, t]) * k[:, t], error)
        reads.append(read(state, q[:, t]) / math.sqrt(HEAD))
    return leave(mixer, x, reads)


def preconditioned(mixer: Any, x: Tensor) -> Tensor:
    """A = aA + bk²;  M = X^(−r/(1+|r|)), r = ln(A + 1e-6) − c;  S' + β(M∘k)⊗(v − S'ᵀk)."""
    q, k, v = convolved_heads(mixer.streams, x)
    q, k = normalised(q), normalised(k)
    if hasattr(mixer.decay, "heads"):
        alpha = decay_by_channel(mixer.decay, x)
    else:
        alpha = column(decay_by_head(mixer.decay, x)).expand_as(k)
    beta = torch.sigmoid(x @ mixer.strength.weight.T)
    a = decay_by_head(mixer.square_decay, x)
    b = torch.sigmoid(x @ mixer.square_strength.weight.T)
    state, squares, reads = empty(x), torch.zeros_like(k[:, 0]), []
    for t in range(x.shape[1]):
        squares = column(a[:, t]) * squares + column(b[:, t]) * k[:, t] ** 2
        r = torch.log(squares + 1e-6) - column(mixer.centre)
        factors = mixer.base ** (-r / (1 + r.abs()))
        state = column(alpha[:, t]) * state
        error = v[:, t] - read(state, k[:, t])
        state = state + outer(column(beta[:, t]) * factors * k[:, t], error)
        reads.append(read(state, q[:, t]) / math.sqrt(HEAD))
    return leave(mixer, x, reads)


def comba(mixer: Any, x: Tensor) -> Tensor:
    """S_t = αS + βk⊗(v − Sᵀp), with S or αS in the bracket;  o = Sᵀ(q − Dp)/√K."""
    q, k, v = convolved_heads(mixer.streams, x)
    share = column(torch.sigmoid(mixer.feedback))
    q = normalised(q - column(mixer.correction) * share * k)
    p = normalised(share * k) if mixer.unit_feedback else share * normalised(k)
    k = normalised(k)
    alpha, beta = decay_by_head(mixer.decay, x), torch.sigmoid(x @ mixer.strength.weight.T)
    state, reads = empty(x), []
    for t in range(x.shape[1]):
        decayed = alpha[:, t, :, None, None] * state
        error = v[:, t] - read(decayed if mixer.decay_first else state, p[:, t])
        state = decayed + outer(column(beta[:, t]) * k[:, t], error)
        reads.append(read(state, q[:, t]) / math.sqrt(HEAD))
    assert mixer.sigmoid_gate
    return leave(mixer, x, reads)


CASES: dict[str, tuple[Callable[..., Tensor], type[nn.Module], dict[str, Any]]] = {
    "q delta": (q_delta, QDelta, {}),
    "q delta, whole query": (q_delta, QDelta, {"query_share": 1.0}),
    "preconditioned": (preconditioned, PreconditionedDeltaNet, {}),
    "preconditioned kda": (preconditioned, PreconditionedDeltaNet, {"decay": "channel"}),
    "comba": (comba, Comba, {}),
    "comba, decay first": (comba, Comba, {"decay_first": True}),
    "comba as released": (comba, Comba, {"unit_feedback": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_layers_equal_their_equations(name: str) -> None:
    equations, kind, settings = CASES[name]
    mixer = only_mixer(small_model(kind, **settings))
    assert_layer_equals(mixer, equations)
    assert_pieces_equal_the_whole(mixer)


def weights_for_delta_net(mixer: Any) -> dict[str, Tensor]:
    """Parameters by the names that Gated DeltaNet has for them."""
    moved = {"streams.projection": "projection", "streams.neighbours": "neighbours"}
    moved |= {"decay.projection": "decay", "decay.log_rates": "log_rates"}
    moved |= {"decay.step_bias": "step_bias"}
    weights = {}
    for name, value in mixer.state_dict().items():
        if name.startswith(("share", "square_", "centre")):
            continue
        for present, other in moved.items():
            name = name.replace(present, other)
        weights[name] = value
    return weights


@pytest.mark.parametrize(
    ("kind", "settings", "decay"),
    [
        (QDelta, {"query_share": 0.0}, "head"),
        (PreconditionedDeltaNet, {"base": 1.0}, "head"),
        (PreconditionedDeltaNet, {"base": 1.0, "decay": "channel"}, "channel"),
    ],
)
def test_without_what_is_new_they_are_gated_delta_net_and_kda(
    kind: type[nn.Module], settings: dict[str, Any], decay: str
) -> None:
    mixer = only_mixer(small_model(kind, **settings))
    other = only_mixer(small_model(DeltaNet, decay=decay, output_gate=True))
    other.load_state_dict(weights_for_delta_net(mixer))
    hidden = normal(2, 37, WIDTH, seed=3)
    assert_accurate({"outputs": mixer(hidden)}, {"outputs": other(hidden)}, 1e-12)


def test_preconditioners_stay_between_the_base_and_its_inverse() -> None:
    mixer = only_mixer(small_model(PreconditionedDeltaNet))
    hidden = normal(2, 200, WIDTH, seed=3)
    keys = normalised(convolved_heads(mixer.streams, hidden)[1])
    factors, _ = mixer._factors(hidden, keys, None)
    assert 1 / 1.5 < factors.min() < 1 < 1.4 < factors.max() < 1.5


@pytest.mark.parametrize(
    ("kind", "settings", "parameters", "state"),
    [
        (QDelta, {}, 84_292, 128 * 64 + 9 * 128),
        (QDelta, {"query_share": 1.0}, 84_036, 128 * 64 + 9 * 128),
        (PreconditionedDeltaNet, {}, 84_554, 128 * 64 + 128 + 9 * 128),
        (Comba, {}, 84_040, 128 * 64 + 9 * 128),
    ],
)
def test_sizes_are_those_of_the_released_modules(
    kind: type[nn.Module], settings: dict[str, Any], parameters: int, state: int
) -> None:
    assert parameters_and_state(small_model(kind, width=128, **settings)) == (parameters, state)


def test_gates_start_as_the_papers_say() -> None:
    q_delta_mixer, comba_mixer = new_mixer(small_model(QDelta)), new_mixer(small_model(Comba))
    shares = q_delta_mixer._shares(torch.zeros(1, 1, WIDTH).double())
    assert shares.flatten().tolist() == pytest.approx([0.289, 0.289], abs=1e-3)
    assert torch.sigmoid(comba_mixer.feedback).tolist() == pytest.approx([0.73, 0.73], abs=2e-3)
    assert comba_mixer.correction.tolist() == [1.0, 1.0]
    assert new_mixer(small_model(PreconditionedDeltaNet)).centre.tolist() == pytest.approx(
        [-0.2, -0.2]
    )


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [
        (QDelta, {"query_share": 1.5}, "query_share=1.5 is outside"),
        (PreconditionedDeltaNet, {"decay": "none"}, "decay='none' is unknown; choose one of head"),
        (PreconditionedDeltaNet, {"base": 3.0}, "base=3.0 is outside"),
        (Comba, {"heads": 3}, "cannot be split in heads=3"),
    ],
)
def test_what_cannot_be_is_refused(
    kind: type[nn.Module], settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        small_model(kind, **settings)
