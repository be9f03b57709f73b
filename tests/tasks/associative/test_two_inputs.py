"""Capacity for two inputs: its keys against the embeddings of one input."""

import pytest
import torch

from tasks.capacity import Capacity
from tasks.two_inputs import TwoInputs


@pytest.mark.bitwise
def test_a_key_is_the_sum_of_one_token_of_each_set_and_no_pair_comes_twice() -> None:
    task = TwoInputs(widths=[8], trials=2, largest=1.5)  # 96 pairs, of 10 and 10 tokens
    keys, values = task.draw(8, "test", 3)
    single, same_values = Capacity(
        widths=[8], wide=[], headline_width=8, trials=2, classes=32, largest=1.5
    ).draw(8, "test", 3)
    assert torch.equal(values, same_values)
    for own, tokens in zip(keys, single, strict=True):
        sums = (tokens[:10, None] + tokens[None, 10:20]).flatten(0, 1)
        distances, pairs = torch.cdist(own, sums).min(1)
        assert distances.max() < 1e-3
        assert len(set(pairs.tolist())) == 96
        assert pairs.tolist() != sorted(pairs.tolist())
    assert torch.equal(keys, task.draw(8, "test", 3)[0])
    assert not torch.equal(keys, task.draw(8, "validation", 3)[0])


def test_too_few_pairs_for_two_sets_of_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="allows 5 pairs at width 8: give a number that allows 6"):
        TwoInputs(widths=[8], largest=0.08)
