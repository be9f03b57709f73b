"""Noisy queries: their angle, and recalls against scores written out."""

from typing import Any

import numpy as np
import pytest

from core.progress import silent
from models.memories.outer_product import OuterProduct
from models.memories.tables.nearest_neighbour import NearestNeighbour
from tasks.noisy_queries import DRAWS, NoisyQueries


def test_recall_is_that_of_scores_written_out() -> None:
    task = NoisyQueries(width=5, pairs=7, noises=[0.5, 2.0], trials=3)
    found = task.measure(lambda *sizes, seed=0: OuterProduct(*sizes), "test", 2, "cpu", silent)
    keys, values, directions = (x.double().numpy() for x in task._draw("test", 2, 3))
    for noise in (0.5, 2.0):
        for trial in range(3):
            u, v = keys[trial, :7], values[trial, :7]
            right = 0
            for draw in range(DRAWS):
                queries = u + noise * directions[trial, draw, :7]
                scores = queries @ (u.T @ v) @ v.T
                right += (scores.argmax(1) == np.arange(7)).sum()
            share = found.arrays[f"recall/pairs/noise={noise:g}"][trial]
            assert share == pytest.approx(right / (7 * DRAWS))


def test_a_memory_holds_as_many_as_it_recalls() -> None:
    task = NoisyQueries(width=4, trials=4, largest=4.0, noises=[0.5, 1.0])
    found = task.measure(lambda *sizes, seed=0: NearestNeighbour(*sizes), "test", 0, "cpu", silent)
    recalls = found.arrays["recall/held/noise=0.5"]
    assert min(found.arrays["held"]) > 0
    assert min(recalls) >= 0.9
    assert found.metrics["recall"] == found.metrics["recall/held/noise=1"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 1}, "width=1 is too small"),
        ({"share": 0.0}, "share=0.0 is no share"),
        ({"noises": []}, r"tasks.noises is \[\]"),
        ({"held_at": 0.0}, "tasks.held_at is 0"),
    ],
)
def test_bad_numbers_get_a_sentence(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NoisyQueries(**settings)
