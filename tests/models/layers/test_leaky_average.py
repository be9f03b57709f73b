"""The leaky average against the recurrence and against its matrix, values and gradients."""

import math
from unittest import mock

import pytest
import torch
from torch import Tensor

import models.layers.leaky_average as plain
from models.layers.leaky_average import leaky_average, leaky_average_reference
from tests.closeness import assert_near, rounding
from tests.models.linear.interpreted import DEVICE, INTERPRETED, NO_GPU, RUNS

LENGTHS = (1, 2, 5, 15, 16, 17, 63, 64, 65, 200, 300)
FACTORS = (0.0067, 0.5, 0.9, 0.99, 0.99999, 1.0, math.exp(-300.0))
DECAY = torch.tensor([-math.log(factor) for factor in FACTORS], dtype=torch.float64)
SUMS = 2 * 3  # over the batch and the width, for each position, in the gradient of a decay


def toeplitz(x: Tensor, decay: Tensor) -> Tensor:
    """Σ_{s<=t} exp(-decay (t - s)) x_s as one matrix for each head."""
    position = torch.arange(x.shape[2], dtype=x.dtype)
    distance = position[:, None] - position
    weights = torch.exp(-decay[:, None, None] * distance.clamp(min=0)) * (distance >= 0)
    return weights @ x


def values_and_gradients(function, x: Tensor, decay: Tensor, weight: Tensor) -> list[Tensor]:
    x, decay = x.clone().requires_grad_(), decay.clone().requires_grad_()
    averages = function(x, decay)
    (averages * weight).sum().backward()
    return [averages.detach(), x.grad, decay.grad]


def sample(time: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(time)
    shape = (2, time, len(FACTORS), 3)
    x, weight = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return x.to(dtype).transpose(1, 2), weight.to(dtype).transpose(1, 2)


@pytest.mark.parametrize("time", LENGTHS)
@pytest.mark.parametrize("truth", [toeplitz, leaky_average_reference])
def test_equals_matrix_and_recurrence_in_double_precision(time, truth):
    x, weight = sample(time)
    fast = values_and_gradients(leaky_average, x, DECAY, weight)
    for ours, true in zip(fast, values_and_gradients(truth, x, DECAY, weight), strict=True):
        assert_near(ours, true, terms=SUMS * time, condition=10)


@pytest.mark.parametrize("time", LENGTHS)
def test_single_precision_is_near_double_precision(time):
    x, weight = sample(time)
    single = (t.to(torch.float32) for t in (x, DECAY, weight))
    fast = values_and_gradients(leaky_average, *single)
    for ours, true in zip(fast, values_and_gradients(toeplitz, x, DECAY, weight), strict=True):
        assert ours.dtype == torch.float32
        assert_near(ours, true, terms=SUMS * time, dtype=torch.float32)


def test_long_memory_keeps_its_precision_at_length_8192():
    decay = torch.tensor([1e-5, 0.0], dtype=torch.float64)
    x = torch.randn(1, 2, 8192, 4, generator=torch.Generator().manual_seed(0))
    ours = leaky_average(x, decay.float())
    true = leaky_average_reference(x.double(), decay.float().double())
    # Four levels of chunks of 16. Products of factors so near 1 would lose a hundred times more.
    allowed = rounding(float(true.norm(dim=-1).max()), torch.float32, terms=4 * 16)
    assert (ours - true).norm(dim=-1).max() <= allowed


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.bitwise
def test_half_precision_is_computed_in_single_precision(dtype):
    x, _ = sample(65)
    x = x.to(dtype)
    ours = leaky_average(x, DECAY.float())
    assert ours.dtype == torch.float32
    assert torch.equal(ours, leaky_average(x.float(), DECAY.float()))


@pytest.mark.bitwise
def test_infinite_decay_forgets_at_once():
    x, _ = sample(33)
    infinite = torch.full((len(FACTORS),), math.inf, dtype=torch.float64)
    assert torch.equal(leaky_average(x, infinite), x)


@pytest.mark.parametrize("time", [16, 17])
def test_inputs_are_left_alone(time):
    x, _ = sample(time)
    before = x.clone()
    leaky_average(x, DECAY)
    assert torch.equal(x, before)


def test_gradient_of_the_gradient():
    x = torch.randn(1, 2, 18, 2, dtype=torch.float64, requires_grad=True)
    decay = torch.tensor([0.1, 0.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(leaky_average, (x, decay), nondet_tol=1e-5)


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0), (2, 1)])
def test_vmap_equals_a_loop(in_dims):
    generator = torch.Generator().manual_seed(1)
    stack, shape = 3, (2, 4, 19, 5)
    x, decay = (
        torch.rand(size, generator=generator, dtype=torch.float64)
        if dim is None
        else torch.rand((stack, *size), generator=generator, dtype=torch.float64).movedim(0, dim)
        for size, dim in zip((shape, (4,)), in_dims, strict=True)
    )

    def loss(x: Tensor, decay: Tensor) -> Tensor:
        return leaky_average(x, decay).square().sum()

    gradients = torch.func.grad(loss, argnums=(0, 1))
    stacked = torch.func.vmap(gradients, in_dims=in_dims)(x, decay)
    for index in range(stack):
        single = gradients(
            *(
                tensor if dim is None else tensor.select(dim, index)
                for tensor, dim in zip((x, decay), in_dims, strict=True)
            )
        )
        for ours, true in zip(stacked, single, strict=True):
            assert_near(ours[index], true, terms=SUMS * 19 * 10, condition=10)


@pytest.mark.skipif(not RUNS, reason=NO_GPU)
@pytest.mark.parametrize("time", LENGTHS)
def test_the_kernel_equals_the_matrix_with_gradients(time, monkeypatch):
    from models.layers.recurrence import leaky_kernel

    if INTERPRETED:
        monkeypatch.setattr(plain, "has_kernel", lambda x: True)
    kernel = mock.Mock(side_effect=leaky_kernel.scan_by_kernel)
    monkeypatch.setattr(leaky_kernel, "scan_by_kernel", kernel)
    x, weight = sample(time)
    single = (t.to(DEVICE, torch.float32) for t in (x, DECAY, weight))
    fast = values_and_gradients(leaky_average, *single)
    ways = [call.args[-1] for call in kernel.call_args_list]
    assert ways == [False, True]  # along time, and against it for the gradient
    for ours, true in zip(fast, values_and_gradients(toeplitz, x, DECAY, weight), strict=True):
        assert_near(ours.cpu(), true, terms=SUMS * time, dtype=torch.float32)


@pytest.mark.skipif(not RUNS, reason=NO_GPU)
@pytest.mark.parametrize("width", [3, 32, 80])
def test_the_kernel_takes_any_width_strides_and_stack(width, monkeypatch):
    generator = torch.Generator().manual_seed(width)
    x = torch.randn((3, 2, 4, 70, width), generator=generator).to(DEVICE)
    decay = torch.tensor([0.0, 1e-6, 0.3, math.inf], device=DEVICE).expand(3, -1)
    true = torch.stack([leaky_average_reference(one, decay[0]) for one in x.double()])
    if INTERPRETED:
        monkeypatch.setattr(plain, "has_kernel", lambda x: True)
    for given in (x, x.transpose(2, 3).contiguous().transpose(2, 3)):
        stacked = torch.func.vmap(leaky_average)(given, decay)
        assert_near(stacked.double(), true, terms=70, dtype=torch.float32)
