"""Adapters: attention of every kind, and memories beside it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.public_packages.contender import (
    HEADS,
    LAYERS,
    MAXIMUM_LENGTH,
    WIDTH,
    Wrapped,
    contender,
)
from tests.public_packages.recurrent import (
    EINOPS,
    EINX,
    TRANSFORMERS,
    hugging_face,
    hugging_face_cache,
)

EINOPS_UTILS = "torch-einops-utils==0.2.0"
ROTARY = "rotary-embedding-torch==0.9.1"
LOCAL_ATTENTION = "local-attention==1.11.2"
HYPER_CONNECTIONS = "hyper-connections==0.4.11"
AXIAL = "axial-positional-embedding==0.3.12"
COLT5 = "colt5-attention==0.11.2"
PRODUCT_KEYS = "product-key-memory==0.3.0"
HEAD_WIDTH = WIDTH // HEADS


@contender(
    "transformers GPT2LMHeadModel",
    TRANSFORMERS,
    rival="gpt2",
    changes={
        "n_inner": 64,
        "activation_function": "relu",
        "resid_pdrop": 0.5,
        "embd_pdrop": 0.5,
        "attn_pdrop": 0.5,
        "layer_norm_epsilon": 0.1,
        "initializer_range": 0.5,
        "scale_attn_weights": False,
        "scale_attn_by_inverse_layer_idx": True,
        "tie_word_embeddings": False,
    },
)
def hf_gpt2(vocabulary: int, **changes: Any) -> Wrapped:
    options = {
        "n_positions": MAXIMUM_LENGTH,
        "n_embd": WIDTH,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    } | changes
    network = hugging_face("GPT2", vocabulary, **options)
    return Wrapped(network, lambda m, x: m(x, use_cache=False).logits, hugging_face_cache)


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
        "attn_talking_heads": True,
        "gate_residual": True,
        "scale_residual": True,
        "shift_tokens": 1,
        "macaron": True,
        "attn_gate_values": True,
        "resi_dual": True,
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

    def advance(model: nn.Module, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        # The package takes all tokens so far, and answers for the new ones where it has a cache.
        seen, cache = (None, None) if state is None else state
        seen = tokens if seen is None else torch.cat([seen, tokens], 1)
        logits, cache = model(seen, return_intermediates=True, cache=cache)
        return logits[:, -tokens.shape[1] :], (seen, cache)

    return Wrapped(network, lambda m, x: m(x), advance)


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

    options = {
        "dim": WIDTH,
        "depth": LAYERS,
        "heads": HEADS,
        "dim_head": HEAD_WIDTH,
        "local_attn_window_size": 32,
        "max_seq_len": MAXIMUM_LENGTH,
    } | changes
    network = LocalTransformer(num_tokens=vocabulary, causal=True, **options)

    def advance(model: nn.Module, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        seen, cache = (None, None) if state is None else state
        seen = tokens if seen is None else torch.cat([seen, tokens], 1)
        logits, cache = model(seen, cache=cache, return_cache=True)
        return logits[:, -tokens.shape[1] :], (seen, cache)

    return Wrapped(network, lambda m, x: m(x), advance)


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

    options = {"dim": WIDTH, "depth": LAYERS, "heads": HEADS, "dim_head": HEAD_WIDTH}
    network = PerformerLM(
        num_tokens=vocabulary, max_seq_len=MAXIMUM_LENGTH, causal=True, **(options | changes)
    )
    return Wrapped(network, lambda m, x: m(x))


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

    options = {
        "dim": WIDTH,
        "depth": LAYERS,
        "heads": HEADS,
        "dim_head": HEAD_WIDTH,
        "max_seq_len": MAXIMUM_LENGTH,
        "local_attn_window_size": 16,
    } | changes
    network = LinearAttentionTransformerLM(num_tokens=vocabulary, causal=True, **options)
    return Wrapped(Autopadder(network), lambda m, x: m(x))


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

    options = {
        "dim": WIDTH,
        "depth": LAYERS,
        "heads": HEADS,
        "dim_head": HEAD_WIDTH,
        "max_seq_len": MAXIMUM_LENGTH,
        "bucket_size": 8,
        "ff_chunks": 1,
    } | changes
    network = ReformerLM(num_tokens=vocabulary, causal=True, **options)
    return Wrapped(Autopadder(network), lambda m, x: m(x))


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

    options = {
        "dim": WIDTH,
        "depth": LAYERS,
        "heads": HEADS,
        "dim_head": HEAD_WIDTH,
        "num_memory_tokens": 4,
        "seq_len": 32,
        "causal": True,
    } | changes
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
    options = {"dim": WIDTH, "depth": LAYERS, "heads": HEADS, "dim_head": HEAD_WIDTH} | changes
    network = InfiniTransformer(num_tokens=vocabulary, **options)

    def run(model: nn.Module, tokens: Tensor) -> Tensor:
        memories, outputs = None, []
        for part in tokens.split(segment, dim=1):
            logits, _, memories = model(part, past_memories=memories, return_new_memories=True)
            outputs.append(logits)
        return torch.cat(outputs, 1)

    return Wrapped(network, run)


@contender(
    "titans-pytorch MemoryAsContextTransformer",
    "titans-pytorch==0.5.5",
    EINOPS,
    *EINX,
    EINOPS_UTILS,
    "assoc-scan==0.0.6",
    AXIAL,
    HYPER_CONNECTIONS,
    ROTARY,
    "tensordict==0.15.3",
    "x-transformers==2.31.10",
    "loguru==0.7.3",
    "pyvers==0.2.3",
    "orjson==3.13.0",
    rival="titans",
    regbench=False,
    changes={
        "neural_mem_gate_attn_output": True,
        "neural_memory_add_value_residual": True,
        "num_longterm_mem_tokens": 0,
        "num_persist_mem_tokens": 2,
        "neural_memory_batch_size": 32,
        "neural_memory_qkv_receives_diff_views": True,
        "ff_mult": 2,
        "num_residual_streams": 1,
        "neural_memory_segment_len": 4,
        "sliding_window_attn": True,
    },
)
def titans(vocabulary: int, **changes: Any) -> Wrapped:
    from titans_pytorch import MemoryAsContextTransformer

    options = {
        "dim": WIDTH,
        "depth": LAYERS,
        "heads": HEADS,
        "dim_head": HEAD_WIDTH,
        "segment_len": 16,
        "num_persist_mem_tokens": 4,
        "num_longterm_mem_tokens": 4,
        "neural_memory_layers": (2,),
        "use_flex_attn": False,
    } | changes
    network = MemoryAsContextTransformer(num_tokens=vocabulary, **options)
    return Wrapped(network, lambda m, x: m(x))


def titans_memory_model(name: str, vocabulary: int, **changes: Any) -> Wrapped:
    """One of the four models of titans-memory."""
    import titans as package

    options = {
        "d_model": WIDTH,
        "n_layers": LAYERS,
        "n_persistent": 4,
        "chunk_size": 16,
        "max_seq_len": MAXIMUM_LENGTH,
    } | changes
    network = getattr(package, name)(vocabulary, **options)
    return Wrapped(network, lambda m, x: m(x)["logits"])


TITANS_MEMORY_CHANGES = {
    "mem_layers": 3,
    "d_hidden": 64,
    "n_persistent": 2,
    "chunk_size": 4,
    "ffn_mult": 2,
    "use_momentum": False,
    "use_decay": False,
}


@contender(
    "titans-memory TitansLMM",
    "titans-memory==0.3.0",
    rival="titans",
    regbench=False,
    changes=TITANS_MEMORY_CHANGES,
)
def titans_memory_lmm(vocabulary: int, **changes: Any) -> Wrapped:
    return titans_memory_model("TitansLMM", vocabulary, **changes)


@contender(
    "titans-memory TitansMAG",
    "titans-memory==0.3.0",
    rival="titans",
    regbench=False,
    changes=TITANS_MEMORY_CHANGES | {"window": 4},
)
def titans_memory_mag(vocabulary: int, **changes: Any) -> Wrapped:
    return titans_memory_model("TitansMAG", vocabulary, **changes)


def titans_unofficial_model(name: str, vocabulary: int, **changes: Any) -> Wrapped:
    """One of the models of titans-unofficial between an embedding and an output matrix."""
    import titans.models as package

    options = {
        "d_model": WIDTH,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "window_size": 16,
        "persistent_tokens": 4,
        "dropout": 0.0,
    } | changes
    made = getattr(package, name)(**options)
    network = nn.ModuleList(
        [nn.Embedding(vocabulary, WIDTH), made, nn.Linear(WIDTH, vocabulary, bias=False)]
    )
    return Wrapped(network, lambda m, x: m[2](m[1](m[0](x))))


TITANS_UNOFFICIAL_CHANGES = {"memory_depth": 1, "persistent_tokens": 2, "dropout": 0.5}


@contender(
    "titans-unofficial TitansMAG",
    "titans-unofficial==2.0.0",
    rival="titans",
    regbench=False,
    long_length=256,
    changes=TITANS_UNOFFICIAL_CHANGES | {"window_size": 4},
)
def titans_unofficial_mag(vocabulary: int, **changes: Any) -> Wrapped:
    return titans_unofficial_model("TitansMAG", vocabulary, **changes)


@contender(
    "titans-unofficial TitansMAC",
    "titans-unofficial==2.0.0",
    rival="titans",
    regbench=False,
    long_length=256,
    changes=TITANS_UNOFFICIAL_CHANGES | {"window_size": 4, "chunk_size": 8},
)
def titans_unofficial_mac(vocabulary: int, **changes: Any) -> Wrapped:
    return titans_unofficial_model("TitansMAC", vocabulary, **({"chunk_size": 16} | changes))


@contender(
    "titans-trainer TitansModel",
    "titans-trainer==0.1.1",
    rival="titans",
    regbench=False,
    changes={"d_ff": 64, "memory_depth": 1, "n_persistent": 2, "chunk_size": 4, "dropout": 0.5},
)
def titans_trainer(vocabulary: int, **changes: Any) -> Wrapped:
    from titans_trainer import TitansModel

    options = {
        "d_model": WIDTH,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "n_persistent": 4,
        "chunk_size": 16,
        "max_seq_len": MAXIMUM_LENGTH,
        "dropout": 0.0,
    } | changes
    network = TitansModel(vocab_size=vocabulary, causal=True, **options)
    return Wrapped(network, lambda m, x: m(x)["logits"])


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

    options = {
        "dim": WIDTH,
        "depth": LAYERS,
        "heads": HEADS,
        "dim_head": HEAD_WIDTH,
        "recurrent": True,
        "recurrent_mode": "naive",
    } | changes
    network = RecurrentTransformer(num_tokens=vocabulary, **options)
    return Wrapped(
        network,
        lambda m, x: m(x),
        lambda m, x, state: m(x, memories=state, return_memories=True),
    )


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
    return Wrapped(
        network,
        lambda m, x: m(x),
        lambda m, x, memory: m(x, memory=memory, return_memory=True),
    )


@contender(
    "hourglass-transformer-pytorch HourglassTransformerLM",
    "hourglass-transformer-pytorch==0.0.6",
    EINOPS,
    rival="gpt2",
    multiple_of=4,  # of other lengths it raises NameError: name 'math' is not defined
    changes={
        "shorten_factor": 4,
        "attn_resampling": False,
        "updown_sample_type": "linear",
    },
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
    return Wrapped(network, lambda m, x: m(x))


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
    return Wrapped(network, lambda m, x: m(x))
