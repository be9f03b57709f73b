"""Generative replay against plain training, and where what it makes up covers all there is."""

from typing import Any

import pytest
import torch
from torch import Tensor

from models.memories.replay.generative import GenerativeReplay
from models.memories.stored_in_weights import StoredInWeights
from tests.closeness import assert_near

TOKENS = 6
NETWORK: dict[str, Any] = {
    "vocabulary": TOKENS,
    "loss": "squared",
    "lr": 0.05,
    "steps": 400,
    "batch_size": 16,
    "tolerance": 1e-4,
}


def batches() -> tuple[Tensor, Tensor]:
    """Two batches of six pairs of tokens each, all of them different, and a number for each."""
    order = torch.randperm(TOKENS**2, generator=torch.Generator().manual_seed(0))[:12]
    keys = torch.stack((order // TOKENS, order % TOKENS), -1).float()
    values = torch.linspace(-1, 1, 12)[:, None]
    return keys.reshape(2, 1, 6, 2), values.reshape(2, 1, 6, 1)


def lost(dreams: float) -> float:
    """How far answers to the first batch are off, in the mean, once the second was written."""
    torch.manual_seed(1)
    memory = GenerativeReplay(2, 1, dreams=dreams, **NETWORK)
    (first, second), (values, others) = batches()
    memory.write(first, values)
    memory.write(second, others)
    return float((memory.read(first).values - values).abs().mean())


def test_what_it_makes_up_keeps_the_old_where_that_covers_all_keys() -> None:
    assert lost(dreams=20) < 0.5 * lost(dreams=0)


@pytest.mark.parametrize("loss", ["squared", "classes"])
@pytest.mark.bitwise
def test_without_made_up_pairs_it_is_the_network_that_replays_nothing(loss: str) -> None:
    (first, second), (values, others) = batches()
    answers = []
    for kind, own in ((GenerativeReplay, {"dreams": 0.0}), (StoredInWeights, {"replay": 0.0})):
        torch.manual_seed(1)
        memory = kind(2, 1, **{**NETWORK, "loss": loss, "steps": 20, **own})
        memory.write(first, values)
        memory.write(second, others)
        answers.append(memory.read(first).values)
    assert torch.equal(*answers)


def test_what_it_makes_up_are_tokens_in_the_box_of_those_seen_and_its_own_answers() -> None:
    torch.manual_seed(1)
    memory = GenerativeReplay(2, 1, dreams=30.0, **{**NETWORK, "steps": 5})
    keys = torch.tensor([[[1.0, 4.0], [3.0, 2.0]]])
    memory.write(keys, torch.tensor([[[0.5], [-0.5]]]))
    made_up, answers = memory._made_up(keys, keys[..., :1])
    assert made_up.shape == (1, 60, 2)
    assert set(made_up[..., 0].flatten().tolist()) == {1, 2, 3}
    assert set(made_up[..., 1].flatten().tolist()) == {2, 3, 4}
    assert_near(answers, memory.read(made_up).values, terms=100)


def test_it_keeps_no_pair() -> None:
    torch.manual_seed(1)
    sizes = []
    for items in (4, 6):
        memory = GenerativeReplay(2, 1, **{**NETWORK, "steps": 1})
        memory.write(batches()[0][0][:, :items], torch.zeros(1, items, 1))
        sizes.append(memory.size_in_bytes())
    assert sizes[0] == sizes[1]


def test_less_than_nothing_is_not_made_up() -> None:
    with pytest.raises(ValueError, match="dreams=-1 counts pairs"):
        GenerativeReplay(2, 1, dreams=-1)
