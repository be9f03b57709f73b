"""Mamba against the transformers library, and its scan against the plain recursion."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn import functional

from models.layers.state_space.selective_scan import (
    SEGMENT_NUMBERS,
    SHORTEST_CHUNK,
    scan_to_state,
    selective_scan,
    selective_scan_reference,
)
from models.mamba import MambaMixer
from tests.closeness import assert_near

Arguments = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
NAMES = ("inputs", "step_sizes", "rates", "write", "read")
SUMS = 3 * (4 + 5)  # over sequences, states and channels, for each position


def arguments(length: int, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> Arguments:
    """Random x, Δ, A, B, C for 3 sequences, 5 channels and 4 states."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    steps = functional.softplus(normal(length, 3, 5)) * scale
    rates = -normal(5, 4).exp()
    return normal(length, 3, 5), steps, rates, normal(length, 3, 4), normal(length, 3, 4)


def values_and_gradients(scan: Callable[..., Tensor], tensors: Arguments) -> dict[str, Tensor]:
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    outputs = scan(*leaves)
    weights = torch.arange(outputs.numel()).to(outputs).cos().view(outputs.shape)
    gradients = torch.autograd.grad((outputs * weights).sum(), leaves)
    return {"outputs": outputs.detach(), **dict(zip(NAMES, gradients, strict=True))}


@pytest.mark.parametrize("length", [1, 2, 7, 8, 61, 129, 257])
@pytest.mark.parametrize("segment", [None, 1, 5, 100])
def test_scan_equals_the_recursion(length: int, segment: int | None) -> None:
    """Every way of cutting time: one segment or many, one chunk or many, and padding."""
    tensors = arguments(length)
    expected = values_and_gradients(selective_scan_reference, tensors)
    found = values_and_gradients(lambda *t: selective_scan(*t, segment=segment), tensors)
    for name, target in expected.items():
        assert_near(found[name], target, name=name, terms=SUMS * length, condition=10)


@pytest.mark.parametrize("length", [5, 8, 61])
@pytest.mark.parametrize("together", [1, 2])
def test_scan_in_parts_of_the_batch(
    length: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sequences, one or two at a time, where the last part is not full."""
    tensors = arguments(length)
    positions = together * tensors[2].numel()
    monkeypatch.setitem(SEGMENT_NUMBERS, "cpu", SHORTEST_CHUNK * positions)
    expected = values_and_gradients(selective_scan_reference, tensors)
    found = values_and_gradients(selective_scan, tensors)
    for name, target in expected.items():
        assert_near(found[name], target, name=name, terms=SUMS * length, condition=10)
    whole = scan_to_state(*tensors, segment=length)[1]
    assert_near(scan_to_state(*tensors)[1], whole, terms=length, condition=10)


@pytest.mark.parametrize("segment", [None, 1, 5, 100])
def test_scan_ends_in_the_state_of_the_recursion(segment: int | None) -> None:
    inputs, step_sizes, rates, write, read = arguments(61)
    _, found = scan_to_state(inputs, step_sizes, rates, write, read, segment=segment)
    expected = inputs.new_zeros(3, *rates.shape)
    for x, delta, b in zip(inputs, step_sizes, write, strict=True):
        for channel in range(5):
            for n in range(4):
                kept = torch.exp(delta[:, channel] * rates[channel, n]) * expected[:, channel, n]
                expected[:, channel, n] = kept + delta[:, channel] * b[:, n] * x[:, channel]
    assert_near(found, expected, terms=61, condition=10)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_float32_is_close_to_float64_over_long_times(scale: float) -> None:
    """From memories longer than the sequence to none at all."""
    tensors = arguments(3001, torch.float32, scale)
    expected = values_and_gradients(selective_scan_reference, tuple(t.double() for t in tensors))
    for name, value in values_and_gradients(selective_scan, tensors).items():
        assert value.dtype == torch.float32
        assert_near(value, expected[name], name=name, terms=SUMS * 3001, dtype=torch.float32)


@pytest.mark.parametrize("shared", NAMES)
def test_scan_batches_over_models_that_share_an_argument(shared: str) -> None:
    models = [arguments(length=19), tuple(2 * t for t in arguments(length=19))]
    stacked = [torch.stack(pair) for pair in zip(*models, strict=True)]
    index = NAMES.index(shared)
    in_dims: list[int | None] = [0] * 5
    in_dims[index] = None
    stacked[index] = models[0][index]

    def loss(*tensors: Tensor) -> Tensor:
        return selective_scan(*tensors).square().sum()

    every = tuple(range(5))
    gradients = vmap(grad(loss, argnums=every), in_dims=tuple(in_dims))(*stacked)
    for which, model in enumerate(models):
        own = tuple(models[0][i] if i == index else t for i, t in enumerate(model))
        targets = grad(lambda *t: selective_scan_reference(*t).square().sum(), argnums=every)(*own)
        for gradient, target in zip(gradients, targets, strict=True):
            assert_near(gradient[which], target, terms=SUMS * 19, condition=10)


@pytest.mark.bitwise
def test_scan_keeps_single_precision_under_autocast() -> None:
    tensors = arguments(50, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = selective_scan(*tensors)
    assert torch.equal(outputs, selective_scan(*tensors))


@pytest.mark.parametrize("length", [1, 33])
def test_mixer_equals_that_of_transformers(length: int) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.models.mamba.modeling_mamba import MambaMixer as Other

    torch.manual_seed(0)
    width = 20  # rank of the step sizes: ceil(20/16) = 2
    configuration = transformers.MambaConfig(
        hidden_size=width, state_size=7, conv_kernel=4, expand=2, vocab_size=3, num_hidden_layers=1
    )
    other = Other(configuration, layer_idx=0).double()
    for parameter in other.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    mixer = MambaMixer(width, state=7).double()
    theirs = dict(other.named_parameters())
    mixer.load_state_dict(
        {
            "input_projection.weight": theirs["in_proj.weight"],
            "filters": theirs["conv1d.weight"].squeeze(1).T,
            "filter_bias": theirs["conv1d.bias"],
            "selection.weight": theirs["x_proj.weight"],
            "step_projection.weight": theirs["dt_proj.weight"],
            "step_projection.bias": theirs["dt_proj.bias"],
            "log_rates": theirs["A_log"],
            "skip": theirs["D"],
            "output_projection.weight": theirs["out_proj.weight"],
        }
    )
    hidden = torch.randn(2, length, width, dtype=torch.float64)
    with torch.no_grad():
        # The library computes its recursion in float32.
        found, expected = mixer(hidden), other(hidden)
    sums = 20 + 4 + 40 + 33 * 7 + 40
    assert_near(found, expected, terms=sums, dtype=torch.float32)


def test_initial_values_are_those_of_the_paper() -> None:
    """Section 3.6 and the authors' code: A = −1 … −N, step sizes log-uniform on [1e-3, 0.1]."""
    torch.manual_seed(0)
    mixer = MambaMixer(500)
    rates = -mixer.log_rates.detach().exp()
    assert_near(rates, -torch.arange(1.0, 17.0).expand(1000, 16), condition=3)  # exp(log 16)
    steps = functional.softplus(mixer.step_projection.bias.detach())
    assert 0.99e-3 <= steps.min() < 1.1e-3
    assert 0.09 < steps.max() <= 0.1001
    assert steps.median().item() == pytest.approx(1e-2, rel=0.25)
    assert mixer.rank == 32
    assert torch.equal(mixer.skip.detach(), torch.ones(1000))
