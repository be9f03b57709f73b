"""The mode of tests/rounding.py: what it moves, by how much, and what it leaves alone."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.closeness import assert_near
from tests.models.derivatives import assert_derivatives_near, with_gradients
from tests.rounding import Rounding

EPS = torch.finfo(torch.float64).eps
pytestmark = pytest.mark.bitwise  # each test has its own mode


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def test_a_sum_that_cancels_moves_by_an_ulp_of_what_was_summed() -> None:
    """64 numbers, each of which is off by eps at most, and at random."""
    terms = torch.tensor([700.1, -700.1], dtype=torch.float64).repeat(32)
    with Rounding(0):
        sums = torch.stack([terms.sum() for _ in range(200)])
    assert sums.abs().max() <= EPS * terms.abs().sum()
    assert sums.std() > EPS * terms[0] * (64 * 2 / 3) ** 0.5 / 2  # each has one of three factors
    assert sums.mean().abs() < 5 * sums.std() / 200**0.5


def test_a_gradient_that_cancels_fails_a_tolerance_of_its_own_size_alone() -> None:
    """The fault that this mode is for: softmax of one score, so keys get no gradient."""
    leaves = {"keys": numbers(3, 1, 5), "values": numbers(3, 5, seed=1)}
    for leaf in leaves.values():
        leaf.requires_grad_()

    def read() -> Tensor:
        return leaves["keys"].sum(-1).softmax(-1) * leaves["values"]

    expected = with_gradients(read, leaves)
    assert not expected["keys"].any()
    with Rounding(0):
        found = with_gradients(read, leaves)
        assert_derivatives_near(found, expected, leaves, terms=5)
        assert_near(found["values"], expected["values"], terms=5)
        with pytest.raises(AssertionError, match="largest 0"):
            assert_near(found["keys"], expected["keys"], terms=1000, condition=1e6)


VECTOR, MATRIX, STACK = numbers(7), numbers(5, 7, seed=1), numbers(2, 3, 5, 4, seed=2)
WEIGHT = numbers(7, 7, seed=3)
OPERATIONS: dict[str, Callable[[], Tensor]] = {
    "product": lambda: MATRIX * VECTOR,
    "difference": lambda: MATRIX - VECTOR,
    "quotient": lambda: MATRIX / VECTOR,
    "matrix product": lambda: MATRIX @ WEIGHT,
    "einsum": lambda: torch.einsum("bi,ij,bj->b", MATRIX, WEIGHT, MATRIX),
    "linear": lambda: functional.linear(MATRIX, WEIGHT, VECTOR),
    "sum": lambda: MATRIX.sum(),
    "mean": lambda: MATRIX.mean(0),
    "cumulative sum": lambda: MATRIX.cumsum(0),
    "norm": lambda: MATRIX.norm(dim=-1),
    "variance": lambda: MATRIX.var(-1),
    "softmax": lambda: MATRIX.softmax(-1),
    "logarithms of softmax": lambda: MATRIX.log_softmax(-1),
    "log-sum-exp": lambda: MATRIX.logsumexp(-1),
    "cross-entropy": lambda: functional.cross_entropy(MATRIX, torch.arange(5)),
    "squared error": lambda: functional.mse_loss(MATRIX, -MATRIX),
    "layer norm": lambda: functional.layer_norm(MATRIX, (7,)),
    "RMS norm": lambda: functional.rms_norm(MATRIX, (7,)),
    "group norm": lambda: functional.group_norm(STACK, 3),
    "batch norm": lambda: functional.batch_norm(MATRIX, None, None, training=True),
    "convolution": lambda: functional.conv1d(MATRIX[None], WEIGHT[:, :5, None]),
    "attention": lambda: functional.scaled_dot_product_attention(STACK, STACK, STACK),
    "Fourier transform": lambda: torch.fft.irfft(torch.fft.rfft(MATRIX), 7),
    "LSTM": lambda: torch.nn.LSTM(7, 3).double()(MATRIX)[0],
    "linear equations": lambda: torch.linalg.solve(WEIGHT, VECTOR),
    "eigenvalues": lambda: torch.linalg.eigvalsh(WEIGHT @ WEIGHT.T),
    "exponential": lambda: MATRIX.exp(),
    "sigmoid": lambda: MATRIX.sigmoid(),
    "hyperbolic tangent": lambda: MATRIX.tanh(),
    "GELU": lambda: functional.gelu(MATRIX),
    "SiLU": lambda: functional.silu(MATRIX),
    "soft plus": lambda: functional.softplus(MATRIX),
    "square root": lambda: MATRIX.abs().sqrt(),
    "power": lambda: MATRIX**2,
    "sine": lambda: MATRIX.sin(),
    "in place": lambda: MATRIX.clone().add_(VECTOR),
    "to a given tensor": lambda: torch.add(MATRIX, VECTOR, out=torch.empty_like(MATRIX)),
    "of lists": lambda: torch.stack(torch._foreach_mul([VECTOR, MATRIX[0]], [VECTOR, VECTOR])),
    "of lists, in place": lambda: foreach_exponential(VECTOR.clone()),
    "of a stack": lambda: torch.func.vmap(lambda row: (row * VECTOR).sum())(MATRIX),
    "scatter": lambda: torch.zeros(2).double().index_add_(0, torch.arange(7) % 2, VECTOR),
}


def foreach_exponential(tensor: Tensor) -> Tensor:
    torch._foreach_exp_([tensor])
    return tensor


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_moved_by_rounding(name: str) -> None:
    """Forward; at random, and by the order of eps."""

    def eight() -> Tensor:  # of one, what is moved may be rounded back
        results = []
        for _ in range(8):
            torch.manual_seed(0)
            results.append(OPERATIONS[name]())
        return torch.stack(results)

    exact = eight()
    moved = []
    for seed in (0, 0, 1):
        with Rounding(seed):
            moved.append(eight())
    first, again, other = moved
    assert torch.equal(first, again)
    assert not torch.equal(first, exact)
    assert not torch.equal(first, other)
    # Quotients and logarithms of these numbers stretch errors by less than a hundred.
    assert_near(first, exact, terms=7, condition=100.0)


@pytest.mark.parametrize("name", ["softmax", "layer norm", "attention", "matrix product", "SiLU"])
def test_gradients_are_moved(name: str) -> None:
    """Of a graph that was made without the mode."""
    leaf = STACK if name == "attention" else MATRIX
    leaf.requires_grad_()
    try:
        outputs = OPERATIONS[name]()
        weights = numbers(*outputs.shape, seed=9)
        (exact,) = torch.autograd.grad(outputs, leaf, weights, retain_graph=True)
        with Rounding(0):
            (moved,) = torch.autograd.grad(outputs, leaf, weights)
    finally:
        leaf.requires_grad_(False)
    assert not torch.equal(moved, exact)
    assert_near(moved, exact, terms=7, condition=100.0)


def test_what_every_processor_computes_alike_is_left_alone() -> None:
    whole = torch.arange(-50.0, 50.0)
    integers = torch.arange(100)
    values = numbers(100)
    single = values.float()

    def results() -> list[Tensor]:
        torch.manual_seed(0)
        return [
            integers * 3 + integers.sum(),
            whole * 3 - whole.sum() + whole[:, None] @ whole[None],
            values.clone()[integers % 7].flip(0).relu().abs().neg(),
            torch.cat((values.clamp(-1, 1), values.masked_fill(values > 0, -torch.inf))),
            values.sort().values,
            (values + 0.0) * -2.0 / 4,
            single.double(),
            values.float(),
            torch.randn(100),
            torch.stack((values, values.roll(1))).amax(0),
        ]

    exact = results()
    with Rounding(0):
        moved = results()
    for one, other in zip(moved, exact, strict=True):
        assert torch.equal(one, other)


def test_zero_and_infinity_stay() -> None:
    with Rounding(0):
        products = numbers(50) * torch.zeros(50)
        scores = (numbers(5, 5) + torch.full((5, 5), -torch.inf).triu(1)).softmax(-1)
    assert not products.any()
    assert not scores.triu(1).any()
    assert scores.isfinite().all()


def test_running_statistics_are_kept_and_follow_moved_inputs() -> None:
    def statistics() -> list[Tensor]:
        norm = torch.nn.BatchNorm1d(7).double()
        for _ in range(4):
            norm(MATRIX + VECTOR)
        training = [norm.running_mean.clone(), norm.running_var.clone()]
        norm.eval()(MATRIX)
        assert torch.equal(norm.running_mean, training[0])
        assert torch.equal(norm.running_var, training[1])
        return training

    exact = statistics()
    with Rounding(0):
        moved = statistics()
    for one, other in zip(moved, exact, strict=True):
        assert not torch.equal(one, other)
        assert_near(one, other, terms=4 * 5, condition=10.0)


def test_numbers_of_fewer_digits_are_not_moved_by_their_own_eps() -> None:
    """They are converted to the type that is computed in, exactly."""
    single = numbers(50, dtype=torch.float32)
    with Rounding(0):
        moved = numbers(50, seed=1) * single
    assert_near(moved, numbers(50, seed=1) * single.double())
