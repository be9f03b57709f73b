"""Regression by memories against an average written out, and its limits."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from core.progress import silent
from models.memories.kernel import Kernel
from models.memories.tables.nearest_neighbour import NearestNeighbour
from tasks.kernel_regression import KernelRegression
from tests.closeness import assert_near, rounding


def by_kernel(*sizes: Any, seed: int = 0) -> Kernel:
    return Kernel(*sizes, kernel="gaussian", beta=0.0, growth=2.0, exponent=0.5)


def test_errors_are_those_of_an_average_written_out() -> None:
    task = KernelRegression(dimension=2, pairs=[9, 36], queries=20, trials=3)
    measured = task.measure(by_kernel, "test", 4, "cpu", silent)
    keys, noise, queries = (x.double().numpy() for x in task._draw("test", 4, 3))

    def mean_value(x: Any) -> Any:
        return np.cos(2 * np.pi * x).sum(-1)  # √(2/2) = 1

    for n in (9, 36):
        values = mean_value(keys[:, :n]) + noise[:, :n]
        squares = np.square(queries[:, :, None] - keys[:, None, :n]).sum(-1)
        weights = np.exp(-math.sqrt(n) * squares)
        answers = (weights * values[:, None]).sum(-1) / weights.sum(-1)
        errors = np.square(answers - mean_value(queries)).mean(-1)
        found = np.array(measured.arrays[f"errors/n={n}"])
        assert_near(found, errors, terms=20 * n, dtype=torch.float32)
    assert measured.metrics["error"] == pytest.approx(np.mean(measured.arrays["errors/n=36"]))
    assert measured.metrics["state_bytes"] == 36 * 3 * 4  # two numbers of a key and one value


def test_fewer_pairs_are_the_first_of_more_and_the_queries_stay() -> None:
    few, many = (KernelRegression(dimension=1, pairs=pairs) for pairs in ([64], [64, 256]))
    keys, more = few._draw("test", 0, 2), many._draw("test", 0, 2)
    assert torch.equal(keys[0], more[0][:, :64])
    assert torch.equal(keys[2], more[2])
    assert not torch.equal(keys[2], few._draw("validation", 0, 2)[2])


def test_the_nearest_value_errs_by_the_noise_and_an_oracle_by_nothing() -> None:
    task = KernelRegression(dimension=1, pairs=[16, 4096], queries=512, trials=4)
    measured = task.measure(
        lambda *sizes, seed=0: NearestNeighbour(*sizes), "test", 0, "cpu", silent
    )
    # 2,048 squares of normal numbers: a standard error of √(2 / 2048) of the variance. Some queries
    # share a neighbour, which makes it half as large again.
    assert measured.metrics["error"] == pytest.approx(0.25, rel=6 * math.sqrt(2 / 2048))
    baselines = {label: made("test").metrics["error"] for label, made in task.baselines().items()}
    # Squares of what is left of equal numbers of at most √2.
    assert 0 <= baselines["oracle"] <= rounding(math.sqrt(2), torch.float32) ** 2
    assert baselines["zero"] == pytest.approx(1, abs=6 * math.sqrt(0.5 / 2048))  # of 2 cos²


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": [64, 64]}, r"tasks.pairs is \[64, 64\], expected rising numbers"),
        ({"noise": -1.0}, "noise=-1.0 is no standard deviation"),
        ({"dimension": 0}, "dimension=0 is too small"),
    ],
)
def test_bad_numbers_get_a_sentence(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelRegression(**settings)
