"""Layers of the linear models against those of transformers, with one's weights in the other."""

import pytest
import torch

from models.linear.delta_net import DeltaNet
from models.linear.mamba2 import Mamba2Mixer
from tests.closeness import assert_near
from tests.models.linear.test_linear_models import GATED, build, drawn


@pytest.mark.parametrize("length", [1, 70])
def test_mamba2_equals_that_of_transformers(length: int) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.models.mamba2.modeling_mamba2.Mamba2Mixer(
        transformers.Mamba2Config(
            hidden_size=16, state_size=8, num_heads=4, head_dim=8, n_groups=1, use_bias=False
        ),
        0,
    )
    other = drawn(theirs)
    mixer = Mamba2Mixer(16, state=8, head_width=8).double()
    names = {
        "input_projection.weight": "in_proj.weight",
        "convolution.bias": "conv1d.bias",
        "log_rates": "A_log",
        "step_bias": "dt_bias",
        "skip": "D",
        "norm.weight": "norm.weight",
        "output_projection.weight": "out_proj.weight",
    }
    values = dict(other.named_parameters())
    filters = {"convolution.filters": values["conv1d.weight"].squeeze(1).T}
    mixer.load_state_dict(filters | {own: values[name] for own, name in names.items()})
    hidden = torch.randn(2, length, 16, dtype=torch.float64)
    with torch.no_grad():  # the library computes steps and norms in float32
        assert_near(mixer(hidden), other(hidden), terms=1000, condition=10, dtype=torch.float32)


def test_gated_delta_net_equals_that_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    heads, width = 2, 8
    config = transformers.Qwen3NextConfig(
        hidden_size=16,
        linear_num_value_heads=heads,
        linear_num_key_heads=heads,
        linear_key_head_dim=width,
        linear_value_head_dim=width,
        rms_norm_eps=1e-5,
    )
    module = transformers.models.qwen3_next.modeling_qwen3_next
    other = drawn(module.Qwen3NextGatedDeltaNet(config, 0))
    values = dict(other.named_parameters())
    # Theirs are grouped by heads: q, k, v and gate of the first, then of the second.
    q, k, v, gate = values["in_proj_qkvz.weight"].view(heads, 4, width, 16).unbind(1)
    strength, decay = values["in_proj_ba.weight"].view(heads, 2, 16).unbind(1)
    (mixer,) = build(DeltaNet, layers=1, heads=heads, **GATED)
    mixer.load_state_dict(
        {
            "projection.weight": torch.cat([part.flatten(0, 1) for part in (q, k, v)]),
            "neighbours.convolution.filters": values["conv1d.weight"].squeeze(1).T,
            "gate.weight": gate.flatten(0, 1),
            "strength.weight": strength,
            "decay.weight": decay,
            "log_rates": values["A_log"],
            "step_bias": values["dt_bias"],
            "norm.weight": values["norm.weight"],
            "output_projection.weight": values["out_proj.weight"],
        }
    )
    hidden = torch.randn(2, 70, 16, dtype=torch.float64)
    with torch.no_grad():  # the library computes the rule in float32
        assert_near(mixer(hidden), other(hidden), terms=1000, condition=10, dtype=torch.float32)
