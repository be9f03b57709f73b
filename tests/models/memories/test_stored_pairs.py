"""Kernel regression, modern Hopfield and nearest neighbour against brute force."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.layers.contextual_memory import read_past, unit
from models.memories.kernel import Kernel
from models.memories.modern_hopfield import ModernHopfield
from models.memories.tables.nearest_neighbour import NearestNeighbour
from models.memories.thresholded import Thresholded
from tests.closeness import assert_near
from tests.models.memories.test_matrix_memories import units


def normals(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def softmax(scores: Any) -> Any:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("value_size", [3, 5, 8])
@pytest.mark.parametrize("growth", [0.0, 2.0])
@pytest.mark.parametrize("kernel", ["unit", "gaussian"])
def test_kernel_is_the_gaussian_average_of_values(
    kernel: str, growth: float, value_size: int
) -> None:
    keys, values, asked = (
        normals(9, 5, seed=1),
        normals(9, value_size, seed=2),
        normals(4, 5, seed=3),
    )
    memory = Kernel(5, value_size, kernel=kernel, beta=1.5, growth=growth, exponent=0.5)
    memory.write(keys, values)
    read = memory.read(asked)
    if kernel == "unit":
        keys, asked = (x / x.norm(dim=-1, keepdim=True) for x in (keys, asked))
    beta = 1.5 + growth * 3  # √9 pairs
    distances = np.square(asked.numpy()[:, None] - keys.numpy()).sum(-1)
    expected = softmax(-beta / 2 * distances) @ values.numpy()
    # A score is β = 7.5 times a distance that is left of squares of the lengths.
    assert_near(read.values, expected, terms=9 + 2 * 5, condition=100)
    assert_near(read.confidence, 1 / (1 + distances.min(1)), terms=2 * 5, condition=10)


@pytest.mark.parametrize("centre", [[1000.0, 1000.0], [-1000.0, 1000.0]])
@pytest.mark.bitwise
def test_the_gaussian_kernel_of_keys_far_from_the_origin(centre: list[float]) -> None:
    """Against brute force in double precision, with gradients; two clusters have no centre that
    would help."""
    far = torch.tensor(centre).repeat(5).view(10, 1)
    keys, values = (normals(10, 6, seed=1) + far).float(), normals(10, 3, seed=2).float()
    asked = keys[:4] + 0.3 * normals(4, 6, seed=3).float()
    results = []
    for dtype in (torch.float32, torch.float64):
        given = [x.to(dtype).requires_grad_() for x in (keys, values, asked)]
        if dtype == torch.float32:
            memory = Kernel(6, 3, kernel="gaussian", beta=0.7)
            memory.write(*given[:2])
            read = memory.read(given[2]).values
        else:
            squares = (given[2][:, None] - given[0]).square().sum(-1)
            read = torch.softmax(-0.35 * squares, -1) @ given[1]
        loss = (read * torch.arange(12.0).view(4, 3)).sum()
        results.append([read, *torch.autograd.grad(loss, given)])
    for single, double in zip(*results, strict=True):
        # Differences between keys of size 1000 are exact, and of the size of ten.
        assert_near(single, double, terms=10 + 2 * 6, condition=10, dtype=torch.float32)


def test_kernel_is_the_memory_of_the_mosaic() -> None:
    """A strictly causal read of a sequence is a memory of all earlier pairs."""
    keys, values = normals(2, 3, 12, 6, seed=1), normals(2, 3, 11, 6, seed=2)
    layer = read_past(7.4 * unit(keys), unit(keys), values, 0.0)
    for time in range(12):
        memory = Kernel(6, 6, beta=7.4)
        memory.write(keys[:, :, :time], values[:, :, :time])
        expected = memory.read(keys[:, :, time : time + 1]).values
        assert_near(layer[:, :, time : time + 1], expected, terms=12 + 2 * 6, condition=7.4)


def test_the_bandwidth_rule_of_the_second_mosaic() -> None:
    beta = float(np.exp(1.5))
    memory = Kernel(4, 4, beta=beta, growth=beta)
    assert memory.inverse_bandwidth(1) == pytest.approx(8.963, abs=1e-3)
    assert memory.inverse_bandwidth(1000) == pytest.approx(11 * beta)


@pytest.mark.parametrize("updates", [0, 1, 3])
def test_modern_hopfield_is_its_update_rule(updates: int) -> None:
    keys, values, asked = normals(9, 5, seed=1), normals(9, 4, seed=2), normals(6, 5, seed=3)
    memory = ModernHopfield(5, 4, beta=0.8, updates=updates)
    memory.write(keys, values)
    state = asked.numpy()
    for _ in range(updates):
        state = softmax(0.8 * state @ keys.numpy().T) @ keys.numpy()
    expected = softmax(0.8 * state @ keys.numpy().T) @ values.numpy()
    assert_near(memory.read(asked).values, expected, terms=4 * (9 + 5), condition=100)


def test_without_updates_modern_hopfield_is_the_kernel_on_unit_keys() -> None:
    keys, values, asked = units(9, 6, seed=1), units(9, 6, seed=2), units(4, 6, seed=3)
    hopfield, kernel = ModernHopfield(6, 6, updates=0), Kernel(6, 6)
    for memory in (hopfield, kernel):
        memory.write(keys, values)
    for one, other in zip(hopfield.read(asked), kernel.read(asked), strict=True):
        assert_near(one, other, terms=9 + 2 * 6, condition=20)  # β = 20


@pytest.mark.parametrize("threshold", [-1.0, 0.3])
def test_a_thresholded_sum_is_its_formula(threshold: float) -> None:
    keys, values, asked = normals(9, 5, seed=1), normals(9, 4, seed=2), normals(6, 5, seed=3)
    memory = Thresholded(5, 4, threshold=threshold)
    memory.write(keys, values)
    stored, queries = (x.numpy() / np.linalg.norm(x, axis=-1, keepdims=True) for x in (keys, asked))
    expected = np.maximum(queries @ stored.T - threshold, 0) @ values.numpy()
    assert_near(memory.read(asked).values, expected, terms=9 + 2 * 5, condition=20)
    with pytest.raises(ValueError, match="threshold is a cosine from -1 to below 1"):
        Thresholded(5, 4, threshold=1.0)


def test_an_update_cleans_a_noisy_query() -> None:
    keys, values = units(32, 64, seed=1), units(32, 64, seed=2)
    asked = torch.nn.functional.normalize(keys + 0.7 * units(32, 64, seed=3), dim=-1)
    errors = []
    for updates in (0, 1):
        memory = ModernHopfield(64, 64, beta=15.0, updates=updates)
        memory.write(keys, values)
        errors.append((memory.read(asked).values - values).norm(dim=-1).mean())
    assert errors[1] < errors[0] / 10


def test_a_sharp_kernel_is_the_nearest_neighbour() -> None:
    keys, values, asked = units(20, 6, seed=1), units(20, 5, seed=2), units(8, 6, seed=3)
    kernel, neighbour = Kernel(6, 5, beta=1e5), NearestNeighbour(6, 5)
    for memory in (kernel, neighbour):
        memory.write(keys, values)
    for one, other in zip(kernel.read(asked), neighbour.read(asked), strict=True):
        # Rounding leaves less: β = 1e5 makes it 1e-10, and the other pairs have weights of exp(-β).
        assert_near(one, other, terms=20 + 2 * 6, condition=1e5)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_nearest_neighbour_is_a_dictionary_on_written_keys(data: st.DataObject) -> None:
    """Any batch of streams with repeated keys, written in calls of any length."""
    batch, items = 2, data.draw(st.integers(1, 12))
    numbers = data.draw(
        st.lists(
            st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=2, max_size=2),
            min_size=batch * items,
            max_size=batch * items,
        )
    )
    keys = torch.tensor(numbers).view(batch, items, 2)
    values = torch.arange(1.0, batch * items + 1).view(batch, items, 1)
    memory, position = NearestNeighbour(2, 1), 0
    while position < items:
        length = data.draw(st.integers(1, items - position))
        memory.write(keys[:, position : position + length], values[:, position : position + length])
        position += length
    read, closeness = memory.read(keys)
    table = [
        {tuple(k): v for k, v in zip(keys[one].tolist(), values[one].tolist(), strict=True)}
        for one in range(batch)
    ]
    expected = [[table[one][tuple(k)] for k in keys[one].tolist()] for one in range(batch)]
    assert read.tolist() == expected
    assert_near(closeness, torch.ones_like(closeness))
    rows = max(map(len, table))
    assert memory.size_in_bytes() == batch * rows * (2 * 4 + 4 + 1)


def test_nearest_neighbour_among_unwritten_queries_is_brute_force() -> None:
    keys, values, asked = (
        normals(2, 30, 4, seed=1),
        normals(2, 30, 3, seed=2),
        normals(2, 9, 4, seed=3),
    )
    memory = NearestNeighbour(4, 3)
    memory.write(keys, values)
    read = memory.read(asked)
    for one in range(2):
        distances = np.square(asked[one].numpy()[:, None] - keys[one].numpy()).sum(-1)
        assert torch.equal(read.values[one], values[one][distances.argmin(1)])
        assert_near(read.confidence[one], 1 / (1 + distances.min(1)), terms=2 * 4, condition=10)


def test_neighbours_are_told_apart_among_long_keys() -> None:
    """Raw integers up to 1000 in single precision: squares would lose a difference of one."""
    keys = torch.tensor([[997.0, 998.0, 999.0], [997.0, 998.0, 1000.0]])
    memory = NearestNeighbour(3, 1)
    memory.write(keys, torch.tensor([[1.0], [2.0]]))
    assert memory.read(keys + 0.01).values.tolist() == [[1.0], [2.0]]


def test_only_the_nearest_neighbour_overwrites() -> None:
    keys, old, new = units(6, 32, 64, seed=1), units(6, 32, 64, seed=2), units(6, 32, 64, seed=3)
    taken = {}
    for kind in (Kernel, NearestNeighbour):
        memory = kind(64, 64)
        memory.write(keys, old)
        memory.write(keys, new)
        read = memory.read(keys).values
        taken[kind] = ((read * new).sum(-1) > (read * old).sum(-1)).double().mean().item()
    assert taken[NearestNeighbour] == 1
    assert taken[Kernel] == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Kernel(4, 4, kernel="laplace"), "kernel is one of unit, gaussian"),
        (lambda: Kernel(4, 4, beta=0.0), "above 0"),
        (lambda: Kernel(4, 4, beta=1.0, growth=-1.0), "neither part is negative"),
        (lambda: ModernHopfield(4, 4, beta=0.0), "above 0"),
        (lambda: ModernHopfield(4, 4, updates=-1), "0 or more"),
    ],
)
def test_settings_outside_their_range_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
