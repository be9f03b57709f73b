"""Samples to learn: what both layers hold, counted by hand."""

from typing import Any

import numpy as np
import pytest

from core.progress import silent
from models.memories.outer_product import OuterProduct
from tasks.samples_to_learn import SamplesToLearn


def build(*sizes: Any, seed: int = 0) -> OuterProduct:
    return OuterProduct(*sizes)


def chosen(scores: Any, right: int) -> float:
    """The share of a choice among the largest scores."""
    largest = np.isclose(scores, scores.max())
    return float(largest[right]) / largest.sum()


@pytest.mark.bitwise  # scores are counts by a power of two, of which equal ones have equal bits
def test_both_recalls_are_those_of_counts() -> None:
    tokens, task = 6, SamplesToLearn(tokens=[6], length=4, share=0.3, most=2, trials=2)
    found = task.measure(build, "test", 5, "cpu", silent)
    contexts, targets = (x.numpy() for x in task.samples(tokens, "test", 5))
    assert found.curves["attention/N=6"]["x"] == [1, 2, 4, 8]
    for place, count in enumerate((1, 2, 4, 8)):
        followed, copied = [], []
        for trial in range(2):
            after_trigger = np.bincount(targets[trial, :count], minlength=tokens + 1)
            followed.append(chosen(after_trigger, tokens))
            table = np.zeros((tokens, tokens))  # of a token in the context, which target followed
            for context, target in zip(
                contexts[trial, :count], targets[trial, :count], strict=True
            ):
                if target < tokens:
                    np.add.at(table, (context, target), 1 / 4)
            copied += [chosen(row, token) for token, row in enumerate(table)]
        assert found.curves["feed_forward/N=6"]["y"][place] == pytest.approx(np.mean(followed))
        assert found.curves["attention/N=6"]["y"][place] == pytest.approx(np.mean(copied))


def test_targets_are_common_or_of_their_context_and_the_ratio_is_of_both() -> None:
    task = SamplesToLearn(tokens=[8, 16], length=4, trials=8)
    contexts, targets = task.samples(16, "test", 0)
    common = targets == 16
    assert (common | (contexts == targets[..., None]).any(-1)).all()
    share, count = common.double().mean().item(), common.numel()
    assert share == pytest.approx(0.2, abs=5 * (0.16 / count) ** 0.5)
    found = task.measure(build, "test", 0, "cpu", silent).metrics
    few, many = (found[f"samples_to_half/{x}/N=16"] for x in ("feed_forward", "attention"))
    assert found["ratio"] == pytest.approx(many / few)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tokens": [16, 16]}, r"tasks.tokens is \[16, 16\], expected rising numbers"),
        ({"share": 1.0}, "tasks.share is 1"),
        ({"length": 0}, "length=0 is too small"),
    ],
)
def test_bad_numbers_get_a_sentence(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SamplesToLearn(**settings)
