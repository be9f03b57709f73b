"""Learned maps: numbers of maps that are known, and losses that fall."""

from typing import Any

import pytest
import torch

from core.progress import silent
from models.memories.ridge import Ridge
from tasks.learned_maps import LearnedMaps, Maps, explained


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(*sizes: Any, seed: int = 0) -> Ridge:
    return Ridge(*sizes, ridge=1e-6 if sizes == (6, 6) else 0.1)


def test_maps_apart_find_every_answer_and_equal_ones_predict_what_follows() -> None:
    task, tokens = LearnedMaps(size=6, pairs=5), torch.randn(4, 10, 12, generator=seeded(0))
    zero, one = torch.zeros(6, 6), torch.eye(6)
    stem, answer = torch.cat([one, zero], 1), torch.cat([zero, one], 1)
    apart, same = Maps(stem, answer), Maps(stem, stem)
    memory, written, _ = task._written(build, apart, tokens, 0)
    cosines = task._cosines(memory, apart, written, one)
    assert (cosines.argmax(-1) == torch.arange(5)).all()
    right = cosines.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(right, torch.ones(4, 5), atol=1e-3, rtol=0)
    more, many = LearnedMaps(size=6, pairs=12), torch.randn(4, 24, 12, generator=seeded(1))
    memory, _, following = more._written(build, same, many, 0)
    assert more._inner(memory, same, following).item() < 1e-4
    fresh = torch.randn(2000, 12, generator=seeded(2))
    assert explained(same.keys(fresh), same.values(fresh)) == pytest.approx(1.0, abs=1e-4)
    # Of independent values six keys explain about six of 2,000.
    assert explained(apart.keys(fresh), apart.values(fresh)) == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("objective", ["inner", "outer"])
def test_training_lowers_its_own_loss(objective: Any) -> None:
    task = LearnedMaps(size=4, pairs=6, objective=objective, steps=100, batch=8, trials=16)
    found = task.measure(build, "test", 3, "cpu", silent)
    losses = found.curves["loss"]["y"]
    assert sum(losses[-3:]) < sum(losses[:3])
    assert set(found.metrics) == {"inner_loss", "recall", "collapse"}
    assert found.metrics["recall"] == pytest.approx(sum(found.arrays["recall"]) / 16)


def test_bad_settings_get_a_sentence() -> None:
    with pytest.raises(ValueError, match="give inner, outer or none"):
        LearnedMaps(objective="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pairs=0 is too small"):
        LearnedMaps(pairs=0)
