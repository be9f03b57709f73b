"""The LSTM against a loop over its cell equations, and the wrapper against its own definition."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.lstm import LSTM, LSTMMixer
from models.s4d import S4D
from models.specification import SequenceSpecification
from tests.closeness import assert_near

TOKENS = SequenceSpecification(maximum_length=64, vocabulary=13)


def cell_loop(parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
    """The equations of an LSTM, one position after the other."""
    batch, length, width = inputs.shape
    output = cell = inputs.new_zeros(batch, width)
    outputs = []
    for t in range(length):
        sums = (
            inputs[:, t] @ parameters["lstm.weight_ih_l0"].T
            + output @ parameters["lstm.weight_hh_l0"].T
            + parameters["lstm.bias_ih_l0"]
            + parameters["lstm.bias_hh_l0"]
        )
        entering, forgetting, candidate, leaving = sums.chunk(4, -1)
        cell = forgetting.sigmoid() * cell + entering.sigmoid() * candidate.tanh()
        output = leaving.sigmoid() * cell.tanh()
        outputs.append(output)
    return torch.stack(outputs, 1)


@pytest.mark.parametrize("length", [1, 7, 61])
def test_mixer_equals_a_loop_over_cells(length: int) -> None:
    torch.manual_seed(length)
    mixer = LSTMMixer(10).double()
    inputs = torch.randn(3, length, 10, dtype=torch.float64, requires_grad=True)
    outputs, expected = mixer(inputs), cell_loop(dict(mixer.named_parameters()), inputs)
    # Sums over two widths and two biases in each step, and over the batch in a gradient.
    rounding = {"terms": 25 * length, "condition": 10.0}
    assert_near(outputs, expected, **rounding)
    weights = torch.randn_like(outputs)
    wanted = [inputs, *mixer.parameters()]
    gradients = torch.autograd.grad((outputs * weights).sum(), wanted)
    for gradient, target in zip(
        gradients, torch.autograd.grad((expected * weights).sum(), wanted), strict=True
    ):
        assert_near(gradient, target, **rounding)


def test_initial_values_of_the_cell() -> None:
    torch.manual_seed(0)
    width = 24
    parameters = dict(LSTMMixer(width).named_parameters())
    forget = torch.zeros(4 * width)
    forget[width : 2 * width] = 1.0
    total = parameters["lstm.bias_ih_l0"] + parameters["lstm.bias_hh_l0"]
    assert torch.equal(total.detach(), forget)
    recurrent = parameters["lstm.weight_hh_l0"].detach()
    # The decomposition that made it is a chain of 24 reflections of 96 entries.
    assert_near(recurrent.T @ recurrent, torch.eye(width), terms=24 * 96)
    bound = math.sqrt(6 / (width + 4 * width))  # Glorot and Bengio 2010, equation 16
    largest = parameters["lstm.weight_ih_l0"].abs().max().item()
    assert 0.98 * bound < largest <= bound


def test_blocks_are_pre_norm_residuals() -> None:
    """h + mixer(LN h), then h + MLP(LN h); LN at last; the read-out is the embedding table."""
    torch.manual_seed(0)
    model = LSTM(TOKENS, width=8, layers=2).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    weights = dict(model.named_parameters())
    inputs = torch.randint(0, 13, (2, 9))

    def norm(hidden: Tensor, name: str) -> Tensor:
        centred = hidden - hidden.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        scaled = centred / (variance + 1e-5).sqrt()
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(hidden: Tensor, name: str) -> Tensor:
        return hidden @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    table = weights["input_output.source.weight"]
    hidden = table[inputs]
    for index in range(2):
        block = f"blocks.{index}"
        prefix = f"{block}.mixer."
        cells = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
        hidden = hidden + cell_loop(cells, norm(hidden, f"{block}.mixer_norm"))
        expanded = linear(norm(hidden, f"{block}.mlp.0"), f"{block}.mlp.1.input_projection")
        gelu = functional.gelu(expanded, approximate="tanh")
        hidden = hidden + linear(gelu, f"{block}.mlp.1.output_projection")
    expected = norm(hidden, "norm") @ table.T
    assert_near(model(inputs), expected, terms=2 * (9 * 18 + 8 + 32), condition=100)


def test_without_mlp_only_the_mixers_are_left() -> None:
    width, layers = 16, 3
    model = LSTM(TOKENS, width=width, layers=layers, mlp=False)
    lstm = 4 * width * (2 * width + 2)
    expected = 13 * width + layers * (lstm + 2 * width) + 2 * width
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_initial_deviations_of_the_wrapper() -> None:
    torch.manual_seed(0)
    layers = 8
    model = S4D(TOKENS, width=128, layers=layers)
    weights = dict(model.named_parameters())
    expected = {
        "input_output.source.weight": 0.02,
        "blocks.5.mlp.1.input_projection.weight": 0.02,
        "blocks.5.mlp.1.output_projection.weight": 0.02 / math.sqrt(2 * layers),
        "blocks.5.mixer.output_projection.weight": 0.02 / math.sqrt(2 * layers),
    }
    for name, deviation in expected.items():
        weight = weights[name]
        error = deviation / math.sqrt(2 * weight.numel())
        assert weight.std().item() == pytest.approx(deviation, abs=5 * error), name
    for name in ("input_projection", "output_projection"):
        assert not weights[f"blocks.5.mlp.1.{name}.bias"].any()


@pytest.mark.bitwise
def test_dropout_is_on_the_embedding_alone() -> None:
    """With everything dropped, the outputs no longer depend on the tokens, but are not zero."""
    torch.manual_seed(0)
    model = LSTM(TOKENS, width=16, dropout=1.0).train()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    first, second = model(torch.zeros(1, 9, dtype=torch.long)), model(torch.full((1, 9), 5))
    assert torch.equal(first, second)
    assert first.any()


def test_no_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="layers to 1 or more"):
        LSTM(TOKENS, layers=0)
