"""Memories that are trained inside write, against theory and PyTorch's own training."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.memories.mlp import MLP
from models.memories.stored_by_optimizer import StoredByOptimizer
from models.memories.stored_in_weights import StoredInWeights
from models.memories.trained import distinct
from models.memories.trained_linear import TrainedLinear
from models.memories.trained_low_rank import TrainedLowRank
from tests.closeness import assert_near


def units(*shape: int, seed: int = 0) -> Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return functional.normalize(drawn, dim=-1)


def recall(memory: torch.nn.Module, keys: Tensor, values: Tensor) -> float:
    best = (memory.read(keys).values @ values.mT).argmax(-1)
    return float((best == torch.arange(keys.shape[-2])).double().mean())


def test_distinct_against_a_loop() -> None:
    few = units(3, 4, seed=1)
    values = torch.stack([few[[0, 1, 1, 2, 0]], few[[2, 2, 2, 2, 2]]])
    classes, present, place = distinct(values)
    assert present.sum(1).tolist() == [3, 1]
    for element in range(2):
        assert torch.equal(classes[element, place[element]], values[element])


def test_a_trained_matrix_recalls_what_a_sum_of_outer_products_cannot() -> None:
    keys, values = units(90, 24, seed=1), units(90, 24, seed=2)
    hebbian = ((keys @ keys.T @ values) @ values.T).argmax(-1) == torch.arange(90)
    memory = TrainedLinear(24, 24)
    memory.write(keys, values)
    assert hebbian.double().mean() < 0.8
    assert recall(memory, keys, values) >= 0.99


def test_the_linear_memory_is_adamw_on_the_cross_entropy() -> None:
    keys, values = units(40, 8, seed=1), units(40, 8, seed=2)
    memory = TrainedLinear(8, 8, steps=5, check_every=5, stop_at=1.0)
    memory.write(keys, values)
    layer = torch.nn.Linear(8, 8, bias=False)
    torch.nn.init.zeros_(layer.weight)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1000.0, weight_decay=0.0)
    for _ in range(5):
        optimizer.zero_grad()
        functional.cross_entropy(layer(keys) @ values.T, torch.arange(40)).backward()
        optimizer.step()
    asked = units(20, 8, seed=3)
    read, expected = memory.read(asked).values, layer(asked).detach()
    # Equal but for a factor. Steps of Adam divide gradients by their size, the small ones too: that
    # stretches the errors of sums over 40 pairs.
    read, expected = read / read.norm(), expected / expected.norm()
    assert_near(read, expected, terms=5 * (40 + 8 + 8), condition=100)


def test_rank_limits_what_is_stored() -> None:
    keys, values = units(60, 32, seed=1), units(60, 32, seed=2)
    torch.manual_seed(0)
    memories = [TrainedLowRank(32, 32, rank=rank, steps=400) for rank in (1, 8)]
    for memory in memories:
        memory.write(keys, values)
    poor, rich = (recall(memory, keys, values) for memory in memories)
    assert poor < 0.5
    assert rich >= 0.99
    assert memories[1].weights_in_bytes() == 4 * 2 * 32 * 8


def test_a_perceptron_tells_keys_apart_that_no_matrix_can() -> None:
    keys = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    values = torch.eye(2)[[0, 0, 1, 1]]  # opposite keys share a value
    torch.manual_seed(0)
    linear, mlp = TrainedLinear(2, 2, steps=256), MLP(2, 2, expansion=8.0, steps=1024)
    shares = []
    for memory in (linear, mlp):
        memory.write(keys, values)
        best = (memory.read(keys).values @ torch.eye(2)).argmax(-1)
        shares.append(float((best == torch.tensor([0, 0, 1, 1])).double().mean()))
    assert shares[0] <= 0.5
    assert shares[1] == 1.0


@pytest.mark.parametrize(("replay", "kept"), [(1.0, True), (0.0, False)])
def test_replay_keeps_what_was_written_before(replay: float, kept: bool) -> None:
    torch.manual_seed(0)
    memory = StoredInWeights(32, 32, hidden=64, replay=replay)
    first = units(60, 32, seed=1), units(60, 32, seed=2)
    second = units(60, 32, seed=3), units(60, 32, seed=4)
    for pairs in (first, second):
        memory.write(*pairs)
    assert recall(memory, *second) == 1.0
    assert (recall(memory, *first) == 1.0) == kept


def test_the_readme_has_11337_weights_and_recalls_integers() -> None:
    torch.manual_seed(0)
    settings = {"loss": "squared", "lr": 1e-4, "weight_decay": 1e-5, "clip": None}
    memory = StoredInWeights(3, 1, vocabulary=1001, steps=600, **settings)
    assert sum(weights.numel() for weights in memory.buffers()) == 11_337
    generator = torch.Generator().manual_seed(1)
    keys = torch.randint(1000, (50, 3), generator=generator).float()
    values = torch.randint(1000, (50, 1), generator=generator).float()
    memory.write(keys, values)
    read = memory.read(keys)
    assert (read.values.round() == values).double().mean() >= 0.98
    assert read.confidence.mean() > 0.5
    with pytest.raises(ValueError, match="whole and from 0 to 1000"):
        memory.read(keys + 0.5)


def test_a_diverging_training_is_seen() -> None:
    torch.manual_seed(0)
    settings = {"loss": "squared", "lr": 1e6, "clip": None, "steps": 60}
    memory = StoredInWeights(8, 1, **settings)
    memory.write(units(64, 8), 1000 * units(64, 8)[:, :1])
    values, confidence = memory.read(units(4, 8, seed=3))
    assert values.isnan().all()
    assert (confidence == memory.lowest_confidence).all()


def test_online_in_the_squared_form_does_not_mind_how_it_is_called() -> None:
    keys, values = units(12, 6, seed=1), units(12, 5, seed=2)
    read = []
    for parts in ([12], [5, 1, 6]):
        torch.manual_seed(0)
        memory = StoredInWeights(6, 5, loss="squared", online=True, lr=0.5)
        for k, v in zip(keys.split(parts), values.split(parts), strict=True):
            memory.write(k, v)
        read.append(memory.read(keys).values)
    assert_near(read[0], read[1], terms=12 * 100, condition=10)


def test_patience_ends_a_hopeless_training() -> None:
    keys = units(1, 4).expand(6, 4).clone()  # one key, six values
    values = units(6, 4, seed=2)
    quick = TrainedLinear(4, 4, steps=100_000, check_every=2, patience=3)
    quick.write(keys, values)
    assert recall(quick, keys, values) <= 1 / 6


@pytest.mark.parametrize(
    "wrong", [{"lr": 0.0}, {"steps": 0}, {"stop_at": 0.0}, {"replay": 1.5}, {"patience": 0}]
)
def test_settings_outside_their_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give"):
        TrainedLinear(4, 4, **wrong)


def test_numbers_as_they_are_are_scaled_inputs_and_tokens_are_those_of_the_readme() -> None:
    keys = torch.tensor([[3.0, 14.0, 159.0], [1000.0, 0.0, 7.0]])
    settings: dict[str, Any] = {"loss": "squared", "vocabulary": 1001, "hidden": 5, "lr": 1e-3}
    torch.manual_seed(0)
    plain = StoredByOptimizer(3, 1, tokens=False, **settings)
    weights = plain.initial(1, keys)
    assert [tuple(w.shape) for w in weights] == [(1, 3, 5), (1, 1, 5), (1, 5, 1), (1, 1, 1)]
    first, bias, second, second_bias = (w[0] for w in weights)
    expected = ((keys / 500 - 1) @ first + bias).relu() @ second + second_bias
    torch.testing.assert_close(plain.outputs(weights, keys[None])[0], expected)
    torch.manual_seed(0)
    tokens = StoredByOptimizer(3, 1, optimizer="sgd", **settings)
    torch.manual_seed(0)
    readme = StoredInWeights(3, 1, momentum=0.0, clip=None, **settings)
    for memory in (tokens, readme):
        memory.write(keys, torch.tensor([[2.0], [5.0]]))
    torch.testing.assert_close(tokens.read(keys), readme.read(keys))
    with pytest.raises(ValueError, match="give adam or sgd"):
        StoredByOptimizer(3, 1, optimizer="none")
