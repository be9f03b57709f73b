"""Functions whose gradients are written out, against those that autograd derives."""

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn import functional

from models.layers.gradients.norms import rms_norm
from models.layers.linear_recurrence import recurrence_loop
from models.layers.recurrence.writes import Writes
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
