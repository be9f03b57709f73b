"""Adapters: attention, exact and linear."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tests.public_packages.contender import (
    HEADS,
    LAYERS,
    MAXIMUM_LENGTH,
    SIZES,
    WIDTH,
    Wrapped,
    contender,
)
from tests.public_packages.pins import (
    AXIAL,
    COLT5,
    EINOPS,
    EINOPS_UTILS,
    EINX,
    HYPER_CONNECTIONS,
    LOCAL_ATTENTION,
    PRODUCT_KEYS,
)

HEAD_WIDTH = WIDTH // HEADS


def advance_cached(
    model: nn.Module, tokens: Tensor, state: Any, **asked: bool
) -> tuple[Tensor, Any]:
    """These packages take all tokens so far, and answer for the new ones where there is a cache."""
    seen, cache = (None, None) if state is None else state
    seen = tokens if seen is None else torch.cat([seen, tokens], 1)
    logits, cache = model(seen, cache=cache, **asked)
    return logits[:, -tokens.shape[1] :], (seen, cache)


@contender(
    "x-transformers TransformerWrapper",
    "x-transformers==2.31.10",
    EINOPS,
    *EINX,
    EINOPS_UTILS,
    "loguru==0.7.3",
    rival="gpt2_rope",
    pieces="prompt",
    changes={
        "rotary_pos_emb": True,
        "alibi_pos_bias": True,
        "attn_kv_heads": 1,
        "ff_mult": 2,
        "ff_glu": True,
        "ff_swish": True,
        "use_rmsnorm": True,
        "use_scalenorm": True,
        "pre_norm": False,
        "sandwich_norm": True,
        "attn_qk_norm": True,
        "attn_dropout": 0.5,
        "ff_dropout": 0.5,
        "layer_dropout": 0.5,
        "attn_num_mem_kv": 4,
        "attn_pre_talking_heads": True,
        "gate_residual": True,
        "scale_residual": True,
        "shift_tokens": 1,
        "macaron": True,
        "attn_gate_values": True,
    },
)
def x_transformers(vocabulary: int, **changes: Any) -> Wrapped:
    from x_transformers import Decoder, TransformerWrapper

    options = {"dim": WIDTH, "depth": LAYERS, "heads": HEADS, "attn_dim_head": HEAD_WIDTH}
    network = TransformerWrapper(
        num_tokens=vocabulary,
        max_seq_len=MAXIMUM_LENGTH,
        attn_layers=Decoder(**(options | changes)),
    )

    return Wrapped(network, advance=partial(advance_cached, return_intermediates=True))


@contender(
    "local-attention LocalTransformer",
    LOCAL_ATTENTION,
    EINOPS,
    HYPER_CONNECTIONS,
    EINOPS_UTILS,
    rival="window_hybrid",
    pieces="prompt",
    changes={
        "ff_mult": 2,
        "attn_dropout": 0.5,
        "ff_dropout": 0.5,
        "use_xpos": True,
        "use_dynamic_pos_bias": True,
        "num_residual_streams": 1,
        "local_attn_window_size": 8,
        "qk_rmsnorm": True,
        "exact_windowsize": True,
        "gate_values_per_head": True,
    },
)
def local_attention(vocabulary: int, **changes: Any) -> Wrapped:
    from local_attention import LocalTransformer

    options = {**SIZES, "local_attn_window_size": 32, "max_seq_len": MAXIMUM_LENGTH} | changes
    network = LocalTransformer(num_tokens=vocabulary, causal=True, **options)

    return Wrapped(network, advance=partial(advance_cached, return_cache=True))


@contender(
    "performer-pytorch PerformerLM",
    "performer-pytorch==1.1.4",
    LOCAL_ATTENTION,
    EINOPS,
    HYPER_CONNECTIONS,
    EINOPS_UTILS,
    AXIAL,
    rival="linear_transformer",
    changes={
        "local_attn_heads": 1,
        "ff_mult": 2,
        "nb_features": 16,
        "ff_glu": True,
        "emb_dropout": 0.5,
        "ff_dropout": 0.5,
        "attn_dropout": 0.5,
        "generalized_attention": True,
        "use_scalenorm": True,
        "use_rezero": True,
        "no_projection": True,
        "tie_embed": True,
        "rotary_position_emb": False,
        "qkv_bias": True,
        "attn_out_bias": False,
        "shift_tokens": True,
    },
)
def performer(vocabulary: int, **changes: Any) -> Wrapped:
    from performer_pytorch import PerformerLM

    network = PerformerLM(
        num_tokens=vocabulary, max_seq_len=MAXIMUM_LENGTH, causal=True, **(SIZES | changes)
    )
    return Wrapped(network)


@contender(
    "linear-attention-transformer LinearAttentionTransformerLM",
    "linear-attention-transformer==0.19.1",
    "linformer==0.2.3",
    LOCAL_ATTENTION,
    EINOPS,
    HYPER_CONNECTIONS,
    EINOPS_UTILS,
    AXIAL,
    PRODUCT_KEYS,
    COLT5,
    rival="linear_transformer",
    changes={
        "emb_dim": 32,
        "ff_glu": True,
        "ff_dropout": 0.5,
        "attn_layer_dropout": 0.5,
        "attn_dropout": 0.5,
        "blindspot_size": 8,
        "n_local_attn_heads": 1,
        "use_rotary_emb": False,
        "shift_tokens": True,
        "use_axial_pos_emb": False,
    },
    multiple_of=16,
)
def linear_attention_transformer(vocabulary: int, **changes: Any) -> Wrapped:
    from linear_attention_transformer import LinearAttentionTransformerLM
    from linear_attention_transformer.autopadder import Autopadder

    options = {**SIZES, "max_seq_len": MAXIMUM_LENGTH, "local_attn_window_size": 16} | changes
    network = LinearAttentionTransformerLM(num_tokens=vocabulary, causal=True, **options)
    return Wrapped(Autopadder(network))


@contender(
    "reformer-pytorch ReformerLM",
    "reformer-pytorch==1.4.4",
    LOCAL_ATTENTION,
    EINOPS,
    HYPER_CONNECTIONS,
    EINOPS_UTILS,
    AXIAL,
    PRODUCT_KEYS,
    COLT5,
    rival="gpt2",
    changes={
        "bucket_size": 4,
        "n_hashes": 2,
        "weight_tie": True,
        "lsh_dropout": 0.5,
        "ff_dropout": 0.5,
        "ff_mult": 2,
        "ff_glu": True,
        "post_attn_dropout": 0.5,
        "use_scale_norm": True,
        "use_rezero": True,
        "use_full_attn": True,
        "num_mem_kv": 4,
        "one_value_head": True,
        "emb_dim": 32,
        "absolute_position_emb": True,
        "n_local_attn_heads": 1,
    },
)
def reformer(vocabulary: int, **changes: Any) -> Wrapped:
    from reformer_pytorch import ReformerLM
    from reformer_pytorch.autopadder import Autopadder

    options = {**SIZES, "max_seq_len": MAXIMUM_LENGTH, "bucket_size": 8, "ff_chunks": 1} | changes
    network = ReformerLM(num_tokens=vocabulary, causal=True, **options)
    return Wrapped(Autopadder(network))


@contender(
    "yet-another-retnet RetNet",
    "yet-another-retnet==0.5.1",
    EINOPS,
    rival="retnet",
    changes={
        "dropout": 0.5,
        "activation": "gelu",
        "dim_feedforward": 64,
        "norm_first": False,
        "layer_norm_eps": 0.1,
    },
)
def retnet(vocabulary: int, **changes: Any) -> Wrapped:
    from yet_another_retnet.retnet import RetNet

    options = {"dropout": 0.0, "dim_feedforward": 4 * WIDTH} | changes
    network = RetNet(vocabulary, d_model=WIDTH, nhead=HEADS, num_layers=LAYERS, **options)

    def advance(model: nn.Module, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        start, states = (0, ()) if state is None else state
        if tokens.shape[1] == 1:
            logits, states = model.forward_recurrent(tokens[:, 0], start, states)
            logits = logits[:, None]
        else:
            logits, states = model.forward_chunkwise(tokens, start, states)
        return logits, (start + tokens.shape[1], states)

    return Wrapped(network, lambda m, x: m.forward_parallel(x), advance)


@contender(
    "hourglass-transformer-pytorch HourglassTransformerLM",
    "hourglass-transformer-pytorch==0.0.6",
    EINOPS,
    rival="gpt2",
    multiple_of=4,  # of other lengths it raises NameError: name 'math' is not defined
    regbench=False,  # whose sequences have such lengths
    changes={"shorten_factor": 4, "attn_resampling": False, "updown_sample_type": "linear"},
)
def hourglass(vocabulary: int, **changes: Any) -> Wrapped:
    from hourglass_transformer_pytorch import HourglassTransformerLM

    options = {"shorten_factor": 2, "heads": HEADS, "dim_head": HEAD_WIDTH} | changes
    network = HourglassTransformerLM(
        num_tokens=vocabulary,
        dim=WIDTH,
        max_seq_len=MAXIMUM_LENGTH,
        depth=(1, 1, 1),
        causal=True,
        **options,
    )
    return Wrapped(network)
