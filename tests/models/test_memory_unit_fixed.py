"""Memory units with fixed matrices: which are trained, and what the others are."""

from typing import Any

import pytest
import torch

from models.memory_unit import MemoryUnit
from models.memory_unit_fixed import MemoryUnitFixed
from tests.models.test_memory_unit import CHANNELS, samples


def built(model: type[MemoryUnit], **settings: Any) -> Any:
    torch.manual_seed(3)
    return model(CHANNELS, **settings)


@pytest.mark.bitwise
@pytest.mark.parametrize("weights", ["complex", "real"])
def test_an_identity_gives_back_its_input_and_a_frozen_matrix_is_as_drawn(weights: str) -> None:
    free = built(MemoryUnit, weights=weights)
    names = {"identity": ["key_extractor"], "frozen": ["output"]}
    fixed = built(MemoryUnitFixed, weights=weights, **names)
    x = samples(5).float()
    torch.testing.assert_close(fixed.key_extractor(x), x)
    assert torch.equal(fixed.output.weight, free.output.weight)
    assert torch.equal(fixed.value_extractor.weight, free.value_extractor.weight)
    trained = [name for name, _ in fixed.named_parameters()]
    assert trained == ["value_extractor.weight"]
    assert {"key_extractor.weight", "output.weight"} < set(fixed.state_dict())
    fixed(x).square().sum().backward()
    assert fixed.value_extractor.weight.grad.abs().max() > 0


@pytest.mark.bitwise
def test_without_fixed_matrices_it_is_the_memory_unit() -> None:
    x = samples(9).float()
    assert torch.equal(built(MemoryUnit)(x), built(MemoryUnitFixed)(x))


@pytest.mark.parametrize(
    "settings",
    [
        {"identity": ["keys"]},
        {"identity": ["output"], "frozen": ["output"]},
        {"frozen": ["key_extractor", "value_extractor", "output"]},
    ],
)
def test_what_cannot_be_fixed_gets_a_sentence(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="leave one to be trained"):
        built(MemoryUnitFixed, **settings)
