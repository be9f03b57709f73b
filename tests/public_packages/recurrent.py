"""Adapters: recurrent networks and convolutions."""

from typing import Any

import torch
from torch import Tensor, nn

from tests.public_packages.contender import HEADS, LAYERS, WIDTH, Wrapped, contender, layer_model
from tests.public_packages.pins import EINOPS, EINX, TORCH


def first_and_state(layer: nn.Module, hidden: Tensor, state: Any) -> tuple[Tensor, Any]:
    """The convention of torch.nn.GRU: layer(inputs, state) -> (outputs, state)."""
    outputs, state = layer(hidden, state)
    return outputs, state


@contender("torch.nn.GRU", TORCH, rival="lstm", changes={"bias": False, "dropout": 0.5})
def torch_gru(vocabulary: int, **changes: Any) -> Wrapped:
    options = {"num_layers": 2, "batch_first": True} | changes
    return layer_model(
        vocabulary,
        lambda: nn.GRU(WIDTH, WIDTH, **options),
        lambda layer, hidden: layer(hidden)[0],
        first_and_state,
    )


@contender(
    "torch.nn.LSTM", TORCH, rival="lstm", changes={"bias": False, "dropout": 0.5, "proj_size": 32}
)
def torch_lstm(vocabulary: int, **changes: Any) -> Wrapped:
    options = {"num_layers": 2, "batch_first": True} | changes
    project = "proj_size" in changes

    def run(layer: nn.Module, hidden: Tensor) -> Tensor:
        outputs = layer(hidden)[0]
        return torch.cat([outputs, outputs], -1) if project else outputs

    return layer_model(vocabulary, lambda: nn.LSTM(WIDTH, WIDTH, **options), run, first_and_state)


@contender(
    "PyxLSTM xLSTM (sLSTM)",
    "PyxLSTM==1.0.1",
    rival="lstm",
    regbench=False,
    changes={"num_layers": 2, "dropout": 0.5, "lstm_type": "mlstm"},
)
def pyxlstm(vocabulary: int, **changes: Any) -> Wrapped:
    from xLSTM.model import xLSTM

    options = {"num_layers": 1, "lstm_type": "slstm"} | changes
    network = xLSTM(vocabulary, WIDTH, WIDTH, num_blocks=LAYERS, **options)
    return Wrapped(network, lambda m, x: m(x)[0], lambda m, x, s: m(x, s))


@contender(
    "torchxlstm xLSTM",
    "torchxlstm==0.0.3",
    rival="lstm",
    regbench=False,
    changes={"layers": "sm", "proj_factor_slstm": 2, "proj_factor_mlstm": 3},
)
def torchxlstm(vocabulary: int, **changes: Any) -> Wrapped:
    from torchxlstm import xLSTM

    options = {"layers": "ms", "batch_first": True} | changes
    return layer_model(
        vocabulary,
        lambda: xLSTM(WIDTH, WIDTH // HEADS, HEADS, **options),
        lambda layer, hidden: layer(hidden)[0],
        first_and_state,
    )


@contender(
    "minGRU-pytorch minLM",
    "minGRU-pytorch==0.2.1",
    EINOPS,
    rival="lstm",
    pieces="prompt",
    changes={"ff_mult": 2, "expansion": 2.0, "use_lstm": True, "enable_conv": True, "dropout": 0.5},
)
def mingru(vocabulary: int, **changes: Any) -> Wrapped:
    from minGRU_pytorch.minLM import minLM

    network = minLM(num_tokens=vocabulary, dim=WIDTH, depth=LAYERS, **changes)

    def step(model: nn.Module, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return model(tokens, return_prev_hiddens=True, prev_hiddens=state)

    return Wrapped(network, advance=step)


@contender(
    "mingru-scans MinGRUBlock",
    "mingru-scans==0.2.0",
    rival="lstm",
    pieces="one",
    changes={"mlp_expansion": 2, "dropout": 0.5, "learnable_h0": True, "mixer": "signed"},
)
def mingru_scans(vocabulary: int, **changes: Any) -> Wrapped:
    from mingru import MinGRUBlock

    def step(layer: nn.Module, hidden: Tensor, state: Any) -> tuple[Tensor, Any]:
        outputs, state = layer.step(hidden[:, 0], state)
        return outputs[:, None], state

    return layer_model(
        vocabulary,
        lambda: MinGRUBlock(WIDTH, **changes),
        lambda layer, hidden: layer(hidden)[0],
        step,
    )


@contender(
    "light-recurrent-unit-pytorch LightRecurrentUnitBlock",
    "light-recurrent-unit-pytorch==0.1.4",
    EINOPS,
    *EINX,
    "torch-einops-utils==0.2.0",
    rival="lstm",
    regbench=False,
    changes={
        "heads": 2,
        "learned_init_hidden": False,
        "depth_gated_lru": False,
        "has_ff_block": True,
    },
)
def light_recurrent_unit(vocabulary: int, **changes: Any) -> Wrapped:
    from light_recurrent_unit_pytorch import LightRecurrentUnitBlock

    def run(layer: nn.Module, hidden: Tensor) -> Tensor:
        outputs = layer(hidden)
        return outputs[0] if isinstance(outputs, tuple) else outputs

    return layer_model(vocabulary, lambda: LightRecurrentUnitBlock(WIDTH, depth=1, **changes), run)


@contender(
    "ncps CfC",
    "ncps==1.0.1",
    rival="lstm",
    changes={
        "mixed_memory": True,
        "mode": "pure",
        "activation": "gelu",
        "backbone_units": 32,
        "backbone_layers": 2,
        "backbone_dropout": 0.5,
    },
    regbench=False,
)
def cfc(vocabulary: int, **changes: Any) -> Wrapped:
    from ncps.torch import CfC

    return layer_model(
        vocabulary,
        lambda: CfC(WIDTH, WIDTH, **changes),
        lambda layer, hidden: layer(hidden)[0],
        first_and_state,
    )


@contender(
    "pytorch-tcn TCN",
    "pytorch-tcn==1.2.3",
    rival="hyena",
    changes={
        "kernel_size": 3,
        "dilations": [1, 3],
        "dropout": 0.5,
        "use_norm": "layer_norm",
        "activation": "tanh",
        "kernel_initializer": "xavier_normal",
        "use_skip_connections": True,
        "use_gate": True,
    },
)
def tcn(vocabulary: int, **changes: Any) -> Wrapped:
    from pytorch_tcn import TCN

    options = {"dropout": 0.0, "input_shape": "NLC"} | changes
    return layer_model(vocabulary, lambda: TCN(WIDTH, [WIDTH, WIDTH], causal=True, **options))
