"""Functions whose gradients are written out, against those that autograd derives."""

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn import functional

from models.layers.gradients.convolutions import causal_convolution
from models.layers.gradients.norms import rms_norm
from models.layers.linear_recurrence import recurrence_loop
from models.layers.recurrence.writes import Writes
from models.layers.state_space.duality import shared_keys_recurrence
from models.linear.retnet import Retention, retention
from tests.closeness import assert_near
from tests.models.derivatives import assert_derivatives_near, with_gradients


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("with_weight", [False, True])
def test_root_mean_squares(with_weight: bool) -> None:
    torch.manual_seed(0)
    x, weight = random(4, 5, 6), random(6) if with_weight else None
    leaves = {"x": x} if weight is None else {"x": x, "weight": weight}
    assert_derivatives_near(
        with_gradients(lambda: rms_norm(x, 1e-3, weight), leaves),
        with_gradients(lambda: functional.rms_norm(x, (6,), weight, eps=1e-3), leaves),
        leaves,
        terms=20 * 6,
        condition=10.0,
    )


@pytest.mark.bitwise  # gradgradcheck asks twice for each gradient and compares the bits
@pytest.mark.parametrize("with_weight", [False, True])
def test_second_derivatives_of_root_mean_squares(with_weight: bool) -> None:
    torch.manual_seed(0)
    weight = random(6) if with_weight else None
    assert torch.autograd.gradgradcheck(lambda y: rms_norm(y, 1e-3, weight), random(3, 6))


def test_norms_of_stacked_models() -> None:
    torch.manual_seed(0)
    x, weights = random(4, 6).detach(), random(2, 6).detach()

    def loss(x: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(x, 1e-3, weight).pow(3).sum()

    gradient = grad(loss, (0, 1))
    stacked = vmap(gradient, in_dims=(None, 0))(x, weights)
    for model in range(2):
        of_model = [part[model] for part in stacked]
        assert_near(of_model, [*gradient(x, weights[model])], terms=4 * 6, condition=10.0)


@pytest.mark.parametrize("length", [2, 63, 64, 150])
@pytest.mark.parametrize("with_memory", [False, True])
def test_retention_equals_the_loop(length: int, with_memory: bool) -> None:
    """Lengths below a chunk, of a chunk, and that fill none."""
    torch.manual_seed(length)
    queries, keys, values = (
        random(2, length, 3, 4),
        random(2, length, 3, 4),
        random(2, length, 3, 5),
    )
    start = random(2, 3, 4, 5) if with_memory else None
    decays = Retention(12, 3).log_decays(keys)
    leaves = {"queries": queries, "keys": keys, "values": values}
    if start is not None:
        leaves["start"] = start

    def both(result: tuple[Tensor, Tensor]) -> Tensor:
        return torch.cat([x.flatten() for x in result])

    assert_derivatives_near(
        with_gradients(lambda: both(retention(queries, keys, values, decays[0, 0], start)), leaves),
        with_gradients(
            lambda: both(recurrence_loop(queries, Writes(keys, values, decays), start)), leaves
        ),
        leaves,
        terms=2 * length * 5,
        condition=10.0,
    )


def grouped_convolution(x: Tensor, filters: Tensor, bias: Tensor) -> Tensor:
    """PyTorch's own, of each channel by itself, over the past."""
    taps, channels = filters.shape
    past = functional.pad(x.transpose(1, 2), (taps - 1, 0))
    return functional.conv1d(past, filters.T.unsqueeze(1), bias, groups=channels).transpose(1, 2)


@pytest.mark.parametrize(("length", "taps"), [(1, 4), (2, 4), (9, 4), (9, 1), (3, 2)])
def test_causal_convolutions(length: int, taps: int) -> None:
    """Sequences that some taps do not reach, too."""
    torch.manual_seed(length)
    leaves = {"x": random(3, length, 5), "filters": random(taps, 5), "bias": random(5)}
    assert_derivatives_near(
        with_gradients(lambda: causal_convolution(*leaves.values()), leaves),
        with_gradients(lambda: grouped_convolution(*leaves.values()), leaves),
        leaves,
        terms=3 * length * taps,
        condition=10.0,
    )


def test_long_sequences_are_convolved_a_few_at_a_time() -> None:
    """More numbers than go together into the cache, and fewer in the last few sequences."""
    torch.manual_seed(0)
    leaves = {"x": random(3, 500, 128), "filters": random(4, 128), "bias": random(128)}
    assert_derivatives_near(
        with_gradients(lambda: causal_convolution(*leaves.values()), leaves),
        with_gradients(lambda: grouped_convolution(*leaves.values()), leaves),
        leaves,
        terms=3 * 500 * 4,
        condition=10.0,
    )


def test_convolutions_of_stacked_models() -> None:
    torch.manual_seed(0)
    x, filters, bias = (random(*s).detach() for s in ((4, 7, 5), (2, 3, 5), (2, 5)))

    def loss(x: Tensor, filters: Tensor, bias: Tensor) -> Tensor:
        return causal_convolution(x, filters, bias).pow(3).sum()

    gradient = grad(loss, (0, 1, 2))
    stacked = vmap(gradient, in_dims=(None, 0, 0))(x, filters, bias)
    for model in range(2):
        of_model = [part[model] for part in stacked]
        expected = [*gradient(x, filters[model], bias[model])]
        assert_near(of_model, expected, terms=4 * 7 * 3, condition=10.0)


def shared_keys(length: int) -> dict[str, Tensor]:
    """Two sequences for three heads of four channels, with five keys and a memory before them."""
    return {
        "queries": random(2, length, 5),
        "keys": random(2, length, 5),
        "inputs": random(2, length, 3, 4),
        "steps": torch.rand(2, length, 3, dtype=torch.float64).requires_grad_(),
        "log_decays": (-2 * torch.rand(2, length, 3, dtype=torch.float64)).requires_grad_(),
        "memory": random(2, 3, 5, 4),
    }


@pytest.mark.parametrize("length", [1, 2, 63, 64, 150])
@pytest.mark.parametrize("outputs", [slice(0, 1), slice(1, 2), slice(0, 2)])
def test_shared_keys_equal_the_loop(length: int, outputs: slice) -> None:
    """Gradients of what is read, of the last memory, and of both."""
    torch.manual_seed(length)
    leaves = shared_keys(length)

    def loop() -> tuple[Tensor, Tensor]:
        q, k, x, steps, log_decays, memory = leaves.values()
        writes = Writes(k.unsqueeze(-2), steps.unsqueeze(-1) * x, log_decays)
        return recurrence_loop(q.unsqueeze(-2), writes, memory)

    def chosen(result: tuple[Tensor, Tensor]) -> Tensor:
        return torch.cat([x.flatten() for x in result[outputs]])

    assert_derivatives_near(
        with_gradients(lambda: chosen(shared_keys_recurrence(*leaves.values())), leaves),
        with_gradients(lambda: chosen(loop()), leaves),
        leaves,
        terms=2 * length * 5,
        condition=10.0,
    )


def test_decays_too_strong_for_an_exponential() -> None:
    """Between a position and later ones they would be infinite."""
    torch.manual_seed(0)
    leaves = {name: leaf.detach().float() for name, leaf in shared_keys(64).items()}
    leaves["log_decays"] = torch.full((2, 64, 3), -200.0)
    for leaf in leaves.values():
        leaf.requires_grad_()
    read, memory = shared_keys_recurrence(*leaves.values())
    # Nothing is left of earlier positions.
    q, k, x, steps, *_ = leaves.values()
    own = (q * k).sum(-1)[..., None, None] * steps.unsqueeze(-1) * x
    assert_near(read, own, terms=5, condition=10.0)
    (read.sum() + memory.sum()).backward()
    assert all(
        bool(leaf.grad is not None and leaf.grad.isfinite().all()) for leaf in leaves.values()
    )


def test_shared_keys_of_stacked_models() -> None:
    torch.manual_seed(0)
    first, second = ([leaf.detach() for leaf in shared_keys(70).values()] for _ in range(2))
    # One sequence for all models: queries.
    both = [first[0], *(torch.stack(pair) for pair in zip(first[1:], second[1:], strict=True))]

    def loss(*leaves: Tensor) -> Tensor:
        read, memory = shared_keys_recurrence(*leaves)
        return read.square().sum() + memory.sum()

    gradient = grad(loss, tuple(range(6)))
    stacked = vmap(gradient, in_dims=(None, 0, 0, 0, 0, 0))(*both)
    for model, leaves in enumerate((first, second)):
        of_model = [part[model] for part in stacked]
        expected = [*gradient(first[0], *leaves[1:])]
        assert_near(of_model, expected, terms=2 * 70 * 5, condition=100.0)
