"""Models without the MLP of each block, as tasks ask for that measure mixers alone."""

from typing import Any

import pytest
import torch

from tests.closeness import assert_near
from tests.models.built import NAMES, SMALL, SPECIFICATIONS, constructor, hyperparameters, sequences
from tests.models.derivatives import disturbed

WITH_MLP = [name for name in NAMES if hyperparameters(name).get("mlp")]


@pytest.mark.parametrize("name", WITH_MLP)
def test_without_its_mlp_a_model_is_one_whose_mlp_writes_nothing(name: str) -> None:
    own = {key: SMALL.get(key, value) for key, value in hyperparameters(name).items()}
    whole: Any
    alone: Any
    whole, alone = (
        disturbed(constructor(name)(SPECIFICATIONS["tokens"], **own | {"mlp": mlp}).double(), 0.1)
        for mlp in (True, False)
    )
    shared, tokens = dict(alone.named_parameters()), sequences("tokens", 3, 23)
    left_out = {path: p for path, p in whole.named_parameters() if path not in shared}
    width, layers = SMALL["width"], SMALL["layers"]
    matrices = sorted(tuple(p.shape) for p in left_out.values() if p.dim() == 2)
    assert matrices == sorted([(width, 4 * width), (4 * width, width)] * layers)
    with torch.no_grad():
        for path, parameter in whole.named_parameters():
            parameter.copy_(shared[path]) if path in shared else parameter.zero_()
        assert_near(alone.eval()(tokens), whole.eval()(tokens), terms=1000, condition=1000.0)
        first, _ = alone.step(tokens[:, 0])
        assert_near(first, alone(tokens[:, :1])[:, 0], terms=1000, condition=1000.0)
