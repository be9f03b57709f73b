"""Adapters: recurrent networks and state-space models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.public_packages.contender import (
    HEADS,
    LAYERS,
    WIDTH,
    Wrapped,
    contender,
    layer_model,
)

EINOPS = "einops==0.8.2"
EINX = ("einx==0.4.3", "frozendict==2.5.1")
TORCH = "torch==2.13.0"
TRANSFORMERS = "transformers==5.23.0"


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
    "torch.nn.LSTM",
    TORCH,
    rival="lstm",
    changes={"bias": False, "dropout": 0.5, "proj_size": 32},
)
def torch_lstm(vocabulary: int, **changes: Any) -> Wrapped:
    options = {"num_layers": 2, "batch_first": True} | changes
    project = "proj_size" in changes

    def run(layer: nn.Module, hidden: Tensor) -> Tensor:
        outputs = layer(hidden)[0]
        return torch.cat([outputs, outputs], -1) if project else outputs

    return layer_model(vocabulary, lambda: nn.LSTM(WIDTH, WIDTH, **options), run, first_and_state)


@contender(
    "mambapy Mamba",
    "mambapy==1.2.0",
    rival="mamba",
    pieces="one",
    changes={
        "d_state": 8,
        "expand_factor": 1,
        "d_conv": 2,
        "dt_rank": 2,
        "dt_min": 0.01,
        "dt_max": 0.5,
        "dt_init": "constant",
        "dt_scale": 3.0,
        "rms_norm_eps": 0.1,
        "bias": True,
        "conv_bias": False,
        "inner_layernorms": True,
        "mup": True,
    },
)
def mambapy(vocabulary: int, **changes: Any) -> Wrapped:
    from mambapy.mamba import Mamba, MambaConfig  # mambapy.lm also needs mamba-ssm and CUDA

    config = MambaConfig(d_model=WIDTH, n_layers=LAYERS, **changes)
    ends = [nn.Embedding(vocabulary, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary)]
    network = nn.ModuleList([*ends, Mamba(config)])

    def step(model: nn.Module, tokens: Tensor, caches: Any) -> tuple[Tensor, Any]:
        embedding, norm, head, mamba = model
        if caches is None:  # as the package's own LM.generate starts
            empty = torch.zeros(len(tokens), config.d_inner, config.d_conv - 1)
            caches = [(None, empty) for _ in range(LAYERS)]
        hidden, caches = mamba.step(embedding(tokens[:, 0]), list(caches))
        return head(norm(hidden))[:, None], caches

    return Wrapped(network, lambda m, x: m[2](m[1](m[3](m[0](x)))), step)


@contender(
    "minimamba MambaForCausalLM",
    "minimamba==1.0.1",
    rival="mamba",
    changes={
        "d_state": 8,
        "expand": 1,
        "d_conv": 2,
        "dt_rank": 2,
        "dt_min": 0.01,
        "dt_max": 0.5,
        "dt_init": "constant",
        "dt_scale": 3.0,
        "norm_epsilon": 0.1,
        "bias": True,
        "conv_bias": False,
        "rms_norm": False,
        "tie_embeddings": False,
    },
)
def minimamba(vocabulary: int, **changes: Any) -> Wrapped:
    from minimamba import InferenceParams, MambaForCausalLM, MambaLMConfig

    config = MambaLMConfig(d_model=WIDTH, n_layer=LAYERS, vocab_size=vocabulary, **changes)

    def advance(model: nn.Module, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        state = InferenceParams() if state is None else state
        logits = model(tokens, state)
        state.seqlen_offset += tokens.shape[1]
        return logits, state

    def run(model: nn.Module, tokens: Tensor) -> Tensor:
        return model(tokens)[..., :vocabulary]

    return Wrapped(
        MambaForCausalLM(config),
        run,
        lambda m, x, s: (lambda out: (out[0][..., :vocabulary], out[1]))(advance(m, x, s)),
    )


@contender(
    "mamba3-ssm MambaLMHeadModel",
    "mamba3-ssm==0.2.1",
    EINOPS,
    rival="mamba2",
    changes={"d_intermediate": 64, "tie_embeddings": False, "rms_norm": False},
)
def mamba3(vocabulary: int, **changes: Any) -> Wrapped:
    from mamba3_ssm.block import MambaLMHeadModel
    from mamba3_ssm.config import MambaConfig

    layer = {"d_state": 32, "headdim": 32}
    options = {"d_model": WIDTH, "n_layer": LAYERS, "vocab_size": vocabulary, "ssm_cfg": layer}
    network = MambaLMHeadModel(MambaConfig(**(options | changes)))
    return Wrapped(network, lambda m, x: m(x)[..., :vocabulary])


@contender(
    "mamba3-ssm Mamba3",
    "mamba3-ssm==0.2.1",
    EINOPS,
    rival="mamba2",
    pieces="one",
    changes={
        "d_state": 16,
        "expand": 1,
        "headdim": 16,
        "ngroups": 2,
        "rope_fraction": 1.0,
        "dt_min": 0.05,
        "dt_max": 0.5,
        "dt_init_floor": 0.5,
        "A_floor": 1.0,
        "is_mimo": True,
    },
)
def mamba3_layer(vocabulary: int, **changes: Any) -> Wrapped:
    from mamba3_ssm.layer import Mamba3

    options = {"d_model": WIDTH, "d_state": 32, "headdim": 32} | changes

    def step(layer: nn.Module, hidden: Tensor, state: Any) -> tuple[Tensor, Any]:
        if state is None:
            state = layer.allocate_inference_cache(len(hidden))
        outputs, *state = layer.step(hidden[:, 0], *state)
        return outputs[:, None], tuple(state)

    return layer_model(
        vocabulary, lambda: Mamba3(**options), lambda layer, x: layer(x), step
    )


@contender(
    "xlstm xLSTMLMModel (mLSTM)",
    "xlstm==2.0.6",
    "mlstm-kernels==2.0.6",
    EINOPS,
    rival="gla",
    pieces="one",
    changes={
        "bias": True,
        "tie_weights": True,
        "add_post_blocks_norm": False,
        "add_embedding_dropout": True,
        "dropout": 0.5,
        "weight_decay_on_embedding": True,
    },
)
def xlstm(vocabulary: int, **changes: Any) -> Wrapped:
    from xlstm import (
        mLSTMBlockConfig,
        mLSTMLayerConfig,
        xLSTMLMModel,
        xLSTMLMModelConfig,
    )

    layer = mLSTMLayerConfig(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=HEADS)
    options = {
        "mlstm_block": mLSTMBlockConfig(mlstm=layer),
        "context_length": 512,
        "num_blocks": LAYERS,
        "embedding_dim": WIDTH,
        "vocab_size": vocabulary,
    }
    network = xLSTMLMModel(xLSTMLMModelConfig(**(options | changes)))

    def step(model: nn.Module, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return model.step(tokens, {} if state is None else state)

    return Wrapped(network, lambda m, x: m(x), step)


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
    changes={
        "ff_mult": 2,
        "expansion": 2.0,
        "conv_kernel_size": 5,
        "use_lstm": True,
        "enable_conv": True,
        "dropout": 0.5,
    },
)
def mingru(vocabulary: int, **changes: Any) -> Wrapped:
    from minGRU_pytorch.minLM import minLM

    network = minLM(num_tokens=vocabulary, dim=WIDTH, depth=LAYERS, **changes)

    def step(model: nn.Module, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return model(tokens, return_prev_hiddens=True, prev_hiddens=state)

    return Wrapped(network, lambda m, x: m(x), step)


@contender(
    "mingru-scans MinGRUStack",
    "mingru-scans==0.2.0",
    rival="lstm",
    pieces="one",
    changes={
        "mlp_expansion": 2,
        "dropout": 0.5,
        "learnable_h0": True,
        "mixer": "signed",
    },
)
def mingru_scans(vocabulary: int, **changes: Any) -> Wrapped:
    from mingru import MinGRUBlock

    def step(layer: nn.Module, hidden: Tensor, state: Any) -> tuple[Tensor, Any]:
        outputs, state = layer.step(hidden[:, 0], state)
        return outputs[:, None], state

    return layer_model(
        vocabulary,
        lambda: MinGRUBlock(WIDTH, WIDTH, **changes),
        lambda layer, hidden: layer(hidden)[0],
        step,
    )


@contender(
    "gateloop-transformer SimpleGateLoopLayer",
    "gateloop-transformer==0.2.5",
    EINOPS,
    "rotary-embedding-torch==0.9.1",
    rival="gla",
    changes={"prenorm": False, "post_ln": True},
)
def gateloop(vocabulary: int, **changes: Any) -> Wrapped:
    from gateloop_transformer import SimpleGateLoopLayer

    return layer_model(
        vocabulary,
        lambda: SimpleGateLoopLayer(WIDTH, **changes),
        lambda layer, hidden: layer(hidden),
        lambda layer, hidden, state: layer(hidden, cache=state, return_cache=True),
    )


@contender(
    "s5-pytorch S5Block",
    "s5-pytorch==0.2.1",
    EINOPS,
    rival="s4d",
    changes={
        "block_count": 2,
        "liquid": True,
        "degree": 2,
        "ff_mult": 2.0,
        "glu": False,
        "ff_dropout": 0.5,
        "attn_dropout": 0.5,
        "bcInit": "dense",
    },
)
def s5(vocabulary: int, **changes: Any) -> Wrapped:
    from s5 import S5Block

    options = {"dim": WIDTH, "state_dim": WIDTH, "bidir": False} | changes
    return layer_model(
        vocabulary,
        lambda: S5Block(**options),
        lambda layer, hidden: layer(hidden),
        lambda layer, hidden, state: layer(hidden, state=state, return_state=True),
    )


@contender(
    "LRU-pytorch LRU",
    "LRU-pytorch==0.1.3",
    rival="s4d",
    regbench=False,
    changes={"rmin": 0.5, "rmax": 0.9, "max_phase": 0.5},
)
def lru(vocabulary: int, **changes: Any) -> Wrapped:
    from LRU_pytorch import LRU

    return layer_model(
        vocabulary,
        lambda: LRU(WIDTH, WIDTH, WIDTH, **changes),
        lambda layer, hidden: layer(hidden),
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

    return layer_model(
        vocabulary, lambda: LightRecurrentUnitBlock(WIDTH, depth=1, **changes), run
    )


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
    return layer_model(
        vocabulary,
        lambda: TCN(WIDTH, [WIDTH, WIDTH], causal=True, **options),
        lambda layer, hidden: layer(hidden),
    )


@contender(
    "rwkv-simple RWKV",
    "rwkv-simple==0.1.1",
    EINOPS,
    rival="rwkv7",
    changes={"expand": 2.0, "bias": True, "d_head": 16},
)
def rwkv_simple(vocabulary: int, **changes: Any) -> Wrapped:
    from rwkv_simple import RWKV

    options = {"d_model": WIDTH, "d_head": 32, "n_layer": LAYERS} | changes
    network = RWKV(vocab_size=vocabulary, **options)
    return Wrapped(network, lambda m, x: m(x)[0], lambda m, x, s: m(x, state=s))


@contender(
    "rwkv7-hf RWKV7ForCausalLM",
    "rwkv7-hf==0.9.0",
    TRANSFORMERS,
    rival="rwkv7",
    regbench=False,
    changes={
        "hidden_ratio": 2.0,
        "head_dim": 16,
        "decay_low_rank_dim": 8,
        "gate_low_rank_dim": 8,
        "a_low_rank_dim": 8,
        "v_low_rank_dim": 8,
        "norm_eps": 0.1,
        "norm_bias": False,
        "initializer_range": 0.5,
        "tie_word_embeddings": True,
    },
)
def rwkv7_hf(vocabulary: int, **changes: Any) -> Wrapped:
    from rwkv7_hf import RWKV7Config, RWKV7ForCausalLM

    options = {
        "vocab_size": vocabulary,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "head_dim": 32,
        "decay_low_rank_dim": 16,
        "gate_low_rank_dim": 16,
        "a_low_rank_dim": 16,
        "v_low_rank_dim": 16,
    } | changes
    network = RWKV7ForCausalLM(RWKV7Config(**options))
    return Wrapped(network, lambda m, x: m(x, use_cache=False).logits, hugging_face_cache)


@contender(
    "opengdn GatedDeltaMixer",
    "opengdn==0.1.0",
    rival="gated_delta_net",
    changes={"head_dim": 16, "conv_kernel_size": 2, "norm_eps": 0.1},
)
def opengdn(vocabulary: int, **changes: Any) -> Wrapped:
    from opengdn import GatedDeltaMixer

    options = {"d_model": WIDTH, "num_heads": HEADS, "backend": "chunkwise"} | changes
    return layer_model(
        vocabulary,
        lambda: GatedDeltaMixer(**options),
        lambda layer, hidden: layer(hidden),
        lambda layer, hidden, state: layer(hidden, state, return_state=True),
    )


def hugging_face_cache(model: nn.Module, tokens: Tensor, cache: Any) -> tuple[Tensor, Any]:
    """The calls that ``generate`` of transformers makes, with the cache under its usual name."""
    outputs = model(tokens, past_key_values=cache, use_cache=True)
    return outputs.logits, outputs.past_key_values


def hugging_face(name: str, vocabulary: int, **options: Any) -> nn.Module:
    """A causal language model of transformers from its configuration, with new weights."""
    import transformers

    config = getattr(transformers, f"{name}Config")(vocab_size=vocabulary, **options)
    return transformers.AutoModelForCausalLM.from_config(config)


@contender(
    "transformers MambaForCausalLM",
    TRANSFORMERS,
    rival="mamba",
    changes={
        "state_size": 8,
        "expand": 1,
        "conv_kernel": 2,
        "layer_norm_epsilon": 0.1,
        "use_bias": True,
        "use_conv_bias": False,
        "hidden_act": "gelu",
        "initializer_range": 0.5,
        "time_step_rank": 8,
        "time_step_scale": 3.0,
        "time_step_min": 0.01,
        "time_step_max": 0.5,
        "time_step_init_scheme": "constant",
        "time_step_floor": 0.05,
        "rescale_prenorm_residual": True,
        "residual_in_fp32": False,
        "tie_word_embeddings": False,
    },
)
def hf_mamba(vocabulary: int, **changes: Any) -> Wrapped:
    options = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS} | changes
    network = hugging_face("Mamba", vocabulary, **options)

    def advance(model: nn.Module, tokens: Tensor, cache: Any) -> tuple[Tensor, Any]:
        outputs = model(tokens, cache_params=cache, use_cache=True)
        return outputs.logits, outputs.cache_params

    return Wrapped(network, lambda m, x: m(x, use_cache=False).logits, advance)
