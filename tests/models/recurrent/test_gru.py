"""GRU and minGRU against loops over their cells."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.recurrent.gru import GatedRecurrentUnit
from models.recurrent.min_gru import MinGRU
from tests.models.linear.naive import (
    assert_accurate,
    assert_layer_equals,
    assert_pieces_equal_the_whole,
    new_mixer,
    normal,
    only_mixer,
    parameters_and_state,
    small_model,
)

WIDTH = 16


def gru(mixer: Any, x: Tensor) -> Tensor:
    layer, output, outputs = mixer.gru, x.new_zeros(len(x), WIDTH), []
    for t in range(x.shape[1]):
        seen = (x[:, t] @ layer.weight_ih_l0.T + layer.bias_ih_l0).chunk(3, -1)
        kept = (output @ layer.weight_hh_l0.T + layer.bias_hh_l0).chunk(3, -1)
        reset, update = (torch.sigmoid(seen[n] + kept[n]) for n in (0, 1))
        candidate = torch.tanh(seen[2] + reset * kept[2])
        output = (1 - update) * candidate + update * output
        outputs.append(output)
    return torch.stack(outputs, 1)


def min_gru(mixer: Any, x: Tensor) -> Tensor:
    gates, candidates = (x @ mixer.projection.weight.T + mixer.projection.bias).chunk(2, -1)
    output, outputs = torch.zeros_like(gates[:, 0]), []
    for t in range(x.shape[1]):
        update, a = torch.sigmoid(gates[:, t]), candidates[:, t]
        output = (1 - update) * output + update * torch.where(a >= 0, a + 0.5, torch.sigmoid(a))
        outputs.append(output)
    return torch.stack(outputs, 1)


@pytest.mark.parametrize(("equations", "kind"), [(gru, GatedRecurrentUnit), (min_gru, MinGRU)])
def test_layers_equal_a_loop_over_cells(equations: Any, kind: type[nn.Module]) -> None:
    mixer = only_mixer(small_model(kind))
    assert_layer_equals(mixer, equations)
    assert_pieces_equal_the_whole(mixer)


def test_min_gru_stays_accurate_where_gates_are_shut() -> None:
    """Gates to e^−50 and 1 − e^−50 in float32, over 8,192 positions."""
    mixer = only_mixer(small_model(MinGRU))
    hidden = normal(1, 8192, WIDTH, seed=4)
    with torch.no_grad():
        mixer.projection.weight[:WIDTH].mul_(25)
        single = mixer.float()
        outputs = single(hidden.float())
        expected = min_gru(mixer.double(), hidden.float().double())
    assert_accurate({"o": outputs.double()}, {"o": expected}, 1e-5)


def test_they_start_as_their_docstrings_say() -> None:
    layer = new_mixer(small_model(GatedRecurrentUnit)).gru
    recurrent = layer.weight_hh_l0.detach()
    assert torch.allclose(recurrent.T @ recurrent, torch.eye(WIDTH).double(), atol=1e-6)
    assert not layer.bias_ih_l0.any()
    assert not layer.bias_hh_l0.any()
    assert parameters_and_state(small_model(GatedRecurrentUnit, width=128)) == (
        6 * 128**2 + 6 * 128,
        128,
    )
    assert parameters_and_state(small_model(MinGRU, width=128)) == (2 * 128**2 + 2 * 128, 128)
