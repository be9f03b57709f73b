"""Every model in float32 over a sequence as long as the speed table has it."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.models.built import (
    CHANNELS_ALONE,
    NAMES,
    SPECIFICATIONS,
    constructor,
    hyperparameters,
    one_of_each_class,
    sequences,
)

LENGTH = 8192
LENGTH_OF_VARIANTS = 2048  # of other files of a class, whose chunks are as long
ONE_LAYER = {"width": 32, "heads": 2, "layers": 1}
OTHERWISE: dict[str, dict[str, int]] = {"window_hybrid": {"layers": 2}}  # it mixes two kinds


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_are_finite(name: str) -> None:
    sizes = ONE_LAYER | OTHERWISE.get(name, {})
    own = {key: sizes.get(key, value) for key, value in hyperparameters(name).items()}
    kind = "channels" if name in CHANNELS_ALONE else "tokens"
    length = LENGTH if name in one_of_each_class() else LENGTH_OF_VARIANTS
    torch.manual_seed(0)
    model: Any = constructor(name)(replace(SPECIFICATIONS[kind], maximum_length=length), **own)
    outputs = model.eval()(sequences(kind, 1, length, dtype=torch.float32))
    outputs.logsumexp(-1).sum().backward()
    gradients = {k: p.grad for k, p in model.named_parameters() if p.grad is not None}
    assert outputs.dtype == torch.float32
    assert gradients
    assert all(found.isfinite().all() for found in (outputs, *gradients.values()))
