"""The classical Hopfield network against a plain one, and its known capacity."""

import numpy as np
import pytest
import torch

from models.memories.classical_hopfield import ClassicalHopfield
from tests.models.memories.test_matrix_memories import units


@pytest.mark.parametrize("updates", [1, 2, 10])
def test_answers_are_those_of_a_plain_network(updates: int) -> None:
    keys, values, asked = units(6, 20, seed=1), units(6, 12, seed=2), units(8, 20, seed=3)
    memory = ClassicalHopfield(20, 12, updates=updates)
    memory.write(keys, values)
    read, overlap = memory.read(asked)
    patterns = np.sign(np.concatenate([keys.numpy(), values.numpy()], 1))
    weights = patterns.T @ patterns
    np.fill_diagonal(weights, 0)
    for one, query in enumerate(np.sign(asked.numpy())):
        state = np.concatenate([query, np.zeros(12)])
        for _ in range(updates):
            field = weights @ state
            state = np.where(field == 0, state, np.sign(field))
        np.testing.assert_array_equal(read[one], state[20:])
        assert overlap[one].item() == pytest.approx((state[:20] * query).mean())


def fraction_stable(load: float, neurons: int = 400) -> float:
    """Mean share of bits right after a query with the full key of each stored pattern."""
    items = int(load * neurons)
    keys, values = (units(items, neurons // 2, seed=seed, dtype=torch.float32) for seed in (1, 2))
    memory = ClassicalHopfield(neurons // 2, neurons // 2, updates=50)
    memory.write(keys, values)
    read, _ = memory.read(keys)
    return (read == torch.sign(values)).float().mean().item()


def test_retrieval_breaks_down_above_the_known_capacity() -> None:
    """Below 0.138 patterns for each neuron states stay near the patterns, far above they do not.
    Here half of the neurons must be found from the others, so that the edge comes earlier."""
    assert fraction_stable(0.05) > 0.98
    assert fraction_stable(0.3) < 0.75


def test_an_update_is_needed() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ClassicalHopfield(4, 4, updates=0)
