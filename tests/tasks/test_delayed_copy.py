"""Delayed copy: targets against lists, scores of known predictors, refusals."""

from typing import Any

import numpy as np
import pytest
import torch

from tasks.delayed_copy import DelayedCopy, DelayedCopyOfTokens
from tasks.interface import IGNORED
from tests.closeness import rounding

# The square of what is left of two equal numbers.
NOTHING = rounding(3**0.5, torch.float32) ** 2
SMALL: dict[str, Any] = {"length": 12, "evaluation_sequences": 400}


@pytest.mark.parametrize("delay", [0, 1, 5, 11])
def test_tokens_are_those_of_a_list_that_is_read_backwards(delay: int) -> None:
    batch = DelayedCopyOfTokens(vocabulary=5, delay=delay, **SMALL).training_batch(3, 7, 20)
    for read, asked in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        assert asked == [IGNORED] * delay + read[: len(read) - delay]


@pytest.mark.parametrize("delay", [0, 1, 5, 11])
def test_numbers_are_those_of_a_list_that_is_read_backwards(delay: int) -> None:
    batch = DelayedCopy(delay=delay, **SMALL).training_batch(3, 7, 20)
    for read, target, asked in zip(
        batch.inputs[..., 0].tolist(),
        batch.targets[..., 0].tolist(),
        batch.extras["asked"].tolist(),
        strict=True,
    ):
        assert asked == [False] * delay + [True] * (len(read) - delay)
        assert target[delay:] == read[: len(read) - delay]


def test_numbers_have_mean_0_and_variance_1() -> None:
    numbers = DelayedCopy(delay=3, **SMALL).training_batch(0, 0, 2000).inputs.double()
    count = numbers.numel()
    # Squares of uniform numbers of variance 1 have the variance 9/5 - 1.
    assert abs(float(numbers.mean())) < 5 / count**0.5
    assert abs(float((numbers**2).mean()) - 1) < 5 * (0.8 / count) ** 0.5
    assert float(numbers.abs().max()) <= 3**0.5


def test_errors_of_predictors_are_those_of_independent_numbers() -> None:
    baselines = DelayedCopy(delay=4, **SMALL).baselines()
    errors = {name: measure("test").metrics["error"] for name, measure in baselines.items()}
    count = 400 * (12 - 4)
    assert 0 <= errors["delayed input (oracle)"] <= NOTHING
    assert abs(errors["mean"] - 1) < 5 * (0.8 / count) ** 0.5 + 1e-2  # its mean is from few numbers
    # The difference of two independent numbers of variance 1 has the variance 2; the fourth moment
    # of the difference is 2 · 9/5 + 6 = 9.6. Neighbours share numbers, by which the spread doubles.
    assert abs(errors["latest input"] - 2) < 5 * (2 * (9.6 - 4) / count) ** 0.5


def test_accuracies_of_predictors_are_those_of_independent_tokens() -> None:
    baselines = DelayedCopyOfTokens(vocabulary=4, delay=4, **SMALL).baselines()
    shares = {name: measure("test").metrics["accuracy"] for name, measure in baselines.items()}
    spread = (2 * 0.25 * 0.75 / (400 * 8)) ** 0.5
    assert shares["delayed input (oracle)"] == 1
    assert abs(shares["latest input"] - 0.25) < 5 * spread
    assert abs(shares["most_frequent"] - 0.25) < 5 * spread


def test_only_what_lies_behind_the_delay_counts() -> None:
    task = DelayedCopy(delay=4, **SMALL)
    batch = task.training_batch(0, 0, 8)
    right = batch.targets.clone()
    right[:, :4] = 100.0
    assert 0 <= float(task.loss(right, batch)) <= NOTHING
    right[:, 4] += 2.0
    assert float(task.loss(right, batch)) == pytest.approx(4 / 8, rel=1e-5)


@pytest.mark.parametrize(
    ("task", "wrong"),
    [
        (DelayedCopy, {"delay": 12}),
        (DelayedCopy, {"delay": -1}),
        (DelayedCopyOfTokens, {"delay": 64}),
        (DelayedCopyOfTokens, {"vocabulary": 1}),
    ],
)
def test_impossible_settings_are_refused_by_name(task: Any, wrong: dict[str, int]) -> None:
    name, value = next(iter(wrong.items()))
    with pytest.raises(ValueError, match=f"{name}={value}"):
        task(**{"length": 12, **wrong})


def test_examples_of_the_docstrings_are_the_first_sequences() -> None:
    numbers = DelayedCopy(length=6, delay=2).training_batch(0, 0, 1)
    tokens = DelayedCopyOfTokens(length=6, delay=2, vocabulary=8).training_batch(0, 0, 1)
    shown = " ".join(f"{x:5.2f}" for x in numbers.inputs[0, :, 0].tolist())
    assert f"input   {shown}\n" in (DelayedCopy.__doc__ or "")
    shown = " ".join(map(str, tokens.inputs[0].tolist()))
    assert f"input   {shown}\n" in (DelayedCopyOfTokens.__doc__ or "")


def test_a_batch_differs_from_the_next_and_comes_again() -> None:
    task = DelayedCopy(delay=2, **SMALL)
    first, again, other = (task.training_batch(0, step, 4).inputs for step in (0, 0, 1))
    assert torch.equal(first, again)
    assert not np.isclose(first, other).any()
