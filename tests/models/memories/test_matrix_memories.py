"""Outer products, delta rules and low rank against their definitions, and what is known of them."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermeval
from torch import Tensor
from torch.nn import functional

from models.memories.closed_form.hermite_features import HermiteFeatures
from models.memories.closed_form.low_rank import LowRank
from models.memories.delta_rule import CHUNK, DeltaRule, delta_update, delta_update_reference
from models.memories.gated_delta import GatedDelta
from models.memories.interface import Memory
from models.memories.matrix_memory import linear_reading
from models.memories.outer_product import OuterProduct
from tests.closeness import assert_near


def units(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return functional.normalize(drawn, dim=-1).to(dtype)


def recall(memory: Memory, keys: Tensor, values: Tensor) -> Tensor:
    """(*batch, items): whether the answer to each key is nearest to its own value."""
    scores = memory.read(keys).values @ values.mT
    return (scores.argmax(-1) == torch.arange(keys.shape[-2])).double()


def test_hebb_is_the_sum_of_outer_products() -> None:
    keys, values, asked = units(9, 6, seed=1), units(9, 5, seed=2), units(4, 6, seed=3)
    memory = OuterProduct(6, 5)
    memory.write(keys, values)
    matrix = sum(np.outer(v, k) for v, k in zip(values.numpy(), keys.numpy(), strict=True))
    assert_near(memory.read(asked).values, asked.numpy() @ matrix.T, terms=9 + 6)
    assert memory.size_in_bytes() == 6 * 5 * 8


def written_item_by_item(keys: Tensor, values: Tensor, rate: float, decay: float) -> Any:
    matrix = np.zeros((values.shape[-1], keys.shape[-1]))
    for key, value in zip(keys.numpy(), values.numpy(), strict=True):
        matrix = (1 - decay) * matrix
        matrix = matrix + rate * np.outer(value - matrix @ key, key)
    return matrix


@pytest.mark.parametrize(("rate", "decay"), [(1.0, 0.0), (0.5, 0.0), (1.0, 0.1), (0.3, 1.0)])
def test_delta_rules_are_their_recurrence(rate: float, decay: float) -> None:
    keys, values, asked = units(70, 6, seed=1), units(70, 5, seed=2), units(4, 6, seed=3)
    memory = GatedDelta(6, 5, rate=rate, decay=decay)
    memory.write(keys, values)
    expected = asked.numpy() @ written_item_by_item(keys, values, rate, decay).T
    assert_near(memory.read(asked).values, expected, terms=70 * 6, condition=10)
    if decay == 0:
        plain = DeltaRule(6, 5, rate=rate)
        plain.write(keys, values)
        assert_near(plain.read(asked).values, memory.read(asked).values, terms=70 * 6, condition=10)


@pytest.mark.parametrize("items", [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 13])
@pytest.mark.parametrize(("rate", "decay"), [(1.0, 0.0), (0.7, 0.03), (1.0, 1.0)])
def test_chunks_equal_the_plain_loop(items: int, rate: float, decay: float) -> None:
    given = [units(2, 4, 5, seed=4), units(2, items, 5, seed=5), units(2, items, 4, seed=6)]
    results = []
    for update in (delta_update, delta_update_reference):
        leaves = [x.clone().requires_grad_() for x in given]
        matrix = update(*leaves, rate, decay)
        gradients = torch.autograd.grad(matrix.sin().sum(), leaves)
        results.append((matrix, *gradients))
    # With full decay the gradients of what is forgotten are remainders of others as large.
    largest = max(float(plain.abs().max()) for plain in results[1])
    assert_near(*results, terms=(items + 10) * 20, condition=100, largest=largest)


def test_chunks_equal_the_plain_loop_in_single_precision() -> None:
    given = [
        units(2, 64, 64, seed=4, dtype=torch.float32),
        units(2, 300, 64, seed=5, dtype=torch.float32),
        units(2, 300, 64, seed=6, dtype=torch.float32),
    ]
    fast, plain = delta_update(*given, 1.0, 0.02), delta_update_reference(*given, 1.0, 0.02)
    # 300 writes, each of an error that is a sum over 64; a chunk inverts a triangle of unit keys.
    assert_near(fast, plain, terms=300 * 64)


def test_a_full_step_on_a_unit_key_stores_the_newest_pair_exactly() -> None:
    keys, values = units(100, 8, seed=1), units(100, 8, seed=2)
    memory = DeltaRule(8, 8)
    memory.write(keys, values)
    assert_near(memory.read(keys[-1:]).values, values[-1:], terms=100 * 8, condition=10)


def test_full_decay_remembers_the_last_pair_alone() -> None:
    keys, values = units(5, 8, seed=1), units(5, 8, seed=2)
    long, short = (GatedDelta(8, 8, decay=1.0) for _ in range(2))
    long.write(keys, values)
    short.write(keys[-1:], values[-1:])
    assert_near(long.read(keys).values, short.read(keys).values, terms=5 * 8)


def test_low_rank_is_one_gradient_step() -> None:
    torch.manual_seed(0)
    memory = LowRank(6, 5, rank=3).double()
    keys, values, asked = units(7, 6, seed=1), units(7, 5, seed=2), units(4, 6, seed=3)
    first = memory.first
    second = torch.zeros(3, 6, dtype=torch.float64, requires_grad=True)
    loss = (values - keys @ second.T @ first).square().sum() / 2
    (gradient,) = torch.autograd.grad(loss, second)
    memory.write(keys, values)
    assert_near(memory.read(asked).values, asked @ (-gradient).T @ first, terms=7 + 6 + 5 + 3)
    assert memory.size_in_bytes() == 3 * 6 * 8


def test_a_wide_random_factor_leaves_the_outer_product() -> None:
    torch.manual_seed(0)
    wide, plain = LowRank(8, 8, rank=20000).double(), OuterProduct(8, 8)
    for memory in (wide, plain):
        memory.write(units(5, 8, seed=1), units(5, 8, seed=2))
    asked = units(6, 8, seed=3)
    torch.testing.assert_close(wide.read(asked).values, plain.read(asked).values, rtol=0, atol=0.1)


def test_confidence_is_one_on_average_over_directions() -> None:
    """In the mean square, by definition; Monte Carlo error of 200 000 directions is below 0.01."""
    matrix = units(5, 6, seed=1) * 3
    confidence = linear_reading(matrix, 7 * units(200_000, 6, seed=2)).confidence
    assert confidence.square().mean().sqrt().item() == pytest.approx(1, abs=0.01)
    assert confidence.max() <= math.sqrt(6)


REFERENCE = {
    # recall of N random unit pairs in 64 dimensions after one pass, at N = 64, 128, 256, 512
    "hebb": (OuterProduct, {}, (1.00, 0.98, 0.74, 0.33)),
    "delta": (DeltaRule, {"rate": 1.0}, (0.90, 0.52, 0.26, 0.12)),
    "half delta": (DeltaRule, {"rate": 0.5}, (0.99, 0.84, 0.43, 0.22)),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_recall_after_one_pass_is_as_measured_elsewhere(name: str) -> None:
    """Within 0.04: one trial differs from another by 0.03 at most (standard deviation)."""
    kind, settings, expected = REFERENCE[name]
    for items, right in zip((64, 128, 256, 512), expected, strict=True):
        keys, values = units(20, items, 64, seed=items), units(20, items, 64, seed=items + 1)
        memory = kind(64, 64, **settings)
        memory.write(keys, values)
        assert recall(memory, keys, values).mean().item() == pytest.approx(right, abs=0.04)


def test_the_delta_rule_forgets_oldest_first_and_hebb_all_alike() -> None:
    keys, values = units(6, 128, 64, seed=1), units(6, 128, 64, seed=2)
    quarters = {}
    for kind in (OuterProduct, DeltaRule):
        memory = kind(64, 64)
        memory.write(keys, values)
        right = recall(memory, keys, values)
        quarters[kind] = right[:, :32].mean().item(), right[:, -32:].mean().item()
    assert quarters[DeltaRule] == pytest.approx((0.08, 1.0), abs=0.04)
    assert quarters[OuterProduct] == pytest.approx((0.99, 0.98), abs=0.04)


@pytest.mark.parametrize(("size", "items"), [(32, 117), (64, 385)])
def test_hebb_recalls_half_at_the_known_load(size: int, items: int) -> None:
    """N log N / d² is about 0.55 where half of N unit pairs are recalled."""
    keys, values = units(8, items, size, seed=1), units(8, items, size, seed=2)
    memory = OuterProduct(size, size)
    memory.write(keys, values)
    assert recall(memory, keys, values).mean().item() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: DeltaRule(4, 4, rate=0.0), "above 0"),
        (lambda: DeltaRule(4, 4, rate=math.nan), "above 0"),
        (lambda: GatedDelta(4, 4, decay=1.5), "between 0 and 1"),
        (lambda: LowRank(4, 4, rank=0), "at least 1"),
    ],
)
def test_settings_outside_their_range_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_hermite_features_are_normalised_hermite_polynomials_of_the_first_layer(
    degree: int,
) -> None:
    torch.manual_seed(0)
    memory = HermiteFeatures(6, 3, width=50, degree=degree).double()
    keys, values, asked = units(5, 6, seed=1), units(5, 3, seed=2), units(4, 6, seed=3)
    memory.write(3.0 * keys, values)

    def features(x: Tensor) -> np.ndarray:
        polynomial = hermeval(x.numpy() @ memory.first.numpy().T, [0.0] * degree + [1.0])
        return polynomial / math.sqrt(math.factorial(degree) * 50)

    expected = features(asked) @ features(keys).T @ values.numpy()
    # A polynomial of degree p stretches errors of its argument, up to about 4 here.
    assert_near(memory.read(asked).values, expected, terms=50 * 6, condition=4.0**degree)
    with pytest.raises(ValueError, match="at least 1"):
        HermiteFeatures(6, 3, degree=0)
