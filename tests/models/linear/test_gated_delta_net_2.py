"""Gated DeltaNet-2 against its equations position by position."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.layers.linear_recurrence import linear_recurrence
from models.layers.recurrence.writes import Writes
from models.linear.gated_delta_net_2 import RATES, GatedDeltaNet2
from models.linear.parts import DecayByChannel
from tests.models.linear.naive import (
    SPECIFICATION,
    assert_accurate,
    assert_layer_equals,
    assert_pieces_equal_the_whole,
    convolved_heads,
    decay_by_channel,
    layer_results,
    normalised,
    only_mixer,
    outer,
    parameters_and_state,
    read,
    root_mean_square_norm,
)

WIDTH = 16


def model(**settings: Any) -> GatedDeltaNet2:
    return GatedDeltaNet2(SPECIFICATION, width=WIDTH, layers=1, dropout=0.0, **settings)


def gates(mixer: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """b and w of every channel, as the ablations of the paper change them."""
    b, w = (torch.sigmoid(x @ m.weight.T) for m in (mixer.erase_gate, mixer.write_gate))
    b, w = (gate.unflatten(-1, (mixer.heads, -1)) for gate in (b, w))
    mean_b, mean_w = (g.mean(-1, keepdim=True).expand_as(g) for g in (b, w))
    both = (mean_b + mean_w) / 2
    choice = {"both": (b, w), "erase": (b, mean_w), "write": (mean_b, w), "tied": (both, both)}
    b, w = choice[mixer.gates]
    return mixer.largest_erasure * b, w


def output_of(mixer: Any, x: Tensor, memory_reads: Tensor) -> Tensor:
    first, second = mixer.output_gate
    gate = x @ first.weight.T @ second.weight.T + second.bias
    gate = torch.sigmoid(gate) * (gate if mixer.output_activation == "silu" else 1)
    normed = root_mean_square_norm(memory_reads, mixer.norm.weight)
    return functional.linear(normed.flatten(2) * gate, mixer.output_projection.weight)


def equations(mixer: Any, x: Tensor) -> Tensor:
    """S' = Diag(α)S;  S = S' + k⊗(w∘v − S'ᵀ(b∘k));  o = Sᵀq / √K."""
    q, k, v = convolved_heads(mixer.streams, x)
    q, k = normalised(q), normalised(k)
    (b, w), alpha = gates(mixer, x), decay_by_channel(mixer.decay, x)
    state, outputs = x.new_zeros(len(x), 2, WIDTH // 2, WIDTH // 2), []
    for t in range(x.shape[1]):
        decayed = alpha[:, t].unsqueeze(-1) * state
        erased = read(decayed, b[:, t] * k[:, t])
        state = decayed + outer(k[:, t], w[:, t] * v[:, t] - erased)
        outputs.append(read(state, q[:, t] / math.sqrt(WIDTH // 2)))
    return output_of(mixer, x, torch.stack(outputs, 1))


CASES: list[dict[str, Any]] = [
    {},
    {"gates": "erase", "output_activation": "sigmoid"},
    {"gates": "write"},
    {"gates": "tied"},
    {"largest_erasure": 2.0},
]


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_the_layer_equals_its_equations(settings: dict[str, Any]) -> None:
    mixer = only_mixer(model(**settings))
    assert_layer_equals(mixer, equations)
    assert_pieces_equal_the_whole(mixer)


def test_tied_gates_are_kimi_delta_attention() -> None:
    mixer = only_mixer(model(gates="tied"))

    def kda(x: Tensor) -> Tensor:
        q, k, v = convolved_heads(mixer.streams, x)
        strengths, decays = gates(mixer, x)[0][..., 0], decay_by_channel(mixer.decay, x).log()
        q = normalised(q) / math.sqrt(WIDTH // 2)
        reads, _ = linear_recurrence(q, Writes(normalised(k), v, decays, strengths))
        return output_of(mixer, x, reads)

    assert_accurate(layer_results(mixer, mixer), layer_results(mixer, kda), 1e-12)


def test_sizes_are_those_of_the_released_module() -> None:
    full = GatedDeltaNet2(SPECIFICATION, width=128, layers=1)
    assert parameters_and_state(full) == (132_930, 128 * 64 + 9 * 128)
    for settings in CASES:
        ablation = GatedDeltaNet2(SPECIFICATION, width=128, layers=1, **settings)
        assert parameters_and_state(ablation) == parameters_and_state(full)


def test_half_lives_at_the_start_are_those_of_the_paper() -> None:
    """e^A uniform on [1, 16], steps log-uniform on [1e-3, 0.1]: median 9.8 positions."""
    torch.manual_seed(0)
    decay = DecayByChannel(8, 256, 4096, rank=2, rates=RATES)
    with torch.no_grad():
        half_lives = math.log(0.5) / decay(torch.zeros(1, 1, 8)).flatten()
    low, middle, high = half_lives.quantile(torch.tensor([0.1, 0.5, 0.9])).tolist()
    assert [low, middle, high] == pytest.approx([1.29, 9.8, 68], rel=0.15)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"gates": "none"}, "gates='none' is unknown; choose one of both, erase, write, tied"),
        ({"output_activation": "relu"}, "output_activation='relu' is unknown"),
        ({"largest_erasure": 2.5}, "largest_erasure=2.5 is outside"),
        ({"heads": 3}, "cannot be split in heads=3"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        model(**settings)
