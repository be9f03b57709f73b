"""Adapters: transformers that carry a memory or a recurrence."""

from typing import Any

import torch
from torch import Tensor, nn

from tests.public_packages.contender import HEADS, LAYERS, SIZES, WIDTH, Wrapped, contender
from tests.public_packages.pins import EINOPS, EINOPS_UTILS, EINX, HYPER_CONNECTIONS, ROTARY

HEAD_WIDTH = WIDTH // HEADS


@contender(
    "recurrent-memory-transformer-pytorch RecurrentMemoryTransformerWrapper",
    "recurrent-memory-transformer-pytorch==0.7.0",
    EINOPS,
    HYPER_CONNECTIONS,
    EINOPS_UTILS,
    rival="window_hybrid",
    changes={
        "num_memory_tokens": 8,
        "ff_mult": 2,
        "attn_dropout": 0.5,
        "ff_dropout": 0.5,
        "abs_pos_emb": False,
        "rotary_pos_emb": True,
        "use_xl_memories": False,
        "enhanced_xl_recurrence": True,
        "emb_gradient_frac": 1.0,
        "memory_not_causal": False,
        "add_write_to_next_write_mem": True,
        "always_have_read_memories": False,
    },
)
def recurrent_memory(vocabulary: int, **changes: Any) -> Wrapped:
    from recurrent_memory_transformer_pytorch import (
        RecurrentMemoryTransformer,
        RecurrentMemoryTransformerWrapper,
    )

    options = {**SIZES, "num_memory_tokens": 4, "seq_len": 32, "causal": True} | changes
    network = RecurrentMemoryTransformer(num_tokens=vocabulary, **options)
    return Wrapped(RecurrentMemoryTransformerWrapper(network), lambda m, x: m(x)[0])


@contender(
    "infini-transformer-pytorch InfiniTransformer",
    "infini-transformer-pytorch==0.2.1",
    EINOPS,
    ROTARY,
    rival="window_hybrid",
    changes={
        "attn_dropout": 0.5,
        "ff_mult": 2,
        "ff_dropout": 0.5,
        "use_mem_delta_rule": True,
        "learned_delta_update": True,
    },
)
def infini(vocabulary: int, **changes: Any) -> Wrapped:
    from infini_transformer_pytorch import InfiniTransformer

    segment = 16
    options = SIZES | changes
    network = InfiniTransformer(num_tokens=vocabulary, **options)

    def run(model: nn.Module, tokens: Tensor) -> Tensor:
        memories, outputs = None, []
        for part in tokens.split(segment, dim=1):
            logits, _, memories = model(part, past_memories=memories, return_new_memories=True)
            outputs.append(logits)
        return torch.cat(outputs, 1)

    return Wrapped(network, run)


@contender(
    "recurrent-transformer-pytorch RecurrentTransformer",
    "recurrent-transformer-pytorch==0.0.17",
    EINOPS,
    *EINX,
    EINOPS_UTILS,
    "x-mlps-pytorch==0.6.9",
    rival="gpt2_rope",
    regbench=False,
    changes={
        "ff_expansion": 2.0,
        "recurrent": False,
        "block_size": 4,
        "attn_gate": False,
        "gate_low_rank": 8,
        "use_value_mlp": False,
        "rel_pos_bias": False,
    },
)
def recurrent_transformer(vocabulary: int, **changes: Any) -> Wrapped:
    from recurrent_transformer import RecurrentTransformer

    options = {**SIZES, "recurrent": True, "recurrent_mode": "naive"} | changes
    network = RecurrentTransformer(num_tokens=vocabulary, **options)
    return Wrapped(network, advance=lambda m, x, state: m(x, memories=state, return_memories=True))


@contender(
    "rlt-pytorch RLT",
    "rlt-pytorch==0.1.9",
    EINOPS,
    *EINX,
    EINOPS_UTILS,
    ROTARY,
    "x-mlps-pytorch==0.6.9",
    rival="gpt2_rope",
    regbench=False,
    changes={
        "kv_heads": 1,
        "ff_expansion_factor": 2.0,
        "recurrent_transition_alpha": 0.5,
        "dec_sliding_window_size": 2,
        "recurrent_block_size": 4,
        "rotary_embed": False,
        "attn_residual": True,
        "glu_cross": True,
        "tie_embedding": False,
        "jitter_noise_delta": 0.5,
    },
)
def rlt(vocabulary: int, **changes: Any) -> Wrapped:
    from RLT import RLT

    options = {"enc_depth": 1, "dec_depth": 1, "heads": HEADS, "dim_head": HEAD_WIDTH} | changes
    network = RLT(WIDTH, num_tokens=vocabulary, **options)
    return Wrapped(network, lambda m, x: m(x)[0], lambda m, x, state: m(x, memories=state))


@contender(
    "feedback-transformer-pytorch FeedbackTransformer",
    "feedback-transformer-pytorch==0.0.11",
    EINOPS,
    rival="gpt2_rope",
    regbench=False,
    changes={
        "mem_len": 8,
        "seq_len": 4,
        "attn_dropout": 0.5,
        "ff_dropout": 0.5,
        "keep_last_hidden": True,
    },
)
def feedback(vocabulary: int, **changes: Any) -> Wrapped:
    from feedback_transformer_pytorch import FeedbackTransformer

    options = {"mem_len": 64, "seq_len": 2, "heads": HEADS, "dim_head": HEAD_WIDTH} | changes
    network = FeedbackTransformer(num_tokens=vocabulary, dim=WIDTH, depth=LAYERS, **options)
    return Wrapped(network, advance=lambda m, x, memory: m(x, memory=memory, return_memory=True))


@contender(
    "mega-pytorch Mega",
    "mega-pytorch==0.1.0",
    EINOPS,
    rival="window_hybrid",
    changes={
        "ff_mult": 1,
        "pre_norm": True,
        "ema_heads": 8,
        "attn_dim_qk": 32,
        "attn_dim_value": 128,
        "laplacian_attn_fn": True,
        "norm_mhesa_heads": True,
    },
)
def mega(vocabulary: int, **changes: Any) -> Wrapped:
    from mega_pytorch import Mega

    network = Mega(num_tokens=vocabulary, dim=WIDTH, depth=LAYERS, **changes)
    return Wrapped(network)
