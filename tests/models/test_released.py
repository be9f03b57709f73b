"""The published LSTM, Mamba and S4D of RegBench: the defect is there, and only there."""

import math

import pytest
import torch
from torch import nn

from models.lstm import LSTM
from models.mamba import Mamba
from models.released import LSTMAsReleased, MambaAsReleased
from models.s4d import S4DMixer
from models.s4d_as_released import S4DMixerAsReleased
from models.specification import SequenceSpecification
from tests.closeness import assert_near
from tests.models.derivatives import assert_derivatives_near, disturbed, leaves_of, with_gradients

LENGTH = 61  # of a kernel
TOKENS = SequenceSpecification(maximum_length=32, vocabulary=19)
TOKEN_SEQUENCES = torch.randint(0, 19, (2, 21), generator=torch.Generator().manual_seed(0))


def disturb(modules: nn.ModuleList) -> None:
    with torch.no_grad():
        for parameter in modules[:-1].parameters():
            parameter.add_(1.0)


@pytest.mark.parametrize("constructor", [LSTMAsReleased, MambaAsReleased])
@pytest.mark.bitwise
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


def test_kernel_is_the_impulse_response_of_the_recurrence() -> None:
    torch.manual_seed(0)
    made = disturbed(S4DMixerAsReleased(5, state=8))
    assert isinstance(made, S4DMixerAsReleased)
    assert "write" not in dict(made.named_parameters())

    def recurrence() -> torch.Tensor:
        rates = torch.complex(-made.log_decay.exp(), made.frequencies)
        decays = torch.exp(made.log_steps.exp()[:, None] * rates)
        state, read = (decays - 1) / rates, torch.view_as_complex(made.read)
        responses = []
        for _ in range(LENGTH):
            responses.append(2 * (read * state).sum(-1).real)
            state = decays * state
        return torch.stack(responses, -1)

    names = ("log_steps", "log_decay", "frequencies", "read")
    leaves = {name: leaves_of(made)[name] for name in names}
    found = with_gradients(lambda: made.kernel(LENGTH), leaves)
    expected = with_gradients(recurrence, leaves)
    assert_derivatives_near(found, expected, leaves, terms=4 * LENGTH, condition=100.0)


def test_initial_kernels_are_two_and_a_half_times_smaller() -> None:
    """Mean lengths over 400 positions: 0.33 in the release, of which one draw of B has 0.2 to 0.8,
    and 0.83 with B = 1."""
    lengths: dict[type, list[float]] = {S4DMixer: [], S4DMixerAsReleased: []}
    for seed in range(40):
        for made, found in lengths.items():
            torch.manual_seed(seed)
            found.append(made(4).kernel(400).detach().norm(dim=-1).mean().item())
    plain, released = (sum(found) / len(found) for found in lengths.values())
    assert plain == pytest.approx(0.83, rel=0.1)
    assert released == pytest.approx(0.33, abs=0.06)  # three standard errors


def test_sizes_and_start_are_those_of_the_protocol() -> None:
    made = S4DMixerAsReleased(128)
    assert sum(p.numel() for p in made.parameters()) == 25_024
    assert made.state_size == 8192
    assert_near(made.log_decay[0].item(), math.log(0.5 + 1e-4), terms=4, dtype=torch.float32)
    assert made.parameter_options().keys() == {"log_steps", "log_decay", "frequencies"}


def test_it_is_built_in_whatever_precision_is_the_default() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        mixer = S4DMixerAsReleased(8, state=4)
    finally:
        torch.set_default_dtype(before)
    assert {parameter.dtype for parameter in mixer.parameters()} == {torch.float64}
