"""The published LSTM and Mamba of RegBench: the defect is there, and only there."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from models.lstm import LSTM
from models.mamba import Mamba
from models.released import LSTMAsReleased, MambaAsReleased
from models.specification import SequenceSpecification
from tests.closeness import assert_near

TOKENS = SequenceSpecification(maximum_length=32, vocabulary=19)
TOKEN_SEQUENCES = torch.randint(0, 19, (2, 21), generator=torch.Generator().manual_seed(0))


def disturb(modules: nn.ModuleList) -> None:
    with torch.no_grad():
        for parameter in modules[:-1].parameters():
            parameter.add_(1.0)


@pytest.mark.parametrize("constructor", [LSTMAsReleased, MambaAsReleased])
def test_layers_before_the_last_change_nothing(constructor: type) -> None:
    torch.manual_seed(0)
    model = constructor(TOKENS, width=16, layers=4)
    before = model(TOKEN_SEQUENCES)
    disturb(model.mixers)
    assert torch.equal(model(TOKEN_SEQUENCES), before)
    before.sum().backward()
    silent = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert silent == {
        f"mixers.{i}.{n}" for i in range(3) for n, _ in model.mixers[i].named_parameters()
    }


@pytest.mark.parametrize("constructor", [LSTM, Mamba])
def test_every_layer_of_the_repaired_models_counts(constructor: type) -> None:
    torch.manual_seed(0)
    model = constructor(TOKENS, width=16, layers=4).eval()
    before = model(TOKEN_SEQUENCES)
    disturb(model.blocks)
    assert not torch.allclose(model(TOKEN_SEQUENCES), before)


def test_the_lstm_is_one_bare_layer_between_tied_embeddings() -> None:
    torch.manual_seed(0)
    model = LSTMAsReleased(TOKENS, width=16, layers=3).train()  # no dropout even in training
    table = dict(model.named_parameters())["input_output.source.weight"]
    plain = nn.LSTM(16, 16, batch_first=True)
    plain.load_state_dict(model.mixers[-1].lstm.state_dict())
    expected = plain(table[TOKEN_SEQUENCES])[0] @ table.T
    assert_near(model(TOKEN_SEQUENCES), expected, terms=21 * 34 + 16)


def test_the_embedding_keeps_the_standard_normal() -> None:
    torch.manual_seed(0)
    model = MambaAsReleased(SequenceSpecification(maximum_length=8, vocabulary=500), width=128)
    table = dict(model.named_parameters())["input_output.source.weight"]
    assert table.std().item() == pytest.approx(1.0, abs=0.02)  # sampling error 0.003


def test_no_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="layers to 1 or more"):
        LSTMAsReleased(TOKENS, layers=0)
