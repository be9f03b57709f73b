"""What is counted of a step, against arithmetic by hand and against the same step with numbers."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.roofline import work as constants
from bench.roofline.work import SCALAR, Operation, count_here, count_meta

ROWS, INNER, OUTER = 6, 5, 3


def test_a_product_by_hand() -> None:
    a, b = torch.empty(ROWS, INNER, device="meta"), torch.empty(INNER, OUTER, device="meta")
    work = count_meta(lambda: a @ b)
    moved = 4 * (ROWS * INNER + INNER * OUTER + ROWS * OUTER)
    assert dict(work.calls) == {Operation(2 * ROWS * INNER * OUTER, moved): 1}


def test_views_move_nothing_and_what_is_expanded_is_as_large_as_its_storage() -> None:
    a = torch.empty(1, INNER, device="meta")
    work = count_meta(lambda: a.expand(ROWS, INNER) + a.view(INNER))
    assert work.launches == 1
    assert work.views == 2
    assert work.moved == 4 * (INNER + INNER + ROWS * INNER)


def test_a_product_and_a_function_of_complex_numbers_by_hand() -> None:
    a = torch.empty(ROWS, INNER, device="meta", dtype=torch.complex64)
    b = torch.empty(INNER, OUTER, device="meta", dtype=torch.complex64)
    work = count_meta(lambda: a @ b)
    assert work.flops == 4 * 2 * ROWS * INNER * OUTER  # (x + iy)(u + iv) has four real products
    assert work.moved == 8 * (ROWS * INNER + INNER * OUTER + ROWS * OUTER)
    (of_complex,) = count_meta(lambda: a.exp()).calls
    assert of_complex.functions == 3 * ROWS * INNER  # e^x, cos y and sin y


def test_a_function_without_a_vector_form_takes_longer_on_a_cpu_alone() -> None:
    def functions(device: str, transposed: bool) -> float:
        x, gradient = torch.ones(2, ROWS, ROWS, device=device)
        gradient = gradient.T if transposed else gradient
        backward = torch.ops.aten.gelu_backward
        count = count_here if device == "cpu" else count_meta
        return sum(one.functions for one in count(lambda: backward(gradient, x)).calls)

    assert functions("cpu", transposed=False) == functions("meta", transposed=True)
    assert functions("cpu", transposed=True) == SCALAR * functions("cpu", transposed=False)


@pytest.mark.parametrize(
    ("run", "functions"),
    [
        (lambda x: x.cumsum(1), constants.SLOW_ON_A_CPU["cumsum"] * 2 * 3 * 4),
        (lambda x: x.tril(), constants.SLOW_ON_A_CPU["tril"] * 2 * 3 * 4),
        (lambda x: x.sum(-1), constants.ROW_OF_A_SUM * 2 * 3),
        (lambda x: x.sum((0, 2)), constants.ROW_OF_A_SUM * 2 * 3),
        (lambda x: x.sum(1), 0),
        (lambda x: torch.stack([x, x], -1), constants.PIECE_OF_A_STACK * 2 * 24),
        (lambda x: torch.cat([x, x[..., :1]], 2), constants.PIECE_OF_A_STACK * 2 * 6),
        (lambda x: torch.stack([x, x], 1), 0),
        (lambda x: torch.bmm(x, x.transpose(1, 2)), constants.MATRIX_OF_A_BATCH * 2),
        (
            lambda x: torch.linalg.solve_triangular(x[..., :3], x, upper=False),
            constants.SOLVING * 24 * 3,
        ),
    ],
)
def test_what_has_no_vectors_takes_functions_on_a_cpu_alone(
    run: Callable[[Tensor], object], functions: float
) -> None:
    def counted(device: str) -> float:
        x = torch.ones(2, 3, 4, device=device)
        count = count_here if device == "cpu" else count_meta
        return sum(one.functions * often for one, often in count(lambda: run(x)).calls.items())

    assert counted("cpu") == pytest.approx(functions)
    assert counted("meta") == 0


def test_shapes_alone_give_what_numbers_give() -> None:
    def run(device: str) -> None:
        with torch.device(device):
            model = nn.Sequential(nn.Linear(INNER, 8), nn.Tanh(), nn.Linear(8, OUTER))
            model(torch.ones(ROWS, INNER)).square().mean().backward()

    by_shape, by_numbers = (count_meta(lambda: run("meta")), count_here(lambda: run("cpu")))
    # Forward; then gradients of both matrices, and of the inputs of the second.
    assert by_shape.flops == 2 * ROWS * (2 * INNER * 8 + 3 * 8 * OUTER)
    assert by_numbers.flops == by_shape.flops


@pytest.mark.parametrize("blocks", [(), (5,)], ids=["whole", "in blocks"])
def test_attention_is_one_kernel_with_all_pairs(blocks: tuple[int, ...]) -> None:
    batch, heads, time, width = 2, 3, 7, 4
    shape = (batch, heads, *blocks, time, width)
    q = torch.empty(shape, device="meta", requires_grad=True)
    work = count_meta(
        lambda: functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    )
    one_product = 2 * batch * heads * math.prod(blocks) * time * time * width
    assert work.flops == (2 + 5) * one_product  # the backward pass makes the scores again
    assert work.launches < 12


def test_an_lstm_has_the_flops_that_its_kernel_on_a_cpu_has() -> None:
    def run(device: str) -> None:
        with torch.device(device):
            model = nn.LSTM(INNER, 8, num_layers=2, batch_first=True)
            model(torch.ones(2, ROWS, INNER))[0].sum().backward()

    by_shape, by_numbers = count_meta(lambda: run("meta")), count_here(lambda: run("cpu"))
    assert by_shape.flops == by_numbers.flops > 0
    assert by_shape.launches > 2 * 3 * 2 * ROWS  # both layers, position by position
    assert by_shape.plain_launches > by_shape.launches  # as a stack computes it


def test_the_same_work_on_more_data() -> None:
    a = torch.empty(ROWS, INNER, device="meta")
    work = count_meta(lambda: a.exp() @ a.T)
    twice = work.on(2.0)
    assert (twice.flops, twice.moved) == (2 * work.flops, 2 * work.moved)
    assert twice.launches == work.launches
