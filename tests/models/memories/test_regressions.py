"""Ridge and random features against least squares and Bayesian linear regression."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from models.memories.closed_form.random_features import RandomFeatures
from models.memories.ridge import Ridge
from tests.closeness import assert_near
from tests.models.memories.test_matrix_memories import recall, units


def least_squares(features: Any, values: Any, ridge: float) -> Any:
    """The ridge solution as plain least squares on √r-scaled pseudo-items, by SVD."""
    size = features.shape[1]
    rows = np.concatenate([features, np.sqrt(ridge) * np.eye(size)])
    targets = np.concatenate([values, np.zeros((size, values.shape[1]))])
    return np.linalg.lstsq(rows, targets, rcond=None)[0]


@pytest.mark.parametrize("items", [3, 6, 40])
def test_ridge_is_regularised_least_squares(items: int) -> None:
    keys, values, asked = units(items, 6, seed=1), units(items, 5, seed=2), units(4, 6, seed=3)
    memory = Ridge(6, 5, ridge=0.01)
    memory.write(keys, values)
    expected = asked.numpy() @ least_squares(keys.numpy(), values.numpy(), 0.01)
    # The square of 40 unit keys in 6 dimensions is about 7, so the inverse stretches by 7 / 0.01.
    assert_near(memory.read(asked).values, expected, terms=items + 12, condition=1000)
    assert memory.size_in_bytes() == (6 * 6 + 6 * 5) * 8


def test_confidence_of_ridge_is_the_predictive_variance_of_a_gaussian_process() -> None:
    """Prior w ~ N(0, 1), noise r: var = |q|² - kᵀ (K + r)⁻¹ k with the linear kernel."""
    keys, asked = units(9, 6, seed=1).numpy(), 2 * units(4, 6, seed=3).numpy()
    memory = Ridge(6, 5, ridge=0.05)
    memory.write(torch.from_numpy(keys), units(9, 5, seed=2))
    cross = asked @ keys.T
    gram = keys @ keys.T + 0.05 * np.eye(9)
    variance = (asked**2).sum(1) - np.einsum("qi,iq->q", cross, np.linalg.solve(gram, cross.T))
    expected = 1 - variance / (asked**2).sum(1)
    found = memory.read(torch.from_numpy(asked)).confidence
    assert_near(found, expected, terms=9 + 12, condition=100)


def test_random_features_are_a_network_with_a_least_squares_readout() -> None:
    torch.manual_seed(0)
    memory = RandomFeatures(6, 5, width=32, ridge=0.01).double()
    keys, values, asked = units(20, 6, seed=1), units(20, 5, seed=2), units(4, 6, seed=3)
    memory.write(keys, values)

    def hidden(x: torch.Tensor) -> Any:
        return np.maximum(x.numpy() @ memory.first.numpy().T, 0) * np.sqrt(2 / 32)

    expected = hidden(asked) @ least_squares(hidden(keys), values.numpy(), 0.01)
    # Twenty feature vectors of length one, nearly parallel: at most 20 / 0.01.
    assert_near(memory.read(asked).values, expected, terms=20 + 2 * 32, condition=2000)
    assert memory.size_in_bytes() == (32 * 32 + 32 * 5) * 8


def test_random_features_of_unit_keys_have_norm_one_on_average() -> None:
    torch.manual_seed(0)
    memory = RandomFeatures(16, 4, width=50_000).double()
    squares = memory._features(units(8, 16, seed=1)).square().sum(-1)
    torch.testing.assert_close(squares, torch.ones_like(squares), rtol=0, atol=0.05)


def test_random_features_store_more_than_the_keys_have_dimensions() -> None:
    """256 pairs in 16 dimensions: a matrix fails, 256 features interpolate."""
    keys, values = units(256, 16, seed=1), units(256, 16, seed=2)
    torch.manual_seed(0)
    network, matrix = RandomFeatures(16, 16, width=256, ridge=1e-6).double(), Ridge(16, 16)
    for memory in (network, matrix):
        memory.write(keys, values)
    assert recall(network, keys, values).mean() > 0.95
    assert recall(matrix, keys, values).mean() < 0.5


def test_ridge_recalls_and_breaks_under_noise_as_measured_elsewhere() -> None:
    for items, right in zip((64, 128, 256, 512), (1.0, 1.0, 0.87, 0.42), strict=True):
        keys, values = units(6, items, 64, seed=items), units(6, items, 64, seed=items + 1)
        memory = Ridge(64, 64)
        memory.write(keys, values)
        assert recall(memory, keys, values).mean().item() == pytest.approx(right, abs=0.04)
        if items == 64:
            noisy = functional.normalize(keys + units(6, 64, 64, seed=9), dim=-1)
            scores = memory.read(noisy).values @ values.mT
            right_ones = (scores.argmax(-1) == torch.arange(64)).double()
            assert right_ones.mean().item() == pytest.approx(0.21, abs=0.06)


def test_confidence_of_ridge_knows_written_keys_where_they_span_the_space() -> None:
    keys, others = units(128, 64, seed=1), units(128, 64, seed=2)
    memory = Ridge(64, 64)
    memory.write(keys, units(128, 64, seed=3))
    known, unknown = memory.read(keys).confidence, memory.read(others).confidence
    assert (known[:, None] > unknown).double().mean() > 0.99


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Ridge(4, 4, ridge=0.0), "above 0"),
        (lambda: RandomFeatures(4, 4, ridge=-1.0), "above 0"),
        (lambda: RandomFeatures(4, 4, width=0), "at least 1"),
    ],
)
def test_settings_outside_their_range_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bitwise
def test_a_ridge_lost_to_rounding_is_refused() -> None:
    memory = Ridge(2, 2, ridge=1e-12)
    memory.write(torch.ones(1, 2), torch.ones(1, 2))
    with pytest.raises(ValueError, match="larger ridge or write float64"):
        memory.read(torch.ones(1, 2))
