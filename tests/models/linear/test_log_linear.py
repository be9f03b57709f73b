"""Log-linear attention against sums over all pairs of positions, level by level."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence import levels
from models.layers.recurrence.levels import LevelState, log_linear_recurrence
from models.layers.recurrence.writes import Writes
from models.linear.log_linear import LogLinearDeltaNet, LogLinearMamba2
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
    parameters_and_state,
    results,
    root_mean_square_norm,
    small_model,
    uniform,
    unit_vectors,
)

BATCH, HEADS, KEY, VALUE = 2, 2, 5, 4
LONG = (2, 41, 16)  # more than one chunk


def level_of(t: int, s: int) -> int:
    """[0, t) is cut by removing the lowest set bit of t again and again."""
    if s == t:
        return 0
    end = t
    while True:
        length = 1
        while end % (2 * length) == 0:
            length *= 2
        if s >= end - length:
            return round(math.log2(length)) + 1
        end -= length


def test_levels_are_those_of_the_paper() -> None:
    assert [level_of(6, s) for s in range(7)] == [3, 3, 3, 3, 2, 2, 0]
    inside = levels._levels_of_chunk(16, torch.device("cpu"))
    assert inside.tolist() == [
        [level_of(t, s) if s <= t else 0 for s in range(16)] for t in range(16)
    ]


def arguments(length: int, rule: str) -> dict[str, Tensor]:
    shape = (BATCH, length, HEADS)
    drawn = {
        "q": normal(*shape, KEY, seed=1),
        "k": unit_vectors(*shape, KEY, seed=2),
        "v": normal(*shape, VALUE, seed=3),
        "g": -2 * uniform(*shape, seed=4) ** 4,
        "weights": uniform(*shape, 8, seed=5),
    }
    return drawn | ({"beta": 2 * uniform(*shape, seed=6)} if rule == "delta" else {})


def naive(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, weights: Tensor, beta: Tensor | None = None
) -> tuple[Tensor, ...]:
    """o_t = Σ_s λ_t[level(t, s)] q_tᵀ P_ts β_s k_s v_s, with the query taken back through P."""
    outputs = []
    for t in range(q.shape[1]):
        looking, output = q[:, t], torch.zeros_like(v[:, 0])
        for s in range(t, -1, -1):
            strength = 1.0 if beta is None else beta[:, s, :, None]
            found = strength * (looking * k[:, s]).sum(-1, keepdim=True)
            output = output + weights[:, t, :, level_of(t, s), None] * found * v[:, s]
            if beta is not None:
                looking = looking - found * k[:, s]
            looking = g[:, s, :, None].exp() * looking
        outputs.append(output)
    return (torch.stack(outputs, 1),)


def in_chunks(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, weights: Tensor, beta: Tensor | None = None
) -> tuple[Tensor, ...]:
    return (log_linear_recurrence(q, Writes(k, v, g, beta), weights)[0],)


@pytest.mark.parametrize("rule", ["additive", "delta"])
@pytest.mark.parametrize("length", [1, 2, 33, 47])
def test_chunks_equal_the_sums(length: int, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = arguments(length, rule)
    expected = results(naive, drawn)
    # The first gate decays a memory that is 0: its gradient is what is left of products of these.
    summed = {"g": float(drawn["q"].abs().max() * drawn["v"].abs().max())}
    for chunk in (4, 32):
        monkeypatch.setattr(levels, "CHUNK", chunk)
        assert_accurate(results(in_chunks, drawn), expected, summed=summed)


@pytest.mark.parametrize("rule", ["additive", "delta"])
@pytest.mark.parametrize("length", [2, 31, 33, 64, 65])
def test_memories_after_chunks_are_those_of_steps(length: int, rule: str) -> None:
    """Memories of all blocks, and what the positions after them read."""
    drawn = arguments(length, rule)
    q, weights = drawn["q"], drawn["weights"]
    writes = Writes(drawn["k"], drawn["v"], drawn["g"], drawn.get("beta"))
    outputs, whole = log_linear_recurrence(q, writes, weights)
    state: LevelState | None = None
    for piece in (slice(0, 1), slice(1, length)):
        part = writes.each(lambda x, at=piece: x[:, at])  # type: ignore[misc]
        last, state = log_linear_recurrence(q[:, piece], part, weights[:, piece], state)
    assert state is not None
    assert state.counter.shape == whole.counter.shape == (BATCH, length, 0)
    assert_accurate(
        {"o": last, "s": state.memories}, {"o": outputs[:, 1:], "s": whole.memories}, 1e-12
    )


@pytest.mark.parametrize("rule", ["additive", "delta"])
def test_equal_weights_give_the_plain_recurrence(rule: str) -> None:
    drawn = arguments(100, rule) | {"weights": torch.ones(BATCH, 100, HEADS, 8).double()}
    writes = Writes(drawn["k"], drawn["v"], drawn["g"], drawn.get("beta"))
    found, _ = log_linear_recurrence(drawn["q"], writes, drawn["weights"])
    expected, _ = linear_recurrence(drawn["q"], writes)
    assert_accurate({"o": found}, {"o": expected}, 1e-12)


def test_a_weight_for_the_own_position_alone_maps_each_by_itself() -> None:
    drawn = arguments(40, "additive")
    weights = torch.zeros_like(drawn["weights"])
    weights[..., 0] = 1
    (found,) = in_chunks(drawn["q"], drawn["k"], drawn["v"], drawn["g"], weights)
    expected = (drawn["q"] * drawn["k"]).sum(-1, keepdim=True) * drawn["v"]
    assert_accurate({"o": found}, {"o": expected}, 1e-12)


def test_more_positions_than_levels_reach_are_refused() -> None:
    drawn = arguments(129, "additive")
    sentence = "8 levels reach over 128 positions, and the sequence has 129"
    with pytest.raises(ValueError, match=sentence):
        in_chunks(*drawn.values())


def delta_net(mixer: Any, x: Tensor) -> Tensor:
    q, k, v = convolved_heads(mixer.streams, x)
    (reads,) = naive(
        normalised(q) / math.sqrt(mixer.head_width),
        normalised(k),
        v,
        decay_by_head(mixer.decay, x).log(),
        level_weights(mixer.weights, x),
        torch.sigmoid(x @ mixer.strength.weight.T),
    )
    gate = x @ mixer.gate.weight.T
    normed = root_mean_square_norm(reads, mixer.norm.weight).flatten(2)
    return (normed * gate * torch.sigmoid(gate)) @ mixer.output_projection.weight.T


def mamba2(mixer: Any, x: Tensor) -> Tensor:
    gates, seen, steps = (x @ mixer.input_projection.weight.T).split(mixer.parts, -1)
    filters = mixer.convolution.filters
    padded = functional.pad(seen.mT, (len(filters) - 1, 0))
    bias, channels = mixer.convolution.bias, filters.shape[1]
    seen = functional.conv1d(padded, filters.T.unsqueeze(1), bias, groups=channels).mT
    seen = seen * torch.sigmoid(seen)
    inputs, b, c = seen.split((mixer.channels, mixer.state, mixer.state), -1)
    inputs = inputs.unflatten(-1, (mixer.heads, -1))
    dt = torch.log1p(torch.exp(steps + mixer.step_bias))
    b, c = (vectors.unsqueeze(2).expand(-1, -1, mixer.heads, -1) for vectors in (b, c))
    g, lam = -dt * mixer.log_rates.exp(), level_weights(mixer.weights, x)
    (reads,) = naive(c, b, dt.unsqueeze(-1) * inputs, g, lam)
    reads = (reads + mixer.skip[:, None] * inputs).flatten(2)
    gated = reads * gates * torch.sigmoid(gates)
    normed = root_mean_square_norm(gated, mixer.norm.weight)
    return normed @ mixer.output_projection.weight.T


def level_weights(module: Any, x: Tensor) -> Tensor:
    projected = (x @ module.projection.weight.T).unflatten(-1, (-1, 15))
    return torch.log1p(torch.exp(module.scales * projected))


@pytest.mark.parametrize(
    ("equations", "kind", "settings"),
    [(delta_net, LogLinearDeltaNet, {}), (mamba2, LogLinearMamba2, {"state": 8, "head_width": 8})],
)
def test_layers_equal_their_equations(equations: Any, kind: Any, settings: Any) -> None:
    mixer = only_mixer(small_model(kind, **settings))
    assert_layer_equals(mixer, equations, LONG)
    assert_pieces_equal_the_whole(mixer, LONG)


def test_sizes_are_those_of_the_paper() -> None:
    mamba = small_model(LogLinearMamba2, width=128)
    heads, plain = 4, 117_388
    assert parameters_and_state(mamba)[0] == plain + 15 * heads * 129
    memory, past = 2 * 128 * 64, 3 * (256 + 128)
    assert new_mixer(mamba).numbers_after(256) == 9 * memory + past
    assert new_mixer(mamba).numbers_after(257) == 10 * memory + past
    assert torch.allclose(new_mixer(mamba).log_rates.exp(), torch.arange(1.0, 5.0).double())
    delta = small_model(LogLinearDeltaNet, width=128)
    assert parameters_and_state(delta)[0] == 84_036 + 15 * 2 * 129
    assert new_mixer(delta).numbers_after(1) == 128 * 64 + 9 * 128
    assert new_mixer(delta).weights.scales.eq(1).all()
    with pytest.raises(ValueError, match="cannot be split in heads=3"):
        small_model(LogLinearDeltaNet, heads=3)
