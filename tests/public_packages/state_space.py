"""Adapters: state-space models and matrix memories."""

from typing import Any

import torch
from torch import Tensor, nn

from tests.public_packages.contender import HEADS, LAYERS, WIDTH, Wrapped, contender, layer_model
from tests.public_packages.pins import EINOPS


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

    return layer_model(vocabulary, lambda: Mamba3(**options), advance=step)


@contender(
    "xlstm xLSTMLMModel (mLSTM)",
    "xlstm==2.0.6",
    "mlstm-kernels==2.0.6",
    EINOPS,
    rival="gla",
    pieces="one",
    changes={"bias": True, "tie_weights": True, "add_post_blocks_norm": False, "dropout": 0.5},
)
def xlstm(vocabulary: int, **changes: Any) -> Wrapped:
    from xlstm import mLSTMBlockConfig, mLSTMLayerConfig, xLSTMLMModel, xLSTMLMModelConfig

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

    return Wrapped(network, advance=step)


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
        advance=lambda layer, hidden, state: layer(hidden, cache=state, return_cache=True),
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
        "bcInit": "dense_columns",
    },
)
def s5(vocabulary: int, **changes: Any) -> Wrapped:
    from s5 import S5Block

    options = {"dim": WIDTH, "state_dim": WIDTH, "bidir": False} | changes
    return layer_model(
        vocabulary,
        lambda: S5Block(**options),
        advance=lambda layer, hidden, state: layer(hidden, state=state, return_state=True),
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

    return layer_model(vocabulary, lambda: LRU(WIDTH, WIDTH, WIDTH, **changes))


@contender(
    "rwkv-simple RWKV",
    "rwkv-simple==0.1.1",
    EINOPS,
    rival="rwkv7",
    regbench=False,
    changes={"expand": 2.0, "bias": True, "d_head": 16},
)
def rwkv_simple(vocabulary: int, **changes: Any) -> Wrapped:
    # TorchScript would compile the package's loop anew for many lengths, for seconds each.
    torch.jit._state.disable()
    from rwkv_simple import RWKV

    options = {"d_model": WIDTH, "d_head": 32, "n_layer": LAYERS} | changes
    network = RWKV(vocab_size=vocabulary, **options)
    return Wrapped(network, lambda m, x: m(x)[0], lambda m, x, s: m(x, state=s))


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
        advance=lambda layer, hidden, state: layer(hidden, state, return_state=True),
    )
